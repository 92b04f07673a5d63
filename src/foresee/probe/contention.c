/* Contention: how much slower the same work is when every rank of the node works. Ranks of one node share a clock,
 * so they agree on slots of time. In one slot rank 0 works while the others sleep (a waiting rank would spin and
 * disturb); in the next all work. The slow-down of a round is the ratio of two neighbouring slots, so a disturbance
 * affects both alike. */
#include "graph/ops/ops.h"
#include "probe/meter.h"
#include "probe/probe.h"
#include "stat/stat.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MIN = 5, ROUNDS_MAX = 40, SLOT_SAMPLES_MAX = 64, RANKS_MAX = 64 };
static const int64_t slot_min_ns = 15000000, lead_ns = 2000000;

static void sleep_until(int64_t ns) {
  const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
    continue;
}

/* The largest of all ranks' values. */
static ls_status_t agree_max(ls_comm_t *control, int64_t value, int64_t *largest) {
  int64_t all[RANKS_MAX];
  ls_status_t status = ls_comm_gather(control, "probe: appointment", &value, sizeof value, all);
  if (status != LS_OK) return status;
  *largest = all[0];
  for (int r = 1; r < control->size; r++)
    if (all[r] > *largest) *largest = all[r];
  return LS_OK;
}

/* Median of the samples taken until `until`; at least one is taken. */
static ls_status_t work_until(ls_meter_t *meter, ls_meter_item_t *item, int64_t until, double *median) {
  double ns[SLOT_SAMPLES_MAX];
  int count = 0;
  do {
    ls_status_t status = ls_meter_sample(meter, item, &ns[count]);
    if (status != LS_OK) return status;
    count++;
  } while (count < SLOT_SAMPLES_MAX && ls_clock_ns() < until);
  *median = ls_stat_median(ns, count);
  return LS_OK;
}

/* Alone, then together. *factor: mean over ranks of the time together, divided by rank 0's time alone. */
static ls_status_t one_round(ls_comm_t *control, ls_meter_t *meter, ls_meter_item_t *item, int64_t slot_ns,
                             double *factor) {
  int64_t begin;
  double alone = 0, together, sums[2];
  ls_status_t status = agree_max(control, ls_clock_ns(), &begin);
  if (status != LS_OK) return status;
  begin += lead_ns;
  sleep_until(begin);
  if (control->rank == 0) status = work_until(meter, item, begin + slot_ns * 8 / 10, &alone);
  if (status == LS_OK) {
    sleep_until(begin + slot_ns);
    status = work_until(meter, item, begin + slot_ns * 18 / 10, &together);
  }
  status = ls_comm_agree(control, "probe: contention", status);
  if (status != LS_OK) return status;
  sums[0] = alone;
  sums[1] = together / control->size;
  status = ls_comm_sum_f64(control, "probe: contention", sums, 2);
  if (status == LS_OK) *factor = sums[0] > 0 ? sums[1] / sums[0] : 1;
  return status;
}

static ls_status_t measure(ls_comm_t *control, ls_meter_t *meter, ls_meter_item_t *item, int64_t budget_ns,
                           ls_time_t *factor) {
  double ns;
  int64_t longest;
  ls_samples_t samples = {.count = 0};
  ls_status_t status = ls_meter_sample(meter, item, &ns); /* calibrates */
  status = ls_comm_agree(control, "probe: contention", status);
  if (status == LS_OK) status = agree_max(control, (int64_t)(ns * item->repeats), &longest);
  if (status != LS_OK) return status;
  int64_t slot_ns = longest * 5 > slot_min_ns ? longest * 5 : slot_min_ns;
  int64_t count = budget_ns / (2 * slot_ns + lead_ns);
  if (count < ROUNDS_MIN) count = ROUNDS_MIN;
  if (count > ROUNDS_MAX) count = ROUNDS_MAX;
  for (int64_t round = 0; round < count && status == LS_OK; round++) {
    status = one_round(control, meter, item, slot_ns, &ns);
    if (status == LS_OK) ls_samples_add(&samples, ns);
  }
  if (status != LS_OK) return status;
  ls_samples_time(&samples, factor);
  factor->ns = fmax(factor->ns, 1); /* noise may make company look helpful */
  factor->low_ns = fmax(factor->low_ns, 1);
  factor->high_ns = fmax(factor->high_ns, 1);
  return LS_OK;
}

/* The sizes are those of passes and products in a step of the study's networks on one core. */
static ls_status_t add_items(ls_meter_t *meter, ls_meter_item_t *item[2]) {
  const ls_shape_t product[] = {LS_SHAPE(LS_F32, 128, 512), LS_SHAPE(LS_F32, 512, 512),
                                LS_SHAPE(LS_F32, 512)};
  ls_status_t status =
      ls_meter_add_op(meter, ls_op_accumulate.name, &LS_SHAPE(LS_F32, 1 << 22), "memory", -1, &item[0]);
  return status == LS_OK ? ls_meter_add_op(meter, ls_op_linear.name, product, "compute", -1, &item[1])
                         : status;
}

ls_status_t ls_probe_contention(ls_ctx_t *ctx, ls_comm_t *control, ls_device_t *device, int threads,
                                int64_t budget_ns, ls_profile_t *profile) {
  static const char *const kinds[] = {"memory", "compute"};
  ls_meter_t *meter = NULL;
  ls_meter_item_t *item[2];
  if (control->local_size != control->size || control->size > RANKS_MAX || control->size < 2) return LS_OK;
  ls_status_t status = ls_meter_create(ctx, device, threads, &meter);
  if (status == LS_OK) status = add_items(meter, item);
  status = ls_comm_agree(control, "probe: contention", status);
  for (int i = 0; i < LS_COUNT(kinds) && status == LS_OK; i++) {
    char key[LS_PROFILE_KEY_BYTES];
    ls_time_t factor;
    ls_profile_key(
        key, (ls_profile_key_t){LS_KEY_CONTENTION, device->backend->name, kinds[i], control->size, threads});
    status = measure(control, meter, item[i], budget_ns / LS_COUNT(kinds), &factor);
    if (status == LS_OK) status = ls_profile_put(profile, key, &factor);
  }
  ls_meter_destroy(meter);
  return status;
}
