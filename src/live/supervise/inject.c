/* The table of faults, and those that need nothing but a process. */
#include "supervise/inject.h"

#include "base/process.h"
#include "supervise/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PERCENT_MAX = 1000, PACE_US_MAX = 10000000 };

const ls_inject_kind_t ls_inject_kinds[] = {
    {"kill", "a rank is killed", .how = LS_INJECT_SIGNAL, .number = SIGKILL, .cause = LS_FAULT_SIGNAL},
    {"segfault", "a rank touches memory that it does not have", .how = LS_INJECT_SIGNAL, .number = SIGSEGV,
     .cause = LS_FAULT_SIGNAL},
    {"abort", "a rank aborts", .how = LS_INJECT_SIGNAL, .number = SIGABRT, .cause = LS_FAULT_SIGNAL},
    {"exit", "a rank ends with exit code 0", .how = LS_INJECT_EXIT, .cause = LS_FAULT_EXIT},
    {"stop", "a rank is stopped", .how = LS_INJECT_SIGNAL, .number = SIGSTOP, .cause = LS_FAULT_HANG},
    {"loop", "a rank computes for ever", .how = LS_INJECT_LOOP, .cause = LS_FAULT_HANG},
    {"slow", "a rank needs three times as long for its steps", .how = LS_INJECT_SLOW, .number = 200},
    {"nan", "a parameter of a rank is no number", .how = LS_INJECT_NAN, .cause = LS_FAULT_NONFINITE,
     .also = LS_FAULT_EXIT},
    {"flip", "a bit of a rank's parameters turns over, as one of its reduced gradient would leave it",
     .how = LS_INJECT_FLIP, .cause = LS_FAULT_EXIT},
    {"spoil", "a bit of the newest checkpoint turns over, and its rank is killed", .how = LS_INJECT_SPOIL,
     .first_rank = true, .cause = LS_FAULT_SIGNAL},
    {"memory", "a rank gets no memory", .how = LS_INJECT_MEMORY, .cause = LS_FAULT_MEMORY},
    {"nospace", "a save finds the disk full", .how = LS_INJECT_WRITE, .number = ENOSPC, .first_rank = true,
     .cause = LS_FAULT_DISK},
    {"ioerror", "a write of a save fails", .how = LS_INJECT_WRITE, .number = EIO, .first_rank = true,
     .cause = LS_FAULT_EXIT},
    {"short", "a write of a save takes half of the bytes", .how = LS_INJECT_WRITE, .first_rank = true},
    {"fsync", "an fsync of a save fails", .how = LS_INJECT_SYNC, .number = EIO, .first_rank = true,
     .cause = LS_FAULT_EXIT},
    {"mpirun", "mpirun is killed", .how = LS_INJECT_SIGNAL, .number = SIGKILL, .whose = LS_INJECT_MPIRUN,
     .cause = LS_FAULT_LAUNCHER},
    {"launcher", "the process that started mpirun is killed", .how = LS_INJECT_SIGNAL, .number = SIGKILL,
     .whose = LS_INJECT_LAUNCHER, .cause = LS_FAULT_LAUNCHER},
    {"mpirun_stop", "mpirun is stopped", .how = LS_INJECT_SIGNAL, .number = SIGSTOP,
     .whose = LS_INJECT_MPIRUN, .cause = LS_FAULT_LAUNCHER},
    {"launcher_stop", "the process that started mpirun is stopped", .how = LS_INJECT_SIGNAL,
     .number = SIGSTOP, .whose = LS_INJECT_LAUNCHER, .cause = LS_FAULT_LAUNCHER},
    {"host_lost", "all processes of the run on a rank's host are killed, as if it had died",
     .how = LS_INJECT_HOST, .cause = LS_FAULT_HOST},
    {"supervisor", "the supervisor is killed", .how = LS_INJECT_SIGNAL, .number = SIGKILL,
     .whose = LS_INJECT_SUPERVISOR, .ends = true},
    {"preempt", "the supervisor is asked to end (SIGTERM)", .how = LS_INJECT_SIGNAL, .number = SIGTERM,
     .whose = LS_INJECT_SUPERVISOR, .cause = LS_FAULT_ASKED, .ends = true},
    {"usr1", "the supervisor is asked to end (SIGUSR1)", .how = LS_INJECT_SIGNAL, .number = SIGUSR1,
     .whose = LS_INJECT_SUPERVISOR, .cause = LS_FAULT_ASKED, .ends = true},
    {"interrupt", "the supervisor is interrupted (SIGINT)", .how = LS_INJECT_SIGNAL, .number = SIGINT,
     .whose = LS_INJECT_SUPERVISOR, .cause = LS_FAULT_ASKED, .ends = true}};

const ls_inject_kind_t *ls_inject_find(const char *name) {
  for (int i = 0; i < LS_INJECT_KINDS; i++)
    if (!strcmp(ls_inject_kinds[i].name, name)) return &ls_inject_kinds[i];
  return NULL;
}

/* Reads a whole number from `least` to `most` and moves *at past it. */
static bool read_number(const char **at, int64_t least, int64_t most, int64_t *number) {
  char *end;
  errno = 0;
  *number = strtoll(*at, &end, 10);
  const bool good = end > *at && errno == 0 && *number >= least && *number <= most;
  *at = end;
  return good;
}

ls_status_t ls_inject_read(ls_ctx_t *ctx, int rank, ls_inject_t *inject) {
  const char *text = getenv(LS_INJECT_ENVIRONMENT);
  char name[32] = "";
  int64_t whose = 0, step = 0, percent = 0, pace_us = 0;
  int used = 0;
  *inject = (ls_inject_t){.kind = NULL};
  if (!text) return LS_OK;
  sscanf(text, "%31s%n", name, &used);
  const char *at = text + used, *slow = name + 4;
  if (!strncmp(name, "slow", 4) && read_number(&slow, 1, PERCENT_MAX, &percent) &&
      (*slow != '@' || (slow++, read_number(&slow, 0, PACE_US_MAX, &pace_us))) && !*slow)
    name[4] = '\0';
  const bool whole = read_number(&at, 0, INT_MAX, &whose) && read_number(&at, 0, INT64_MAX, &step);
  const ls_inject_kind_t *kind = whole ? ls_inject_find(name) : NULL;
  at += strspn(at, " ");
  if (!kind || !*at || strlen(at) >= sizeof inject->once)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "environment variable %s: KIND RANK STEP FILE expected, not \"%s\"",
                   LS_INJECT_ENVIRONMENT, text);
  snprintf(inject->once, sizeof inject->once, "%s", at);
  const bool always = !strcmp(inject->once, LS_INJECT_ALWAYS);
  if (always) inject->once[0] = '\0';
  inject->pace_ns = 1000 * pace_us;
  if (whose != rank || (!always && access(inject->once, F_OK) == 0)) return LS_OK;
  inject->kind = kind;
  inject->step = step;
  inject->percent = percent > 0 ? (int)percent : kind->number;
  return LS_OK;
}

bool ls_inject_claim(const ls_inject_t *inject) {
  struct timespec t;
  if (!inject->once[0]) return true;
  int fd = open(inject->once, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  clock_gettime(CLOCK_REALTIME, &t);
  dprintf(fd, "%lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
  close(fd);
  return true;
}

void ls_inject_asked(const ls_inject_t *inject, int64_t agree_step) {
  FILE *file = inject->once[0] ? fopen(inject->once, "ae") : NULL;
  if (!file) return;
  fprintf(file, "asked %lld\n", (long long)agree_step);
  fclose(file);
}

int64_t ls_inject_agree_step(const char *once) {
  long long step = -1;
  FILE *file = fopen(once, "re");
  if (file && fscanf(file, "%*s asked %lld", &step) != 1) step = -1;
  if (file) fclose(file);
  return step;
}

/* Ranks are the supervisor's children; on several hosts they have mpirun and the process that started it above them. On another
 * host other programs are: 0. */
static pid_t process_of(ls_inject_whose_t whose) {
  char own[PATH_MAX], exe[PATH_MAX], path[64];
  pid_t pid = getpid();
  int levels = getenv(LS_AGENT_ENVIRONMENT) ? (int)whose : whose == LS_INJECT_OWN ? 0 : 1;
  while (levels-- > 0 && pid > 1)
    pid = ls_process_parent(pid);
  if (whose == LS_INJECT_OWN || whose == LS_INJECT_MPIRUN) return pid;
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  const ssize_t len = readlink(path, exe, sizeof exe - 1);
  if (len <= 0 || !ls_process_program(own)) return 0;
  exe[len] = '\0';
  return strcmp(own, exe) == 0 ? pid : 0;
}

bool ls_inject_process(const ls_inject_kind_t *kind) {
  if (kind->how == LS_INJECT_SIGNAL) {
    pid_t pid = process_of(kind->whose);
    if (pid > 1) kill(pid, kind->number);
    return true;
  }
  if (kind->how == LS_INJECT_HOST) ls_agent_kill_host();
  if (kind->how == LS_INJECT_EXIT) syscall(SYS_exit_group, 0); /* as exit(0) would, without clearing up */
  for (volatile unsigned loops = 0; kind->how == LS_INJECT_LOOP;)
    loops = loops + 1;
  return false;
}
