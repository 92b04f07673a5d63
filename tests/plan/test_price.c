/* Schedules small enough to be priced by hand. */
#include "base/context.h"
#include "plan/price.h"
#include "probe/task_key.h"
#include "schedule/build.h"

#include <math.h>
#include <string.h>

#include "unit.h"

enum { TASKS_MAX = 16 };

/* Times by task, as the test says. */
typedef struct {
  ls_time_t time[TASKS_MAX];
  int unknown; /* this task is not known; -1 = none */
} table_t;

static ls_status_t from_table(void *user, const ls_schedule_t *s, int task, ls_time_t *time) {
  (void)s;
  const table_t *table = user;
  if (task == table->unknown) return LS_ERR_NOT_FOUND;
  *time = table->time[task];
  return LS_OK;
}

static ls_time_t exactly(double ns) {
  return (ls_time_t){ns, ns, ns};
}

static ls_cost_model_t model_of(table_t *table) {
  return (ls_cost_model_t){.task_time = from_table, .user = table};
}

/* 0 make a; 1 all-reduce a; 2 make b; 3 all-reduce b; 4 a + b: compute overlaps two sums, and then waits for them. */
static ls_schedule_t *two_sums(void) {
  ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
  int a = build_at(s, "a", BUILD_GRAD, 0, 64), b = build_at(s, "b", BUILD_GRAD, 64, 128);
  int c = build_transient(s, "c", 64);
  build_source(s, "make a", a);
  ls_schedule_collective(s, "sum a", LS_GROUP_WORLD, LS_ALL_REDUCE, a, a);
  build_source(s, "make b", b);
  ls_schedule_collective(s, "sum b", LS_GROUP_WORLD, LS_ALL_REDUCE, b, b);
  build_op2(s, &op_sum, "use", a, b, c);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  assert_int_equal(s->task_count, 5);
  return s;
}

static void check_times(const ls_price_t *price, const int64_t (*expected)[2], int count) {
  for (int t = 0; t < count; t++) {
    assert_int_equal(price->times[t].start_ns, expected[t][0]);
    assert_int_equal(price->times[t].end_ns, expected[t][1]);
  }
}

static void one_lane_is_a_sum(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 8), b = build_transient(s, "b", 8), c = build_transient(s, "c", 8);
  build_source(s, "source", a);
  build_op1(s, &op_double, "double", a, b);
  build_op1(s, &op_double, "again", b, c);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  table_t table = {.unknown = -1, .time = {exactly(10), exactly(20), exactly(30)}};
  ls_cost_model_t model = model_of(&table);
  model.step_overhead_ns = 5;
  ls_price_t price;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  check_times(&price, (const int64_t[][2]){{0, 10}, {10, 30}, {30, 60}}, 3);
  assert_true(price.step.ns == 65 && price.step.low_ns == 65 && price.step.high_ns == 65);
  assert_true(price.exposed_ns == 0);
  assert_true(price.parts_ns[LS_PHASE_STEP_REST] == 5);
  assert_true(price.parts_ns[LS_PHASE_STEP_FORWARD] == 60);
  ls_price_release(&price);
  assert_null(price.times);
  ls_schedule_destroy(s);
}

static void sums_hide_behind_computing(void **state) {
  ls_schedule_t *s = two_sums();
  table_t table = {.unknown = -1, .time = {exactly(10), exactly(30), exactly(20), exactly(15), exactly(5)}};
  ls_cost_model_t model = model_of(&table);
  ls_price_t price;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  /* sum a runs 10..40 while make b runs 10..30; sum b 40..55; use waits 30..55. */
  check_times(&price, (const int64_t[][2]){{0, 10}, {10, 40}, {10, 30}, {40, 55}, {55, 60}}, 5);
  assert_true(price.step.ns == 60);
  assert_true(price.exposed_ns == 25);
  double sum = 0;
  for (int p = 0; p < LS_PHASE_STEP_COUNT; p++)
    sum += price.parts_ns[p];
  assert_true(sum == 60);
  ls_price_release(&price);
  ls_schedule_destroy(s);
}

/* 0 make x; 1 side; 2 double; 3 update, which waits for side. */
static void lanes_that_both_compute_overlap(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int x = build_transient(s, "x", 8), y = build_transient(s, "y", 8);
  int dw = build_at(s, "dw", BUILD_GRAD, 0, 8), param = build_at(s, "param", BUILD_PARAM, 0, 8);
  build_source(s, "make x", x);
  ls_schedule_op(s, LS_LANE_SIDE, LS_PHASE_STEP_BACKWARD, "side", &op_double, NULL, 1, &x, 1, &dw);
  build_op1(s, &op_double, "double", x, y);
  build_op1(s, &op_update, "update", dw, param);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  table_t table = {.unknown = -1, .time = {exactly(10), exactly(30), exactly(20), exactly(5)}};
  ls_cost_model_t model = model_of(&table);
  ls_price_t price;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  check_times(&price, (const int64_t[][2]){{0, 10}, {10, 40}, {10, 30}, {40, 45}}, 4);
  assert_true(price.exposed_ns == 0);
  ls_price_release(&price);
  model.slowdown[LS_LANE_COMPUTE][LS_LANE_SIDE] = model.slowdown[LS_LANE_SIDE][LS_LANE_COMPUTE] = 2;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK); /* as one after the other */
  check_times(&price, (const int64_t[][2]){{0, 10}, {10, 60}, {10, 50}, {60, 65}}, 4);
  ls_price_release(&price);
  ls_schedule_destroy(s);
}

static void busy_lanes_slow_each_other(void **state) {
  ls_schedule_t *s = two_sums();
  table_t table = {.unknown = -1, .time = {exactly(10), exactly(30), exactly(20), exactly(15), exactly(5)}};
  ls_cost_model_t model = model_of(&table);
  model.slowdown[LS_LANE_COMPUTE][LS_LANE_COMM] = 2;
  model.slowdown[LS_LANE_COMM][LS_LANE_COMPUTE] = 1.5;
  ls_price_t price;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  /* make b: 20 at half speed, 10..50. sum a: 40 of time give 26.67 of its 30 work, the last 3.33
   * alone: 53.33. sum b alone 53.33..68.33, use 68.33..73.33. */
  check_times(&price, (const int64_t[][2]){{0, 10}, {10, 53}, {10, 50}, {53, 68}, {68, 73}}, 5);
  assert_true(fabs(price.step.ns - (73 + 1.0 / 3)) < 1e-9);
  ls_price_release(&price);
  ls_schedule_destroy(s);
}

/* Only the critical path counts: make a, sum a, sum b, use; make b has room. */
static void interval_follows_the_critical_path(void **state) {
  ls_schedule_t *s = two_sums();
  table_t table = {.unknown = -1, .time = {{10, 7, 10}, {30, 26, 42}, {20, 1, 25}, exactly(15), {5, 5, 10}}};
  ls_cost_model_t model = model_of(&table);
  ls_price_t price;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  assert_true(price.step.ns == 60);
  assert_true(fabs(price.step.low_ns - (60 - 5)) < 1e-9);   /* 3, 4 */
  assert_true(fabs(price.step.high_ns - (60 + 13)) < 1e-9); /* 12, 5 */
  ls_price_release(&price);
  model.model_error = 0.2; /* 12 of 60 */
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  assert_true(fabs(price.step.low_ns - (60 - 13)) < 1e-9); /* 5, 12 */
  ls_price_release(&price);
  ls_schedule_destroy(s);
}

static void stretched_tasks_have_stretched_intervals(void **state) {
  ls_schedule_t *s = two_sums();
  table_t table = {.unknown = -1, .time = {exactly(10), exactly(30), {30, 27, 30}, exactly(1), exactly(1)}};
  ls_cost_model_t model = model_of(&table);
  model.slowdown[LS_LANE_COMPUTE][LS_LANE_COMM] = 2; /* make b: 15 during sum a, the other 15 alone */
  ls_price_t price;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  double took = 30 + 15;
  assert_true(fabs(price.step.ns - (10 + took + 1 + 1)) < 1e-9);
  assert_true(fabs(price.step.ns - price.step.low_ns - 3 * took / 30) < 1e-9);
  ls_price_release(&price);
  ls_schedule_destroy(s);
}

static void what_is_not_known_cannot_be_priced(void **state) {
  ls_schedule_t *s = two_sums();
  table_t table = {.unknown = 3, .time = {exactly(1), exactly(1), exactly(1), exactly(1), exactly(1)}};
  ls_cost_model_t model = model_of(&table);
  ls_price_t price, before;
  memset(&price, 0x5a, sizeof price);
  memcpy(&before, &price, sizeof price);
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_ERR_NOT_FOUND);
  assert_memory_equal(&price, &before, sizeof price);
  assert_int_equal(ls_ctx_error_count(ctx), 0);
  table.unknown = -1;
  table.time[2] = exactly(NAN);
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_ERR_ARGUMENT);
  table.time[2] = exactly(-1);
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_ERR_ARGUMENT);
  ls_schedule_destroy(s);
}

static void tasks_without_time_end_at_once(void **state) {
  ls_schedule_t *s = two_sums();
  table_t table = {.unknown = -1};
  ls_cost_model_t model = model_of(&table);
  ls_price_t price;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  assert_true(price.step.ns == 0 && price.step.low_ns == 0 && price.step.high_ns == 0);
  ls_price_release(&price);
  ls_schedule_destroy(s);
}

static void waits_in_a_circle_are_refused(void **state) {
  ls_schedule_t *s = two_sums();
  int wait = 4, *old = s->tasks[1].wait,
      count = s->tasks[1].wait_count; /* sum a waits for use, which waits for it */
  s->tasks[1].wait = &wait;
  s->tasks[1].wait_count = 1;
  table_t table = {.unknown = -1};
  ls_cost_model_t model = model_of(&table);
  ls_price_t price;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_ERR_ARGUMENT);
  s->tasks[1].wait = old;
  s->tasks[1].wait_count = count;
  s->finished = false;
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_ERR_ARGUMENT);
  ls_schedule_destroy(s);
}

static void keys_say_what_a_time_depends_on(void **state) {
  ls_schedule_t *s = two_sums();
  char a[LS_PROFILE_KEY_BYTES], b[LS_PROFILE_KEY_BYTES];
  assert_string_equal(ls_task_key(s, 4, "cpu", 2, a), "op cpu t2 sum f32 (64) f32 (64) -> f32 (64)");
  assert_string_equal(ls_task_key(s, 0, "cpu", 2, a), "op cpu t2 source i0=64 -> f32 (64)");
  assert_string_equal(a, ls_task_key(s, 2, "cpu", 2, b)); /* another place, the same work */
  assert_string_not_equal(a, ls_task_key(s, 0, "cpu", 1, b));
  assert_string_not_equal(a, ls_task_key(s, 0, "ref", 2, b));
  ls_schedule_destroy(s);
}

static void attributes_beyond_the_fourth_are_part_of_the_key(void **state) {
  ls_schedule_t *s = two_sums();
  char key[LS_PROFILE_KEY_BYTES];
  s->tasks[0].attrs.i[15] = 3;
  s->tasks[0].attrs.f[7] = 0.5;
  assert_string_equal(ls_task_key(s, 0, "cpu", 2, key), "op cpu t2 source i0=64 i15=3 f7=0.5 -> f32 (64)");
  ls_schedule_destroy(s);
}

static void every_allocation_may_fail(void **state) {
  ls_schedule_t *s = two_sums();
  table_t table = {.unknown = -1};
  ls_cost_model_t model = model_of(&table);
  ls_price_t price;
  ls_ctx_fail_alloc(ctx, 0);
  assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_OK);
  ls_price_release(&price);
  int64_t allocations = ls_ctx_fail_alloc(ctx, 0);
  assert_true(allocations > 0);
  for (int64_t n = 1; n <= allocations; n++) {
    ls_ctx_fail_alloc(ctx, n);
    assert_int_equal(ls_schedule_price(ctx, s, &model, &price), LS_ERR_MEMORY);
  }
  ls_ctx_fail_alloc(ctx, 0);
  ls_schedule_destroy(s);
}

static ls_status_t first_dear(void *user, const ls_schedule_t *s, int task, ls_time_t *time) {
  (void)user, (void)s;
  const double ns = task == 0 ? 100 : 10;
  *time = (ls_time_t){ns, ns - 3, ns + 4};
  return LS_OK;
}

/* Members of one, two and three tasks. */
static ls_program_t three_members(int micro_batches) {
  ls_program_t p = {.micro_batches = micro_batches, .period = 1, .rule = ls_program_chain, .count = 3};
  ls_schedule_t *rows_of = build_begin(ctx, 0, 1, 3);
  for (int i = 0; i < p.count; i++) {
    assert_int_equal(ls_schedule_create(ctx, rows_of->state, 0, 1, 3, &p.member[i]), LS_OK);
    p.member[i]->name = "member";
    for (int k = 0; k <= i; k++)
      build_source(p.member[i], "task", build_transient(p.member[i], "x", 8));
    assert_int_equal(ls_schedule_finish(p.member[i]), LS_OK);
  }
  ls_schedule_destroy(rows_of);
  assert_int_equal(ls_program_finish(&p), LS_OK);
  return p;
}

static void a_step_costs_what_its_members_cost(void **state) {
  ls_program_t p = three_members(100);
  ls_cost_model_t model = {.task_time = first_dear, .step_overhead_ns = 1000, .model_error = 0.1};
  ls_price_t price, whole;
  const double ns = 1000 + 100 + 98 * 110 + 120, tasks = 1 + 98 * 2 + 3;
  double parts = 0;
  assert_int_equal(ls_program_price(ctx, &p, &model, &price), LS_OK);
  assert_float_equal(price.step.ns, ns, 1e-6);
  assert_float_equal(price.step.low_ns, ns - sqrt(9 * tasks + 0.01 * ns * ns), 1e-6);
  assert_float_equal(price.step.high_ns, ns + sqrt(16 * tasks + 0.01 * ns * ns), 1e-6);
  for (int k = 0; k < LS_PHASE_STEP_COUNT; k++)
    parts += price.parts_ns[k];
  assert_float_equal(parts, ns, 1e-6);
  ls_price_release(&price);
  ls_program_t one = ls_program_of(p.member[2]);
  assert_int_equal(ls_program_price(ctx, &one, &model, &price), LS_OK);
  assert_int_equal(ls_schedule_price(ctx, p.member[2], &model, &whole), LS_OK);
  assert_float_equal(price.step.ns, whole.step.ns, 1e-9);
  assert_float_equal(price.step.low_ns, whole.step.low_ns, 1e-9);
  assert_float_equal(price.step.high_ns, whole.step.high_ns, 1e-9);
  ls_price_release(&whole);
  ls_price_release(&price);
  ls_program_release(&p);
}

static int step_itself(const ls_program_t *p, int step, int m) {
  (void)p, (void)m;
  return step;
}

static void a_step_costs_the_mean_of_its_period(void **state) {
  ls_program_t p = three_members(1);
  p.period = 3;
  p.rule = step_itself;
  assert_int_equal(ls_program_finish(&p), LS_OK);
  ls_cost_model_t model = {.task_time = first_dear};
  ls_price_t price;
  assert_int_equal(ls_program_price(ctx, &p, &model, &price), LS_OK);
  assert_float_equal(price.step.ns, (100 + 110 + 120) / 3.0, 1e-6);
  ls_price_release(&price);
  ls_program_release(&p);
}

TESTS(context_setup, context_teardown, one_lane_is_a_sum, sums_hide_behind_computing,
      lanes_that_both_compute_overlap, busy_lanes_slow_each_other, interval_follows_the_critical_path,
      stretched_tasks_have_stretched_intervals, what_is_not_known_cannot_be_priced,
      tasks_without_time_end_at_once, waits_in_a_circle_are_refused, keys_say_what_a_time_depends_on,
      attributes_beyond_the_fourth_are_part_of_the_key, every_allocation_may_fail,
      a_step_costs_what_its_members_cost, a_step_costs_the_mean_of_its_period)
