/* Times of a step on a machine that is not here, from the rates in its profile: what a probe of it has
 * measured, or what somebody has described. Matrix products take what the profile's products of as many FLOPs
 * take, everything else what its passes over as many bytes take. Coarser than timing the step itself, so such
 * plans count as interpolated. */
#include "graph/ops/ops.h"
#include "plan/candidate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRODUCTS_MAX = 256 };

typedef struct {
  double flops, ns;
} product_t;

typedef struct {
  const ls_profile_t *profile;
  product_t product[PRODUCTS_MAX]; /* ascending in FLOPs and in time */
  int product_count;
  char memory_key[LS_PROFILE_KEY_BYTES];
  double launch_ns;
  double crowd_compute, crowd_memory; /* factors while the other ranks of a host compute too */
} rates_t;

static int by_flops(const void *a, const void *b) {
  const product_t *x = a, *y = b;
  if (x->flops != y->flops) return x->flops < y->flops ? -1 : 1;
  return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Of products of as many FLOPs the fastest; none is slower than one with more FLOPs. */
static void find_products(rates_t *r, const ls_planner_t *planner, int threads) {
  char prefix[64], backend[LS_BACKEND_KEY_BYTES];
  product_t *p = r->product;
  int found = 0, kept = 0;
  ls_time_t time;
  const char *key;
  ls_backend_key(planner->backend, (ls_math_t)planner->config->train.precision, backend);
  int len = snprintf(prefix, sizeof prefix, "op %s t%d %s f32 ", backend, threads, ls_op_linear.name);
  for (int i = 0; (key = ls_profile_time_at(r->profile, i, &time)) && found < PRODUCTS_MAX; i++) {
    long rows, in, out;
    if (strncmp(key, prefix, (size_t)len) != 0 ||
        sscanf(key + len, "(%ld, %ld) f32 (%ld", &rows, &in, &out) != 3)
      continue;
    p[found++] = (product_t){2.0 * (double)rows * (double)in * (double)out, time.ns};
  }
  qsort(p, (size_t)found, sizeof *p, by_flops);
  for (int i = 0; i < found; i++) {
    if (kept > 0 && p[kept - 1].flops == p[i].flops) continue;
    while (kept > 0 && p[kept - 1].ns > p[i].ns)
      kept--;
    p[kept++] = p[i];
  }
  r->product_count = kept;
}

/* Between two products linear in FLOPs; beyond the last at its rate, below the first its time. */
static double product_ns(const rates_t *r, double flops) {
  const product_t *p = r->product;
  int last = r->product_count - 1, i = 0;
  if (flops >= p[last].flops) return p[last].ns * flops / p[last].flops;
  while (p[i].flops < flops)
    i++;
  if (i == 0) return p[0].ns;
  double part = (flops - p[i - 1].flops) / (p[i].flops - p[i - 1].flops);
  return p[i - 1].ns + part * (p[i].ns - p[i - 1].ns);
}

static double factor(const rates_t *r, const ls_planner_t *p, const ls_candidate_t *c, const char *kind) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t crowd;
  bool together = ls_cost_beside(p->backend, c->devices); /* else the price applies the crowd itself */
  ls_profile_crowd_key(key, p->backend->name, c->devices, c->threads, kind);
  return together && ls_profile_get(r->profile, key, &crowd) ? fmax(crowd.ns, 1) : 1;
}

static bool find_rates(const ls_planner_t *p, const ls_candidate_t *c, rates_t *r) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t launch;
  int threads = p->backend->host_processors ? c->threads : 1;
  *r = (rates_t){.profile = p->profile};
  find_products(r, p, threads);
  ls_profile_device_key(r->memory_key, "memory", p->backend->name, threads);
  ls_profile_device_key(key, "launch", p->backend->name, threads);
  if (r->product_count == 0 || !ls_profile_interpolate(p->profile, r->memory_key, 1e6, &launch) ||
      !ls_profile_get(p->profile, key, &launch))
    return false;
  r->launch_ns = launch.ns;
  r->crowd_compute = factor(r, p, c, "compute");
  r->crowd_memory = factor(r, p, c, "memory");
  return true;
}

static double task_ns(const rates_t *r, const ls_task_t *task) {
  ls_time_t memory = {0};
  ls_profile_interpolate(r->profile, r->memory_key, (double)task->bytes, &memory);
  double ns = memory.ns * r->crowd_memory;
  bool product = task->op && (task->op->class == LS_OP_PRODUCT || task->op->class == LS_OP_CONVOLUTION);
  return product ? fmax(ns, product_ns(r, (double)task->flops) * r->crowd_compute) : ns;
}

ls_status_t ls_replay_time(const ls_planner_t *p, const ls_candidate_t *c, const char *family) {
  rates_t rates;
  ls_candidate_t own = *c;
  ls_timing_t timing = {.rows = c->rows, .math = (ls_math_t)p->config->train.precision};
  if (!find_rates(p, c, &rates)) return LS_ERR_NOT_FOUND;
  ls_status_t status = ls_candidate_lower(p, &own, &timing.schedule);
  if (status != LS_OK) return status;
  ls_arena_init(&timing.arena, p->ctx);
  int count = timing.schedule->task_count;
  timing.task = ls_arena_array(&timing.arena, (size_t)count, sizeof *timing.task);
  double sum = rates.launch_ns;
  for (int t = 0; t < count && timing.task; t++) {
    const ls_task_t *task = &timing.schedule->tasks[t];
    if (task->kind == LS_TASK_COLLECTIVE) continue;
    double ns = task_ns(&rates, task);
    timing.task[t] = (ls_time_t){ns, ns, ns};
    if (task->lane == LS_LANE_COMPUTE) sum += ns;
  }
  timing.step = (ls_time_t){sum, sum, sum};
  status = timing.task ? ls_cost_keep(p->ctx, p->profile, family, p->backend, c->threads, &timing, true)
                       : LS_ERR_MEMORY;
  ls_timing_release(&timing);
  return status;
}
