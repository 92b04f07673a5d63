/* Prices one candidate, and times it first if the profile lacks its step. */
#include "plan/candidate.h"
#include "plan/family.h"

#include <math.h>
#include <string.h>

enum { WINDOW_MIN_MS = 40, WINDOW_MAX_MS = 300 };
static const double faster = 0.93; /* if a timing is faster than the earlier one by this factor, the
                                    * earlier one was disturbed */

/* Contention factors: how ranks that compute at the same time slow each other. 1 for separate devices, and if
 * the ranks were timed together. */
static bool find_crowd(const ls_planner_t *p, ls_cost_t *cost) {
  cost->crowd_compute = cost->crowd_memory = 1;
  if (!p->backend->host_processors || cost->ranks < 2 || ls_cost_beside(p->backend, cost->ranks)) return true;
  static const char *const kinds[] = {"compute", "memory"};
  double *const factors[] = {&cost->crowd_compute, &cost->crowd_memory};
  for (int i = 0; i < LS_COUNT(kinds); i++) {
    ls_profile_key(cost->key,
                   (ls_profile_key_t){LS_KEY_CROWD, p->backend->name, kinds[i], cost->ranks, cost->threads});
    double factor = ls_profile_value(p->profile, cost->key, -1);
    if (factor < 0) {
      cost->missing = cost->key;
      return false;
    }
    *factors[i] = fmax(factor, 1);
  }
  return true;
}

static ls_status_t make_cost(const ls_planner_t *p, const ls_candidate_t *c, ls_cost_t *cost) {
  const ls_machine_t *machine = ls_profile_machine(p->profile);
  ls_config_t config = ls_plan_config(p->config, c);
  *cost = (ls_cost_t){.profile = p->profile,
                      .backend = p->backend,
                      .ranks = c->devices,
                      .threads = c->threads,
                      .rows = (double)c->rows,
                      .rank_bytes = c->fit.device_total_bytes - ls_fit_bytes(&c->fit, "data")};
  if (c->transport) ls_transport_key(c->transport, cost->transport);
  const ls_curve_point_t *memory;
  char key[LS_PROFILE_KEY_BYTES];
  int threads = p->backend->host_processors ? c->threads : 1; /* as probe keeps it */
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_DEVICE, p->backend->name, "memory", 0, threads});
  int points = ls_profile_curve(p->profile, key, &memory);
  if (points > 0 && memory[points - 1].bytes > 0)
    cost->memory_ns_per_byte = memory[points - 1].time.ns / memory[points - 1].bytes;
  if (machine->l2_bytes > 0 && machine->l3_bytes > 0)
    cost->cache_bytes = machine->l2_bytes * c->threads + machine->l3_bytes / c->devices;
  return ls_cost_family(p->ctx, &config, p->backend, c->devices, c->threads, cost->family);
}

/* Ranks of one machine exchange through its memory and with its processors. If the ranks are timed together,
 * the effect on the step is measured. */
static ls_status_t time_exchange(ls_planner_t *p, const ls_candidate_t *c, const ls_timing_job_t *job,
                                 bool again) {
  ls_timing_job_t with = *job;
  ls_timing_t timing;
  ls_cost_t cost;
  with.exchange = true;
  ls_status_t status = ls_timing_run(p->ctx, &with, &timing);
  if (status != LS_OK) return status;
  status = make_cost(p, c, &cost);
  if (status == LS_OK && find_crowd(p, &cost))
    status = ls_cost_keep_exchange(p->ctx, p->profile, &cost, &timing, again);
  ls_timing_release(&timing);
  return status;
}

static ls_status_t time_job(ls_planner_t *p, const ls_candidate_t *c, const ls_timing_job_t *job,
                            const char *family) {
  ls_timing_t timing;
  ls_status_t status = ls_timing_run(p->ctx, job, &timing);
  if (status != LS_OK) return status;
  bool counts = !c->timed || timing.period.ns < faster * ls_cost_period_ns(p->profile, family, c->rows);
  if (counts)
    status = ls_cost_keep(p->ctx, p->profile, family, p->backend, c->threads, &timing, !p->searching);
  ls_timing_release(&timing);
  return status == LS_OK && job->beside ? time_exchange(p, c, job, c->timed) : status;
}

ls_status_t ls_candidate_time(ls_planner_t *p, ls_candidate_t *c) {
  ls_config_t config = ls_plan_config(p->config, c);
  char family[LS_FAMILY_BYTES];
  ls_status_t status = ls_cost_family(p->ctx, &config, p->backend, c->devices, c->threads, family);
  bool known = !p->fresh && ls_cost_known(p->profile, family, c->rows, !p->searching);
  p->any_known |= known;
  if (!p->replay && !ls_busy_timed(p, family, c->rows) && ls_cost_busy(p->profile, family, c->rows) > 0)
    known = false;
  if (status != LS_OK || (known && !c->timed)) return status;
  if (p->replay) {
    status = ls_replay_time(p, c, family);
    return status == LS_ERR_NOT_FOUND ? LS_OK : status; /* it is listed as not priced */
  }
  int64_t left_ns = p->deadline_ns - ls_clock_ns();
  int64_t window_ns = left_ns / 4 / (p->jobs_left > 0 ? p->jobs_left : 1);
  if (window_ns > WINDOW_MAX_MS * INT64_C(1000000)) window_ns = WINDOW_MAX_MS * INT64_C(1000000);
  if (window_ns < WINDOW_MIN_MS * INT64_C(1000000)) {
    if (p->any_known || p->searching) return LS_OK;
    window_ns = WINDOW_MIN_MS * INT64_C(1000000); /* however late: a plan of nothing is none */
  }
  ls_timing_job_t job = {.config = &config,
                         .backend = p->backend,
                         .ranks = c->devices,
                         .threads = c->threads,
                         .beside = ls_cost_beside(p->backend, c->devices),
                         .data_rows = c->data_rows,
                         .window_ns = window_ns};
  status = time_job(p, c, &job, family);
  if (status == LS_OK && p->backend->host_processors) status = ls_busy_note(p, family, c->rows);
  if (status != LS_OK) return status;
  if (!c->timed) {
    p->timed++;
    p->jobs_left--;
  }
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

/* Samples that are decoded for their batch. On a host the threads that decode take the time of those that compute; beside
 * a device they are early enough, or the step waits for them. */
static void add_input(const ls_planner_t *p, ls_candidate_t *c) {
  bool host = p->backend->host_processors;
  int threads = host ? c->threads : p->cpus / c->devices;
  double ns = (double)(c->rows * c->accumulate) * p->input_ns / (threads > 1 ? threads : 1);
  if (p->scale) ns *= p->scale->input;
  double more = host ? ns : fmax(0, ns - c->step.ns);
  c->step = (ls_time_t){c->step.ns + more, c->step.low_ns + more, c->step.high_ns + more};
  c->parts_ns[LS_PHASE_STEP_INPUT] += more;
}

ls_status_t ls_candidate_price(const ls_planner_t *p, ls_candidate_t *c) {
  ls_cost_t cost;
  ls_cost_model_t model;
  ls_program_t program = {0};
  ls_price_t price;
  ls_status_t status = make_cost(p, c, &cost);
  if (status != LS_OK) return status;
  if (!find_crowd(p, &cost) || ls_cost_model(&cost, &model) != LS_OK) return unpriced(p, c, cost.missing);
  scaled_t scaled = {.model = model, .scale = p->scale};
  if (p->scale) {
    model.task_time = scaled_time;
    model.user = &scaled;
  }
  status = ls_candidate_lower(p, c, &program);
  if (status == LS_OK) status = ls_program_price(p->ctx, &program, &model, &price);
  ls_program_release(&program);
  if (status == LS_ERR_NOT_FOUND && cost.missing) return unpriced(p, c, cost.missing);
  if (status != LS_OK) return status;
  double skew_ns = ls_cost_skew_ns(&cost);
  c->priced = true;
  c->busy_share = ls_cost_busy(p->profile, cost.family, c->rows);
  c->interpolated = cost.interpolated || p->replay;
  c->step = price.step;
  c->exposed_ns = price.exposed_ns + skew_ns;
  memcpy(c->parts_ns, price.parts_ns, sizeof c->parts_ns);
  c->parts_ns[LS_PHASE_STEP_REST] -= skew_ns;
  c->parts_ns[LS_PHASE_STEP_COMM] += skew_ns;
  add_input(p, c);
  c->samples_per_s = (double)p->config->train.batch * 1e9 / c->step.ns;
  ls_price_release(&price);
  return LS_OK;
}
