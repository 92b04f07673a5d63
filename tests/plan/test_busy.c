/* Timings made while other programs ran: they were reused by every later plan without a word. */
#include "setup.h"

#include <math.h>
#include <string.h>

static const char more[] = "train: {batch: 64, steps: 1}\nparallel: {backend: ref, bucket_bytes: 1}\n";

/* The profile of an earlier plan, whose timing of so many devices was made beside something else. */
static void record_busy(int devices, double row_ns, double share) {
  ls_arena_t arena;
  char name[LS_FAMILY_BYTES];
  int fixed;
  ls_arena_init(&arena, ctx);
  ls_planner_t p = small_planner(ctx, config, profile);
  p.arena = &arena;
  p.data_rows = 640;
  ls_candidate_t c = ls_candidate_make(&p, devices, NULL);
  const pace_t pace = {row_ns, 1000, 0};
  assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
  fill_timing(&p, &c, &pace, &fixed);
  ls_cost_timing(p.backend, &c, name);
  assert_int_equal(ls_busy_note(&p, name, c.rows), LS_OK);
  assert_int_equal(ls_busy_mark(&p, share), LS_OK);
  assert_true(ls_cost_busy(profile, name, c.rows) == (share > 0.1 ? share : 0));
  ls_arena_release(&arena);
}

static const int64_t one_device = 1;
/* Nothing is read of this machine's load, so that it does not matter. */
static ls_plan_options_t options_of(double budget_s) {
  return (ls_plan_options_t){.only = &one_device,
                             .only_count = 1,
                             .samples = 640,
                             .no_crossover = true,
                             .stat_path = "/nonexistent/stat",
                             .budget_s = budget_s};
}

static void busy_timings_are_made_again_and_the_mark_goes(void **state) {
  ls_plan_options_t options = options_of(5);
  ls_plan_t plan;
  record_busy(1, 1000, 0.43);
  assert_int_equal(ls_plan_make(ctx, config, profile, &options, &plan), LS_OK);
  assert_int_equal(plan.timed, 1);
  assert_true(plan.busy_share == 0 && plan.profile_changed);
  ls_plan_release(&plan);
  assert_int_equal(ls_plan_make(ctx, config, profile, &options, &plan), LS_OK);
  assert_int_equal(plan.timed, 0); /* a quiet timing is reused */
  ls_plan_release(&plan);
}

static void a_plan_from_busy_timings_says_so(void **state) {
  ls_plan_options_t options = options_of(1e-9); /* no time to make them again */
  ls_plan_t plan;
  record_busy(1, 1000, 0.43);
  assert_int_equal(ls_plan_make(ctx, config, profile, &options, &plan), LS_OK);
  assert_int_equal(plan.timed, 0);
  assert_true(plan.busy_share == 0.43 && plan.candidate[plan.choice].busy_share == 0.43);
  ls_plan_release(&plan);
}

/* Two devices ten times as fast a row as one: what a busy machine makes of it is no efficiency of 500 %. */
static void a_busy_machine_shows_no_efficiency_beyond_what_can_be(void **state) {
  static const double share[] = {0.43, 0};
  static const int64_t devices[] = {1, 2};
  for (int i = 0; i < LS_COUNT(share); i++) {
    ls_plan_options_t options = options_of(1e-9);
    ls_plan_t plan;
    options.only = devices;
    options.only_count = LS_COUNT(devices);
    record_busy(1, 10000, share[i]);
    record_busy(2, 1000, share[i]);
    fill_all_reduce(profile, 2, 10);
    assert_int_equal(ls_plan_make(ctx, config, profile, &options, &plan), LS_OK);
    const ls_candidate_t *c = &plan.candidate[plan.choice];
    assert_true(ls_candidate_devices(c) == 2 && c->priced);
    assert_true(share[i] > 0 ? isnan(c->efficiency) && isnan(c->speedup) : c->efficiency > 2);
    ls_plan_release(&plan);
  }
}

static void a_quiet_machine_leaves_no_mark(void **state) {
  ls_plan_options_t options = options_of(5);
  ls_plan_t plan;
  record_busy(1, 1000, 0.05);
  assert_int_equal(ls_plan_make(ctx, config, profile, &options, &plan), LS_OK);
  assert_int_equal(plan.timed, 0);
  assert_true(plan.busy_share == 0);
  ls_plan_release(&plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      PLAN_TEST(busy_timings_are_made_again_and_the_mark_goes, more),
      PLAN_TEST(a_plan_from_busy_timings_says_so, more),
      PLAN_TEST(a_busy_machine_shows_no_efficiency_beyond_what_can_be, more),
      PLAN_TEST(a_quiet_machine_leaves_no_mark, more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
