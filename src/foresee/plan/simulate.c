/* Simulates one number of ranks: shares, the schedules of the ranks that matter, and the results. Ranks of
 * one kind of device with the same share are alike, and all wait for the slowest, so only one rank per kind
 * is built: the one with the largest share. */
#include "plan/simulate.h"

#include <math.h>
#include <string.h>

enum { SHARE_ROUNDS = 4 }; /* of fitting shares to speeds; the time of a rank is nearly linear in its share */

/* One rank, priced. */
typedef struct {
  double step_ns, exposed_ns, comm_ns, input_ns;
  int64_t device_bytes;
  const char *algorithm;
} rank_price_t;

typedef struct {
  ls_ctx_t *ctx;
  const ls_sim_machine_t *machine;
  const ls_sim_work_t *work;
  int ranks;
} sim_t;

/* All collectives, and the algorithm of the largest. */
static void add_collectives(const ls_sim_cost_t *cost, const ls_schedule_t *s, double times,
                            rank_price_t *price) {
  size_t largest_bytes = 0;
  for (int t = 0; t < s->task_count; t++) {
    const ls_task_t *task = &s->tasks[t];
    if (task->kind != LS_TASK_COLLECTIVE) continue;
    size_t bytes = ls_task_large_bytes(s, task);
    const char *algorithm;
    price->comm_ns += times * ls_sim_collective_ns(cost->machine, task->collective, (double)bytes,
                                                   ls_task_ranks(s, task), &algorithm);
    if (bytes > largest_bytes) {
      largest_bytes = bytes;
      price->algorithm = algorithm;
    }
  }
}

static ls_status_t price_rank(const sim_t *sim, int kind, int rank, int ranks, int64_t rows,
                              rank_price_t *out) {
  const ls_sim_work_t *work = sim->work;
  ls_sim_cost_t cost = {sim->machine, &sim->machine->device[kind], work->precision, ranks,
                        work->compute_scale};
  if (cost.device->flops_per_s[work->precision].value <= 0)
    return ls_fail(sim->ctx, LS_ERR_UNSUPPORTED, "%s: %s has no figure %s_flops_per_s", sim->machine->name,
                   cost.device->name, ls_sim_precisions[work->precision]);
  ls_program_t program;
  ls_price_t price;
  ls_status_t status = work->lower(sim->ctx, work->user, rank, ranks, rows, &program);
  if (status != LS_OK) return status;
  ls_cost_model_t model = ls_sim_cost_model(&cost);
  status = ls_program_price(sim->ctx, &program, &model, &price);
  if (status == LS_OK) {
    ls_fit_t fit;
    ls_program_fit(&program, &fit);
    *out = (rank_price_t){.step_ns = price.step.ns,
                          .exposed_ns = price.exposed_ns,
                          .input_ns = price.parts_ns[LS_PHASE_STEP_INPUT],
                          .device_bytes = fit.device_total_bytes};
    for (int i = 0; i < program.count; i++)
      add_collectives(&cost, program.member[i], ls_program_times(&program, i), out);
    ls_price_release(&price);
  }
  ls_program_release(&program);
  return status;
}

/* Ranks of kind `kind` among all, and the first of them (-1 = none). */
static int ranks_of_kind(const sim_t *sim, int kind, int *first) {
  int count = 0;
  *first = -1;
  for (int r = 0; r < sim->ranks; r++) {
    if (ls_sim_machine_kind(sim->machine, r) != kind) continue;
    if (*first < 0) *first = r;
    count++;
  }
  return count;
}

/* Samples per second of one device of this kind alone, with the whole global batch or its own. */
static ls_status_t alone(const sim_t *sim, int kind, rank_price_t *price, double *samples_per_s) {
  int64_t rows = sim->work->global_batch ? sim->work->global_batch : sim->work->batch_per_device;
  ls_status_t status = price_rank(sim, kind, 0, 1, rows, price);
  if (status == LS_OK) *samples_per_s = (double)rows / price->step_ns * 1e9;
  return status;
}

/* The largest share of any rank of each kind. speed: samples per second of one rank of the kind; NULL = equal
 * shares. All shares add up to the batch: each rank gets its part rounded down, and the first ranks get one
 * more sample each until nothing is left. So the first rank of a kind has the kind's largest share. */
static void make_shares(const sim_t *sim, int64_t batch, const double *speed, int64_t *rows) {
  double total = 0;
  for (int r = 0; r < sim->ranks; r++)
    total += speed ? speed[ls_sim_machine_kind(sim->machine, r)] : 1;
  int64_t left = batch;
  for (int r = 0; r < sim->ranks; r++)
    left -= (int64_t)floor((double)batch * (speed ? speed[ls_sim_machine_kind(sim->machine, r)] : 1) / total);
  for (int kind = 0; kind < sim->machine->kinds; kind++) {
    int first;
    rows[kind] = 0;
    if (ranks_of_kind(sim, kind, &first) == 0) continue;
    rows[kind] = (int64_t)floor((double)batch * (speed ? speed[kind] : 1) / total) + (first < left);
    if (rows[kind] < 1) rows[kind] = 1; /* every rank needs at least one sample */
  }
}

/* The slowest rank with these shares; seconds per kind into price. */
static ls_status_t price_kinds(const sim_t *sim, const int64_t *rows, rank_price_t *price, int *slowest) {
  *slowest = -1;
  for (int kind = 0; kind < sim->machine->kinds; kind++) {
    int first;
    if (ranks_of_kind(sim, kind, &first) == 0) continue;
    ls_status_t status = price_rank(sim, kind, first, sim->ranks, rows[kind], &price[kind]);
    if (status != LS_OK) return status;
    if (*slowest < 0 || price[kind].step_ns > price[*slowest].step_ns) *slowest = kind;
  }
  return LS_OK;
}

/* Fits shares to the speed of each kind in a step of this very size, from its rows and its time, in a few
 * rounds. */
static ls_status_t fit_shares(const sim_t *sim, int64_t batch, rank_price_t *price, double *speed,
                              int64_t *rows, int *slowest) {
  for (int round = 0; round < SHARE_ROUNDS; round++) {
    for (int kind = 0; kind < sim->machine->kinds; kind++)
      if (price[kind].step_ns > 0) speed[kind] = (double)rows[kind] / price[kind].step_ns;
    make_shares(sim, batch, speed, rows);
    ls_status_t status = price_kinds(sim, rows, price, slowest);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

/* The best single device and the sum of all: the references of speed-up and efficiency. */
static ls_status_t references(const sim_t *sim, double *best, int *best_kind, rank_price_t *best_price,
                              double *sum) {
  *best = *sum = 0;
  for (int kind = 0; kind < sim->machine->kinds; kind++) {
    rank_price_t price;
    double samples_per_s;
    ls_status_t status = alone(sim, kind, &price, &samples_per_s);
    if (status != LS_OK) return status;
    int first;
    *sum += samples_per_s * ranks_of_kind(sim, kind, &first);
    if (samples_per_s > *best) {
      *best = samples_per_s;
      *best_kind = kind;
      *best_price = price;
    }
  }
  return LS_OK;
}

static void fill(const sim_t *sim, int kind, const rank_price_t *price, int64_t batch, int64_t rows,
                 ls_sim_point_t *point) {
  const ls_sim_device_t *device = &sim->machine->device[kind];
  point->device = device->name;
  point->algorithm = price->algorithm;
  point->batch = batch;
  point->rows = rows;
  point->step_ns = price->step_ns;
  point->exposed_ns = price->exposed_ns;
  point->comm_ns = price->comm_ns;
  point->input_ns = price->input_ns;
  point->samples_per_s = (double)batch / price->step_ns * 1e9;
  point->device_bytes = price->device_bytes;
  point->memory_bytes = (int64_t)device->memory_bytes.value;
  point->fits = point->device_bytes <= point->memory_bytes;
}

/* The rank with the fullest memory decides whether the step fits. */
static void fill_memory(const sim_t *sim, const rank_price_t *price, ls_sim_point_t *point) {
  double fullest = 0;
  for (int kind = 0; kind < sim->machine->kinds; kind++) {
    double memory = sim->machine->device[kind].memory_bytes.value;
    if (price[kind].device_bytes == 0 || (double)price[kind].device_bytes / memory < fullest) continue;
    fullest = (double)price[kind].device_bytes / memory;
    point->device_bytes = price[kind].device_bytes;
    point->memory_bytes = (int64_t)memory;
  }
  point->fits = fullest <= 1;
}

static ls_status_t price_world(const sim_t *sim, int64_t batch, ls_sim_point_t *point) {
  size_t kinds = (size_t)sim->machine->kinds;
  ls_arena_t work;
  ls_arena_init(&work, sim->ctx);
  rank_price_t *price = ls_arena_array(&work, kinds, sizeof *price);
  double *speed = ls_arena_array(&work, kinds, sizeof *speed);
  int64_t *rows = ls_arena_array(&work, kinds, sizeof *rows);
  ls_status_t status = price && speed && rows ? LS_OK : LS_ERR_MEMORY;
  int slowest = -1;
  if (status == LS_OK) {
    make_shares(sim, batch, NULL, rows);
    status = price_kinds(sim, rows, price, &slowest);
  }
  if (status == LS_OK && point->shares == LS_SIM_PROPORTIONAL)
    status = fit_shares(sim, batch, price, speed, rows, &slowest);
  if (status == LS_OK) {
    fill(sim, slowest, &price[slowest], batch, rows[slowest], point);
    fill_memory(sim, price, point);
  }
  ls_arena_release(&work);
  return status;
}

/* Why this number of ranks is impossible. */
static bool refuse(const sim_t *sim, ls_sim_point_t *point) {
  int devices = ls_sim_machine_devices(sim->machine);
  if (sim->ranks > devices)
    snprintf(point->note, sizeof point->note, "the machine has %d device%s", devices, LS_PLURAL(devices));
  else if (sim->work->global_batch && sim->work->global_batch < sim->ranks)
    snprintf(point->note, sizeof point->note,
             "the global batch (%lld) has fewer samples than there are ranks",
             (long long)sim->work->global_batch);
  else if (sim->work->shards && sim->work->shards % sim->ranks != 0)
    snprintf(point->note, sizeof point->note, "%lld shards cannot be spread evenly over %d ranks",
             (long long)sim->work->shards, sim->ranks);
  else if (sim->work->shards && point->shares == LS_SIM_PROPORTIONAL)
    snprintf(point->note, sizeof point->note, "a reproducible step has equal shares only");
  return point->note[0] != '\0';
}

ls_status_t ls_sim_point(ls_ctx_t *ctx, const ls_sim_machine_t *machine, const ls_sim_work_t *work, int ranks,
                         int shares, ls_sim_point_t *out) {
  ls_sim_point_t point = {.ranks = ranks, .shares = shares};
  const sim_t sim = {ctx, machine, work, ranks};
  if (!refuse(&sim, &point)) {
    double best, sum;
    int best_kind = 0;
    rank_price_t best_price = {0};
    ls_status_t status = references(&sim, &best, &best_kind, &best_price, &sum);
    if (status != LS_OK) return status;
    int64_t batch = work->global_batch ? work->global_batch : work->batch_per_device * ranks;
    if (ranks == 1) {
      fill(&sim, best_kind, &best_price, batch, batch, &point);
      sum = best;
    } else {
      status = price_world(&sim, batch, &point);
      if (status != LS_OK) return status;
    }
    point.speedup = point.samples_per_s / best;
    point.efficiency = point.samples_per_s / sum;
  }
  *out = point;
  return LS_OK;
}
