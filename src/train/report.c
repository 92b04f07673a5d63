/* Statistics over the steps of one run. */
#include "stat/stat.h"
#include "train/trainer.h"

#include <math.h>

enum { WARMUP_STEPS = 10 };

ls_status_t ls_step_log_create(ls_ctx_t *ctx, int64_t capacity, ls_step_log_t *log) {
  *log = (ls_step_log_t){.capacity = capacity};
  log->step_ns = ls_alloc_array(ctx, (size_t)capacity, sizeof *log->step_ns);
  log->loss = ls_alloc_array(ctx, LS_LOSS_RING, sizeof *log->loss);
  if (log->step_ns && log->loss) return LS_OK;
  ls_step_log_release(log);
  return LS_ERR_MEMORY;
}

void ls_step_log_release(ls_step_log_t *log) {
  ls_free(log->step_ns);
  ls_free(log->loss);
  *log = (ls_step_log_t){0};
}

void ls_step_log_add(ls_step_log_t *log, int64_t step_ns, double loss, bool applied) {
  if (log->count < log->capacity) log->step_ns[log->count] = (double)step_ns;
  log->count++;
  if (applied) log->loss[log->loss_count++ % LS_LOSS_RING] = loss;
}

void ls_step_parts_fill(const int64_t parts_ns[LS_PHASE_STEP_COUNT], int64_t count, ls_step_parts_t *parts) {
  int64_t *part[LS_PHASE_STEP_COUNT] = {&parts->input_ns, &parts->forward_ns,   &parts->backward_ns,
                                        &parts->comm_ns,  &parts->optimizer_ns, &parts->rest_ns};
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    *part[i] = parts_ns[i] / count;
  parts->measured = true;
}

void ls_step_log_report(ls_step_log_t *log, ls_train_report_t *report) {
  int64_t kept = log->count < log->capacity ? log->count : log->capacity;
  int64_t skip = kept > 2 * WARMUP_STEPS ? WARMUP_STEPS : 0;
  ls_stat_sort(log->step_ns + skip, kept - skip);
  report->step_time_median_us = ls_stat_quantile(log->step_ns + skip, kept - skip, 0.5) * 1e-3;
  report->step_time_p95_us = ls_stat_quantile(log->step_ns + skip, kept - skip, 0.95) * 1e-3;
  int64_t losses = log->loss_count < LS_LOSS_RING ? log->loss_count : LS_LOSS_RING;
  double sum = 0;
  for (int64_t i = 0; i < losses; i++)
    sum += log->loss[i];
  report->train_loss = losses > 0 ? sum / (double)losses : NAN;
  if (log->parts_count > 0) ls_step_parts_fill(log->parts_ns, log->parts_count, &report->parts);
}
