/* Reads from /proc/stat how busy the processors of this process are, without its own share. */
#include "machine/load.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, STATES };
static const double ns_per_s = 1e9;

static void add_line(const char *line, const cpu_set_t *mine, ls_load_t *load) {
  int cpu;
  int64_t ticks[STATES] = {0};
  if (line[0] != 'c' || line[3] == ' ') return; /* "cpu  9 .." are all of them, not processor 9 */
  int got = sscanf(line,
                   "cpu%d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
                   " %" SCNd64,
                   &cpu, &ticks[USER], &ticks[NICE], &ticks[SYSTEM], &ticks[IDLE], &ticks[IOWAIT],
                   &ticks[IRQ], &ticks[SOFTIRQ], &ticks[STEAL]);
  if (got < 2 + IDLE || cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, mine)) return;
  for (int i = 0; i < STATES; i++) {
    load->all_ticks += ticks[i];
    if (i != IDLE && i != IOWAIT) load->busy_ticks += ticks[i];
  }
}

void ls_load_read(const char *path, ls_load_t *load) {
  char line[512];
  cpu_set_t mine;
  struct timespec own;
  struct rusage children;
  *load = (ls_load_t){0};
  FILE *file = fopen(path ? path : "/proc/stat", "re");
  if (!file) return;
  if (sched_getaffinity(0, sizeof mine, &mine) == 0 && clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) == 0 &&
      getrusage(RUSAGE_CHILDREN, &children) == 0) {
    int64_t s = own.tv_sec + children.ru_utime.tv_sec + children.ru_stime.tv_sec,
            us = children.ru_utime.tv_usec + children.ru_stime.tv_usec;
    load->own_ns = s * INT64_C(1000000000) + us * 1000 + own.tv_nsec;
    while (fgets(line, sizeof line, file))
      add_line(line, &mine, load);
  }
  fclose(file);
}

double ls_load_others(const ls_load_t *begin, const ls_load_t *end) {
  double ticks_per_s = (double)sysconf(_SC_CLK_TCK), all = (double)(end->all_ticks - begin->all_ticks);
  if (begin->all_ticks <= 0 || !(all > 0) || !(ticks_per_s > 0)) return NAN;
  double own = (double)(end->own_ns - begin->own_ns) * ticks_per_s / ns_per_s;
  return fmin(fmax((double)(end->busy_ticks - begin->busy_ticks) - own, 0) / all, 1);
}
