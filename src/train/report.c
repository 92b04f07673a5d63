/* Statistics over the steps of one run. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
  if (log->count < log->capacity) log->step_ns[log->count] = step_ns;
  log->count++;
  if (applied) log->loss[log->loss_count++ % LS_LOSS_RING] = loss;
}

static int compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

/* Quantile of sorted values, linear between neighbours (Hyndman and Fan 1996, type 7). */
static double quantile(const int64_t *sorted, int64_t count, double q) {
  if (count == 0) return NAN;
  double place = q * (double)(count - 1);
  int64_t low = (int64_t)place, high = low + 1 < count ? low + 1 : low;
  return (double)sorted[low] + (place - (double)low) * (double)(sorted[high] - sorted[low]);
}

void ls_step_log_report(ls_step_log_t *log, ls_train_report_t *report) {
  int64_t kept = log->count < log->capacity ? log->count : log->capacity;
  int64_t skip = kept > 2 * WARMUP_STEPS ? WARMUP_STEPS : 0;
  qsort(log->step_ns + skip, (size_t)(kept - skip), sizeof *log->step_ns, compare);
  report->step_time_median_us = quantile(log->step_ns + skip, kept - skip, 0.5) * 1e-3;
  report->step_time_p95_us = quantile(log->step_ns + skip, kept - skip, 0.95) * 1e-3;
  int64_t losses = log->loss_count < LS_LOSS_RING ? log->loss_count : LS_LOSS_RING;
  double sum = 0;
  for (int64_t i = 0; i < losses; i++)
    sum += log->loss[i];
  report->train_loss = losses > 0 ? sum / (double)losses : NAN;
  if (log->parts_count == 0) return;
  int64_t *part[LS_PHASE_STEP_COUNT] = {&report->parts.input_ns,     &report->parts.forward_ns,
                                        &report->parts.backward_ns,  &report->parts.comm_ns,
                                        &report->parts.optimizer_ns, &report->parts.rest_ns};
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    *part[i] = log->parts_ns[i] / log->parts_count;
  report->parts.measured = true;
}
