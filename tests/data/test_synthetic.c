/* The synthetic set follows its recipe, does not depend on how many samples there are, and can be learnt. */
#include "common.h"
#include "data/read.h"

#include <math.h>

static ls_data_config_t config_of(int64_t samples, double noise) {
  return (ls_data_config_t){.kind = LS_DATA_SYNTHETIC, .samples = samples, .noise = noise, .data_seed = 42};
}

static void make(ls_ctx_t *ctx, const ls_data_config_t *config, int64_t inputs, int64_t outputs, bool classes,
                 ls_matrix_t *x, ls_matrix_t *y) {
  ls_data_want_t want = {inputs, outputs, classes};
  assert_int_equal(ls_synthetic_make(ctx, config, &want, x, y), LS_OK);
}

static double mean_product(const ls_matrix_t *x, int a, int b) {
  double sum = 0;
  for (int64_t i = 0; i < x->rows; i++)
    sum += (double)((float *)x->values)[i * x->cols + a] * (double)((float *)x->values)[i * x->cols + b];
  return sum / (double)x->rows;
}

static void test_correlations(void **state) {
  ls_data_config_t config = config_of(10000, 0.1);
  ls_matrix_t x, y;
  make(said.ctx, &config, 50, 3, false, &x, &y);
  assert_int_equal(x.rows, 10000);
  assert_int_equal(x.cols, 50);
  assert_int_equal(y.cols, 3);
  /* f1 = 0.7 f0 + 0.3 z; f2 = 0.5 f0 - 0.3 f1 + 0.4 z = 0.29 f0 - 0.09 z1 + 0.4 z2. */
  assert_true(fabs(mean_product(&x, 0, 0) - 1) < 0.06);
  assert_true(fabs(mean_product(&x, 0, 1) - 0.7) < 0.05);
  assert_true(fabs(mean_product(&x, 1, 1) - 0.58) < 0.05);
  assert_true(fabs(mean_product(&x, 0, 2) - 0.29) < 0.04);
  assert_true(fabs(mean_product(&x, 2, 2) - (0.29 * 0.29 + 0.09 * 0.09 + 0.16)) < 0.03);
  assert_true(fabs(mean_product(&x, 1, 2) - (0.7 * 0.29 - 0.3 * 0.09)) < 0.03);
  for (int j = 3; j < 50; j++) {
    assert_true(fabs(mean_product(&x, j, j) - 1) < 0.09);
    assert_true(fabs(mean_product(&x, 0, j)) < 0.06);
  }
  ls_matrix_release(&x);
  ls_matrix_release(&y);
}

static void test_sample_is_pure(void **state) {
  ls_data_config_t small = config_of(17, 0.5), large = config_of(400, 0.5);
  ls_matrix_t x, y, xl, yl;
  make(said.ctx, &small, 33, 5, false, &x, &y);
  make(said.ctx, &large, 33, 5, false, &xl, &yl);
  assert_memory_equal(x.values, xl.values, 17 * 33 * sizeof(float));
  assert_memory_equal(y.values, yl.values, 17 * 5 * sizeof(float));
  ls_matrix_release(&xl);
  ls_matrix_release(&yl);
  small.data_seed = 43;
  make(said.ctx, &small, 33, 5, false, &xl, &yl);
  assert_memory_not_equal(x.values, xl.values, 17 * 33 * sizeof(float));
  ls_matrix_release(&x);
  ls_matrix_release(&y);
  ls_matrix_release(&xl);
  ls_matrix_release(&yl);
}

/* The noise is what was asked for: targets with and without it differ by its deviation. */
static void test_noise(void **state) {
  ls_data_config_t quiet = config_of(5000, 0.0), loud = config_of(5000, 0.25);
  ls_matrix_t x, y, xn, yn;
  make(said.ctx, &quiet, 20, 2, false, &x, &y);
  make(said.ctx, &loud, 20, 2, false, &xn, &yn);
  double power = 0, signal = 0;
  for (int64_t i = 0; i < 10000; i++) {
    double d = (double)((float *)yn.values)[i] - (double)((float *)y.values)[i];
    power += d * d / 10000;
    signal += (double)((float *)y.values)[i] * (double)((float *)y.values)[i] / 10000;
  }
  assert_true(fabs(sqrt(power) - 0.25) < 0.01);
  assert_true(signal > 0.05 && signal < 2.0);
  ls_matrix_release(&x);
  ls_matrix_release(&y);
  ls_matrix_release(&xn);
  ls_matrix_release(&yn);
}

static void test_classes_and_widths(void **state) {
  ls_data_config_t config = config_of(4000, 0.0);
  ls_matrix_t x, y, xr, yr;
  make(said.ctx, &config, 12, 4, true, &x, &y);
  make(said.ctx, &config, 12, 4, false, &xr, &yr);
  assert_int_equal(y.cols, 1);
  assert_true(y.integers);
  int count[4] = {0};
  for (int64_t i = 0; i < y.rows; i++) {
    int best = 0;
    for (int o = 1; o < 4; o++)
      if (((float *)yr.values)[i * 4 + o] > ((float *)yr.values)[i * 4 + best]) best = o;
    assert_int_equal(((int32_t *)y.values)[i], best);
    count[best]++;
  }
  for (int o = 0; o < 4; o++)
    assert_true(count[o] > 100);
  ls_matrix_release(&xr);
  ls_matrix_release(&yr);
  ls_matrix_release(&x);
  ls_matrix_release(&y);
  config.inputs = 1;
  config.outputs = 7;
  config.samples = 1;
  make(said.ctx, &config, 12, 4, false, &x, &y);
  assert_int_equal(x.cols, 1);
  assert_int_equal(y.cols, 7);
  ls_matrix_release(&x);
  ls_matrix_release(&y);
}

/* Tokens had classes alone: a plan, which times them, refused networks of tokens with mse that train takes. */
static void tokens_have_targets_of_every_loss(void **state) {
  enum { ROWS = 20, PLACES = 4, IDS = 10, OUTPUTS = 6 };
  static const ls_data_want_t wants[] = {
      {.inputs = PLACES, .outputs = OUTPUTS},
      {.inputs = PLACES, .outputs = OUTPUTS, .labels = true},
      {.inputs = PLACES, .outputs = IDS, .classes = true},
      {.inputs = PLACES, .outputs = IDS, .classes = true, .positions = PLACES},
      {.inputs = PLACES, .outputs = IDS, .classes = true, .positions = 2},
  };
  ls_data_config_t config = config_of(ROWS, 0);
  for (int w = 0; w < LS_COUNT(wants); w++) {
    ls_data_want_t want = wants[w];
    ls_matrix_t x, y;
    want.whole = true;
    want.ids = IDS;
    assert_int_equal(ls_synthetic_make(said.ctx, &config, &want, &x, &y), LS_OK);
    const int64_t each = !want.classes ? OUTPUTS : want.positions ? want.positions : 1;
    assert_int_equal(ls_shape_count(&y.row), each);
    for (int64_t k = 0; k < ROWS * each; k++) {
      const int64_t row = k / each, at = k % each % PLACES;
      const uint16_t token = ((const uint16_t *)x.values)[row * PLACES + at];
      assert_in_range(token, 0, IDS - 1);
      if (want.classes) {
        const int next = want.positions ? (token * 5 + 3) % IDS : token;
        assert_int_equal(((const int32_t *)y.values)[k], next);
      } else {
        const float value = ((const float *)y.values)[k];
        assert_true(value == (want.labels ? (float)(token >= IDS / 2) : (float)token / IDS));
      }
    }
    ls_matrix_release(&x);
    ls_matrix_release(&y);
  }
}

static ls_status_t attempt(ls_ctx_t *ctx, void *arg) {
  ls_data_config_t config = config_of(10, 0.1);
  const int way = *(int *)arg;
  ls_data_want_t want = {5, 2, way == 1, .whole = way == 2};
  ls_matrix_t x, y;
  ls_status_t status = ls_synthetic_make(ctx, &config, &want, &x, &y);
  if (status != LS_OK) return status;
  ls_matrix_release(&x);
  ls_matrix_release(&y);
  return LS_OK;
}

static void test_memory(void **state) {
  for (int way = 0; way < 3; way++)
    each_alloc_fails(attempt, &way);
}

TESTS(said_open, said_close, test_correlations, test_sample_is_pure, test_noise, test_classes_and_widths,
      tokens_have_targets_of_every_loss, test_memory)
