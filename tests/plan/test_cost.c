/* Prices of candidates from a profile filled by hand. */
#include "setup.h"

#include <math.h>
#include <string.h>

static const char more[] = "train: {batch: 64, steps: 1}\n";

static void one_device_is_the_sum_of_its_tasks(void **state) {
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c = ls_candidate_make(&p, 1, NULL);
  int fixed, tasks = fill_timing(&p, &c, &(pace_t){10, 300, 77}, &fixed);
  assert_true(tasks > 4 && fixed > 1);
  assert_int_equal(ls_candidate_price(&p, &c), LS_OK);
  assert_true(c.priced && !c.interpolated);
  assert_true(fabs(c.step.ns - (tasks * 640 + fixed * 300 + 77)) < 1e-6);
  assert_true(c.step.low_ns < c.step.ns && c.step.high_ns > c.step.ns);
  assert_true(c.exposed_ns == 0);
  assert_true(fabs(c.samples_per_s - 64e9 / c.step.ns) < 1e-3);
  double sum = 0;
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    sum += c.parts_ns[i];
  assert_true(fabs(sum - c.step.ns) < 1);
}

static void two_devices_add_what_they_exchange(void **state) {
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c = ls_candidate_make(&p, 2, NULL);
  int fixed, tasks = fill_timing(&p, &c, &(pace_t){10, 300, 0, 5000}, &fixed);
  assert_int_equal(c.rows, 32);
  assert_int_equal(c.collectives, 1);
  fill_all_reduce(profile, 2, 5000);
  assert_int_equal(ls_candidate_price(&p, &c), LS_OK);
  assert_true(c.priced);
  assert_true(fabs(c.step.ns - (tasks * 320 + fixed * 300 + 5000)) < 1e-6);
  assert_true(c.exposed_ns > 4000); /* the only bucket is ready at the end: next to nothing hides it */
  assert_true(c.exposed_ns <= 5000);
}

/* Eight shards of 8 rows: the schedule that is priced has four on each of two ranks, gathers and adds them.
 */
static void shards_are_priced_with_what_they_gather(void **state) {
  config->parallel.reproducible = true;
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t one = ls_candidate_make(&p, 1, NULL), two = ls_candidate_make(&p, 2, NULL);
  int fixed, tasks = fill_timing(&p, &one, &(pace_t){10, 300, 0}, &fixed);
  assert_int_equal(one.rows, 8);
  assert_int_equal(ls_candidate_price(&p, &one), LS_OK);
  assert_true(fabs(one.step.ns - (tasks * 80 + fixed * 300)) < 1e-6);
  int fixed_two, tasks_two = fill_timing(&p, &two, &(pace_t){10, 300, 0, 5000}, &fixed_two);
  assert_int_equal(two.rows, 8);
  assert_true(tasks_two < tasks && 2 * tasks_two < tasks + 8);
  assert_int_equal(fixed_two, fixed + 1); /* the sum over ranks */
  fill_all_reduce(profile, 2, 1);
  fill_all_gather(profile, 2, 5000);
  assert_int_equal(ls_candidate_price(&p, &two), LS_OK);
  assert_true(two.priced);
  assert_true(fabs(two.step.ns - (tasks_two * 80 + fixed_two * 300 + 5000)) < 1e-6);
  /* one rank: the sum, and two levels of its tree of eight; two: the sum, one level, and both ranks' parts */
  assert_int_equal(3 * ls_fit_bytes(&two.fit, "gradients"), 4 * ls_fit_bytes(&one.fit, "gradients"));
}

static void memory_does_not_change_the_shards(void **state) {
  config->parallel.reproducible = true;
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c = ls_candidate_make(&p, 1, NULL);
  p.memory_bytes = 1;
  assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
  assert_false(c.fits);
  assert_int_equal(c.config.train.accumulate, 1);
}

/* A plan of ranks that exchange was the sum of what they take alone and a curve of idle ranks: a step of 24 us was
 * predicted at 9. Now what was timed is the price, whatever the curve says; what the model lacks is waiting. */
static void ranks_that_were_timed_together_are_priced_as_timed(void **state) {
  static const double curve_ns[] = {0, 5000, 5000, 5000, 18000}, wait_ns[] = {7, 5000, 15000, 4000, 500};
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c = ls_candidate_make(&p, 2, NULL);
  for (int i = 0; i < LS_COUNT(curve_ns); i++) {
    int fixed, tasks = fill_timing(&p, &c, &(pace_t){10, 300, 0, wait_ns[i]}, &fixed);
    fill_all_reduce(profile, 2, curve_ns[i]);
    assert_int_equal(ls_candidate_price(&p, &c), LS_OK);
    const double compute_ns = tasks * 320 + fixed * 300;
    assert_true(fabs(c.step.ns - (compute_ns + wait_ns[i])) < 1e-6);
    assert_true(c.mean.ns == c.step.ns && !c.interpolated);
    double sum = 0;
    for (int k = 0; k < LS_PHASE_STEP_COUNT; k++)
      sum += c.parts_ns[k];
    assert_true(fabs(sum - c.step.ns) < 1);
    if (wait_ns[i] >= curve_ns[i])
      assert_true(c.exposed_ns > 0.8 * wait_ns[i] && c.exposed_ns < wait_ns[i] + 1);
  }
}

/* Other buckets and other transports than those that were timed: by as much more as the model says. */
static void what_was_not_timed_differs_as_modelled(void **state) {
  static const double curve_ns = 5000, wait_ns = 7500;
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c = ls_candidate_make(&p, 2, NULL), other = c;
  int fixed;
  fill_timing(&p, &c, &(pace_t){10, 300, 0, wait_ns}, &fixed);
  fill_all_reduce(profile, 2, curve_ns);
  assert_int_equal(ls_candidate_price(&p, &c), LS_OK);
  other.config.parallel.options.bucket_bytes = 1;
  assert_int_equal(ls_candidate_price(&p, &other), LS_OK);
  assert_true(other.priced && other.collectives > 1);
  const double more_ns = (other.collectives - 1) * curve_ns;
  assert_true(other.step.ns > c.step.ns && other.step.ns < c.step.ns + 1.2 * more_ns);
  assert_true(other.step.high_ns / other.step.ns > c.step.high_ns / c.step.ns); /* and less sure */
}

static void worlds_between_measured_ones_lie_on_a_line(void **state) {
  ls_time_t t;
  fill_all_reduce(profile, 2, 1000);
  assert_true(ls_cost_collective(profile, "all-reduce", "mpi", 2, 100, &t));
  assert_true(t.ns == 1000 && t.low_ns == 1000 && t.high_ns == 1000);
  assert_false(ls_cost_collective(profile, "all-reduce", "mpi", 3, 100, &t)); /* beyond all is not guessed */
  fill_all_reduce(profile, 4, 4000);
  assert_true(ls_cost_collective(profile, "all-reduce", "mpi", 3, 100, &t));
  assert_true(t.ns == 2500 && t.low_ns < 1000 && t.high_ns > 4000);
  assert_false(ls_cost_collective(profile, "all-reduce", "mpi", 5, 100, &t));
  fill_all_reduce(profile, 8, 5000);
  assert_true(ls_cost_collective(profile, "all-reduce", "mpi", 5, 100, &t));
  assert_true(t.ns == 4250);
  assert_false(ls_cost_collective(profile, "all-gather", "mpi", 3, 100, &t));
}

static void between_measured_rows_times_are_linear(void **state) {
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c;
  int fixed, tasks = 0;
  const int64_t batches[] = {16, 64};
  for (int i = 0; i < LS_COUNT(batches); i++) {
    config->train.batch = batches[i];
    c = ls_candidate_make(&p, 1, NULL);
    tasks = fill_timing(&p, &c, &(pace_t){10, 300, 50}, &fixed);
  }
  const int64_t asked[] = {16, 32, 64, 640};
  for (int i = 0; i < LS_COUNT(asked); i++) {
    config->train.batch = asked[i];
    c = ls_candidate_make(&p, 1, NULL);
    ls_program_t program;
    assert_int_equal(ls_candidate_lower(&p, &c, &program), LS_OK);
    ls_program_release(&program);
    assert_int_equal(ls_candidate_price(&p, &c), LS_OK);
    assert_true(c.priced);
    assert_int_equal(c.interpolated, i == 1 || i == 3);
    assert_true(fabs(c.step.ns - (tasks * 10.0 * (double)asked[i] + fixed * 300 + 50)) < 1e-3);
  }
}

static void what_is_missing_is_named_with_its_remedy(void **state) {
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  ls_planner_t p = small_planner(ctx, config, profile);
  p.arena = &arena;
  ls_candidate_t c = ls_candidate_make(&p, 2, NULL);
  int fixed;
  assert_int_equal(ls_candidate_price(&p, &c), LS_OK);
  assert_false(c.priced);
  assert_non_null(strstr(c.why, "not timed"));
  fill_timing(&p, &c, &(pace_t){10, 300, 0}, &fixed);
  assert_int_equal(ls_candidate_price(&p, &c), LS_OK);
  assert_false(c.priced);
  assert_non_null(strstr(c.why, "all-reduce"));
  assert_non_null(strstr(c.why, "lockstep probe"));
  assert_int_equal(ls_ctx_error_count(ctx), 0);
  ls_arena_release(&arena);
}

/* The name of the timings of `devices` with so many threads. */
static const char *family_of(const ls_config_t *of, const ls_backend_t *backend, int devices, int threads,
                             char name[LS_FAMILY_BYTES]) {
  ls_planner_t p = small_planner(ctx, of, profile);
  p.backend = backend;
  ls_candidate_t c = ls_candidate_make(&p, devices, NULL);
  c.config.parallel.threads = threads;
  assert_int_equal(ls_candidate_name(&p, &c), LS_OK);
  memcpy(name, c.family, sizeof c.family);
  return name;
}

/* Other ops, another optimizer, another precision: other families. Another batch, other buckets: the same. */
static void families_hold_what_times_depend_on(void **state) {
  static const struct {
    bool same;
    const char *more;
  } rows[] = {{true, "train: {batch: 128}"},
              {true, "parallel: {bucket_bytes: 1}"},
              {true, "parallel: {side_lane: on}"}, /* a host has none */
              {false, "train: {accumulate: 2}"},
              {false, "train: {clip_norm: 1}"},
              {false, "train: {precision: bf16}"},
              {false, "train: {optimizer: {name: sgd}}"},
              {false, "parallel: {reproducible: true}"},
              {false, "parallel: {wire: bf16}"},
              {false, "parallel: {bind: false}"}};
  char a[LS_FAMILY_BYTES], b[LS_FAMILY_BYTES];
  family_of(config, &ls_backend_ref, 2, 1, a);
  assert_int_equal(strncmp(a, "step ref t1 of 2 ", 17), 0);
  assert_string_not_equal(a, family_of(config, &ls_backend_ref, 2, 2, b));
  assert_string_not_equal(a, family_of(config, &ls_backend_ref, 1, 1, b));
  assert_string_not_equal(a, family_of(config, &ls_backend_cpu, 2, 1, b));
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_config_t *other = small_config(ctx, rows[i].more);
    family_of(other, &ls_backend_ref, 2, 1, b);
    if ((strcmp(a, b) == 0) != rows[i].same) fail_msg("%s: %s and %s", rows[i].more, a, b);
    ls_config_destroy(other);
  }
}

/* candidate.buckets counted collectives: two cuts with an equal number of them were one schedule, and one timing. */
static void two_cuts_with_as_many_buckets_are_two_schedules(void **state) {
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c[64];
  char timing[LS_COUNT(c)][LS_FAMILY_BYTES];
  int pairs = 0;
  for (int i = 0; i < LS_COUNT(c); i++) {
    ls_program_t program;
    c[i] = ls_candidate_make(&p, 2, NULL);
    c[i].config.parallel.options.bucket_bytes = 4 * i + 1;
    assert_int_equal(ls_candidate_lower(&p, &c[i], &program), LS_OK);
    ls_program_release(&program);
    assert_int_equal(ls_candidate_name(&p, &c[i]), LS_OK);
    ls_cost_timing(p.backend, &c[i], timing[i]);
    for (int k = 0; k < i; k++) {
      assert_string_equal(c[i].family, c[k].family);
      assert_int_equal(c[i].schedule == c[k].schedule, c[i].cut == c[k].cut);
      assert_int_equal(c[i].cut == c[k].cut, !strcmp(timing[i], timing[k]));
      pairs += c[i].collectives == c[k].collectives && c[i].cut != c[k].cut;
    }
  }
  assert_true(pairs > 0);
}

/* A backend that computes on two streams: both kinds of step have times of their own, and the price is what the whole
 * step took. The second stream's memory is counted. */
static void a_side_lane_is_priced_as_it_was_measured(void **state) {
  ls_backend_t device = ls_backend_ref;
  device.host_memory = device.synchronous = device.host_processors = false;
  device.side_bytes = 1 << 20;
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  p.arena = &arena;
  p.backend = &device;
  ls_candidate_t off = ls_candidate_make(&p, 1, NULL), on = off;
  assert_int_equal(off.config.parallel.options.side_lane, LS_SIDE_OFF);
  on.config.parallel.options.side_lane = LS_SIDE_ON;
  int fixed, tasks = fill_timing(&p, &off, &(pace_t){10, 300, 0}, &fixed);
  assert_int_equal(ls_candidate_fit(&p, &off), LS_OK);
  assert_int_equal(ls_candidate_fit(&p, &on), LS_OK);
  assert_int_equal(on.need.side_bytes, 1 << 20);
  assert_int_equal(off.need.side_bytes, 0);
  assert_int_equal(on.need.captured_bytes, off.need.captured_bytes);
  assert_int_equal(ls_candidate_price(&p, &off), LS_OK);
  assert_true(off.priced && fabs(off.step.ns - (tasks * 640 + fixed * 300)) < 1e-6);
  assert_int_equal(ls_candidate_price(&p, &on), LS_OK);
  assert_false(on.priced);
  assert_int_equal(fill_timing(&p, &on, &(pace_t){10, 300, -700}, &fixed), tasks);
  assert_int_equal(ls_candidate_price(&p, &on), LS_OK);
  assert_true(on.priced && fabs(on.step.ns - (off.step.ns - 700)) < 1e-6);

  config->parallel.options.side_lane = LS_SIDE_ON;
  assert_int_equal(ls_candidate_make(&p, 1, NULL).config.parallel.options.side_lane, LS_SIDE_ON);
  p.backend = &ls_backend_ref;
  assert_int_equal(ls_candidate_make(&p, 1, NULL).config.parallel.options.side_lane, LS_SIDE_OFF);
  ls_arena_release(&arena);
}

static void every_allocation_may_fail(void **state) {
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c = ls_candidate_make(&p, 2, NULL);
  int fixed;
  fill_timing(&p, &c, &(pace_t){10, 300, 0}, &fixed);
  fill_all_reduce(profile, 2, 100);
  ls_ctx_fail_alloc(ctx, 0);
  assert_int_equal(ls_candidate_price(&p, &c), LS_OK);
  int64_t allocations = ls_ctx_fail_alloc(ctx, 0);
  for (int64_t n = 1; n <= allocations; n++) {
    ls_ctx_fail_alloc(ctx, n);
    assert_int_equal(ls_candidate_price(&p, &c), LS_ERR_MEMORY);
  }
  ls_ctx_fail_alloc(ctx, 0);
}

int main(void) {
#define TEST(name) PLAN_TEST(name, more)
  const struct CMUnitTest tests[] = {
      TEST(one_device_is_the_sum_of_its_tasks),
      TEST(two_devices_add_what_they_exchange),
      TEST(ranks_that_were_timed_together_are_priced_as_timed),
      TEST(what_was_not_timed_differs_as_modelled),
      TEST(worlds_between_measured_ones_lie_on_a_line),
      TEST(shards_are_priced_with_what_they_gather),
      TEST(memory_does_not_change_the_shards),
      TEST(between_measured_rows_times_are_linear),
      TEST(what_is_missing_is_named_with_its_remedy),
      TEST(families_hold_what_times_depend_on),
      TEST(two_cuts_with_as_many_buckets_are_two_schedules),
      TEST(a_side_lane_is_priced_as_it_was_measured),
      TEST(every_allocation_may_fail),
  };
  return cmocka_run_group_tests_name("cost", tests, NULL, NULL);
}
