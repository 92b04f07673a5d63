/* Times of a step on another machine, from the rates in its profile, which a probe there measured or somebody
 * described. A matrix product takes as long as the profile's products of as many FLOPs, everything else as
 * long as its passes over as many bytes. This is coarser than timing the step itself, so such plans count as
 * interpolated. */
#include "graph/ops/ops.h"
#include "plan/candidate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCTS_MAX = 256 };

typedef struct {
  const ls_profile_t *profile;
  ls_curve_point_t product[PRODUCTS_MAX]; /* over FLOPs, ascending in both */
  int product_count;
  char memory_key[LS_PROFILE_KEY_BYTES];
  double launch_ns;
  double contention_compute, contention_memory; /* factors while the other ranks of a host compute too */
} rates_t;

static int by_flops(const void *a, const void *b) {
  const ls_curve_point_t *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return (x->time.ns > y->time.ns) - (x->time.ns < y->time.ns);
}

/* The fastest of the products with as many FLOPs; no product counts as slower than one with more FLOPs. */
static void find_products(rates_t *r, const ls_planner_t *planner, int threads) {
  char words[LS_PROFILE_KEY_BYTES], backend[LS_BACKEND_KEY_BYTES];
  ls_curve_point_t *p = r->product;
  int found = 0, kept = 0;
  ls_time_t time;
  const char *text;
  ls_profile_key_t key;
  ls_math_t math = (ls_math_t)planner->config->train.precision;
  const ls_device_ops_t *device = planner->backend->device;
  const ls_dtype_t low = ls_math_low(math);
  bool widens = low != LS_F32 && !(device->low && device->low(NULL, ls_op_linear.name, low));
  ls_backend_key(planner->backend, widens ? LS_MATH_FP32 : math, backend);
  for (int i = 0; (text = ls_profile_time_at(r->profile, i, &time)) && found < PRODUCTS_MAX; i++)
    if (ls_profile_key_read(text, LS_KEY_OP, words, &key) && !strcmp(key.backend, backend) &&
        !strcmp(key.name, ls_op_linear.name) && key.threads == threads && key.dim[0] > 0)
      p[found++] =
          (ls_curve_point_t){2.0 * (double)key.dim[0] * (double)key.dim[1] * (double)key.dim[2], time};
  qsort(p, (size_t)found, sizeof *p, by_flops);
  for (int i = 0; i < found; i++) {
    if (kept > 0 && p[kept - 1].bytes == p[i].bytes) continue;
    while (kept > 0 && p[kept - 1].time.ns > p[i].time.ns)
      kept--;
    p[kept++] = p[i];
  }
  r->product_count = kept;
}

/* Linear in FLOPs between two products; beyond the last one at its rate, below the first one its time. */
static double product_ns(const rates_t *r, double flops) {
  const ls_curve_point_t *last = &r->product[r->product_count - 1];
  if (flops >= last->bytes) return last->time.ns * flops / last->bytes;
  return ls_curve_time(r->product, r->product_count, flops, true).ns;
}

static double factor(const rates_t *r, const ls_planner_t *p, const ls_candidate_t *c, const char *kind) {
  char key[LS_PROFILE_KEY_BYTES];
  bool together = ls_cost_together(
      p->backend, ls_candidate_devices(c)); /* else the price applies the contention factor */
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_CONTENTION, p->backend->name, kind, ls_candidate_devices(c),
                                         ls_candidate_threads(c)});
  return together ? fmax(ls_profile_value(r->profile, key, 1), 1) : 1;
}

static bool find_rates(const ls_planner_t *p, const ls_candidate_t *c, rates_t *r) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t launch;
  int threads = p->backend->host_processors ? ls_candidate_threads(c) : 1;
  *r = (rates_t){.profile = p->profile};
  find_products(r, p, threads);
  ls_profile_key(r->memory_key, (ls_profile_key_t){LS_KEY_DEVICE, p->backend->name, "memory", 0, threads});
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_DEVICE, p->backend->name, "launch", 0, threads});
  if (r->product_count == 0 || !ls_profile_interpolate(p->profile, r->memory_key, 1e6, &launch) ||
      !ls_profile_get(p->profile, key, &launch))
    return false;
  r->launch_ns = launch.ns;
  r->contention_compute = factor(r, p, c, "compute");
  r->contention_memory = factor(r, p, c, "memory");
  return true;
}

static double task_ns(const rates_t *r, const ls_task_t *task) {
  ls_time_t memory = {0};
  ls_profile_interpolate(r->profile, r->memory_key, (double)task->bytes, &memory);
  double ns = memory.ns * r->contention_memory;
  bool arithmetic = task->op && task->op->class >= LS_OP_PRODUCT && task->op->class < LS_OP_ELEMENTWISE;
  return arithmetic ? fmax(ns, product_ns(r, (double)task->flops) * r->contention_compute) : ns;
}

ls_status_t ls_replay_time(const ls_planner_t *p, const ls_candidate_t *c) {
  rates_t rates;
  ls_candidate_t own = *c;
  ls_timing_t timing = {.rows = c->rows, .math = (ls_math_t)p->config->train.precision};
  if (!find_rates(p, c, &rates)) return LS_ERR_NOT_FOUND;
  ls_status_t status = ls_candidate_lower(p, &own, &timing.program);
  if (status != LS_OK) return status;
  ls_arena_init(&timing.arena, p->ctx);
  const ls_program_t *program = &timing.program;
  timing.task =
      ls_arena_array(&timing.arena, (size_t)ls_program_task(program, program->count, 0), sizeof *timing.task);
  double sum = rates.launch_ns * program->micro_batches;
  for (int i = 0; i < program->count && timing.task; i++)
    for (int t = 0; t < program->member[i]->task_count; t++) {
      const ls_task_t *task = &program->member[i]->tasks[t];
      if (task->kind == LS_TASK_COLLECTIVE) continue;
      double ns = task_ns(&rates, task);
      timing.task[ls_program_task(program, i, t)] = (ls_time_t){ns, ns, ns};
      if (task->lane == LS_LANE_COMPUTE || task->lane == LS_LANE_SIDE)
        sum += ns * ls_program_times(program, i);
    }
  timing.step = (ls_time_t){sum, sum, sum};
  status = timing.task ? ls_cost_keep_tasks(p->ctx, p->profile, c->family, p->backend,
                                            ls_candidate_devices(c), ls_candidate_threads(c), &timing)
                       : LS_ERR_MEMORY;
  ls_timing_release(&timing);
  return status;
}
