/* An interrupted mpirun kills its ranks after two seconds, so a longer step or save would be lost. Therefore mpirun gets a
 * process group of its own, out of reach of the terminal's Ctrl-C and Ctrl-Z, and this process asks the ranks to stop with
 * SIGUSR1, which mpirun forwards. The ranks' stdout goes through this process, because mpirun does not notice write errors. */
#include "supervise/mpirun.h"

#include "base/base.h"
#include "base/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { OWN_ARGS = 8, LOOK_MS = 250, LIMIT_S = 60, SIGNAL_CODES = 128 };
static const int64_t grace_ns = 5000000000;

/* ---- which mpirun this is ---- */

typedef struct {
  const char *name;
  const char *match; /* in what `mpirun --version` prints; the first row that matches counts */
  const char
      *args[OWN_ARGS]; /* before the number of ranks; NULL first: it cannot start ranks of this program */
} mpirun_row_t;

static const mpirun_row_t rows[] = {
    {"Open MPI 4", "(Open MPI) 4", {"--oversubscribe", "--bind-to", "none", "-np"}},
    {"Open MPI", "(Open MPI)", {"--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-np"}},
    {"Intel MPI", "Intel(R) MPI", {NULL}},
    {"MPICH (Hydra)", "HYDRA", {NULL}},
    {"Slurm's srun", "slurm", {NULL}},
};

static ls_status_t refuse(ls_ctx_t *ctx, const char *what, const char *who) {
  return ls_fail(
      ctx, LS_ERR_UNSUPPORTED,
      "%s%s: put the mpirun of Open MPI first on PATH (openmpi-bin), or start the ranks with the launcher "
      "of the MPI that lockstep was built with",
      what, who);
}

static ls_status_t find(ls_ctx_t *ctx, const mpirun_row_t **row) {
  char version[1024], words[LS_CHILD_WORDS_BYTES];
  const char *const argv[] = {"mpirun", "--version", NULL};
  ls_child_spec_t ask = {.argv = argv, .limit_s = LIMIT_S, .said = version, .said_bytes = sizeof version};
  ls_child_end_t end;
  ask.stream[STDOUT_FILENO].fd = STDERR_FILENO; /* launchers answer on either */
  if (!ls_child_run(&ask, &end)) {
    ls_child_reason(&end, version, words);
    return refuse(ctx, "ranks on several hosts need mpirun, and mpirun --version failed: ", words);
  }
  for (int i = 0; i < LS_COUNT(rows); i++) {
    if (!strstr(version, rows[i].match)) continue;
    *row = &rows[i];
    return rows[i].args[0] ? LS_OK
                           : refuse(ctx, "lockstep does not start ranks with the mpirun of ", rows[i].name);
  }
  version[strcspn(version, "\n")] = '\0';
  return refuse(ctx, "lockstep does not know this mpirun, whose --version says ", version);
}

/* ---- its command line ---- */

/* Sets what Open MPI needs, for example to run as root in a container, unless the user has set it. */
static void prepare_environment(const char *agent) {
  static const char *const root[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                     "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"};
  char own[16], home[PATH_MAX];
  for (int i = 0; geteuid() == 0 && i < LS_COUNT(root); i++)
    setenv(root[i], "1", 0);
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "0",
         0); /* when one rank has died it ends the others at once */
  setenv("PRTE_MCA_odls_base_sigkill_timeout", "0", 0);
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  setenv("OMPI_MCA_plm_rsh_agent", agent, 1);
  setenv("PRTE_MCA_plm_ssh_agent", agent, 1);
  if (ls_process_home(home)) setenv("HOME", home, 1); /* Open MPI 5 does not start without */
  snprintf(own, sizeof own, "%d", (int)getpid());
  setenv(LS_MPIRUN_PARENT, own, 1);
}

/* Variables that ranks of other hosts need as well; mpirun hands on none by itself. */
static bool handed_on(const char *variable) {
  static const char *const prefixes[] = {
      "LOCKSTEP_", "OMP_", "OPENBLAS_", "NCCL_", "CUDA_VISIBLE_DEVICES=", "LD_LIBRARY_PATH="};
  for (int i = 0; i < LS_COUNT(prefixes); i++)
    if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

/* mpirun --host HOSTS [-x VARIABLE].. [its arguments] -np RANKS this-program [its arguments]; the array is the caller's
 * (ls_free). */
static const char **command_line(ls_ctx_t *ctx, ls_arena_t *arena, const ls_mpirun_t *spec,
                                 const mpirun_row_t *row, const char *self) {
  size_t n = 0, variables = 0, given = 0;
  while (environ[variables])
    variables++;
  while (spec->argv[given])
    given++;
  const char **argv = ls_alloc_array(ctx, given + 2 * variables + OWN_ARGS + 6, sizeof *argv);
  if (!argv) return NULL;
  argv[n++] = "mpirun";
  argv[n++] = "--host";
  argv[n++] = spec->hosts;
  for (size_t i = 0; i < variables; i++)
    if (handed_on(environ[i])) {
      argv[n++] = "-x";
      argv[n++] = ls_arena_strndup(arena, environ[i], strcspn(environ[i], "="));
    }
  for (int i = 0; row->args[i]; i++)
    argv[n++] = row->args[i];
  argv[n++] = ls_arena_printf(arena, "%d", spec->ranks);
  argv[n++] = self;
  for (size_t i = 1; i < given; i++)
    argv[n++] = spec->argv[i];
  return argv;
}

/* ---- its life ---- */

typedef struct {
  ls_ctx_t *ctx;
  const ls_requests_t *requests;
  pid_t mpirun;
  int output;
  int64_t patience_ns, asked_ns, forced_ns; /* 0: not yet */
  ls_status_t written;                      /* how writing the ranks' output to stdout went */
} run_t;

static void stop_and_go_on(run_t *run) {
  ls_child_signal_below(run->mpirun, SIGSTOP);
  kill(run->mpirun, SIGSTOP);
  kill(getpid(), SIGSTOP);
  kill(run->mpirun, SIGCONT);
  ls_child_signal_below(run->mpirun, SIGCONT);
  if (run->asked_ns) run->asked_ns = ls_clock_ns();
}

/* The first signal asks the ranks to save and end; the second, or the end of patience, ends mpirun and them, by force after a
 * while. Ranks of this host are also signalled directly, because Ubuntu 24.04's Open MPI 4.1.6 forwards nothing. */
static void pass_on(run_t *run) {
  const ls_requests_t *q = run->requests;
  const int64_t now_ns = ls_clock_ns();
  if (q->paused()) stop_and_go_on(run);
  if (!q->asked()) return;
  if (!run->asked_ns) run->asked_ns = now_ns;
  const bool late = now_ns - run->asked_ns >= run->patience_ns;
  if (!run->forced_ns && !late && !q->forced()) {
    ls_child_ask(run->mpirun, SIGUSR1, q->asked());
  } else if (!run->forced_ns) {
    if (late)
      ls_log(run->ctx, LS_LOG_WARN,
             "%s asked the ranks to end, and after %g s they have not: they are ended without saving",
             q->name(q->asked()), (double)run->patience_ns / 1e9);
    run->forced_ns = now_ns;
    kill(run->mpirun, SIGTERM);
  } else if (now_ns - run->forced_ns > grace_ns) {
    ls_child_signal_below(getpid(), SIGKILL); /* mpirun, its ranks, and ranks that have lost it */
  }
}

static void take_output(run_t *run, const char *bytes, size_t got) {
  const bool whole = fwrite(bytes, 1, got, stdout) == got && fflush(stdout) == 0;
  if (!whole && run->written == LS_OK) run->written = ls_fail_errno(run->ctx, "stdout: cannot be written");
}

/* Returns when all processes that could write to the stream have ended. */
static void relay(run_t *run) {
  struct pollfd from = {.fd = run->output, .events = POLLIN};
  char bytes[4096];
  for (ssize_t got = 1; got > 0;) {
    const int ready = poll(&from, 1, LOOK_MS);
    pass_on(run);
    if (ready <= 0) continue;
    got = read(run->output, bytes, sizeof bytes);
    if (got > 0) take_output(run, bytes, (size_t)got);
    if (got < 0 && errno == EINTR) got = 1;
  }
}

/* A request may end mpirun, or a rank that was not ready, with code 1 or by the signal itself. That is no failure. */
static int code_of(const run_t *run, const ls_child_end_t *end) {
  const ls_requests_t *q = run->requests;
  const int interrupted = ls_status_exit_code(LS_ERR_INTERRUPTED);
  const bool of_the_signal = end->code == ls_status_exit_code(LS_ERR_INTERNAL) ||
                             end->code == SIGNAL_CODES + SIGUSR1 || end->code == SIGNAL_CODES + SIGTERM;
  char words[LS_CHILD_WORDS_BYTES];
  if (q->asked() && run->forced_ns)
    ls_fail(run->ctx, LS_ERR_INTERRUPTED, "interrupted by %s", q->name(q->asked()));
  if (q->asked() && (run->forced_ns || of_the_signal)) return interrupted;
  ls_child_words(end, words);
  if (end->signal)
    ls_log(run->ctx, LS_LOG_ERROR, "mpirun was %s", words);
  else if (end->code > SIGNAL_CODES && end->code < SIGNAL_CODES + NSIG && end->code != interrupted)
    ls_log(run->ctx, LS_LOG_ERROR, "a rank was ended by signal %d (%s)", end->code - SIGNAL_CODES,
           strsignal(end->code - SIGNAL_CODES));
  return end->code != 0 ? end->code : ls_status_exit_code(run->written);
}

/* Orphans of mpirun become children of this process, so none of them survives it. A background group must not read the
 * terminal. SIGTERM, so that mpirun ends its ranks if this process is killed. */
ls_status_t ls_mpirun_run(ls_ctx_t *ctx, const ls_mpirun_t *spec, const ls_requests_t *requests, int *code) {
  run_t run = {.ctx = ctx, .requests = requests, .patience_ns = (int64_t)(spec->patience_s * 1e9)};
  const mpirun_row_t *row;
  char self[PATH_MAX];
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  if (run.patience_ns < grace_ns) run.patience_ns = grace_ns;
  if (!ls_process_program(self)) return ls_fail_errno(ctx, "cannot find this program's path");
  prepare_environment(spec->agent);
  ls_status_t status = find(ctx, &row);
  const char **argv = status == LS_OK ? command_line(ctx, &arena, spec, row, self) : NULL;
  if (status == LS_OK && !argv) status = LS_ERR_MEMORY;
  if (status == LS_OK) {
    const ls_child_spec_t child = {.argv = argv,
                                   .stream = {{.file = "/dev/null"}, {.pipe = &run.output}},
                                   .own_group = true,
                                   .death_signal = SIGTERM};
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const int error = ls_child_start(&child, &run.mpirun);
    if (error) status = ls_fail(ctx, LS_ERR_UNSUPPORTED, "mpirun could not be started (%s)", strerror(error));
  }
  if (status == LS_OK) {
    ls_child_end_t end;
    relay(&run);
    close(run.output);
    ls_child_wait(run.mpirun, &end);
    ls_child_end_below();
    *code = code_of(&run, &end);
  }
  ls_free(argv);
  ls_arena_release(&arena);
  return status;
}
