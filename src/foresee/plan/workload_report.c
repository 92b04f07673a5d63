/* Compares a reported scaling table with the simulated one: how much of the difference communication
 * explains, and where the table contradicts itself. */
#include "plan/workload.h"

#include <math.h>
#include <stdio.h>

#define CLOSE 0.03 /* reported numbers are rounded; below this they agree */

static const ls_reported_t *single_of(const ls_workload_t *w) {
  for (int i = 0; i < w->reported_count; i++)
    if (w->reported[i].ranks == 1) return &w->reported[i];
  return NULL;
}

static int64_t batch_of(const ls_workload_t *w, const ls_reported_t *row) {
  if (row->batch_per_device > 0) return row->batch_per_device;
  return w->batch_per_device > 0 ? w->batch_per_device : w->global_batch / row->ranks;
}

/* The batch per device by throughput and step time; 0 = the report lacks one of them. */
static double implied_batch(const ls_reported_t *row) {
  return row->samples_per_s * row->step_time_ms * 1e-3 / (double)row->ranks;
}

static bool batch_agrees(const ls_workload_t *w, const ls_reported_t *row) {
  double implied = implied_batch(row), stated = (double)batch_of(w, row);
  return implied <= 0 || fabs(implied - stated) <= CLOSE * stated;
}

int64_t ls_reported_batch(const ls_workload_t *workload, const ls_reported_t *row) {
  if (batch_agrees(workload, row)) return batch_of(workload, row);
  return implied_batch(row) < 1 ? 1 : llround(implied_batch(row));
}

/* The reported step, from throughput and batch where the time itself is not said. */
static double step_ns_of(const ls_workload_t *w, const ls_reported_t *row) {
  if (row->step_time_ms > 0) return row->step_time_ms * 1e6;
  return (double)(row->ranks * batch_of(w, row)) / row->samples_per_s * 1e9;
}

static double efficiency_of(const ls_reported_t *row, const ls_reported_t *single) {
  if (row->efficiency_percent > 0) return row->efficiency_percent / 100;
  if (!single || row->samples_per_s <= 0 || single->samples_per_s <= 0) return NAN;
  return row->samples_per_s / ((double)row->ranks * single->samples_per_s);
}

static void explain(const ls_sim_point_t *p, ls_reported_view_t *view) {
  double hidden_ns = p->comm_ns - p->exposed_ns, lost = view->lost_ns * 1e-6;
  if (view->lost_ns <= p->exposed_ns * (1 + CLOSE) + CLOSE * p->step_ns)
    snprintf(view->why, sizeof view->why,
             "agrees: the simulated step waits %.1f ms for communication, the report's lost %.1f ms",
             p->exposed_ns * 1e-6, lost);
  else if (view->lost_ns <= p->comm_ns)
    snprintf(
        view->why, sizeof view->why,
        "explained if %.0f %% of the %.1f ms that communication could hide behind compute were not hidden",
        100 * (view->lost_ns - p->exposed_ns) / fmax(hidden_ns, 1), hidden_ns * 1e-6);
  else
    snprintf(view->why, sizeof view->why,
             "lost %.1f ms, but all communication, hidden or not, takes %.1f ms at these links: %.1f ms are "
             "something else",
             lost, p->comm_ns * 1e-6, view->unexplained_ns * 1e-6);
}

void ls_reported_compare(const ls_workload_t *workload, const ls_reported_t *row,
                         const ls_sim_point_t *simulated, const ls_sim_point_t *single,
                         ls_reported_view_t *view) {
  const ls_reported_t *one = single_of(workload);
  double unhidden_ns = simulated->step_ns - simulated->exposed_ns + simulated->comm_ns;
  *view = (ls_reported_view_t){.reported_efficiency = efficiency_of(row, one)};
  double ideal = (double)row->ranks * single->samples_per_s;
  view->simulated_efficiency = simulated->samples_per_s / ideal;
  view->unhidden_efficiency = (double)simulated->batch / unhidden_ns * 1e9 / ideal;
  if (!one || row->ranks == 1) {
    snprintf(view->why, sizeof view->why,
             row->ranks == 1 ? "the basis of both" : "no single device was reported");
    return;
  }
  double batches = (double)ls_reported_batch(workload, row) / (double)ls_reported_batch(workload, one);
  view->lost_ns = fmax(step_ns_of(workload, row) - step_ns_of(workload, one) * batches, 0);
  view->unexplained_ns = fmax(view->lost_ns - simulated->comm_ns, 0);
  explain(simulated, view);
}

/* Throughput, time and batch of one row belong together. */
static const char *check_batch(ls_arena_t *arena, const ls_workload_t *w, const ls_reported_t *row,
                               const char *text) {
  if (batch_agrees(w, row)) return text;
  return ls_arena_printf(
      arena,
      "%s%lld devices: %.0f samples/s and %.1f ms a step make %.1f samples per device, but %.0f are "
      "stated\n",
      text, (long long)row->ranks, row->samples_per_s, row->step_time_ms, implied_batch(row),
      (double)batch_of(w, row));
}

/* A step that communicates for a share c of its time computes for at most 1 - c of it. */
static const char *check_share(ls_arena_t *arena, const ls_reported_t *row, const ls_reported_t *single,
                               const char *text) {
  double efficiency = efficiency_of(row, single), share = row->communication_percent / 100;
  if (!(efficiency > 0) || share <= 0 || efficiency <= 1 - share + 0.005) return text;
  return ls_arena_printf(
      arena,
      "%s%lld devices: %.1f %% efficiency leaves %.1f %% of a step for everything else, but %.1f %% are "
      "said to be communication: part of it was hidden and is counted all the same\n",
      text, (long long)row->ranks, 100 * efficiency, 100 * (1 - efficiency), 100 * share);
}

const char *ls_reported_contradictions(ls_workload_t *workload) {
  const ls_reported_t *single = single_of(workload);
  const char *text = ls_arena_strdup(&workload->arena, "");
  for (int i = 0; text && i < workload->reported_count; i++) {
    text = check_batch(&workload->arena, workload, &workload->reported[i], text);
    if (text) text = check_share(&workload->arena, &workload->reported[i], single, text);
  }
  return text;
}
