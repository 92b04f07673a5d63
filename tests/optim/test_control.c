/* The guard, the clip and the counters. */
#include "graph/run_op.h"
#include "optim/optim.h"

#include <math.h>

#include "unit.h"

typedef struct {
  float head[16], partial[2], ctrl[16], stats[16], counter[16];
  ls_attrs_t attrs;
} control_t;

static control_t control_make(double clip) {
  return (control_t){.head = {0.5f, 3}, .partial = {9, 16}, .attrs = {.f = {clip, 0.9, 0.999}}}; /* norm 5 */
}

static void control_run(control_t *c) {
  ls_step_params_t step = {.seed = 1, .lr = 0.125f};
  ls_tensor_t in[] = {F32(c->head, 16), F32(c->partial, 2), {&step, LS_SHAPE(LS_U8, 64)}};
  ls_tensor_t out[] = {OUT(c->ctrl), OUT(c->stats), OUT(c->counter)};
  assert_int_equal(run_op(&ls_op_step_control, &c->attrs, in, out), LS_OK);
  for (int k = LS_CTRL_BIAS2 + 1; k < LS_CTRL_COUNT; k++)
    assert_true(c->ctrl[k] == 0);
  for (int k = LS_STAT_SKIPPED_ROW + 1; k < LS_STAT_COUNT; k++)
    assert_true(c->stats[k] == 0);
}

static void test_good_step(void **state) {
  control_t c = control_make(0);
  control_run(&c);
  assert_true(c.ctrl[LS_CTRL_APPLY] == 1);
  assert_true(c.ctrl[LS_CTRL_GRAD_SCALE] == 1);
  assert_true(c.ctrl[LS_CTRL_LR] == 0.125f);
  assert_true(c.ctrl[LS_CTRL_BIAS1] == (float)(1 - 0.9));
  assert_true(c.ctrl[LS_CTRL_BIAS2] == (float)(1 - 0.999));
  assert_true(c.counter[0] == 1 && c.counter[1] == 0 && c.counter[2] == 0);
  float want[16] = {0.5f, 3, 5, 1, 0, 0};
  assert_memory_equal(c.stats, want, sizeof want);
  control_run(&c);
  assert_true(c.ctrl[LS_CTRL_BIAS1] == (float)(1 - pow(0.9, 2)));
  assert_true(c.ctrl[LS_CTRL_BIAS2] == (float)(1 - pow(0.999, 2)));
  assert_true(c.counter[0] == 2);
}

static void test_clip(void **state) {
  struct {
    double clip;
    float scale;
  } rows[] = {{0, 1}, {-1, 1}, {10, 1}, {5, 1}, {2.5, 0.5f}, {0.05, 0.01f}};
  for (int k = 0; k < LS_COUNT(rows); k++) {
    control_t c = control_make(rows[k].clip);
    control_run(&c);
    assert_true(c.ctrl[LS_CTRL_APPLY] == 1);
    assert_true(c.ctrl[LS_CTRL_GRAD_SCALE] == rows[k].scale);
    assert_true(c.stats[LS_STAT_GRAD_NORM] == 5); /* as it was before clipping */
  }
}

/* A comparison like `norm > limit` is false for a NaN: a guard that is written that way lets it through. */
static void test_nothing_that_is_not_finite_is_applied(void **state) {
  float bad[] = {NAN, INFINITY, -INFINITY, -NAN};
  for (int k = 0; k < LS_COUNT(bad); k++)
    for (int where = 0; where < 2; where++)
      for (int clip = 0; clip < 2; clip++) {
        control_t c = control_make(clip);
        control_run(&c);
        *(where ? &c.partial[1] : &c.head[LS_HEAD_LOSS]) = bad[k];
        control_run(&c);
        assert_true(c.ctrl[LS_CTRL_APPLY] == 0);
        assert_true(c.stats[LS_STAT_APPLIED] == 0);
        assert_true(c.counter[0] == 1 && c.counter[1] == 1 && c.counter[2] == 1);
        assert_true(c.stats[LS_STAT_SKIPPED] == 1 && c.stats[LS_STAT_SKIPPED_ROW] == 1);
        if (!where) assert_false(isfinite(c.stats[LS_STAT_LOSS])); /* reported as it was */
      }
}

static void test_skips_are_counted_in_all_and_in_a_row(void **state) {
  control_t c = control_make(0);
  const char *steps = "gbbgbg"; /* good, bad */
  float skipped[] = {0, 1, 2, 2, 3, 3}, row[] = {0, 1, 2, 0, 1, 0}, applied[] = {1, 1, 1, 2, 2, 3};
  for (int k = 0; steps[k]; k++) {
    c.head[LS_HEAD_LOSS] = steps[k] == 'g' ? 0.5f : NAN;
    control_run(&c);
    assert_true(c.stats[LS_STAT_SKIPPED] == skipped[k] && c.stats[LS_STAT_SKIPPED_ROW] == row[k]);
    assert_true(c.counter[0] == applied[k]);
  }
}

static void test_counter_saturates(void **state) {
  control_t c = control_make(0);
  c.counter[0] = 0x1p24f - 1;
  control_run(&c);
  assert_true(c.counter[0] == 0x1p24f);
  control_run(&c);
  assert_true(c.counter[0] == 0x1p24f);
  assert_true(c.ctrl[LS_CTRL_BIAS2] == 1);
}

static void test_sum_of_squares(void **state) {
  enum { COUNT = 100000 };
  static float x[COUNT];
  float partial;
  ls_tensor_t in = F32(x, COUNT), out = OUT(&partial);
  for (int k = 0; k < COUNT; k++)
    x[k] = k == 0 ? 4096.0f : 0.5f; /* in f32 every 0.25 would be lost */
  assert_int_equal(run_op(&ls_op_sumsq, NULL, &in, &out), LS_OK);
  assert_true(partial == (float)(16777216.0 + 0.25 * (COUNT - 1)));
  x[COUNT - 1] = NAN;
  assert_int_equal(run_op(&ls_op_sumsq, NULL, &in, &out), LS_OK);
  assert_true(isnan(partial));
  x[COUNT - 1] = -INFINITY;
  assert_int_equal(run_op(&ls_op_sumsq, NULL, &in, &out), LS_OK);
  assert_true(isinf(partial));
}

TESTS(NULL, NULL, test_good_step, test_clip, test_nothing_that_is_not_finite_is_applied,
      test_skips_are_counted_in_all_and_in_a_row, test_counter_saturates, test_sum_of_squares)
