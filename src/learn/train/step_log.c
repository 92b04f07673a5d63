/* Statistics over the steps of one run. */
#include "train/step_log.h"

#include "stat/stat.h"

#include <math.h>

enum { WARMUP_STEPS = 10 };

ls_status_t ls_step_log_create(ls_ctx_t *ctx, int64_t capacity, ls_step_log_t *log) {
  *log = (ls_step_log_t){.capacity = capacity};
  log->step_ns = ls_alloc_array(ctx, (size_t)capacity, sizeof *log->step_ns);
  return log->step_ns ? LS_OK : LS_ERR_MEMORY;
}

void ls_step_log_release(ls_step_log_t *log) {
  ls_free(log->step_ns);
  *log = (ls_step_log_t){0};
}

static void fill_parts(const double parts_ns[LS_PHASE_STEP_COUNT], ls_step_parts_t *parts) {
  int64_t *part[LS_PHASE_STEP_COUNT] = {&parts->input_ns, &parts->forward_ns,   &parts->backward_ns,
                                        &parts->comm_ns,  &parts->optimizer_ns, &parts->rest_ns};
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    *part[i] = llround(parts_ns[i]);
  parts->measured = parts->comm_measured = true;
}

static void add_loss(ls_step_log_t *log, double loss) {
  const int64_t at = log->loss_count++ % LS_LOSS_RING;
  for (int i = LS_LOSS_RING - 1; at == 0 && i >= 0; i--)
    log->older[i] = log->older[i + 1] + log->loss[i];
  log->newer = loss + (at > 0 ? log->newer : 0);
  log->loss[at] = loss;
}

static int64_t loss_steps(const ls_step_log_t *log) {
  return log->loss_count < LS_LOSS_RING ? log->loss_count : LS_LOSS_RING;
}

double ls_step_log_loss(const ls_step_log_t *log) {
  if (log->loss_count == 0) return NAN;
  const int64_t newest = (log->loss_count - 1) % LS_LOSS_RING;
  return (log->newer + log->older[newest + 1]) / (double)loss_steps(log);
}

void ls_step_log_add(ls_step_log_t *log, int64_t step_ns, const int64_t parts_ns[LS_PHASE_STEP_COUNT],
                     double loss, bool applied, ls_step_parts_t *parts) {
  bool warm = log->count >= WARMUP_STEPS, kept = log->count < log->capacity;
  double own_ns[LS_PHASE_STEP_COUNT], left_ns = (double)step_ns;
  if (kept) log->step_ns[log->count] = (double)step_ns;
  log->count++;
  if (applied) add_loss(log, loss);
  *parts = (ls_step_parts_t){0};
  if (!parts_ns) return;
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    left_ns -= own_ns[i] = (double)parts_ns[i];
  own_ns[LS_PHASE_STEP_REST] += left_ns; /* the work of the loop between two launches */
  for (int i = 0; i < LS_PHASE_STEP_COUNT && kept; i++)
    log->parts_ns[warm][i] += own_ns[i];
  log->parts = true;
  fill_parts(own_ns, parts);
}

static void report_parts(const ls_step_log_t *log, int64_t skip, int64_t counted, ls_step_parts_t *parts) {
  double mean_ns[LS_PHASE_STEP_COUNT];
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    mean_ns[i] = (log->parts_ns[1][i] + (skip > 0 ? 0 : log->parts_ns[0][i])) / (double)counted;
  fill_parts(mean_ns, parts);
}

void ls_step_log_report(ls_step_log_t *log, ls_train_report_t *report) {
  int64_t kept = log->count < log->capacity ? log->count : log->capacity;
  int64_t skip = kept > 2 * WARMUP_STEPS ? WARMUP_STEPS : 0, counted = kept - skip;
  double *step_ns = log->step_ns + skip;
  ls_stat_sort(step_ns, counted);
  report->step_time_median_us = ls_stat_quantile(step_ns, counted, 0.5) * 1e-3;
  report->step_time_p95_us = ls_stat_quantile(step_ns, counted, 0.95) * 1e-3;
  report->step_time_mean_us = ls_stat_mean(step_ns, counted) * 1e-3;
  report->step_time_count = counted;
  if (log->parts && counted > 0) report_parts(log, skip, counted, &report->parts);
  report->train_loss_steps = loss_steps(log);
  report->train_loss = ls_step_log_loss(log);
}
