/* Times of tasks from a profile.
 *
 * Forward and backward tasks are curves over the rows of a micro-batch, by name. Tasks of the optimizer do
 * not depend on rows: they are curves over bytes, by op. Between two measured points a time is linear. */
#include "plan/family.h"

#include "probe/task_key.h"
#include "stat/stat.h"

#include <math.h>

/* Errors of the model itself, half-widths of 90 % intervals; docs/plan.md says how they were found. */
static const double error_timed = 0.06, error_ranks = 0.15, error_interpolated = 0.10, error_worlds = 0.05;
/* A GPU that computes while NCCL's kernels run on it: found with bench/plan_accuracy.py on two H200. */
static const double device_overlap = 1.25;

int ls_cost_cpus(const ls_backend_t *backend, int ranks) {
  if (!backend->host_processors || ranks < 2) return 0;
  int cpus = ls_cpu_count() / ranks;
  return cpus < 1 ? 1 : cpus;
}

bool ls_cost_together(const ls_backend_t *backend, int ranks) {
  return backend->host_processors && ranks > 1 && ranks <= LS_TIMING_TOGETHER_MAX;
}

typedef struct {
  const ls_timing_t *timing;
  double scale;
} timed_t;

static ls_status_t timed_task(void *user, const ls_schedule_t *s, int task, ls_time_t *time) {
  const timed_t *timed = user;
  const ls_program_t *p = &timed->timing->program;
  int i = 0;
  while (p->member[i] != s)
    i++;
  *time = ls_family_scaled(timed->timing->task[ls_program_task(p, i, task)], timed->scale);
  return LS_OK;
}

/* The time of the step beyond its tasks. If tasks were timed one by one but the whole step as one captured
 * launch, the tasks include the cost of timing them: all are scaled so that they add up to the whole. */
static ls_status_t split(ls_ctx_t *ctx, const ls_backend_t *backend, const ls_timing_t *timing,
                         timed_t *timed, ls_time_t *overhead) {
  *timed = (timed_t){timing, 1};
  ls_cost_model_t model = {.task_time = timed_task, .user = timed};
  ls_price_t price;
  ls_status_t status = ls_program_price(ctx, &timing->program, &model, &price);
  if (status != LS_OK) return status;
  double beyond_ns = fmax(timing->step.ns - price.step.ns, 0);
  if (!backend->synchronous) {
    if (price.step.ns > 0) timed->scale = timing->step.ns / price.step.ns;
    beyond_ns = 0;
  }
  *overhead = (ls_time_t){beyond_ns, beyond_ns, beyond_ns};
  ls_price_release(&price);
  return LS_OK;
}

static ls_status_t keep_member(ls_profile_t *profile, const char *family, timed_t *timed, int member,
                               double rows, const char *backend, int threads) {
  char key[LS_PROFILE_KEY_BYTES];
  const ls_schedule_t *s = timed->timing->program.member[member];
  ls_status_t status = LS_OK;
  for (int t = 0; t < s->task_count && status == LS_OK; t++) {
    ls_time_t time;
    if (!ls_family_task_key(family, s, &s->tasks[t], key)) continue;
    timed_task(timed, s, t, &time);
    status = ls_family_put(profile, key, rows, &time);
    if (status == LS_OK && ls_family_by_bytes(&s->tasks[t])) {
      ls_family_op_key(family, &s->tasks[t], key);
      status = ls_family_put(profile, key, (double)s->tasks[t].bytes, &time);
    }
    if (status == LS_OK && s->tasks[t].kind == LS_TASK_OP)
      status = ls_profile_put(profile, ls_task_key(s, t, backend, threads, key), &time);
  }
  return status;
}

/* The time that a rank, timed alone, waits for the slowest one, because steps vary: the expected largest of n normal
 * values, in deviations (Blom 1958). The deviation comes from the lower half of the step's times, because the upper half
 * contains disturbances. */
static double skew_ns(const ls_timing_t *timing, int ranks) {
  double sd = (timing->step.ns - timing->step.low_ns) / ls_stat_normal_quantile(0.95);
  return timing->whole ? 0 : sd * ls_stat_normal_quantile((ranks - 0.375) / (ranks + 0.25));
}

ls_status_t ls_cost_keep_tasks(ls_ctx_t *ctx, ls_profile_t *profile, const char *family,
                               const ls_backend_t *backend, int ranks, int threads,
                               const ls_timing_t *timing) {
  char key[LS_PROFILE_KEY_BYTES], name[LS_BACKEND_KEY_BYTES];
  timed_t timed;
  ls_time_t overhead;
  double rows = (double)timing->rows;
  ls_backend_key(backend, timing->math, name);
  ls_status_t status = split(ctx, backend, timing, &timed, &overhead);
  const ls_program_t *p = &timing->program;
  for (int i = 0; i < p->count && status == LS_OK; i++)
    status = keep_member(profile, family, &timed, i, rows, name, threads);
  const double wait_ns = skew_ns(timing, ranks);
  const ls_time_t skew = {wait_ns, wait_ns, wait_ns};
  if (status == LS_OK && wait_ns > 0)
    status = ls_family_put(profile, ls_family_key(family, "skew", key), rows, &skew);
  return status == LS_OK ? ls_family_put(profile, ls_family_key(family, "overhead", key), rows, &overhead)
                         : status;
}

ls_status_t ls_cost_keep_step(ls_ctx_t *ctx, ls_profile_t *profile, const char *timing, int64_t rows,
                              const ls_timing_block_t *block, int blocks, bool well) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t median, mean;
  ls_status_t status = ls_timing_summary(ctx, block, blocks, &median, &mean);
  if (status == LS_OK)
    status = ls_family_put(profile, ls_family_key(timing, "mean", key), (double)rows, &mean);
  if (status == LS_OK && well)
    status =
        ls_family_put(profile, ls_family_key(timing, "well timed", key), (double)rows, &(ls_time_t){1, 1, 1});
  return status == LS_OK ? ls_family_put(profile, ls_family_key(timing, "step", key), (double)rows, &median)
                         : status;
}

/* The share of a task's time that waits for memory: 0 if its step fits into the caches, else from the
 * memory's rate. */
static double memory_part(const ls_cost_t *cost, const ls_task_t *task, double ns) {
  if (cost->cache_bytes > 0 && cost->rank_bytes < cost->cache_bytes) return 0;
  if (cost->memory_ns_per_byte > 0 && ns > 0)
    return fmin((double)task->bytes * cost->memory_ns_per_byte / ns, 1);
  return task->bytes > 0 && task->flops < 8 * task->bytes ? 1 : 0;
}

static bool curve_time(const ls_profile_t *profile, const char *kind, const char *transport, int ranks,
                       double bytes, ls_time_t *time) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, transport, kind, ranks});
  return ls_profile_interpolate(profile, key, bytes, time);
}

bool ls_cost_collective(const ls_profile_t *profile, const char *kind, const char *transport, int ranks,
                        double bytes, ls_time_t *time) {
  if (curve_time(profile, kind, transport, ranks, bytes, time)) return true;
  ls_time_t fewer, more;
  int low = ranks - 1, high = ranks + 1;
  while (low > 1 && !curve_time(profile, kind, transport, low, bytes, &fewer))
    low--;
  while (high < 2 * ranks && !curve_time(profile, kind, transport, high, bytes, &more))
    high++;
  if (low < 2 || high >= 2 * ranks) return false;
  double part = (double)(ranks - low) / (high - low);
  time->ns = fewer.ns + part * (more.ns - fewer.ns);
  time->low_ns = (1 - error_worlds) * fmin(fewer.low_ns, time->ns);
  time->high_ns = (1 + error_worlds) * fmax(more.high_ns, time->ns);
  return true;
}

static ls_status_t collective_time(ls_cost_t *cost, const ls_schedule_t *s, const ls_task_t *task,
                                   ls_time_t *time) {
  bool message = task->collective == LS_SEND || task->collective == LS_RECV;
  const char *kind = ls_collective_name(message ? LS_BROADCAST : task->collective);
  double bytes = (double)ls_task_large_bytes(s, task);
  int ranks = ls_task_ranks(s, task);
  if (!ls_cost_collective(cost->profile, kind, cost->transport, ranks, bytes, time)) {
    cost->missing =
        ls_profile_key(cost->key, (ls_profile_key_t){LS_KEY_COLLECTIVE, cost->transport, kind, ranks});
    return LS_ERR_NOT_FOUND;
  }
  return LS_OK;
}

static ls_status_t task_time(void *user, const ls_schedule_t *s, int t, ls_time_t *time) {
  ls_cost_t *cost = user;
  const ls_task_t *task = &s->tasks[t];
  bool exact, update = ls_family_by_bytes(task);
  if (!ls_family_task_key(cost->family, s, task, cost->key)) return collective_time(cost, s, task, time);
  bool known = ls_family_look_up(cost->profile, cost->key, cost->rows, time, &exact);
  if (!known && update) {
    ls_family_op_key(cost->family, task, cost->key);
    known = ls_family_look_up(cost->profile, cost->key, (double)task->bytes, time, &exact);
  }
  if (!known) {
    cost->missing = cost->key;
    return LS_ERR_NOT_FOUND;
  }
  cost->interpolated |= !exact && !update;
  double memory = memory_part(cost, task, time->ns);
  *time = ls_family_scaled(*time, memory * cost->contention_memory + (1 - memory) * cost->contention_compute);
  return LS_OK;
}

double ls_cost_skew_ns(const ls_cost_t *cost) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t skew;
  bool exact;
  return ls_family_look_up(cost->profile, ls_family_key(cost->family, "skew", key), cost->rows, &skew, &exact)
             ? skew.ns
             : 0;
}

double ls_cost_error(bool exact) {
  return error_timed + (exact ? 0 : error_interpolated);
}

ls_status_t ls_cost_model(ls_cost_t *cost, ls_cost_model_t *model) {
  ls_time_t overhead;
  bool exact;
  if (!ls_family_look_up(cost->profile, ls_family_key(cost->family, "overhead", cost->key), cost->rows,
                         &overhead, &exact)) {
    cost->missing = cost->key;
    return LS_ERR_NOT_FOUND;
  }
  *model = (ls_cost_model_t){.task_time = task_time,
                             .user = cost,
                             .step_overhead_ns = overhead.ns + ls_cost_skew_ns(cost),
                             .model_error = cost->ranks > 1 ? error_ranks : error_timed};
  if (!exact) model->model_error += error_interpolated;
  double compute = device_overlap, comm = device_overlap;
  if (cost->backend->host_processors) {
    /* The communication lane is one more thread: if compute uses all of the rank's processors, two threads
     * share one of them. */
    bool shares = cost->threads >= ls_cost_cpus(cost->backend, cost->ranks);
    compute = shares ? 1 + 1.0 / cost->threads : 1;
    comm = shares ? 2 : 1;
  }
  ls_cost_model_overlap(model, compute, comm);
  return LS_OK;
}
