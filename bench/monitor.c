/* What seeing a run costs:
 *   bench_monitor [records]
 * The loop's part per step (in the training thread: what it shows, and its line and speed on the ranks' page, which
 * --supervise reads), and processor time per record with every sink of files. */
#include "monitor/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SHOWS = 10000000, RECORDS = 500, STEP_US = 100 };

static double cpu_s(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  static const char *const sinks[] = {"tensorboard", "csv", "prometheus"};
  const int records = argc > 1 ? atoi(argv[1]) : RECORDS;
  const double every_s = 0.01;
  char *dir;
  ls_monitor_t *monitor;
  ls_monitor_state_t state = {.val_loss = 1};
  ls_page_t *page;
  if (ls_dir_temporary(NULL, "lockstep-monitor", &dir) != LS_OK) return 1;
  const ls_monitor_config_t config = {.dir = dir, .every_s = every_s, .sinks = {LS_COUNT(sinks), sinks}};
  if (ls_page_open(NULL, dir, 2, &page) != LS_OK) return 1;
  ls_page_line_t *line = ls_page_line(page, 0);
  const ls_monitor_run_t run = {.ranks = 2,
                                .page = page,
                                .batch = 64,
                                .resumed_from = -1,
                                .strategy = "",
                                .backend = "",
                                .precision = "",
                                .device = "",
                                .gpu = -1};
  if (ls_monitor_start(NULL, &config, &run, &monitor) != LS_OK) return 1;
  const double begin_s = cpu_s(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 1; i <= SHOWS; i++) {
    state.step = state.steps = i;
    state.step_ns += STEP_US * 1000;
    ls_page_step(line, i, state.step_ns);
    ls_page_timed(page, 0, STEP_US * 1000, 0);
    ls_monitor_show(monitor, &state);
  }
  const double show_ns = (cpu_s(CLOCK_THREAD_CPUTIME_ID) - begin_s) / SHOWS * 1e9;
  ls_monitor_stop(monitor, LS_OK);
  if (ls_monitor_start(NULL, &config, &run, &monitor) != LS_OK) return 1;
  const double idle_s = cpu_s(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < records; i++) {
    state.step = state.steps += 100;
    ls_monitor_show(monitor, &state);
    usleep((useconds_t)(every_s * 1e6));
  }
  const double record_us = (cpu_s(CLOCK_PROCESS_CPUTIME_ID) - idle_s) / records * 1e6;
  ls_monitor_stop(monitor, LS_OK);
  printf("show    %8.1f ns per step\nrecord  %8.1f us of processor time\n", show_ns, record_us);
  printf("a step of %d us, a record a second: %.4f %%\n", STEP_US,
         show_ns / (STEP_US * 10) + record_us * 1e-4);
  ls_page_close(page);
  ls_dir_remove(NULL, dir);
  ls_free(dir);
  return 0;
}
