/* Waiting for children so that none of them is left behind, however the waiting ends. */
#include "cli/child.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int64_t second_ns = 1000000000;

bool cli_child_self(char path[PATH_MAX]) {
  ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (len < 0) return false;
  path[len] = '\0';
  return true;
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
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
}

/* The parent of a process as /proc has it; 0 when it has ended, also where nobody has waited for it yet. The
 * name before it may hold anything. */
static pid_t parent_of(pid_t pid) {
  char path[64], text[512], state = 'Z';
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = '\0';
  const char *end = strrchr(text, ')');
  return end && sscanf(end + 1, " %c %d", &state, &parent) == 2 && state != 'Z' ? parent : 0;
}

/* Whether a process has a handler for the signal, as /proc has it. */
static bool catches(pid_t pid, int signal_number) {
  char path[64], line[128];
  unsigned long long caught = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file) && sscanf(line, "SigCgt: %llx", &caught) != 1)
    ;
  if (file) fclose(file);
  return caught >> (signal_number - 1) & 1;
}

static int signal_below(pid_t pid, int signal_number, bool with_handler) {
  int count = 0;
  DIR *dir = opendir("/proc");
  if (!dir) return 0;
  for (const struct dirent *entry; (entry = readdir(dir));) {
    pid_t child = (pid_t)strtol(entry->d_name, NULL, 10);
    if (child <= 0 || parent_of(child) != pid) continue;
    count += signal_below(child, signal_number, with_handler);
    if (!with_handler || catches(child, signal_number)) count += kill(child, signal_number) == 0;
  }
  closedir(dir);
  return count;
}

int cli_child_signal_below(pid_t pid, int signal_number) {
  return signal_below(pid, signal_number, false);
}

int cli_child_ask_below(pid_t pid, int signal_number) {
  return signal_below(pid, signal_number, true);
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
    bool over = cli_stop_requested() != 0 || (limit_s > 0 && now_ns - begin_ns > limit_s * second_ns);
    if (asked == 0 && over) {
      asked_ns = now_ns;
      late = cli_stop_requested() == 0;
    }
    if (asked == 0 ? over : asked == 1 && now_ns - asked_ns > second_ns) {
      kill(child, SIGTERM);
      asked++;
    }
    if (asked > 0 && now_ns - asked_ns > grace_s * second_ns) kill(child, SIGKILL);
    nanosleep(&pause, NULL);
  }
}
