/* Prices a schedule: an event-driven simulation of its lanes. An event is the end of a task. Between two
 * events every running task works at a constant rate, which depends on the other busy lanes. */
#include "plan/price.h"

#include <math.h>
#include <string.h>

typedef struct {
  const ls_schedule_t *s;
  const ls_cost_model_t *model;
  ls_time_t *alone;    /* per task */
  double *left_ns;     /* per task: remaining work, as time alone */
  double *start, *end; /* per task */
  bool *done;
  int *before;             /* per task: the task that let it start, -1 = the step's beginning */
  int *after_lane;         /* per task: the task before it on its lane, -1 = none */
  int head[LS_LANE_COUNT]; /* next task of each lane in list order; task_count = none is left */
  bool running[LS_LANE_COUNT];
  double now_ns;
} sim_t;

void ls_cost_model_overlap(ls_cost_model_t *model, double compute, double comm) {
  for (int a = 0; a < LS_LANE_COUNT; a++)
    for (int b = 0; b < LS_LANE_COUNT; b++)
      model->slowdown[a][b] = 1;
  model->slowdown[LS_LANE_COMPUTE][LS_LANE_COMM] = model->slowdown[LS_LANE_SIDE][LS_LANE_COMM] = compute;
  model->slowdown[LS_LANE_COMM][LS_LANE_COMPUTE] = comm;
}

static int next_on_lane(const ls_schedule_t *s, int lane, int from) {
  while (from < s->task_count && (int)s->tasks[from].lane != lane)
    from++;
  return from;
}

static ls_status_t ask_times(ls_ctx_t *ctx, sim_t *sim) {
  for (int t = 0; t < sim->s->task_count; t++) {
    ls_time_t *time = &sim->alone[t];
    ls_status_t status = sim->model->task_time(sim->model->user, sim->s, t, time);
    if (status != LS_OK) return status;
    if (!isfinite(time->ns) || time->ns < 0 || !isfinite(time->low_ns) || !isfinite(time->high_ns))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "price: the time of task '%s' is %g ns", sim->s->tasks[t].name,
                     time->ns);
    sim->left_ns[t] = time->ns;
  }
  return LS_OK;
}

/* Whether everything for which the task waits is over; *last is what ended last, its lane included. */
static bool ready(const sim_t *sim, int t, int *last) {
  const ls_task_t *task = &sim->s->tasks[t];
  *last = sim->after_lane[t];
  for (int i = 0; i < task->wait_count; i++) {
    int w = task->wait[i];
    if (!sim->done[w]) return false;
    if (*last < 0 || sim->end[w] > sim->end[*last]) *last = w;
  }
  return true;
}

static void start_ready(sim_t *sim) {
  for (int lane = 0; lane < LS_LANE_COUNT; lane++) {
    int t = sim->head[lane], last;
    if (sim->running[lane] || t == sim->s->task_count || !ready(sim, t, &last)) continue;
    sim->running[lane] = true;
    sim->start[t] = sim->now_ns;
    sim->before[t] = last;
  }
}

/* How many times longer the lane's task takes with the lanes that are busy now. */
static double stretch(const sim_t *sim, int lane) {
  double factor = 1;
  for (int other = 0; other < LS_LANE_COUNT; other++)
    if (other != lane && sim->running[other]) factor += fmax(sim->model->slowdown[lane][other] - 1, 0);
  return factor;
}

static void finish(sim_t *sim, int lane) {
  int t = sim->head[lane];
  sim->end[t] = sim->now_ns;
  sim->done[t] = true;
  sim->running[lane] = false;
  sim->head[lane] = next_on_lane(sim->s, lane, t + 1);
  if (sim->head[lane] < sim->s->task_count) sim->after_lane[sim->head[lane]] = t;
}

/* Advances to the next end of a task. False if nothing runs. */
static bool advance(sim_t *sim) {
  double factor[LS_LANE_COUNT], step_ns = INFINITY;
  int first = -1;
  for (int lane = 0; lane < LS_LANE_COUNT; lane++) {
    if (!sim->running[lane]) continue;
    factor[lane] = stretch(sim, lane);
    double ns = sim->left_ns[sim->head[lane]] * factor[lane];
    if (ns < step_ns) {
      step_ns = ns;
      first = lane;
    }
  }
  if (first < 0) return false;
  sim->now_ns += step_ns;
  for (int lane = 0; lane < LS_LANE_COUNT; lane++)
    if (sim->running[lane] && lane != first) sim->left_ns[sim->head[lane]] -= step_ns / factor[lane];
  finish(sim, first);
  return true;
}

static ls_status_t simulate(ls_ctx_t *ctx, sim_t *sim) {
  const ls_schedule_t *s = sim->s;
  for (int lane = 0; lane < LS_LANE_COUNT; lane++)
    sim->head[lane] = next_on_lane(s, lane, 0);
  for (int t = 0; t < s->task_count; t++)
    sim->before[t] = sim->after_lane[t] = -1;
  for (int over = 0; over < s->task_count; over++) {
    start_ready(sim);
    if (!advance(sim)) return ls_fail(ctx, LS_ERR_ARGUMENT, "price: the schedule's tasks wait in a circle");
  }
  return LS_OK;
}

static int last_of_all(const sim_t *sim) {
  int last = 0;
  for (int t = 1; t < sim->s->task_count; t++)
    if (sim->end[t] > sim->end[last]) last = t;
  return last;
}

/* The formula is in the header. */
static ls_time_t step_time(const sim_t *sim) {
  int t = last_of_all(sim);
  double step_ns = sim->end[t] + sim->model->step_overhead_ns;
  double common = sim->model->model_error * step_ns, down = common * common, up = down;
  for (; t >= 0; t = sim->before[t]) {
    const ls_time_t *alone = &sim->alone[t];
    double s = alone->ns > 0 ? (sim->end[t] - sim->start[t]) / alone->ns : 1;
    double low = s * fmax(alone->ns - alone->low_ns, 0), high = s * fmax(alone->high_ns - alone->ns, 0);
    down += low * low;
    up += high * high;
  }
  return (ls_time_t){.ns = step_ns, .low_ns = fmax(step_ns - sqrt(down), 0), .high_ns = step_ns + sqrt(up)};
}

static void summarise(const sim_t *sim, ls_price_t *price) {
  for (int t = 0; t < sim->s->task_count; t++)
    price->times[t] = (ls_task_time_t){llround(sim->start[t]), llround(sim->end[t])};
  int64_t parts_ns[LS_PHASE_STEP_COUNT];
  ls_schedule_parts(sim->s, price->times, parts_ns);
  for (int p = 0; p < LS_PHASE_STEP_COUNT; p++)
    price->parts_ns[p] = (double)parts_ns[p];
  price->parts_ns[LS_PHASE_STEP_REST] += sim->model->step_overhead_ns;
  price->exposed_ns = price->parts_ns[LS_PHASE_STEP_COMM];
  price->step = step_time(sim);
}

ls_status_t ls_schedule_price(ls_ctx_t *ctx, const ls_schedule_t *s, const ls_cost_model_t *model,
                              ls_price_t *out) {
  if (!s->finished || s->task_count == 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "price: the schedule is not finished or empty");
  size_t count = (size_t)s->task_count;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  sim_t sim = {.s = s, .model = model};
  ls_price_t price = {.times = ls_alloc_array(ctx, count, sizeof *price.times)};
  sim.alone = ls_arena_array(&arena, count, sizeof *sim.alone);
  sim.left_ns = ls_arena_array(&arena, count, sizeof *sim.left_ns);
  sim.start = ls_arena_array(&arena, count, sizeof *sim.start);
  sim.end = ls_arena_array(&arena, count, sizeof *sim.end);
  sim.done = ls_arena_array(&arena, count, sizeof *sim.done);
  sim.before = ls_arena_array(&arena, count, sizeof *sim.before);
  sim.after_lane = ls_arena_array(&arena, count, sizeof *sim.after_lane);
  bool have = price.times && sim.alone && sim.left_ns && sim.start && sim.end && sim.done && sim.before &&
              sim.after_lane;
  ls_status_t status = have ? ask_times(ctx, &sim) : LS_ERR_MEMORY;
  if (status == LS_OK) status = simulate(ctx, &sim);
  if (status == LS_OK) summarise(&sim, &price);
  ls_arena_release(&arena);
  if (status != LS_OK) {
    ls_price_release(&price);
    return status;
  }
  *out = price;
  return LS_OK;
}

ls_status_t ls_program_price(ls_ctx_t *ctx, const ls_program_t *p, const ls_cost_model_t *model,
                             ls_price_t *out) {
  ls_cost_model_t bare = *model;
  ls_price_t sum = {.step = {.ns = model->step_overhead_ns}};
  double down = 0, up = 0;
  bare.step_overhead_ns = bare.model_error = 0;
  sum.parts_ns[LS_PHASE_STEP_REST] = model->step_overhead_ns;
  for (int i = 0; i < p->count; i++) {
    ls_price_t one;
    double n = ls_program_times(p, i);
    ls_status_t status = ls_schedule_price(ctx, p->member[i], &bare, &one);
    if (status != LS_OK) return status;
    sum.step.ns += n * one.step.ns;
    sum.exposed_ns += n * one.exposed_ns;
    for (int k = 0; k < LS_PHASE_STEP_COUNT; k++)
      sum.parts_ns[k] += n * one.parts_ns[k];
    down += n * (one.step.ns - one.step.low_ns) * (one.step.ns - one.step.low_ns);
    up += n * (one.step.high_ns - one.step.ns) * (one.step.high_ns - one.step.ns);
    ls_price_release(&one);
  }
  double common = model->model_error * sum.step.ns;
  sum.step.low_ns = fmax(sum.step.ns - sqrt(down + common * common), 0);
  sum.step.high_ns = sum.step.ns + sqrt(up + common * common);
  *out = sum;
  return LS_OK;
}

void ls_price_release(ls_price_t *price) {
  ls_free(price->times);
  memset(price, 0, sizeof *price);
}
