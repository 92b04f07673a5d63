/* Training with batch norm against the same training in f64, where channels' means lie far from 0, from the running mean and
 * from each other: on one, two and three ranks, in one and in three micro-batches. */
#include "sim_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { ROWS = 60, CHANNELS = 3, STEPS = 5, MICRO_MAX = 3 };
static const double rate = 0.25, momentum = 0.1, eps = 1e-5;

static const char text[] =
    "model: {input: [3], loss: mse, layers: [{batch_norm: {}}, {dense: {units: 1, init: zeros}}]}\n"
    "data: {kind: synthetic, normalize: false}\n"
    "train: {batch: 60, steps: 5, accumulate: %d, precision: %s, optimizer: {name: sgd, lr: 0.25}}\n"
    "parallel: {strategy: ddp, backend: %s, threads: 1}\n";

typedef struct {
  double gamma[CHANNELS], beta[CHANNELS], w[CHANNELS], b, mean[CHANNELS], variance[CHANNELS], loss[STEPS];
} model_t;

/* The statistics of micro-batch `m` in one channel; the running ones take them in. */
static void statistics(model_t *n, const float *x, int begin, int end, int c, double *mean, double *rstd) {
  double sum = 0, squares = 0, rows = end - begin;
  for (int r = begin; r < end; r++)
    sum += x[r * CHANNELS + c];
  *mean = sum / rows;
  for (int r = begin; r < end; r++)
    squares += (x[r * CHANNELS + c] - *mean) * (x[r * CHANNELS + c] - *mean);
  *rstd = 1 / sqrt(squares / rows + eps);
  n->mean[c] += momentum * (*mean - n->mean[c]);
  n->variance[c] += momentum * (squares / (rows - 1) - n->variance[c]);
}

/* One step on x and y, whose rows stand in the order of the run. */
static void step(model_t *n, const float *x, const float *y, int accumulate, double *loss) {
  model_t slope = {{0}};
  *loss = 0;
  for (int m = 0; m < accumulate; m++) {
    const int begin = ROWS / accumulate * m, end = begin + ROWS / accumulate;
    double mean[CHANNELS], rstd[CHANNELS];
    for (int c = 0; c < CHANNELS; c++)
      statistics(n, x, begin, end, c, &mean[c], &rstd[c]);
    for (int r = begin; r < end; r++) {
      double h[CHANNELS], p = n->b;
      for (int c = 0; c < CHANNELS; c++) {
        h[c] = (x[r * CHANNELS + c] - mean[c]) * rstd[c];
        p += n->w[c] * (h[c] * n->gamma[c] + n->beta[c]);
      }
      const double d = 2 * (p - y[r]) / ROWS;
      *loss += (p - y[r]) * (p - y[r]) / ROWS;
      slope.b += d;
      for (int c = 0; c < CHANNELS; c++) {
        slope.w[c] += d * (h[c] * n->gamma[c] + n->beta[c]);
        slope.gamma[c] += d * n->w[c] * h[c];
        slope.beta[c] += d * n->w[c];
      }
    }
  }
  n->b -= rate * slope.b;
  for (int c = 0; c < CHANNELS; c++) {
    n->w[c] -= rate * slope.w[c];
    n->gamma[c] -= rate * slope.gamma[c];
    n->beta[c] -= rate * slope.beta[c];
  }
}

/* Channels around `centre`, half of it and its negative, and what depends on them. */
static void make_data(double centre, float *x, float *y) {
  static const double part[CHANNELS] = {1, 0.5, -1};
  for (int r = 0; r < ROWS; r++) {
    y[r] = 0;
    for (int c = 0; c < CHANNELS; c++) {
      const double u = (ls_rng_unit(ls_rng(11, 1, (uint64_t)r).v[c]) - 0.5) * sqrt(12);
      x[r * CHANNELS + c] = (float)(centre * part[c] + u);
      y[r] += (float)(u * (c + 1)) / 2;
    }
  }
}

static void near_to(const char *what, const char *where, double got, double want, double allowed) {
  if (!(fabs(got - want) <= allowed * (1 + fabs(want))))
    fail_msg("%s, %s: %.9g, in f64 %.9g", where, what, got, want);
}

static void check_param(const char *name, const char *where, const float *got, const double *want,
                        int count) {
  for (int c = 0; c < count; c++)
    near_to(name, where, (double)got[c], want[c], 2e-6);
}

/* Where each stands: the layout's order and its steps of 16. */
enum { DENSE_BIAS = 16, DENSE_WEIGHT = 32, BETA = 48, GAMMA = 64, VARIANCE = 80, MEAN = 96 };

static void compare(double centre, int accumulate, int ranks, const char *backend) {
  float x[ROWS * CHANNELS], y[ROWS], in_order[ROWS * CHANNELS], y_in_order[ROWS];
  char config[1024], where[128];
  model_t n = {.gamma = {1, 1, 1}, .variance = {1, 1, 1}};
  const ls_data_memory_t memory = {
      .rows = ROWS, .inputs = CHANNELS, .outputs = 1, .features = x, .targets = y};
  int32_t row[ROWS * STEPS];
  sim_result_t got;
  snprintf(config, sizeof config, text, accumulate, "fp32", backend);
  snprintf(where, sizeof where, "means of %g, %d micro-batches, %d ranks, %s", centre, accumulate, ranks,
           backend);
  make_data(centre, x, y);
  sim_order(config, &memory, ROWS * STEPS, row);
  for (int s = 0; s < STEPS; s++) {
    for (int r = 0; r < ROWS; r++) {
      memcpy(in_order + r * CHANNELS, x + row[s * ROWS + r] * CHANNELS, CHANNELS * sizeof *x);
      y_in_order[r] = y[row[s * ROWS + r]];
    }
    step(&n, in_order, y_in_order, accumulate, &n.loss[s]);
  }
  sim_train(&(sim_run_t){.text = config, .ranks = ranks, .memory = &memory}, &got);
  assert_string_equal(got.error, "");
  for (int s = 0; s < STEPS; s++)
    near_to("loss", where, got.loss[s], n.loss[s], 2e-6);
  check_param("bias", where, got.param + DENSE_BIAS, &n.b, 1);
  check_param("weight", where, got.param + DENSE_WEIGHT, n.w, CHANNELS);
  check_param("beta", where, got.param + BETA, n.beta, CHANNELS);
  check_param("gamma", where, got.param + GAMMA, n.gamma, CHANNELS);
  check_param("running variance", where, got.param + VARIANCE, n.variance, CHANNELS);
  check_param("running mean", where, got.param + MEAN, n.mean, CHANNELS);
  assert_true(got.loss[STEPS - 1] < 0.3 * got.loss[0]); /* it trains */
  ls_free(got.param);
}

static void far_means_train_as_in_f64(void **state) {
  (void)state;
  static const double centres[] = {0, 1e2, 1e3, 1e4};
  static const char *const backends[] = {"ref", "cpu"};
  for (int b = 0; b < LS_COUNT(backends); b++)
    for (int c = 0; c < LS_COUNT(centres); c++)
      for (int ranks = 1; ranks <= 3; ranks++)
        for (int accumulate = 1; accumulate <= MICRO_MAX; accumulate += MICRO_MAX - 1)
          compare(centres[c], accumulate, ranks, backends[b]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(far_means_train_as_in_f64)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
