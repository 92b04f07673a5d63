/* Options of the optimizer and the rate schedule, the rate over steps, and the update rule. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "unit.h"

typedef struct {
  ls_ctx_t *ctx;
  ls_arena_t arena;
} fixture_t;

static int set_up(void **state) {
  static fixture_t f;
  f.ctx = ls_ctx_create(NULL, NULL);
  if (!f.ctx) return -1;
  ls_arena_init(&f.arena, f.ctx);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture_t *f = *state;
  ls_arena_release(&f->arena);
  ls_ctx_destroy(f->ctx);
  return 0;
}

static ls_status_t parse(fixture_t *f, const ls_section_t *section, const char *yaml, void *target) {
  ls_doc_t doc;
  if (ls_doc_parse(f->ctx, "test.yaml", yaml, strlen(yaml), &doc)) return LS_ERR_CONFIG;
  ls_status_t status = ls_option_parse(f->ctx, &f->arena, section, doc.root, NULL, target);
  ls_doc_release(&doc);
  return status;
}

static void test_defaults(void **state) {
  fixture_t *f = *state;
  ls_optim_config_t optim;
  ls_rate_config_t rate;
  assert_int_equal(ls_option_parse(f->ctx, &f->arena, &ls_optim_section, NULL, NULL, &optim), LS_OK);
  assert_int_equal(optim.name, LS_OPTIM_ADAM);
  assert_true(optim.lr == 1e-3 && optim.beta1 == 0.9 && optim.beta2 == 0.999 && optim.eps == 1e-8);
  assert_true(optim.momentum == 0 && optim.weight_decay == 0 && !optim.nesterov);
  assert_int_equal(ls_option_parse(f->ctx, &f->arena, &ls_rate_section, NULL, NULL, &rate), LS_OK);
  assert_int_equal(rate.name, LS_RATE_CONSTANT);
  assert_int_equal(rate.warmup_steps, 0);
  assert_true(rate.factor == 0.1 && rate.floor == 0 && rate.every_steps == 1000);
}

static void test_names(void **state) {
  fixture_t *f = *state;
  ls_optim_config_t optim;
  ls_rate_config_t rate;
  assert_int_equal(parse(f, &ls_optim_section, "{name: sgd, lr: 0.1, momentum: 0.9, nesterov: true}", &optim),
                   LS_OK);
  assert_int_equal(optim.name, LS_OPTIM_SGD);
  assert_true(optim.nesterov && optim.momentum == 0.9);
  assert_int_equal(parse(f, &ls_optim_section, "{name: adamw}", &optim), LS_OK);
  assert_int_equal(optim.name, LS_OPTIM_ADAMW);
  assert_int_equal(parse(f, &ls_rate_section, "{name: cosine, warmup_steps: 7}", &rate), LS_OK);
  assert_int_equal(rate.name, LS_RATE_COSINE);
  assert_int_equal(rate.warmup_steps, 7);
  assert_int_equal(parse(f, &ls_rate_section, "{name: step}", &rate), LS_OK);
  assert_int_equal(rate.name, LS_RATE_STEP);
}

static void test_out_of_range(void **state) {
  fixture_t *f = *state;
  static const char *const bad_optim[] = {"{lr: 0}",       "{lr: -1}",           "{lr: .nan}",
                                          "{momentum: 1}", "{beta2: 1}",         "{beta1: -0.1}",
                                          "{eps: 0}",      "{weight_decay: -1}", "{name: adagrad}"};
  static const char *const bad_rate[] = {"{every_steps: 0}", "{warmup_steps: -1}", "{factor: 0}",
                                         "{floor: 1.5}"};
  ls_optim_config_t optim;
  ls_rate_config_t rate;
  for (int k = 0; k < LS_COUNT(bad_optim); k++)
    if (parse(f, &ls_optim_section, bad_optim[k], &optim) != LS_ERR_CONFIG)
      fail_msg("%s passed", bad_optim[k]);
  for (int k = 0; k < LS_COUNT(bad_rate); k++)
    if (parse(f, &ls_rate_section, bad_rate[k], &rate) != LS_ERR_CONFIG) fail_msg("%s passed", bad_rate[k]);
}

static void test_options_of_another_optimizer_are_refused(void **state) {
  fixture_t *f = *state;
  static const struct {
    const char *yaml, *says; /* NULL: good */
  } cases[] = {
      {"{name: sgd, momentum: 0.9, nesterov: true}", NULL},
      {"{name: sgd, nesterov: true}", "nesterov has no effect without name: sgd and momentum above 0"},
      {"{momentum: 0.9, nesterov: true}", "nesterov"},
      {"{name: adamw, momentum: 0.9}", "momentum has no effect without name: sgd"},
      {"{name: sgd, beta1: 0.8}", "beta1 has no effect without name: adam or adamw"},
      {"{name: sgd, beta2: 0.8}", "beta2 has no effect"},
      {"{name: sgd, eps: 1e-6}", "eps has no effect"},
      {"{name: sgd, beta1: 0.9, beta2: 0.999, eps: 1e-8}", NULL}, /* the defaults, as a saved configuration */
      {"{name: adam, momentum: 0, beta1: 0.8, eps: 1e-6}", NULL}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_optim_config_t config;
    assert_int_equal(parse(f, &ls_optim_section, cases[i].yaml, &config), LS_OK);
    assert_int_equal(ls_optim_check(f->ctx, &(ls_place_t){0}, &config),
                     cases[i].says ? LS_ERR_CONFIG : LS_OK);
    if (cases[i].says && !strstr(ls_ctx_error(f->ctx), cases[i].says))
      fail_msg("%s: %s", cases[i].yaml, ls_ctx_error(f->ctx));
    ls_ctx_clear(f->ctx);
  }
}

static void test_groups(void **state) {
  fixture_t *f = *state;
  static const char *const all_but_a[] = {"*", "!a.*"}, *const weights[] = {"*.weight"};
  const ls_optim_group_t group[] = {{{2, all_but_a}, -1, -1}, {{1, weights}, -1, -1}};
  const ls_optim_config_t config = {.group = group, .group_count = LS_COUNT(group)};
  assert_int_equal(ls_optim_group_of(&config, "b.weight"), 1);
  assert_int_equal(ls_optim_group_of(&config, "a.weight"), 2);
  assert_int_equal(ls_optim_group_of(&config, "a.bias"), 0);
  static const struct {
    const char *yaml;
    ls_status_t status;
  } cases[] = {{"{match: a, lr: -1, decay: -1}", LS_OK},
               {"{match: a, lr: 0, decay: 0}", LS_OK},
               {"{match: a, lr: -0.5}", LS_ERR_CONFIG},
               {"{match: a, decay: -0.5}", LS_ERR_CONFIG}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_optim_group_t read;
    if (parse(f, &ls_optim_group_section, cases[i].yaml, &read) != cases[i].status)
      fail_msg("%s", cases[i].yaml);
  }
}

static void assert_rate(const ls_rate_config_t *rate, int64_t step, int64_t total, double want) {
  float got = ls_rate_at(rate, 0.5, step, total);
  if (!(fabs(got - want) <= 1e-7))
    fail_msg("step %lld: %.9g, must be %.9g", (long long)step, (double)got, want);
}

static void test_constant_with_warmup(void **state) {
  ls_rate_config_t rate = {.name = LS_RATE_CONSTANT};
  assert_rate(&rate, 0, 10, 0.5);
  assert_rate(&rate, 9, 10, 0.5);
  rate.warmup_steps = 4;
  for (int step = 0; step < 4; step++)
    assert_rate(&rate, step, 10, 0.5 * (step + 1) / 4);
  assert_rate(&rate, 4, 10, 0.5);
}

static void test_step(void **state) {
  ls_rate_config_t rate = {.name = LS_RATE_STEP, .every_steps = 3, .factor = 0.5};
  double want[] = {0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125};
  for (int step = 0; step < LS_COUNT(want); step++)
    assert_rate(&rate, step, 7, want[step]);
}

static void test_cosine(void **state) {
  ls_rate_config_t rate = {.name = LS_RATE_COSINE, .warmup_steps = 2, .floor = 0.2};
  assert_rate(&rate, 0, 11, 0.25);
  assert_rate(&rate, 1, 11, 0.5);
  assert_rate(&rate, 2, 11, 0.5);        /* the top */
  assert_rate(&rate, 6, 11, 0.5 * 0.6);  /* half way down */
  assert_rate(&rate, 10, 11, 0.5 * 0.2); /* the last step is the floor */
  assert_rate(&rate, 50, 11, 0.5 * 0.2); /* and stays */
  for (int step = 3; step < 11; step++)
    assert_true(ls_rate_at(&rate, 1, step, 11) < ls_rate_at(&rate, 1, step - 1, 11));
}

static void test_cosine_corners(void **state) {
  ls_rate_config_t rate = {.name = LS_RATE_COSINE};
  assert_rate(&rate, 0, 1, 0.5); /* a single step is not wasted */
  rate.warmup_steps = 10;        /* nothing but warm-up */
  assert_rate(&rate, 4, 5, 0.25);
}

static void test_rule(void **state) {
  ls_optim_config_t config = {
      .name = LS_OPTIM_SGD, .momentum = 0, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.25};
  ls_optim_rule_t rule;
  ls_optim_rule(&config, 0, &rule);
  assert_ptr_equal(rule.update, &ls_op_sgd);
  assert_int_equal(rule.slot_count, 0);
  assert_true(rule.group[0].attrs.f[1] == 0.25 && rule.control_attrs.f[0] == 0);
  config.momentum = 0.5;
  config.nesterov = true;
  ls_optim_rule(&config, 2, &rule);
  assert_ptr_equal(rule.update, &ls_op_sgd_momentum);
  assert_int_equal(rule.slot_count, 1);
  assert_string_equal(rule.slot_name[0], "momentum");
  assert_true(rule.group[0].attrs.f[0] == 0.5 && rule.group[0].attrs.i[0] == 1 &&
              rule.control_attrs.f[0] == 2);
  for (int kind = LS_OPTIM_ADAM; kind <= LS_OPTIM_ADAMW; kind++) {
    config.name = kind;
    ls_optim_rule(&config, 2, &rule);
    assert_ptr_equal(rule.update, kind == LS_OPTIM_ADAM ? &ls_op_adam : &ls_op_adamw);
    assert_int_equal(rule.slot_count, 2);
    assert_string_equal(rule.slot_name[0], "m");
    assert_string_equal(rule.slot_name[1], "v");
    const double *f = rule.group[0].attrs.f;
    assert_true(f[0] == 0.9 && f[1] == 0.99 && f[2] == 1e-6 && f[3] == 0.25);
    assert_true(rule.control_attrs.f[1] == 0.9 && rule.control_attrs.f[2] == 0.99);
  }
}

TESTS(set_up, tear_down, test_defaults, test_names, test_out_of_range,
      test_options_of_another_optimizer_are_refused, test_groups, test_constant_with_warmup, test_step,
      test_cosine, test_cosine_corners, test_rule)
