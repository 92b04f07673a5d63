/* Starts the ranks: mpirun runs the same command line N times, and this process stays as mpirun's parent.
 *
 * The reason: an interrupted mpirun kills its ranks after two seconds and returns exit code 1, so a longer
 * step or save would be lost. Therefore mpirun gets a process group of its own, out of reach of the
 * terminal's Ctrl-C and Ctrl-Z, and this process asks the ranks to stop with SIGUSR1, which mpirun forwards.
 * Ctrl-Z stops them one by one. Both streams of the ranks go through this process: stdout because mpirun does
 * not notice write errors there, stderr because mpirun writes there, too. */
#include "base/process.h"
#include "cli/cli.h"
#include "cli/launcher.h"
#include "cli/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { RANKS_ALWAYS = 64, RANKS_PER_CORE = 8, ASK_AGAIN_MS = 250 };
enum { LOOKS_EMPTY_MAX = 4, PATIENCE_S = 20 };
#define FORCE_NS INT64_C(5000000000)

typedef struct {
  ls_ctx_t *ctx;
  const char *launcher; /* its name */
  pid_t mpirun;
  int output, messages;  /* its streams */
  int look_every;        /* polls without output between two looks for ranks */
  int idle, looks_empty; /* polls without output; looks in a row that found no rank */
  bool given_up;
  int64_t patience_ns;   /* for ranks that were asked to end */
  int64_t asked_ns;      /* when they were asked; 0 = not yet */
  int64_t told_twice_ns; /* when mpirun was told to end; 0 = not yet */
  ls_status_t written;   /* how writing the ranks' output to stdout went */
  cli_noise_t noise;
} launch_t;

/* Environment that Open MPI needs to run as root in a container, and to stay quiet on one node. Set only
 * where the user has not. */
static void prepare_environment(cli_messages_t *messages, const char *hosts) {
  if (geteuid() == 0) {
    static const char *const names[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                        "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"};
    for (int i = 0; i < LS_COUNT(names); i++)
      setenv(names[i], "1", 0);
  }
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  /* Without shared memory the ranks of a host talk over TCP. Open MPI 5 asks the routes which interface leads to an
   * address, and to one of this host none does but lo, which it leaves out: it compares addresses instead. */
  if (!hosts) setenv("OMPI_MCA_reachable", "weighted", 0);
  char columns[16], own[16], home[PATH_MAX];
  if (ls_process_home(home)) setenv("HOME", home, 1); /* Open MPI 5 does not start without */
  snprintf(own, sizeof own, "%d", (int)getpid());
  setenv(CLI_ENV_LAUNCHER, own, 1);
  snprintf(columns, sizeof columns, "%d", messages->columns);
  messages->shared = messages->columns > 0; /* rank 0 shows the progress */
  if (messages->shared) setenv(CLI_ENV_TERMINAL, columns, 1);
}

/* A mistake (a mistyped --ranks) must not fill the machine; a launcher that knows several nodes may start
 * more. */
static ls_status_t check_count(ls_ctx_t *ctx, int ranks) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  long most = cores > RANKS_ALWAYS / RANKS_PER_CORE ? cores * RANKS_PER_CORE : RANKS_ALWAYS;
  if (ranks <= most) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT,
                 "%d ranks are more than the %ld that are started on a machine of %ld cores; start them over "
                 "several with your launcher",
                 ranks, most, cores);
}

/* Orphans of mpirun become children of this process, so none of them survives it. A background group must not
 * read the terminal. SIGTERM, so that mpirun ends its ranks if this process is killed. */
static ls_status_t start(launch_t *l, const char *const *argv) {
  const ls_child_spec_t spec = {
      .argv = argv,
      .stream = {{.file = "/dev/null"}, {.pipe = &l->output}, {.pipe = &l->messages}},
      .own_group = true,
      .death_signal = SIGTERM};
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int error = ls_child_start(&spec, &l->mpirun);
  if (error == 0) return LS_OK;
  return ls_fail(l->ctx, LS_ERR_UNSUPPORTED, "mpirun could not be started (%s)", strerror(error));
}

/* Ctrl-Z: the ranks first, mpirun, then this process; SIGCONT wakes it, and it wakes them. */
static void stop_and_go_on(launch_t *l) {
  ls_child_signal_below(l->mpirun, SIGSTOP);
  kill(l->mpirun, SIGSTOP);
  kill(getpid(), SIGSTOP);
  kill(l->mpirun, SIGCONT);
  ls_child_signal_below(l->mpirun, SIGCONT);
  if (l->asked_ns) l->asked_ns = ls_clock_ns(); /* the time while they stood still does not count */
}

/* Asks the ranks to end. Inside a call of MPI they cannot hear it; it may never return. */
static void ask(launch_t *l) {
  int64_t now_ns = ls_clock_ns();
  if (!l->asked_ns) l->asked_ns = now_ns;
  if (now_ns - l->asked_ns < l->patience_ns) {
    ls_child_ask(l->mpirun, SIGUSR1);
    return;
  }
  ls_log(l->ctx, LS_LOG_WARN,
         "%s asked the ranks to end, and after %g s they have not: they are ended without saving",
         cli_stop_name(cli_stop_requested()), (double)l->patience_ns / 1e9);
  cli_stop_force();
}

/* The first signal asks the ranks to save and end; the second, or the end of patience, ends mpirun and them, by
 * force after FORCE_NS. A signal sent before the ranks have installed their handlers is lost, so it is repeated
 * until they exit. mpirun forwards SIGUSR1 to ranks of other hosts. Ranks of this host are also signalled directly, because
 * Ubuntu 24.04's Open MPI 4.1.6 forwards nothing. */
static void pass_on(launch_t *l) {
  if (cli_stop_held()) stop_and_go_on(l);
  if (cli_stop_requested() && !cli_stop_forced()) ask(l);
  if (cli_stop_forced()) {
    int64_t now_ns = ls_clock_ns();
    if (!l->told_twice_ns) {
      kill(l->mpirun, SIGTERM);
      l->told_twice_ns = now_ns;
    } else if (now_ns - l->told_twice_ns > FORCE_NS) {
      ls_child_signal_below(getpid(), SIGKILL); /* mpirun, its ranks, and ranks that have lost it */
    }
  }
}

/* mpirun may hang if its environment fails it: if it has had no process below it for PATIENCE_S, or for the
 * ranks' deadline where that is shorter, it is ended. */
static void look_for_ranks(launch_t *l) {
  if (++l->idle % l->look_every != 0) return;
  l->looks_empty = ls_child_signal_below(l->mpirun, 0) == 0 ? l->looks_empty + 1 : 0;
  if (l->looks_empty < LOOKS_EMPTY_MAX) return;
  l->given_up = true;
  kill(l->mpirun, SIGKILL);
}

static void take_output(launch_t *l, const char *bytes, ssize_t got) {
  for (ssize_t done = 0; done < got && l->written == LS_OK;) {
    ssize_t put = write(STDOUT_FILENO, bytes + done, (size_t)(got - done));
    if (put < 0 && errno != EINTR) l->written = cli_output_lost(l->ctx);
    if (put > 0) done += put;
  }
}

/* Runs until both streams have ended, and thus all processes that could write to them. */
static void relay(launch_t *l) {
  struct pollfd stream[] = {{.fd = l->output, .events = POLLIN}, {.fd = l->messages, .events = POLLIN}};
  char bytes[4096];
  while (stream[0].fd >= 0 || stream[1].fd >= 0) {
    int ready = poll(stream, LS_COUNT(stream), ASK_AGAIN_MS);
    pass_on(l);
    if (ready == 0) look_for_ranks(l);
    for (int i = 0; ready > 0 && i < LS_COUNT(stream); i++) {
      if (stream[i].fd < 0 || !stream[i].revents) continue;
      ssize_t got = read(stream[i].fd, bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got > 0 && i == 0) take_output(l, bytes, got);
      if (got > 0 && i == 1) cli_noise_add(&l->noise, bytes, (size_t)got);
      if (got > 0) continue;
      close(stream[i].fd);
      stream[i].fd = -1;
    }
  }
  cli_noise_end(&l->noise);
}

static int wait_for_ranks(launch_t *l) {
  ls_child_end_t end;
  ls_child_wait(l->mpirun, &end);
  ls_child_end_below();
  return cli_launcher_exit(l->ctx, l->launcher, &l->noise, &end, l->given_up);
}

/* Variables that ranks of other hosts need as well; mpirun hands on none by itself. */
static bool handed_on(const char *variable) {
  static const char *const prefixes[] = {
      "LOCKSTEP_", "OMP_", "OPENBLAS_", "NCCL_", "CUDA_VISIBLE_DEVICES=", "LD_LIBRARY_PATH="};
  for (int i = 0; i < LS_COUNT(prefixes); i++)
    if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

/* mpirun [its arguments] -np RANKS this-program [the arguments of this one, and assignments added to them]; the array is the caller's
 * (ls_free). hosts NULL: this one. */
static const char **command_line(ls_ctx_t *ctx, ls_arena_t *arena, const cli_launcher_t *launcher,
                                 const char *hosts, const char *count, const char *self,
                                 const cli_args_t *args) {
  int n = 0, variables = 0;
  while (hosts && environ[variables])
    variables++;
  const char **argv = ls_alloc_array(
      ctx, (size_t)(args->argc + 2 * (args->sets_added + variables) + CLI_LAUNCHER_ARGS + 6), sizeof *argv);
  if (!argv) return NULL;
  argv[n++] = "mpirun";
  if (hosts) {
    argv[n++] = "--host";
    argv[n++] = hosts;
  }
  for (int i = 0; i < variables; i++)
    if (handed_on(environ[i])) {
      argv[n++] = "-x";
      argv[n++] = ls_arena_strndup(arena, environ[i], strcspn(environ[i], "="));
    }
  for (int i = 0; launcher->args[i]; i++)
    argv[n++] = launcher->args[i];
  argv[n++] = count;
  argv[n++] = self;
  for (int i = 1; i < args->argc; i++)
    argv[n++] = args->argv[i];
  for (int i = args->set_count - args->sets_added; i < args->set_count; i++) {
    argv[n++] = "--set";
    argv[n++] = args->sets[i];
  }
  return argv;
}

static ls_status_t launch(ls_ctx_t *ctx, ls_arena_t *arena, const cli_args_t *args, int ranks,
                          double deadline_s, const char *hosts) {
  ls_status_t status = hosts ? LS_OK : check_count(ctx, ranks);
  if (status != LS_OK) return status;
  char self[PATH_MAX], count[16];
  const cli_launcher_t *launcher;
  if (!ls_process_program(self)) return ls_fail_errno(ctx, "cannot find this program's path");
  prepare_environment(args->messages, hosts);
  status = cli_launcher_find(ctx, ranks, &launcher);
  if (status != LS_OK) return status;
  snprintf(count, sizeof count, "%d", ranks);
  const char **argv = command_line(ctx, arena, launcher, hosts, count, self, args);
  launch_t *l = ls_alloc(ctx, sizeof *l);
  status = argv && l ? LS_OK : LS_ERR_MEMORY;
  cli_stop_t mode = cli_stop_mode(CLI_STOP_ASK);
  if (status == LS_OK) {
    l->ctx = ctx;
    l->launcher = launcher->name;
    l->look_every = (int)ceil(fmin(deadline_s, PATIENCE_S) * 1000 / ASK_AGAIN_MS / LOOKS_EMPTY_MAX);
    l->patience_ns = (int64_t)(deadline_s * 1e9);
    if (l->patience_ns < FORCE_NS) l->patience_ns = FORCE_NS;
    int own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    l->noise.to = own >= 0 ? fdopen(own, "w") : NULL; /* with a buffer, for whole lines */
    if (!l->noise.to) l->noise.to = stderr;
    l->noise.show_all = args->verbose;
    fflush(NULL);
    cli_stop_hold();
    status = start(l, argv);
  }
  ls_free(argv);
  if (status == LS_OK) {
    relay(l);
    int code = wait_for_ranks(l);
    exit(code != 0 ? code : ls_status_exit_code(l->written));
  }
  ls_free(l);
  cli_stop_mode(mode);
  return status;
}

ls_status_t cli_launch(ls_ctx_t *ctx, const cli_args_t *args, int ranks, double deadline_s) {
  int rank, size;
  if (ranks <= 1 || ls_comm_launched(&rank, &size)) return LS_OK;
  return launch(ctx, NULL, args, ranks, deadline_s, NULL);
}

ls_status_t cli_launch_hosts(ls_ctx_t *ctx, const cli_args_t *args, const ls_parallel_config_t *parallel) {
  const ls_hosts_config_t *hosts = &parallel->hosts;
  const bool alone = hosts->count == 1 && ls_hosts_is_here(hosts->host[0].name);
  int rank, size;
  if (hosts->count == 0 || (alone && parallel->ranks == 1))
    return cli_launch(ctx, args, (int)parallel->ranks, parallel->deadline_s);
  if (ls_comm_launched(&rank, &size)) return LS_OK;
  if (args->config_text)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "%s: ranks of other hosts cannot read it: name a file that all hosts see", args->config);
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  const char *agent, *list = cli_hosts_list(&arena, hosts, (int)parallel->ranks);
  ls_status_t status = list ? cli_hosts_agent(ctx, &arena, parallel, &agent) : LS_ERR_MEMORY;
  if (status == LS_OK) {
    setenv("OMPI_MCA_plm_rsh_agent", agent, 1);
    setenv("PRTE_MCA_plm_ssh_agent", agent, 1);
    status = launch(ctx, &arena, args, (int)parallel->ranks, parallel->deadline_s, list);
  }
  ls_arena_release(&arena);
  return status;
}
