/* Prices one candidate, and times it first if the profile lacks its step. */
#include "plan/candidate.h"
#include "plan/family.h"

#include <math.h>
#include <string.h>

enum { WINDOW_MIN_MS = 40, WINDOW_MAX_MS = 300 };

/* Contention factors: how ranks that compute at the same time slow each other. 1 for separate devices, and if
 * the ranks were timed together. */
static bool find_contention(const ls_planner_t *p, ls_cost_t *cost) {
  cost->contention_compute = cost->contention_memory = 1;
  if (!p->backend->host_processors || cost->ranks < 2 || ls_cost_together(p->backend, cost->ranks))
    return true;
  static const char *const kinds[] = {"compute", "memory"};
  double *const factors[] = {&cost->contention_compute, &cost->contention_memory};
  for (int i = 0; i < LS_COUNT(kinds); i++) {
    ls_profile_key(cost->key, (ls_profile_key_t){LS_KEY_CONTENTION, p->backend->name, kinds[i], cost->ranks,
                                                 cost->threads});
    double factor = ls_profile_value(p->profile, cost->key, -1);
    if (factor < 0) {
      cost->missing = cost->key;
      return false;
    }
    *factors[i] = fmax(factor, 1);
  }
  return true;
}

static ls_status_t make_cost(const ls_planner_t *p, ls_candidate_t *c, ls_cost_t *cost) {
  const ls_machine_t *machine = ls_profile_machine(p->profile);
  *cost = (ls_cost_t){.profile = p->profile,
                      .backend = p->backend,
                      .ranks = ls_candidate_devices(c),
                      .threads = ls_candidate_threads(c),
                      .rows = (double)c->rows,
                      .rank_bytes = c->fit.device_total_bytes - ls_fit_bytes(&c->fit, "data")};
  if (c->transport) ls_transport_key(c->transport, cost->transport);
  const ls_curve_point_t *memory;
  char key[LS_PROFILE_KEY_BYTES];
  int threads = p->backend->host_processors ? ls_candidate_threads(c) : 1; /* as probe keeps it */
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_DEVICE, p->backend->name, "memory", 0, threads});
  int points = ls_profile_curve(p->profile, key, &memory);
  if (points > 0 && memory[points - 1].bytes > 0)
    cost->memory_ns_per_byte = memory[points - 1].time.ns / memory[points - 1].bytes;
  if (machine->l2_bytes > 0 && machine->l3_bytes > 0)
    cost->cache_bytes =
        machine->l2_bytes * ls_candidate_threads(c) + machine->l3_bytes / ls_candidate_devices(c);
  ls_status_t status = c->family[0] ? LS_OK : ls_candidate_name(p, c);
  memcpy(cost->family, c->family, sizeof cost->family);
  ls_cost_timing(p->backend, c, cost->timing);
  return status;
}

/* All blocks of a candidate's timings count, quick and slow ones: a run has both. */
static ls_status_t add_blocks(ls_planner_t *p, ls_candidate_t *c, const ls_timing_t *timing) {
  if (!c->block) c->block = ls_arena_array(p->arena, LS_TIMING_ROUNDS * LS_TIMING_BLOCKS, sizeof *c->block);
  if (!c->block) return LS_ERR_MEMORY;
  memcpy(c->block + c->blocks, timing->block, (size_t)timing->blocks * sizeof *c->block);
  c->blocks += timing->blocks;
  return LS_OK;
}

static ls_status_t time_job(ls_planner_t *p, ls_candidate_t *c, const ls_timing_job_t *job,
                            const ls_cost_t *cost) {
  ls_timing_t timing;
  ls_status_t status = ls_timing_run(p->ctx, job, &timing);
  if (status != LS_OK) return status;
  status = add_blocks(p, c, &timing);
  if (status == LS_OK)
    status = ls_cost_keep_tasks(p->ctx, p->profile, cost->family, p->backend, ls_candidate_devices(c),
                                ls_candidate_threads(c), &timing);
  if (status == LS_OK && timing.process_bytes > 0)
    status = ls_cost_keep_process_bytes(p->profile, cost->family, c->rows, timing.process_bytes);
  if (status == LS_OK)
    status = ls_cost_keep_step(p->ctx, p->profile, cost->timing, c->rows, c->block, c->blocks, !p->searching);
  ls_timing_release(&timing);
  return status;
}

/* Another transport than the one between threads, and another machine, cannot be timed. */
bool ls_candidate_timeable(const ls_planner_t *p, const ls_candidate_t *c) {
  return !p->replay && (!c->transport || !p->backend->host_processors || ls_transport_is_usual(c->transport));
}

ls_status_t ls_candidate_time(ls_planner_t *p, ls_candidate_t *c) {
  ls_cost_t cost;
  ls_status_t status = make_cost(p, c, &cost);
  bool known = !p->fresh && ls_cost_known(p->profile, cost.timing, c->rows, !p->searching);
  p->any_known |= known;
  if (!p->replay && !ls_busy_timed(p, cost.timing, c->rows) &&
      ls_cost_busy(p->profile, cost.timing, c->rows) > 0)
    known = false;
  if (status != LS_OK || (known && !c->timed)) return status;
  if (p->replay) {
    status = ls_replay_time(p, c);
    return status == LS_ERR_NOT_FOUND ? LS_OK : status; /* it is listed as not priced */
  }
  const int64_t least_ns = WINDOW_MIN_MS * INT64_C(1000000), most_ns = WINDOW_MAX_MS * INT64_C(1000000);
  int64_t window_ns = p->window_ns < most_ns ? p->window_ns : most_ns;
  if (window_ns < least_ns) window_ns = least_ns;
  /* However late: a plan of nothing is none. */
  if (ls_clock_ns() + window_ns > p->deadline_ns && (p->any_known || p->searching)) return LS_OK;
  ls_timing_job_t job = {.config = &c->config,
                         .backend = p->backend,
                         .ranks = ls_candidate_devices(c),
                         .threads = ls_candidate_threads(c),
                         .together = ls_cost_together(p->backend, ls_candidate_devices(c)),
                         .data_rows = c->data_rows,
                         .eval_rows = p->evaluates
                                          ? ls_engine_eval_rows(ls_config_batching(&c->config),
                                                                p->eval_samples, ls_candidate_devices(c))
                                          : 0,
                         .window_ns = window_ns};
  status = time_job(p, c, &job, &cost);
  if (status == LS_OK && p->backend->host_processors) status = ls_busy_note(p, cost.timing, c->rows);
  if (status != LS_OK) return status;
  if (!c->timed) p->timed++;
  c->timed = p->any_known = true;
  return LS_OK;
}

/* The cost model with its times scaled. */
typedef struct {
  ls_cost_model_t model;
  const ls_scale_t *scale;
} scaled_t;

static ls_status_t scaled_time(void *user, const ls_schedule_t *s, int t, ls_time_t *time) {
  const scaled_t *scaled = user;
  const ls_task_t *task = &s->tasks[t];
  const ls_scale_t *scale = scaled->scale;
  bool input = task->kind == LS_TASK_COPY || task->phase == LS_PHASE_STEP_INPUT;
  ls_status_t status = scaled->model.task_time(scaled->model.user, s, t, time);
  if (status != LS_OK) return status;
  double by = task->kind == LS_TASK_COLLECTIVE ? scale->exchange : input ? scale->input : scale->compute;
  *time = ls_family_scaled(*time, by);
  return LS_OK;
}

static ls_status_t unpriced(const ls_planner_t *p, ls_candidate_t *c, const char *missing) {
  bool untimed = strncmp(missing, "step ", 5) == 0;
  c->priced = false;
  if (untimed && p->replay)
    c->why = ls_arena_printf(p->arena, "not priced: the recorded profile has no rates for its products");
  else if (untimed)
    c->why = ls_arena_printf(p->arena, "not priced: its ops were not timed within the time limit; allow more "
                                       "(--budget-ms)");
  else if (p->replay)
    c->why = ls_arena_printf(
        p->arena, "not priced: the recorded profile has no \"%s\", nor of fewer and more ranks", missing);
  else
    c->why = ls_arena_printf(p->arena, "not priced: the profile has no \"%s\"; run lockstep probe", missing);
  return c->why ? LS_OK : LS_ERR_MEMORY;
}

/* Adds the time for decoding samples. On a host, decoding takes the threads that compute. With a device the step waits only
 * if decoding takes longer than the step. */
static void add_input(const ls_planner_t *p, ls_candidate_t *c) {
  bool host = p->backend->host_processors;
  int threads = host ? ls_candidate_threads(c) : p->cpus / ls_candidate_devices(c);
  double ns = (double)(c->rows * ls_config_batching(&c->config).micro_batches) * p->input_ns /
              (threads > 1 ? threads : 1);
  if (p->scale) ns *= p->scale->input;
  double more = host ? ns : fmax(0, ns - c->step.ns);
  c->step = (ls_time_t){c->step.ns + more, c->step.low_ns + more, c->step.high_ns + more};
  c->mean = (ls_time_t){c->mean.ns + more, c->mean.low_ns + more, c->mean.high_ns + more};
  c->parts_ns[LS_PHASE_STEP_INPUT] += more;
}

/* The candidate's real schedule with the profile's times. */
static ls_status_t by_model(const ls_planner_t *p, ls_candidate_t *c, const ls_scale_t *scale,
                            ls_cost_t *cost, ls_price_t *price) {
  ls_cost_model_t model;
  ls_program_t program = {0};
  ls_status_t status = ls_candidate_lower(p, c, &program);
  if (status == LS_OK) status = make_cost(p, c, cost);
  if (status == LS_OK && !find_contention(p, cost)) status = LS_ERR_NOT_FOUND;
  if (status == LS_OK) status = ls_cost_model(cost, &model);
  scaled_t scaled = {.model = model, .scale = scale};
  if (scale) {
    model.task_time = scaled_time;
    model.user = &scaled;
  }
  if (status == LS_OK) status = ls_program_price(p->ctx, &program, &model, price);
  ls_program_release(&program);
  return status;
}

/* `of` at another median: its interval keeps its width in parts of it, and e is added to that. */
static ls_time_t moved(const ls_time_t *of, double ns, double e) {
  const double down = 1 - of->low_ns / of->ns, up = of->high_ns / of->ns - 1;
  return (ls_time_t){ns, ns * fmax(1 - hypot(down, e), 0), ns * (1 + hypot(up, e))};
}

/* The candidate whose timing a candidate's price begins with: itself, or the one with the configured options. */
static ls_candidate_t sibling(const ls_planner_t *p, const ls_candidate_t *c) {
  ls_candidate_t base =
      ls_candidate_make(p, ls_candidate_devices(c), ls_strategy_find(c->config.parallel.strategy));
  base.config.parallel.threads = c->config.parallel.threads;
  base.config.train = c->config.train;
  base.transport = ls_transport_default(p->backend);
  return base;
}

/* Several ranks spend the time beyond the model waiting for each other; a single rank spends it outside its tasks. If the
 * model is too long, all of its parts shrink alike. */
static void add_beyond(ls_candidate_t *c, double beyond_ns) {
  const double by = beyond_ns < 0 ? fmax(1 + beyond_ns / c->step.ns, 0) : 1, more_ns = fmax(beyond_ns, 0);
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    c->parts_ns[i] *= by;
  c->exposed_ns = c->exposed_ns * by + (ls_candidate_devices(c) > 1 ? more_ns : 0);
  c->parts_ns[ls_candidate_devices(c) > 1 ? LS_PHASE_STEP_COMM : LS_PHASE_STEP_REST] += more_ns;
}

/* The timing replaces the model if a whole step was timed. The model then only says where the time goes, what a purchase
 * would change, and by how much an untimed candidate differs from its timed sibling. */
static ls_status_t by_timing(const ls_planner_t *p, ls_candidate_t *c, const ls_cost_t *own) {
  ls_cost_t of = *own;
  ls_time_t step, mean;
  bool exact;
  double base_ns = c->step.ns;
  if (ls_candidate_devices(c) > 1 && !ls_cost_together(p->backend, ls_candidate_devices(c))) return LS_OK;
  const bool itself = (!c->transport || ls_transport_is_usual(c->transport)) &&
                      ls_cost_step(p->profile, own->timing, own->rows, &step, &mean, &exact);
  if (!itself || p->scale) {
    ls_price_t price;
    ls_candidate_t base = itself ? *c : sibling(p, c);
    ls_status_t status = by_model(p, &base, NULL, &of, &price);
    if (status != LS_OK) return status == LS_ERR_NOT_FOUND ? LS_OK : status;
    base_ns = price.step.ns;
    ls_price_release(&price);
  }
  if (!itself && !ls_cost_step(p->profile, of.timing, of.rows, &step, &mean, &exact)) return LS_OK;
  const bool shorter =
      step.ns < base_ns; /* than the model: its parts shrink, and what changes them with them */
  const double beyond_ns = shorter ? c->step.ns * (step.ns / base_ns - 1) : step.ns - base_ns,
               ns = c->step.ns + beyond_ns;
  add_beyond(c, beyond_ns);
  c->step = moved(&step, ns, ls_cost_error(exact && itself));
  c->mean = ls_family_scaled(mean, ns / step.ns);
  c->interpolated |= !exact;
  c->busy_share = ls_cost_busy(p->profile, of.timing, (int64_t)of.rows);
  return LS_OK;
}

ls_status_t ls_candidate_price(const ls_planner_t *p, ls_candidate_t *c) {
  ls_cost_t cost = {.missing = NULL};
  ls_price_t price;
  ls_status_t status = by_model(p, c, p->scale, &cost, &price);
  if (status == LS_ERR_NOT_FOUND && cost.missing) return unpriced(p, c, cost.missing);
  if (status != LS_OK) return status;
  const double skew_ns = ls_cost_skew_ns(&cost);
  c->priced = true;
  c->busy_share = ls_cost_busy(p->profile, cost.timing, c->rows);
  c->interpolated = cost.interpolated || p->replay;
  c->step = price.step;
  c->mean = (ls_time_t){price.step.ns, price.step.ns, price.step.ns};
  c->exposed_ns = price.exposed_ns + skew_ns;
  memcpy(c->parts_ns, price.parts_ns, sizeof c->parts_ns);
  ls_price_release(&price);
  c->parts_ns[LS_PHASE_STEP_REST] -= skew_ns;
  c->parts_ns[LS_PHASE_STEP_COMM] += skew_ns;
  status = by_timing(p, c, &cost);
  add_input(p, c);
  c->samples_per_s = (double)p->config->train.batch * 1e9 / c->mean.ns;
  return status;
}
