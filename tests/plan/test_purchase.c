/* Prices of other purchases against numbers computed by hand, on a machine of two processors that is not
 * here. */
#include "setup.h"

#include <math.h>
#include <string.h>

static int tasks, fixed; /* that depend on rows; that do not */

enum { ROWS = 64, ROW_NS = 1000, FIXED_NS = 500, OVERHEAD_NS = 77, COMM_NS = 9000 };

static const char more[] = "train: {batch: 64, steps: 1000}\nparallel: {backend: ref}\n"
                           "cost: {engineer_hour: 100, trainings_per_month: 3600000, amortize_months: 10, "
                           "link_price: 600, faster_device_price: 700, faster_device_speed: 4}\n";

static int setup_two(void **state) {
  ls_machine_t machine;
  setup(state);
  ls_profile_destroy(profile);
  ls_machine_clear(&machine);
  machine.usable_cpus = 2;
  machine.memory_bytes = INT64_C(1) << 40;
  return ls_profile_create(ctx, &machine, &profile) == LS_OK ? 0 : -1;
}

/* comm_ns: of an exchange in the timed steps; curve_ns: by the profile's curve. */
static void make_apart(double comm_ns, double curve_ns, ls_plan_t *plan) {
  ls_planner_t p = small_planner(ctx, config, profile);
  p.cpus = 2;
  for (int devices = 1; devices <= 2; devices++) {
    ls_candidate_t c = ls_candidate_make(&p, devices, NULL);
    tasks = fill_timing(&p, &c, &(pace_t){ROW_NS, FIXED_NS, OVERHEAD_NS, devices > 1 ? comm_ns : 0}, &fixed);
  }
  fill_all_reduce(profile, 2, curve_ns);
  const ls_plan_options_t options = {.replay = true, .samples = 640, .no_crossover = true};
  if (ls_plan_make(ctx, config, profile, &options, plan) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
}

static void make(double comm_ns, ls_plan_t *plan) {
  make_apart(comm_ns, comm_ns, plan);
}

static const ls_purchase_t *bought(const ls_plan_t *plan, const char *id) {
  assert_int_equal(plan->purchase_count, LS_PURCHASES);
  for (int i = 0; i < plan->purchase_count; i++)
    if (strcmp(plan->purchase[i].id, id) == 0) return &plan->purchase[i];
  fail_msg("no purchase %s", id);
  return NULL;
}

static void near(double a, double b) {
  if (!(fabs(a - b) <= 1e-9 * fabs(b) + 1e-9)) fail_msg("%.12g is not %.12g", a, b);
}

/* On `devices` with compute times divided by `speed`. */
static double step_ns(int devices, double speed, double comm_ns) {
  double compute = (double)tasks * ROW_NS * ROWS / devices + (double)fixed * FIXED_NS;
  return compute / speed + OVERHEAD_NS + (devices > 1 ? comm_ns : 0);
}

static void two_devices_gain_by_links_and_speed(void **state) {
  ls_plan_t plan;
  make(COMM_NS, &plan);
  double now = step_ns(2, 1, COMM_NS);
  assert_int_equal(ls_candidate_devices(&plan.candidate[plan.choice]), 2);
  near(plan.candidate[plan.choice].step.ns, now);
  const ls_purchase_t *half = bought(&plan, "link-2x"), *free_link = bought(&plan, "link-free"),
                      *input = bought(&plan, "input-free"), *faster = bought(&plan, "faster-device"),
                      *one = bought(&plan, "device");
  near(half->step_ns, now - COMM_NS / 2.0);
  near(free_link->step_ns, now - COMM_NS);
  near(input->step_ns, now); /* a host's inputs are not copied */
  near(input->speedup, 1);
  assert_true(faster->helps && !input->helps && !one->helps); /* "0.99x" was listed as what makes it faster */
  assert_int_equal(half->helps, half->step_ns < plan.candidate[plan.choice].step.low_ns);
  near(faster->step_ns, fmin(step_ns(2, 4, COMM_NS), step_ns(1, 4, 0)));
  near(faster->speedup, now / faster->step_ns);
  assert_false(one->known); /* there is no third */
  assert_true(isnan(one->step_ns));
  /* 1000 steps, 3,600,000 times a month: an hour for each microsecond */
  near(half->saved_hours_month, COMM_NS / 2.0 * 1e-3);
  near(half->benefit_month, 100 * half->saved_hours_month);
  near(half->price, 600);
  near(half->money_per_hour, 60 / half->saved_hours_month);
  near(half->break_even_months, 600 / half->benefit_month);
  near(faster->price, 700 * faster->devices);
  assert_true(isnan(free_link->price) && isnan(free_link->break_even_months));
  for (int i = 1; i + 1 < plan.purchase_count; i++)
    assert_true(plan.purchase[i].step_ns >= plan.purchase[i - 1].step_ns);
  assert_ptr_equal(one, &plan.purchase[LS_PURCHASES - 1]); /* what is not known comes last */
  ls_plan_release(&plan);
}

/* Where the curve of idle ranks was longer than the whole timed step, a faster link made the step take no time: its whole gain
 * was taken off a step of which it was only a part. */
static void no_purchase_makes_a_step_take_no_time(void **state) {
  ls_plan_t plan;
  (void)state;
  make_apart(COMM_NS, 1e6, &plan);
  const double now = step_ns(2, 1, COMM_NS);
  const ls_purchase_t *half = bought(&plan, "link-2x"), *free_link = bought(&plan, "link-free");
  assert_true(free_link->step_ns > 0 && free_link->step_ns < half->step_ns && half->step_ns < now);
  assert_true(half->step_ns > now / 2);
  ls_plan_release(&plan);
}

/* A link that is slow today and would be free: then two devices are worth having. */
static void a_link_may_bring_the_second_device_in(void **state) {
  ls_plan_t plan;
  double comm = 1e6 * tasks + 1e9;
  make(comm, &plan);
  assert_int_equal(ls_candidate_devices(&plan.candidate[plan.choice]), 1);
  near(plan.candidate[plan.choice].step.ns, step_ns(1, 1, 0));
  const ls_purchase_t *one = bought(&plan, "device"), *half = bought(&plan, "link-2x"),
                      *free_link = bought(&plan, "link-free");
  assert_true(one->known);
  assert_int_equal(one->devices, 2);
  near(one->step_ns, step_ns(2, 1, comm));
  assert_true(one->saved_hours_month < 0);
  assert_int_equal(half->devices, 1); /* still too slow: nothing changes */
  near(half->speedup, 1);
  assert_true(isinf(half->break_even_months) && isinf(half->money_per_hour));
  assert_int_equal(free_link->devices, 2);
  near(free_link->step_ns, step_ns(2, 1, 0));
  ls_plan_release(&plan);
}

int main(void) {
#define TEST(name)                                                                                           \
  cmocka_unit_test_prestate_setup_teardown(name, setup_two, teardown, (void *)(uintptr_t)more)
  const struct CMUnitTest tests[] = {
      TEST(two_devices_gain_by_links_and_speed),
      TEST(no_purchase_makes_a_step_take_no_time),
      TEST(a_link_may_bring_the_second_device_in),
  };
  return cmocka_run_group_tests_name("purchase", tests, NULL, NULL);
}
