/* Makes a plan: has candidates enumerated, fitted, timed, priced and compared. */
#include "plan/plan.h"

#include "machine/load.h"
#include "machine/machine.h"
#include "plan/candidate.h"

#include <math.h>
#include <string.h>

enum { BATCH_MAX = 65536 };
static const double budget_default_s = 6;
static const double part_for_rounds = 0.75; /* share of the budget; the rest is for the search of
                                             * crossovers */
/* Shares of the memory that must stay free: on a device the worst error seen of a predicted rank, on a host
 * also the memory of the system itself. */
static const double spare_of_device = 0.0025, spare_of_host = 0.06;

static int count_devices(const ls_planner_t *p, const ls_plan_options_t *options, int64_t batch) {
  const ls_backend_t *backend = p->backend;
  int most = backend->host_processors ? p->cpus
             : p->replay              ? ls_profile_machine(p->profile)->gpu_count
                                      : backend->device->count(p->ctx);
  if (options->devices_max > 0 && options->devices_max < most) most = options->devices_max;
  if (most > batch) most = (int)batch;
  return most < 1 ? 1 : most;
}

static int64_t less(int64_t bytes, double spare) {
  return bytes - (int64_t)(spare * (double)bytes);
}

/* The memory of a GPU as its runtime counts it, if probe has measured that: the driver reserves a part of the
 * card's memory. */
static int64_t device_memory(const ls_profile_t *profile, const ls_backend_t *backend,
                             const ls_plan_options_t *options) {
  const ls_machine_t *machine = ls_profile_machine(profile);
  char key[LS_PROFILE_KEY_BYTES];
  if (options->memory_bytes > 0) return options->memory_bytes;
  if (backend->host_memory) return less(machine->memory_bytes, spare_of_host);
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_CAPACITY, backend->name});
  double capacity = ls_profile_value(profile, key, -1);
  if (capacity >= 0) return less((int64_t)capacity, spare_of_device);
  int64_t least = 0;
  for (int i = 0; i < machine->gpu_count; i++)
    if (machine->gpu[i].memory_bytes > 0 && (least == 0 || machine->gpu[i].memory_bytes < least))
      least = machine->gpu[i].memory_bytes;
  return less(least, spare_of_device);
}

/* Sizes that every candidate shares: samples in memory, the run's log, what is evaluated. */
static void measure_data(const ls_config_t *config, const ls_plan_options_t *options, ls_planner_t *p) {
  const ls_data_config_t *data = &config->data;
  int64_t rows = options->rows > 0                 ? options->rows
                 : data->kind == LS_DATA_SYNTHETIC ? data->samples
                 : options->samples > 0            ? options->samples
                                                   : 0;
  p->data_rows = rows;
  p->input_ns = ls_input_sample_ns(&options->input);
  p->work_bytes = options->work_bytes;
  bool counted = options->rows > 0 && options->samples > 0;
  int64_t held_out = counted ? rows - options->samples : llround((double)rows * data->validation);
  double steps = (double)config->train.steps;
  if (config->train.steps == 0)
    steps = ceil((double)config->train.epochs * (double)(rows - held_out) / (double)config->train.batch);
  if (steps > LS_LOG_CAPACITY) steps = LS_LOG_CAPACITY;
  p->evaluates = p->backend->host_memory && (held_out > 0 || (!counted && data->validation > 0));
  p->eval_samples = held_out > 0 ? held_out : rows > 0 ? rows : config->train.batch;
  p->data = (ls_train_data_size_t){.samples_bytes = options->text_bytes > 0 || data->kind == LS_DATA_TEXT
                                                        ? options->text_bytes
                                                        : ls_model_samples_bytes(&config->model, rows),
                                   .reading_bytes = options->reading_bytes,
                                   .beside = ls_train_saves_beside(config),
                                   .log_bytes = (int64_t)steps * (int64_t)sizeof(double)};
}

static ls_status_t check_only(const ls_planner_t *p, const ls_plan_options_t *options) {
  for (int i = 0; i < options->only_count; i++)
    if (options->only[i] < 1 || options->only[i] > p->devices)
      return ls_fail(
          p->ctx, LS_ERR_ARGUMENT,
          "plan: %lld devices were asked for, but no more than %d can be used (devices that are here, "
          "the limit set on them, samples of a batch)",
          (long long)options->only[i], p->devices);
  return LS_OK;
}

/* The option that the configuration has on and the machine that is not here cannot have, as far as a plan can tell. */
static const char *left_out(const ls_planner_t *p) {
  ls_strategy_options_t options = p->config->parallel.options;
  const char *off = ls_strategy_settle(&options, p->backend);
  return p->replay && !p->backend->host_memory ? off : NULL;
}

/* Whether so many devices are faster than one at the plan's own batch, which was timed itself. */
static bool wins_here(const ls_plan_t *plan, int devices) {
  double one_ns = INFINITY, many_ns = INFINITY;
  for (int i = 0; i < plan->count; i++) {
    const ls_candidate_t *c = &plan->candidate[i];
    if (!c->priced || !c->fits) continue;
    if (ls_candidate_devices(c) == 1) one_ns = fmin(one_ns, c->mean.high_ns);
    if (ls_candidate_devices(c) == devices) many_ns = fmin(many_ns, c->mean.high_ns);
  }
  return isfinite(one_ns) && many_ns < one_ns;
}

static ls_status_t search_crossover(ls_planner_t *p, const ls_plan_options_t *options, ls_plan_t *plan) {
  plan->batch_max = BATCH_MAX;
  p->free_bytes = ls_machine_memory_free("");
  for (int i = 0; i < plan->count; i++)
    if (plan->candidate[i].priced)
      p->flops_per_ns = fmax(p->flops_per_ns, plan->candidate[i].flops / plan->candidate[i].step.ns);
  for (int devices = 2; devices <= 4; devices *= 2) {
    if (devices > p->devices || !ls_engine_can_share(ls_config_batching(p->config), devices)) break;
    if (options->only_count > 0 && !ls_plan_asked_for(devices, options)) continue;
    ls_crossover_t *c = &plan->crossover[plan->crossover_count++];
    ls_status_t status = ls_plan_crossover(p, devices, plan->batch_max, c);
    if (status != LS_OK) return status;
    if (wins_here(plan, devices) && (c->batch < 0 || c->batch > plan->batch)) c->batch = plan->batch;
  }
  return LS_OK;
}

static ls_status_t count_params(ls_ctx_t *ctx, const ls_config_t *config, int64_t *params) {
  ls_graph_t *graph;
  ls_status_t status = ls_model_build(ctx, &config->model, 1, false, &graph);
  if (status != LS_OK) return status;
  *params = ls_graph_param_count(graph);
  ls_graph_destroy(graph);
  return LS_OK;
}

/* Whether an earlier candidate runs the same ops on the same ranks, however these exchange. */
static bool has_sibling(const ls_plan_t *plan, int i) {
  for (int k = 0; k < i; k++)
    if (strcmp(plan->candidate[k].family, plan->candidate[i].family) == 0) return true;
  return false;
}

/* Ranks that exchange while they are timed are timed with every size of buckets; else one timing serves all. */
static bool times_itself(const ls_planner_t *p, const ls_plan_t *plan, int i) {
  const ls_candidate_t *c = &plan->candidate[i];
  return c->fits && (!has_sibling(plan, i) ||
                     (ls_cost_together(p->backend, ls_candidate_devices(c)) && ls_candidate_timeable(p, c)));
}

/* Candidates without siblings before them come first: they are what the others can be priced from. */
static ls_status_t time_round(ls_planner_t *p, ls_plan_t *plan, int round, int64_t end_ns) {
  ls_status_t status = LS_OK;
  for (int further = 0; further < 2; further++)
    for (int i = 0; i < plan->count && status == LS_OK; i++) {
      ls_candidate_t *c = &plan->candidate[i];
      const int64_t now_ns = ls_clock_ns();
      const bool again = c->timed && now_ns + c->timing_ns < end_ns;
      if (has_sibling(plan, i) != further || !times_itself(p, plan, i) || (round > 0 && !again)) continue;
      status = ls_candidate_time(p, c);
      c->timing_ns = ls_clock_ns() - now_ns;
    }
  return status;
}

/* Other programs run for seconds, and threads that the system puts on one processor stay there. So a host is timed in
 * rounds, which meet all candidates alike. A separate device is not disturbed. */
static ls_status_t time_all(ls_planner_t *p, ls_plan_t *plan) {
  const int rounds = p->backend->host_processors ? LS_TIMING_ROUNDS : 1;
  const int64_t now_ns = ls_clock_ns(),
                most_ns = (int64_t)(part_for_rounds * (double)(p->deadline_ns - now_ns));
  ls_status_t status = LS_OK;
  int jobs = 0;
  for (int i = 0; i < plan->count; i++)
    jobs += times_itself(p, plan, i);
  p->window_ns = most_ns / rounds / (jobs > 0 ? jobs : 1);
  for (int round = 0; round < rounds && status == LS_OK; round++)
    status = time_round(p, plan, round, now_ns + most_ns);
  return status;
}

static ls_status_t mark_busy(ls_planner_t *p, const ls_plan_options_t *options, const ls_load_t *begin) {
  ls_load_t now;
  ls_load_read(options->stat_path, &now);
  return ls_busy_mark(p, ls_load_others(begin, &now));
}

static ls_status_t fill(ls_planner_t *p, const ls_plan_options_t *options, ls_plan_t *plan) {
  ls_status_t status = count_params(p->ctx, p->config, &plan->params);
  if (status == LS_OK) status = ls_plan_enumerate(p, options, plan);
  ls_load_t begin;
  ls_load_read(options->stat_path, &begin);
  if (status == LS_OK) status = time_all(p, plan);
  if (status == LS_OK) status = mark_busy(p, options, &begin);
  for (int i = 0; i < plan->count && status == LS_OK; i++) {
    status = ls_candidate_memory(p, &plan->candidate[i]);
    if (!p->process_bytes) p->process_bytes = plan->candidate[i].process_bytes;
    if (status == LS_OK) status = ls_candidate_price(p, &plan->candidate[i]);
  }
  for (int i = 0; i < plan->count; i++)
    plan->busy_share = fmax(plan->busy_share, plan->candidate[i].busy_share);
  if (status == LS_OK && !options->no_crossover) {
    status = search_crossover(p, options, plan);
    if (status == LS_OK) status = mark_busy(p, options, &begin);
  }
  if (status == LS_OK) status = ls_plan_conclude(p->config, plan);
  return status == LS_OK && plan->choice >= 0 ? ls_plan_purchases(p, plan) : status;
}

/* A plan for another machine needs no module: name and page size are enough to know its GPUs. */
static ls_status_t find_backend(ls_planner_t *p, const ls_plan_options_t *options) {
  static const ls_buffer_ops_t pages = {.page_bytes = (size_t)2 << 20};
  static const ls_backend_t cuda = {.name = "cuda", .tf32 = true, .buffer = &pages};
  const ls_machine_t *machine = ls_profile_machine(p->profile);
  const char *name = p->config->parallel.backend;
  p->replay = options->replay;
  p->cpus = p->replay && machine->usable_cpus > 0 ? machine->usable_cpus : ls_cpu_count();
  if (!p->replay) return ls_backend_find(p->ctx, name, &p->backend);
  bool gpus = strcmp(name, "cuda") == 0 || (strcmp(name, "auto") == 0 && machine->gpu_count > 0);
  p->backend = &cuda;
  if (gpus && machine->gpu_count < 1)
    return ls_fail(p->ctx, LS_ERR_UNSUPPORTED, "plan: the recorded machine has no GPU that could be read");
  return gpus ? LS_OK : ls_backend_find(p->ctx, strcmp(name, "auto") == 0 ? "cpu" : name, &p->backend);
}

ls_status_t ls_plan_make(ls_ctx_t *ctx, const ls_config_t *config, ls_profile_t *profile,
                         const ls_plan_options_t *options, ls_plan_t *out) {
  ls_plan_t plan = {.config = *config,
                    .samples = options->samples,
                    .batch = config->train.batch,
                    .shards = config->parallel.reproducible ? config->parallel.shards : 0,
                    .choice = -1};
  ls_planner_t p = {
      .ctx = ctx, .config = config, .profile = profile, .arena = &plan.arena, .fresh = options->fresh};
  ls_status_t status = find_backend(&p, options);
  if (status == LS_OK) status = ls_backend_check_math(ctx, p.backend, (ls_math_t)config->train.precision);
  if (status != LS_OK) return status;
  p.devices = count_devices(&p, options, config->train.batch);
  status = check_only(&p, options);
  if (status != LS_OK) return status;
  ls_arena_init(&plan.arena, ctx);
  double budget_s = options->budget_s > 0 ? options->budget_s : budget_default_s;
  p.deadline_ns = ls_clock_ns() + (int64_t)(budget_s * 1e9);
  p.memory_bytes = plan.memory_bytes = device_memory(profile, p.backend, options);
  p.host_memory_bytes = plan.host_memory_bytes =
      p.backend->host_memory ? 0 : less(ls_profile_machine(profile)->memory_bytes, spare_of_host);
  measure_data(config, options, &p);
  plan.backend = p.backend->name;
  plan.replayed = p.replay;
  plan.left_out = left_out(&p);
  plan.input = options->input;
  plan.precision = ls_math_names[config->train.precision];
  status = fill(&p, options, &plan);
  plan.timed = p.timed;
  plan.profile_changed = p.timed > 0;
  if (status == LS_OK && plan.choice < 0) status = ls_plan_nothing_chosen(ctx, &plan);
  if (status != LS_OK) {
    ls_plan_release(&plan);
    return status;
  }
  *out = plan;
  return LS_OK;
}

void ls_plan_release(ls_plan_t *plan) {
  ls_arena_release(&plan->arena);
  memset(plan, 0, sizeof *plan);
}
