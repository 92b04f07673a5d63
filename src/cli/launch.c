/* Starting the ranks: mpirun runs the same command line N times, and this process stays above it.
 *
 * It stays because mpirun, when interrupted, kills its ranks after two seconds and answers with exit code 1:
 * a step or a save that takes longer would be lost. So mpirun gets a process group of its own, out of reach
 * of the terminal's Ctrl-C, and the ranks are asked to stop with the signal that mpirun passes on: SIGUSR1.
 */
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MPIRUN_ARGS = 16, RANKS_ALWAYS = 64, RANKS_PER_CORE = 8, SIGNAL_CODES = 128, ASK_AGAIN_MS = 250 };

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

static pid_t mpirun_pid;            /* for the signal handler */
static volatile sig_atomic_t asked; /* how often to end */

/* Once asks the ranks to save and end, twice ends mpirun and them. */
static void pass_on(int signal_number) {
  (void)signal_number;
  if (asked < 2) asked = asked + 1;
  kill(mpirun_pid, asked > 1 ? SIGTERM : SIGUSR1);
}

/* What is said before mpirun has its ranks, or they listen, is lost: it is said until they have ended. */
static void ask_again(void) {
  if (asked == 1) kill(mpirun_pid, SIGUSR1);
}

static void become_mpirun(char **argv, pid_t parent, int output, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signal(SIGUSR1, SIG_IGN); /* until mpirun has a handler for it */
  if (getppid() != parent) _exit(1);
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC); /* a background group must not read the terminal */
  if (null >= 0) dup2(null, STDIN_FILENO);
  if (dup2(output, STDOUT_FILENO) < 0) _exit(1);
  execvp(argv[0], argv);
  int error = errno;
  if (write(report, &error, sizeof error) < 0) _exit(2);
  _exit(1);
}

/* Starts mpirun; `error` is what kept it from starting, or 0, and `output` the end of its stdout to read. */
static ls_status_t start(ls_ctx_t *ctx, char **argv, int *output, int *error) {
  int pipes[2], outputs[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) return ls_fail_errno(ctx, "cannot make a pipe to mpirun");
  if (pipe2(outputs, O_CLOEXEC) != 0) {
    close(pipes[0]);
    close(pipes[1]);
    return ls_fail_errno(ctx, "cannot make a pipe to mpirun");
  }
  sigset_t stopping, before;
  sigemptyset(&stopping);
  sigaddset(&stopping, SIGINT);
  sigaddset(&stopping, SIGTERM);
  sigprocmask(SIG_BLOCK, &stopping, &before); /* until the handler knows whom to tell */
  pid_t parent = getpid();
  mpirun_pid = fork();
  if (mpirun_pid == 0) {
    sigprocmask(SIG_SETMASK, &before, NULL);
    become_mpirun(argv, parent, outputs[1], pipes[1]);
  }
  ls_status_t status = mpirun_pid < 0 ? ls_fail_errno(ctx, "cannot start a process for mpirun") : LS_OK;
  close(pipes[1]);
  close(outputs[1]);
  *error = 0;
  if (status == LS_OK) {
    /* Calls that it interrupts are repeated by who makes them: no SA_RESTART, because under TSan a handler
     * runs only when the interrupted call returns. */
    struct sigaction action = {.sa_handler = pass_on};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (read(pipes[0], error, sizeof *error) != (ssize_t)sizeof *error) *error = 0;
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  close(pipes[0]);
  if (status == LS_OK) {
    *output = outputs[0];
  } else {
    close(outputs[0]);
  }
  return status;
}

/* What the ranks print goes through here, because mpirun does not notice when it cannot be written. */
static ls_status_t copy_output(ls_ctx_t *ctx, int from) {
  char bytes[4096];
  ls_status_t status = LS_OK;
  for (;;) {
    struct pollfd wait = {.fd = from, .events = POLLIN};
    if (poll(&wait, 1, ASK_AGAIN_MS) <= 0) {
      ask_again();
      continue;
    }
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (ssize_t done = 0; done < got && status == LS_OK;) {
      ssize_t put = write(STDOUT_FILENO, bytes + done, (size_t)(got - done));
      if (put < 0 && errno != EINTR) status = ls_fail_errno(ctx, "cannot write the result to stdout");
      if (put > 0) done += put;
    }
  }
  close(from);
  return status;
}

/* The exit code of the whole: mpirun's, which is that of the first rank that failed. After a signal what
 * mpirun or a rank that was not ready made of it (1, or the signal itself) is no failure but an interruption;
 * after a second one anything is. */
static int wait_for_ranks(ls_ctx_t *ctx) {
  int state;
  while (waitpid(mpirun_pid, &state, 0) < 0)
    if (errno != EINTR) return ls_status_exit_code(ls_fail_errno(ctx, "cannot wait for mpirun"));
  int code = WIFEXITED(state) ? WEXITSTATUS(state) : SIGNAL_CODES + WTERMSIG(state);
  bool of_the_signal = code == ls_status_exit_code(LS_ERR_INTERNAL) || code == SIGNAL_CODES + SIGUSR1 ||
                       code == SIGNAL_CODES + SIGTERM;
  if (asked > 1 || (asked == 1 && of_the_signal)) return ls_status_exit_code(LS_ERR_INTERRUPTED);
  if (code > SIGNAL_CODES && code != ls_status_exit_code(LS_ERR_INTERRUPTED))
    ls_log(ctx, LS_LOG_ERROR, "%s was ended by signal %d (%s)", WIFEXITED(state) ? "a rank" : "mpirun",
           code - SIGNAL_CODES, strsignal(code - SIGNAL_CODES));
  return code;
}

ls_status_t cli_launch(ls_ctx_t *ctx, const cli_args_t *args, int ranks) {
  int rank, size, output, error;
  if (ranks <= 1 || ls_comm_launched(&rank, &size)) return LS_OK;
  ls_status_t status = check_count(ctx, ranks);
  if (status != LS_OK) return status;
  char self[PATH_MAX], count[16];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  if (len < 0) return ls_fail_errno(ctx, "cannot find this program's path");
  self[len] = '\0';
  snprintf(count, sizeof count, "%d", ranks);
  char **argv = ls_alloc_array(ctx, (size_t)(args->argc + MPIRUN_ARGS), sizeof *argv);
  if (!argv) return LS_ERR_MEMORY;
  char mpirun[] = "mpirun", quiet[] = "-q", oversubscribe[] = "--oversubscribe", bind[] = "--bind-to",
       none[] = "none", np[] = "-np";
  char *const first[] = {mpirun, quiet, oversubscribe, bind, none, np, count, self};
  static_assert(LS_COUNT(first) < MPIRUN_ARGS, "room for mpirun's own arguments");
  memcpy(argv, first, sizeof first);
  for (int i = 1; i < args->argc; i++)
    argv[LS_COUNT(first) + i - 1] = args->argv[i];
  prepare_environment(args->messages);
  fflush(NULL);
  status = start(ctx, argv, &output, &error);
  ls_free(argv);
  if (status != LS_OK) return status;
  if (error == 0) {
    status = copy_output(ctx, output);
    int code = wait_for_ranks(ctx);
    exit(code != 0 ? code : ls_status_exit_code(status));
  }
  close(output);
  waitpid(mpirun_pid, NULL, 0);
  return ls_fail(
      ctx, LS_ERR_UNSUPPORTED,
      "%d ranks need mpirun, which could not be started (%s); install openmpi-bin or start the ranks "
      "with your launcher",
      ranks, strerror(error));
}
