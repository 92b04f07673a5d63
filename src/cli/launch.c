/* Starting the ranks: mpirun runs the same command line N times, and this process stays above it.
 *
 * It stays because mpirun, when interrupted, kills its ranks after two seconds and answers with exit code 1:
 * a step or a save that takes longer would be lost. So mpirun gets a process group of its own, out of reach
 * of the terminal's Ctrl-C and Ctrl-Z, and the ranks are asked to stop with the signal that mpirun passes on:
 * SIGUSR1. Ctrl-Z stops them one by one. Both streams of the ranks go through this process: stdout because
 * mpirun does not notice when it cannot be written, stderr because mpirun speaks there, too. */
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  RANKS_ALWAYS = 64,
  RANKS_PER_CORE = 8,
  SIGNAL_CODES = 128,
  ASK_AGAIN_MS = 250,
  FILES_NEEDED = 64,
  FILE_BYTES_NEEDED = 64 << 20
};
enum { LOOK_EVERY = 20, LOOKS_EMPTY_MAX = 4 }; /* every 5 s, in units of ASK_AGAIN_MS; 20 s */
#define FORCE_NS INT64_C(5000000000)

typedef struct {
  ls_ctx_t *ctx;
  const char *launcher; /* its name */
  pid_t mpirun;
  int output, messages, report; /* ends of the pipes to read; report: why mpirun could not be started */
  int idle, looks_empty;        /* polls without output; looks in a row that found no rank */
  bool given_up;
  int64_t told_twice_ns; /* when mpirun was told to end; 0 = not yet */
  ls_status_t written;   /* how writing the ranks' output to stdout went */
  cli_noise_t noise;
} launch_t;

/* Environment that Open MPI needs to run as root in a container, and to stay quiet on one node. Set only
 * where the user has not. */
static void prepare_environment(cli_messages_t *messages) {
  if (geteuid() == 0) {
    static const char *const names[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                        "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"};
    for (int i = 0; i < LS_COUNT(names); i++)
      setenv(names[i], "1", 0);
  }
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  char columns[16];
  snprintf(columns, sizeof columns, "%d", messages->columns);
  messages->shared = messages->columns > 0; /* rank 0 shows where the run stands */
  if (messages->shared) setenv(CLI_ENV_TERMINAL, columns, 1);
}

/* An accident (a mistyped --ranks) must not fill the machine; a launcher that knows several nodes may have
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

static void become_mpirun(char **argv, pid_t parent, int output, int messages, int report) {
  setpgid(0, 0);
  cli_stop_defaults();
  signal(SIGUSR1, SIG_IGN); /* until mpirun has a handler for it */
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC); /* a background group must not read the terminal */
  if (null >= 0) dup2(null, STDIN_FILENO);
  if (dup2(output, STDOUT_FILENO) < 0 || dup2(messages, STDERR_FILENO) < 0) _exit(1);
  execvp(argv[0], argv);
  int error = errno;
  if (write(report, &error, sizeof error) < 0) _exit(2);
  _exit(1);
}

/* Orphans of mpirun become children of this process: none of them goes on when it has ended. */
static ls_status_t start(launch_t *l, char **argv) {
  enum { OUTPUT, MESSAGES, REPORT, PIPES };
  int pipes[PIPES][2], made = 0;
  while (made < PIPES && pipe2(pipes[made], O_CLOEXEC) == 0)
    made++;
  ls_status_t status = made < PIPES ? ls_fail_errno(l->ctx, "cannot make a pipe to mpirun") : LS_OK;
  pid_t parent = getpid();
  if (status == LS_OK) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    l->mpirun = fork();
    if (l->mpirun == 0) become_mpirun(argv, parent, pipes[OUTPUT][1], pipes[MESSAGES][1], pipes[REPORT][1]);
    if (l->mpirun < 0) status = ls_fail_errno(l->ctx, "cannot start a process for mpirun");
  }
  for (int i = 0; i < made; i++) {
    close(pipes[i][1]);
    if (status != LS_OK) close(pipes[i][0]);
  }
  if (status != LS_OK) return status;
  l->output = pipes[OUTPUT][0];
  l->messages = pipes[MESSAGES][0];
  l->report = pipes[REPORT][0];
  int error = 0;
  ssize_t got;
  while ((got = read(l->report, &error, sizeof error)) < 0 && errno == EINTR)
    ;
  close(l->report);
  if (got != (ssize_t)sizeof error) return LS_OK;
  waitpid(l->mpirun, NULL, 0);
  return ls_fail(l->ctx, LS_ERR_UNSUPPORTED, "mpirun could not be started (%s)", strerror(error));
}

/* Ctrl-Z: the ranks first, mpirun, then this process; SIGCONT wakes it, and it wakes them. */
static void stop_and_go_on(const launch_t *l) {
  cli_child_signal_below(l->mpirun, SIGSTOP);
  kill(l->mpirun, SIGSTOP);
  kill(getpid(), SIGSTOP);
  kill(l->mpirun, SIGCONT);
  cli_child_signal_below(l->mpirun, SIGCONT);
}

/* Once asks the ranks to save and end, twice ends mpirun and them, by force after FORCE_NS. A signal sent
 * before the ranks have their handlers is lost, so asking is repeated until they have ended. mpirun passes
 * SIGUSR1 on to ranks of other hosts; those of this host are asked directly, too, because Ubuntu 24.04's Open
 * MPI 4.1.6 passes nothing on.
 */
static void pass_on(launch_t *l) {
  if (cli_stop_held()) stop_and_go_on(l);
  if (cli_stop_forced()) {
    int64_t now_ns = ls_clock_ns();
    if (!l->told_twice_ns) {
      kill(l->mpirun, SIGTERM);
      l->told_twice_ns = now_ns;
    } else if (now_ns - l->told_twice_ns > FORCE_NS) {
      cli_child_signal_below(l->mpirun, SIGKILL);
      kill(l->mpirun, SIGKILL);
    }
  } else if (cli_stop_requested()) {
    kill(l->mpirun, SIGUSR1);
    cli_child_ask_below(l->mpirun, SIGUSR1);
  }
}

/* mpirun may hang when its surroundings fail it: without a process below it for 20 s it is ended. */
static void look_for_ranks(launch_t *l) {
  if (++l->idle % LOOK_EVERY != 0) return;
  l->looks_empty = cli_child_signal_below(l->mpirun, 0) == 0 ? l->looks_empty + 1 : 0;
  if (l->looks_empty < LOOKS_EMPTY_MAX) return;
  l->given_up = true;
  kill(l->mpirun, SIGKILL);
}

static void take_output(launch_t *l, const char *bytes, ssize_t got) {
  for (ssize_t done = 0; done < got && l->written == LS_OK;) {
    ssize_t put = write(STDOUT_FILENO, bytes + done, (size_t)(got - done));
    if (put < 0 && errno != EINTR) l->written = ls_fail_errno(l->ctx, "cannot write the result to stdout");
    if (put > 0) done += put;
  }
}

/* Until both streams have ended, so all processes that could write to them. */
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

/* What of the process's surroundings keeps mpirun from working; NULL = nothing that is known here. */
static const char *surroundings(void) {
  char folder[4096];
  struct rlimit files;
  struct statvfs space;
  const char *temporary = getenv("TMPDIR");
  if (!getcwd(folder, sizeof folder)) return "the current folder has been deleted: change to one that exists";
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_NEEDED)
    return "too few files may be open: raise the limit (ulimit -n)";
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < FILE_BYTES_NEEDED)
    return "files may not become large enough: raise the limit (ulimit -f)";
  temporary = temporary && *temporary ? temporary : "/tmp";
  if (statvfs(temporary, &space) == 0 && (space.f_bavail == 0 || space.f_favail == 0))
    return "there is no space for temporary files: make some, or set TMPDIR to another folder";
  if (access(temporary, W_OK) != 0)
    return "the folder for temporary files cannot be written: set TMPDIR to another";
  return NULL;
}

/* An exit code without a word of any rank is the launcher's own. */
static int explain(launch_t *l, int code) {
  char reason[256];
  const char *cause = surroundings();
  cli_noise_reason(&l->noise, reason);
  if (!reason[0]) snprintf(reason, sizeof reason, "exit code %d", code);
  return ls_status_exit_code(ls_fail(l->ctx, LS_ERR_UNSUPPORTED,
                                     "mpirun (%s) could not run the ranks%s%s; it says: %s%s", l->launcher,
                                     cause ? ": " : "", cause ? cause : "", reason,
                                     l->noise.show_all ? "" : " (--verbose shows all of it)"));
}

/* The exit code of the whole: mpirun's, which is that of the first rank that failed. After a signal what
 * mpirun or a rank that was not ready made of it (1, or the signal itself) is no failure but an interruption;
 * after a second one anything is. */
static int exit_code_of(launch_t *l, int state) {
  int rank, number, code = WIFEXITED(state) ? WEXITSTATUS(state) : SIGNAL_CODES + WTERMSIG(state);
  const int interrupted = ls_status_exit_code(LS_ERR_INTERRUPTED);
  bool of_the_signal = code == ls_status_exit_code(LS_ERR_INTERNAL) || code == SIGNAL_CODES + SIGUSR1 ||
                       code == SIGNAL_CODES + SIGTERM || code == interrupted;
  bool asked = cli_stop_requested() && (cli_stop_forced() || of_the_signal);
  if (asked && !l->noise.error_said)
    ls_fail(l->ctx, LS_ERR_INTERRUPTED, "interrupted by %s", cli_stop_name(cli_stop_requested()));
  if (asked) return interrupted;
  if (l->given_up) return explain(l, code);
  if (WIFSIGNALED(state))
    ls_log(l->ctx, LS_LOG_ERROR, "mpirun was ended by signal %d (%s)", WTERMSIG(state),
           strsignal(WTERMSIG(state)));
  else if (code != 0 && code != interrupted && cli_noise_signal(&l->noise, &rank, &number))
    ls_log(l->ctx, LS_LOG_ERROR, "rank %d was ended by signal %d (%s)", rank, number, strsignal(number));
  else if (code != 0 && !l->noise.error_said)
    return explain(l, code);
  return code;
}

static int wait_for_ranks(launch_t *l) {
  int state;
  while (waitpid(l->mpirun, &state, 0) < 0)
    if (errno != EINTR) return ls_status_exit_code(ls_fail_errno(l->ctx, "cannot wait for mpirun"));
  cli_child_signal_below(getpid(), SIGKILL);
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
    ;
  return exit_code_of(l, state);
}

/* mpirun [its arguments] -np RANKS this-program [the arguments of this one]; the array is the caller's
 * (ls_free). */
static char **command_line(ls_ctx_t *ctx, const cli_launcher_t *launcher, char *count, char *self,
                           const cli_args_t *args) {
  static char mpirun[] = "mpirun";
  int n = 0;
  char **argv = ls_alloc_array(ctx, (size_t)(args->argc + CLI_LAUNCHER_ARGS + 4), sizeof *argv);
  if (!argv) return NULL;
  argv[n++] = mpirun;
  for (int i = 0; launcher->args[i]; i++)
    argv[n++] = (char *)(uintptr_t)launcher->args[i]; /* exec's argv is not const, nor is it written */
  argv[n++] = count;
  argv[n++] = self;
  for (int i = 1; i < args->argc; i++)
    argv[n++] = args->argv[i];
  return argv;
}

ls_status_t cli_launch(ls_ctx_t *ctx, const cli_args_t *args, int ranks) {
  int rank, size;
  if (ranks <= 1 || ls_comm_launched(&rank, &size)) return LS_OK;
  ls_status_t status = check_count(ctx, ranks);
  if (status != LS_OK) return status;
  char self[PATH_MAX], count[16];
  const cli_launcher_t *launcher;
  if (!cli_child_self(self)) return ls_fail_errno(ctx, "cannot find this program's path");
  prepare_environment(args->messages);
  status = cli_launcher_find(ctx, ranks, &launcher);
  if (status != LS_OK) return status;
  snprintf(count, sizeof count, "%d", ranks);
  char **argv = command_line(ctx, launcher, count, self, args);
  launch_t *l = ls_alloc(ctx, sizeof *l);
  status = argv && l ? LS_OK : LS_ERR_MEMORY;
  cli_stop_t mode = cli_stop_mode(CLI_STOP_ASK);
  if (status == LS_OK) {
    l->ctx = ctx;
    l->launcher = launcher->name;
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
