/* Waiting for children so that none of them is left behind, however the waiting ends. */
#include "cli/child.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000;

static volatile sig_atomic_t stop_requested;

static void request_stop(int signal_number) {
  (void)signal_number;
  stop_requested = 1;
}

void cli_child_guard_begin(cli_child_guard_t *guard) {
  struct sigaction action = {.sa_handler = request_stop};
  stop_requested = 0;
  sigaction(SIGINT, &action, &guard->interrupt);
  sigaction(SIGTERM, &action, &guard->terminate);
}

void cli_child_guard_end(const cli_child_guard_t *guard) {
  sigaction(SIGINT, &guard->interrupt, NULL);
  sigaction(SIGTERM, &guard->terminate, NULL);
}

bool cli_child_stopped(void) {
  return stop_requested != 0;
}

bool cli_child_file(char path[PATH_MAX]) {
  const char *dir = getenv("TMPDIR");
  int len = snprintf(path, PATH_MAX, "%s/lockstep-probe-XXXXXX", dir && *dir ? dir : "/tmp");
  if (len >= PATH_MAX) errno = ENAMETOOLONG;
  int fd = len < PATH_MAX ? mkstemp(path) : -1;
  if (fd < 0) return false;
  close(fd);
  return true;
}

void cli_child_follow(pid_t parent) {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
}

bool cli_child_wait(pid_t child, int limit_s, int grace_s, int *exit_code) {
  const struct timespec pause = {.tv_nsec = 5000000};
  int64_t begin_ns = ls_clock_ns(), asked_ns = 0;
  int asked = 0;
  bool late = false; /* then how it ends says nothing: mpirun may crash when it is asked twice */
  for (;;) {
    int state;
    pid_t ended = waitpid(child, &state, WNOHANG);
    if (ended == child) {
      *exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
      if (late) *exit_code = CLI_CHILD_LATE;
      return *exit_code == 0 && asked == 0;
    }
    if (ended < 0 && errno != EINTR) return false;
    int64_t now_ns = ls_clock_ns();
    bool over = stop_requested || (limit_s > 0 && now_ns - begin_ns > limit_s * second_ns);
    if (asked == 0 && over) {
      asked_ns = now_ns;
      late = !stop_requested;
    }
    if (asked == 0 ? over : asked == 1 && now_ns - asked_ns > second_ns) {
      kill(child, SIGTERM);
      asked++;
    }
    if (asked > 0 && now_ns - asked_ns > grace_s * second_ns) kill(child, SIGKILL);
    nanosleep(&pause, NULL);
  }
}
