/* hold_thread PID NAME: holds the thread of this name where it is, as if it had died inside whatever it does,
 * until its process ends. Says "held"; exit code 77 where tracing is refused, 1 when there is no such thread.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static pid_t find_thread(const char *pid, const char *name) {
  char path[300], found[32];
  pid_t tid = 0;
  snprintf(path, sizeof path, "/proc/%s/task", pid);
  DIR *dir = opendir(path);
  if (!dir) return 0;
  for (const struct dirent *entry; tid == 0 && (entry = readdir(dir));) {
    snprintf(path, sizeof path, "/proc/%.20s/task/%.20s/comm", pid, entry->d_name);
    FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
    if (!file) continue;
    if (fgets(found, sizeof found, file)) {
      found[strcspn(found, "\n")] = '\0';
      if (!strcmp(found, name)) tid = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    fclose(file);
  }
  closedir(dir);
  return tid;
}

int main(int argc, char **argv) {
  int state;
  pid_t tid = argc == 3 ? find_thread(argv[1], argv[2]) : 0;
  if (tid == 0) {
    fprintf(stderr, "no such thread\n");
    return 1;
  }
  if (ptrace(PTRACE_SEIZE, tid, 0, 0) != 0) {
    int code = errno == EPERM || errno == ENOSYS ? 77 : 1;
    perror("PTRACE_SEIZE");
    return code;
  }
  if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) != 0 || waitpid(tid, &state, __WALL) != tid) {
    perror("PTRACE_INTERRUPT");
    return 1;
  }
  puts("held");
  fflush(stdout);
  while (waitpid(tid, &state, __WALL) == tid && !WIFEXITED(state) && !WIFSIGNALED(state))
    ;
  return 0;
}
