/* The cost of ownership against numbers computed by hand. */
#include "support.h"

#include <math.h>
#include <string.h>

/* A run of 36e9 steps-nanoseconds: 1000 steps of 36 s are 10 h on one device, of 18 s 5 h on two. */
static ls_plan_t plan_of(ls_candidate_t two[2], double one_s, double two_s) {
  for (int i = 0; i < 2; i++) {
    const double ns = 1e9 * (i ? two_s : one_s);
    two[i] = (ls_candidate_t){.config.parallel = {.ranks = i + 1, .strategy = "ddp"},
                              .priced = true,
                              .fits = true,
                              .step = {ns, ns, ns},
                              .mean = {ns, ns, ns}};
  }
  return (ls_plan_t){.candidate = two, .count = 2, .samples = -1};
}

static void ownership_follows_the_formula(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_config_t *config =
      small_config(ctx, "train: {batch: 64, steps: 1000}\n"
                        "cost: {device_price: 800, power_w: 300, price_kwh: 0.5, engineer_hour: 100, "
                        "overhead_month: 700, trainings_per_month: 20}\n");
  ls_candidate_t two[2];
  ls_plan_t plan = plan_of(two, 36, 18);
  ls_ownership_t o;
  ls_plan_ownership(config, &plan, &o);
  assert_true(o.known);
  assert_int_equal(o.devices, 2);
  assert_true(fabs(o.saved_hours_month - 100) < 1e-9);
  assert_true(fabs(o.benefit_month - 10000) < 1e-6);
  assert_true(fabs(o.energy_month) < 1e-9); /* twice the devices for half of the time */
  assert_true(fabs(o.hardware_month - 800 / 24.0) < 1e-9);
  assert_true(fabs(o.net_month - (10000 - 700 - 800 / 24.0)) < 1e-6);
  assert_true(fabs(o.break_even_months - 800 / 9300.0) < 1e-9);
  plan = plan_of(two, 36, 43.2); /* the study's example: 10 h against 12 h */
  ls_plan_ownership(config, &plan, &o);
  assert_true(o.known && isinf(o.break_even_months) && o.saved_hours_month < 0);
  assert_non_null(strstr(o.verdict, "never"));
  plan = plan_of(two, 36, 35); /* saves, but less than it costs to run */
  ls_plan_ownership(config, &plan, &o);
  assert_true(o.known && isinf(o.break_even_months) && o.saved_hours_month > 0);
  config->cost.trainings_per_month = 0;
  ls_plan_ownership(config, &plan, &o);
  assert_false(o.known);
  ls_config_destroy(config);
  ls_ctx_destroy(ctx);
}

static void a_lane_more_or_less_is_the_reason(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_config_t *config = small_config(ctx, "train: {batch: 64, steps: 1000}\n");
  for (int side = 0; side < 2; side++) {
    ls_candidate_t two[2];
    ls_plan_t plan = plan_of(two, 1, 2);
    ls_arena_init(&plan.arena, ctx);
    two[1].config.parallel.ranks = 1;
    two[side].config.parallel.options.side_lane = LS_SIDE_ON;
    assert_int_equal(ls_plan_conclude(config, &plan), LS_OK);
    assert_int_equal(plan.choice, 0);
    assert_non_null(strstr(two[1].why, side ? "100.0 % slower: parallel.side_lane is on instead of off"
                                            : "parallel.side_lane is off instead of on"));
    ls_arena_release(&plan.arena);
  }
  ls_config_destroy(config);
  ls_ctx_destroy(ctx);
}

static void auto_is_a_strategy_of_the_configuration(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_config_t *config = small_config(ctx, "parallel: {strategy: auto}\n");
  assert_true(config->parallel.automatic);
  assert_string_equal(config->parallel.strategy, "single");
  ls_config_destroy(config);
  config = small_config(ctx, "parallel: {strategy: auto, ranks: 2}\n");
  assert_true(config->parallel.automatic);
  assert_string_equal(config->parallel.strategy, "ddp");
  ls_config_destroy(config);
  config = small_config(ctx, "parallel: {strategy: ddp, ranks: 2}\n");
  assert_false(config->parallel.automatic);
  ls_config_destroy(config);
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, ownership_follows_the_formula, a_lane_more_or_less_is_the_reason,
      auto_is_a_strategy_of_the_configuration)
