/* From sums to records: what changed since the last one, divided by the steps or the time between. */
#include "monitor/measure.h"

#include "stat/stat.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static const double ns_per_s = 1e9, ns_per_us = 1e3;

ls_status_t ls_measure_begin(ls_ctx_t *ctx, ls_measure_t *m, const char *dir, const ls_monitor_run_t *run) {
  *m = (ls_measure_t){.run = *run, .begin_ns = ls_clock_ns(), .ecc_uncorrected = NAN};
  m->now_ns = m->begin_ns;
  snprintf(m->dir, sizeof m->dir, "%s", dir);
  ls_load_read(NULL, &m->load);
  ls_processor_read(NULL, &m->processor);
  if (run->page && run->rank == 0 && run->ranks > 1) {
    ls_status_t status = ls_straggler_create(ctx, run->ranks, &m->straggler);
    if (status != LS_OK) return status;
  }
  return ls_gpu_live_open(ctx, run->gpu, run->local_rank, &m->gpu);
}

void ls_measure_end(ls_measure_t *m) {
  ls_gpu_live_close(m->gpu);
  ls_straggler_destroy(m->straggler);
  m->gpu = NULL;
  m->straggler = NULL;
}

/* The median of the records before this one; NaN while there are few. */
static double usual_us(const ls_measure_t *m) {
  double sorted[LS_USUAL_RECORDS];
  int count = m->recent_count < LS_USUAL_RECORDS ? (int)m->recent_count : LS_USUAL_RECORDS;
  if (count < LS_USUAL_RECORDS_MIN) return NAN;
  memcpy(sorted, m->recent_us, (size_t)count * sizeof sorted[0]);
  ls_stat_sort(sorted, count);
  return ls_stat_quantile(sorted, count, 0.5);
}

static void take_parts(const ls_measure_t *m, const ls_monitor_state_t *now, ls_monitor_sample_t *s) {
  double *const mean_us[LS_MONITOR_PARTS] = {&s->input_us,        &s->forward_us,   &s->backward_us,
                                             &s->exposed_comm_us, &s->optimizer_us, &s->rest_us};
  double *const total_s[LS_MONITOR_PARTS] = {&s->input_s,        &s->forward_s,   &s->backward_s,
                                             &s->exposed_comm_s, &s->optimizer_s, &s->rest_s};
  for (int i = 0; i < LS_MONITOR_PARTS; i++) {
    const bool comm = mean_us[i] == &s->exposed_comm_us;
    const int64_t all = comm ? now->comm_steps : now->parts_steps;
    const int64_t steps = all - (comm ? m->state.comm_steps : m->state.parts_steps);
    if (all == 0) continue;
    *total_s[i] = (double)now->parts_ns[i] / ns_per_s;
    if (steps > 0)
      *mean_us[i] = (double)(now->parts_ns[i] - m->state.parts_ns[i]) / (double)steps / ns_per_us;
  }
}

static void take_validation(const ls_monitor_state_t *now, ls_monitor_sample_t *s) {
  if (isnan(now->val_loss)) return;
  s->val_step = (double)now->val_step;
  s->val_loss = now->val_loss;
  s->val_accuracy = now->val_accuracy;
  s->val_perplexity = now->val_perplexity;
  s->val_top5 = now->val_top5;
  s->val_f1 = now->val_f1;
  s->val_r2 = now->val_r2;
  s->val_mae = now->val_mae;
}

void ls_measure_steps(ls_measure_t *m, const ls_monitor_state_t *now, int64_t now_ns,
                      ls_monitor_sample_t *s) {
  const int64_t steps = now->steps - m->state.steps, ns = now->step_ns - m->state.step_ns;
  const int64_t losses = now->losses - m->state.losses,
                last_ns = now->done_ns > 0 ? now->done_ns : m->begin_ns;
  s->step = (double)(now->steps > 0 ? now->step : m->run.first_step);
  s->total_steps = (double)m->run.total_steps;
  s->skipped_steps = (double)now->skipped;
  s->samples = (double)now->steps * (double)m->run.batch;
  s->exchanged_bytes = (double)now->steps * m->run.exchanged_bytes;
  s->step_s = (double)now->step_ns / ns_per_s;
  s->evaluation_s = (double)now->eval_ns / ns_per_s;
  s->save_s = (double)now->save_ns / ns_per_s;
  s->running_s = (double)(now_ns - m->begin_ns) / ns_per_s;
  if (m->run.resumed_from >= 0) s->resumed_s = s->running_s;
  s->idle_s = fmax(0, (double)(now_ns - last_ns) / ns_per_s);
  if (now->steps > 0) {
    s->loss = now->loss;
    s->grad_norm = now->grad_norm;
    s->lr = now->lr;
    if (now->loss_scale > 0) s->loss_scale = now->loss_scale;
    /* a loss scale that is still too large for fp16 is no fault of the run */
    s->nonfinite = !isfinite(now->loss) || (!isfinite(now->grad_norm) && now->loss_scale <= 1);
    take_validation(now, s);
  }
  if (losses > 0) s->loss_mean = (now->loss_sum - m->state.loss_sum) / (double)losses;
  if (steps > 0 && ns > 0) {
    s->step_time_us = (double)ns / (double)steps / ns_per_us;
    s->samples_per_s = (double)steps * (double)m->run.batch * ns_per_s / (double)ns;
    s->step_time_ratio = s->step_time_us / usual_us(m);
    m->recent_us[m->recent_count++ % LS_USUAL_RECORDS] = s->step_time_us;
  }
  take_parts(m, now, s);
  m->state = *now;
}

/* Resident pages of this process; 0 = not readable. */
static double resident_bytes(void) {
  long long all, resident = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return NAN;
  bool known = fscanf(file, "%lld %lld", &all, &resident) == 2;
  fclose(file);
  return known ? (double)resident * (double)sysconf(_SC_PAGESIZE) : (double)NAN;
}

static double memory_used_ratio(void) {
  char line[128];
  double kb, total = NAN, available = NAN;
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "MemTotal: %lf", &kb) == 1) total = kb;
    if (sscanf(line, "MemAvailable: %lf", &kb) == 1) available = kb;
  }
  if (file) fclose(file);
  return 1 - available / total;
}

/* Counts as df does: space that only root may use is not free. */
static double disk_used_ratio(const char *dir) {
  struct statvfs disk;
  if (statvfs(dir, &disk) != 0 || disk.f_blocks == 0) return NAN;
  double used = (double)(disk.f_blocks - disk.f_bfree), free = (double)disk.f_bavail;
  return used / (used + free);
}

static void take_host(ls_measure_t *m, int64_t now_ns, ls_monitor_sample_t *s) {
  ls_load_t load;
  ls_load_read(NULL, &load);
  if (now_ns > m->now_ns)
    s->cpu_ratio = (double)(load.own_ns - m->load.own_ns) / (double)(now_ns - m->now_ns);
  s->others_ratio = ls_load_others(&m->load, &load);
  s->memory_bytes = resident_bytes();
  s->memory_ratio = memory_used_ratio();
  s->disk_ratio = disk_used_ratio(m->dir);
  m->load = load;
}

static void take_gpu(ls_measure_t *m, ls_monitor_sample_t *s) {
  ls_gpu_now_t now;
  ls_gpu_live_read(m->gpu, true, &now);
#define TAKE(field) s->gpu_##field = now.field;
  LS_GPU_NOW_TABLE(TAKE)
#undef TAKE
  s->gpu_memory_ratio = now.memory_bytes / now.memory_size_bytes;
  s->gpu_power_ratio = now.power_w / now.power_limit_w;
  s->gpu_ecc_new = now.ecc_uncorrected - m->ecc_uncorrected;
  m->ecc_uncorrected = now.ecc_uncorrected;
}

static void take_processor(ls_measure_t *m, int64_t now_ns, ls_monitor_sample_t *s) {
  ls_processor_t now;
  ls_processor_read(NULL, &now);
  if (now_ns > m->now_ns)
    s->cpu_waiting_ratio = (now.waited_ns - m->processor.waited_ns) / (double)(now_ns - m->now_ns);
  s->cpu_clock_ratio = now.clock_ratio;
  if (now.heat_events >= 0) s->cpu_heat_limited = now.heat_events > m->processor.heat_events;
  m->processor = now;
}

/* Writes the explanation of this rank's speed, for rank 0, and of its end, for the supervisor. */
static void show_speed(const ls_measure_t *m, const ls_monitor_sample_t *s) {
  if (!m->run.page) return;
  ls_page_speed_t *speed = ls_page_speed(m->run.page, m->run.rank);
  const double clock = m->gpu ? s->gpu_clock_mhz / s->gpu_clock_most_mhz : s->cpu_clock_ratio;
  const bool heat = s->gpu_heat_limited > 0 || s->cpu_heat_limited > 0;
  const bool power = s->gpu_power_limited > 0 || s->gpu_brake_limited > 0;
  const int broken = atomic_load_explicit(&speed->limits, memory_order_relaxed) & LS_LIMIT_BROKEN;
  atomic_store_explicit(
      &speed->limits,
      (heat ? LS_LIMIT_HEAT : 0) | (power ? LS_LIMIT_POWER : 0) |
          ((s->gpu_recovery_action > 0 || ls_gpu_xid_breaks(s->gpu_xid)) ? LS_LIMIT_BROKEN : broken),
      memory_order_relaxed);
  atomic_store_explicit(&speed->clock_ppm, isfinite(clock) ? (int32_t)(1e6 * clock) : 0,
                        memory_order_relaxed);
  atomic_store_explicit(&speed->waiting_ppm,
                        isfinite(s->cpu_waiting_ratio) ? (int32_t)(1e6 * fmin(1, s->cpu_waiting_ratio)) : 0,
                        memory_order_relaxed);
  const bool loop = !m->gpu && m->processor.loop_ns > 0 && m->processor.loop_ns < INT32_MAX;
  atomic_store_explicit(&speed->loop_ns, loop ? (int32_t)m->processor.loop_ns : 0, memory_order_relaxed);
}

static void take_straggler(const ls_measure_t *m, ls_monitor_sample_t *s) {
  ls_straggler_is_t is;
  if (!m->straggler || !ls_straggler_look(m->straggler, m->run.page, &is)) return;
  s->straggler_ratio = is.ratio;
  s->straggler_rank = is.rank;
  s->straggler = is.named;
  if (is.named) s->straggler_cause = is.cause;
}

/* Rows that another rank speaks for. */
static void leave_to_others(const ls_monitor_run_t *run, ls_monitor_sample_t *s) {
  for (int i = 0; i < LS_METRIC_COUNT; i++) {
    ls_monitor_of_t of = ls_metrics[i].of;
    bool other = (of == LS_OF_RUN && run->rank != 0) || (of == LS_OF_HOST && run->local_rank != 0);
    if (other) *(double *)(void *)((char *)s + ls_metrics[i].offset) = NAN;
  }
}

void ls_measure_take(ls_measure_t *m, const ls_monitor_state_t *state, ls_monitor_sample_t *s) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  const int64_t now_ns = ls_clock_ns();
  ls_record_clear(&ls_monitor_sample_record, s);
  s->t = (double)t.tv_sec + (double)t.tv_nsec / ns_per_s;
  s->rank = m->run.rank;
  ls_measure_steps(m, state, now_ns, s);
  take_host(m, now_ns, s);
  take_gpu(m, s);
  take_processor(m, now_ns, s);
  show_speed(m, s);
  take_straggler(m, s);
  leave_to_others(&m->run, s);
  m->now_ns = now_ns;
}
