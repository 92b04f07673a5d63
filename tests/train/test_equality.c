/* One rank and several ranks train the same network: to the bit when every sum is exact, else up
 * to rounding. */
#include "sim_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { EXACT_ROWS = 64 };

/* Integers so small that every product and sum of three SGD steps is an exact float. */
static void exact_data(float *x, float *y) {
  for (int i = 0; i < EXACT_ROWS; i++) {
    x[2 * i] = (float)(i % 5 - 2);
    x[2 * i + 1] = (float)(i * 7 % 3 - 1);
    y[i] = x[2 * i] - 2 * x[2 * i + 1] + 1;
  }
}

static void test_exact_data_gives_the_same_bits(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [2], loss: mse, layers: [{dense: {units: 1, init: zeros}}]}\n"
      "data: {kind: synthetic, normalize: false}\n"
      "train: {batch: 16, steps: 3, precision: %s, optimizer: {name: sgd, lr: 0.125}}\n"
      "parallel: {strategy: ddp, backend: %s, threads: 1, bucket_bytes: 4}\n";
  float x[EXACT_ROWS * 2], y[EXACT_ROWS];
  exact_data(x, y);
  ls_data_memory_t memory = {.rows = EXACT_ROWS, .inputs = 2, .outputs = 1, .features = x, .targets = y};
  static const char *const ways[][2] = {{"fp32", "ref"}, {"fp32", "cpu"}, {"bf16", "ref"}, {"fp16", "cpu"}};
  for (int b = 0; b < LS_COUNT(ways); b++) {
    char config[512], first[33] = "";
    snprintf(config, sizeof config, text, ways[b][0], ways[b][1]);
    for (int ranks = 1; ranks <= 5; ranks++) { /* 16 samples on 3 and 5 ranks: uneven shares */
      sim_result_t result;
      sim_train(&(sim_run_t){.text = config, .ranks = ranks, .memory = &memory}, &result);
      assert_string_equal(result.error, "");
      assert_int_equal(result.status, LS_OK);
      if (ranks == 1) memcpy(first, result.hash[0], sizeof first);
      for (int r = 0; r < ranks; r++)
        assert_string_equal(result.hash[r], first);
      assert_true(fabsf(result.param[LS_HEAD_COUNT]) > 0); /* it did train */
      ls_free(result.param);
    }
  }
}

/* Images whose variance is 3, so that with eps 1 the norm divides by 2: convolution, batch norm over all ranks and
 * pooling are exact. */
static void test_exact_images_give_the_same_bits(void **state) {
  (void)state;
  enum { ROWS = 16, PIXELS = 9 };
  static const float cycle[] = {3, -3, 1, -1, 1, -1, 1, -1};
  static const char text[] =
      "model: {input: [3, 3, 1], loss: mse, layers: [batch_norm: {eps: 1}, conv2d: {filters: 1, "
      "kernel: 2, padding: valid, init: zeros}, pool: {kind: average}]}\n"
      "data: {kind: synthetic, normalize: false}\n"
      "train: {batch: 16, steps: 2, precision: %s, optimizer: {name: sgd, lr: 1}}\n"
      "parallel: {strategy: ddp, backend: %s, threads: 1, bucket_bytes: 4}\n";
  static const char *const ways[][2] = {{"fp32", "ref"}, {"fp32", "cpu"}, {"bf16", "cpu"}, {"fp16", "ref"}};
  float x[ROWS * PIXELS], y[ROWS];
  for (int i = 0; i < ROWS * PIXELS; i++)
    x[i] = cycle[i % 8];
  for (int i = 0; i < ROWS; i++)
    y[i] = (float)(i % 3 - 1);
  ls_data_memory_t memory = {.rows = ROWS, .inputs = PIXELS, .outputs = 1, .features = x, .targets = y};
  for (int b = 0; b < LS_COUNT(ways); b++) {
    char config[1024], first[33] = "";
    snprintf(config, sizeof config, text, ways[b][0], ways[b][1]);
    for (int ranks = 1; ranks <= 3; ranks++) {
      sim_result_t result;
      sim_train(&(sim_run_t){.text = config, .ranks = ranks, .memory = &memory}, &result);
      assert_string_equal(result.error, "");
      assert_int_equal(result.status, LS_OK);
      if (ranks == 1) memcpy(first, result.hash[0], sizeof first);
      for (int r = 0; r < ranks; r++)
        assert_string_equal(result.hash[r], first);
      assert_true(result.loss[1] != result.loss[0]); /* it did train */
      ls_free(result.param);
    }
  }
}

enum { GROUPED_ROWS = 32, GROUPED_BATCH = 16, GROUPED_PIXELS = 8 };

/* Images have variance 3 in every other micro-batch, 15 in the rest, so that with eps 1 the norm divides by 2 or by 4. The
 * samples of two micro-batches together would have another variance, whose root is not exact. */
static void grouped_images(const int32_t row[GROUPED_ROWS], int accumulate, float *x, float *y) {
  static const float image[2][GROUPED_PIXELS] = {{3, -3, 1, -1, 1, -1, 1, -1}, {5, -5, 5, -5, 3, -3, 1, -1}};
  const int rows = (GROUPED_BATCH + accumulate - 1) / accumulate;
  for (int p = 0; p < GROUPED_ROWS; p++) {
    for (int i = 0; i < GROUPED_PIXELS; i++)
      x[row[p] * GROUPED_PIXELS + i] = image[p % GROUPED_BATCH / rows % 2][(i + p) % GROUPED_PIXELS];
    y[row[p]] = (float)(p % 3 - 1);
  }
}

/* A micro-batch has the samples that it has on one rank, with and without a rest, rows for every rank, or any row. */
static void test_micro_batches_have_the_same_samples_on_any_number_of_ranks(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [2, 4, 1], loss: mse, layers: [batch_norm: {eps: 1}, dense: {units: 1, init: zeros}]}\n"
      "data: {kind: synthetic, normalize: false, resident: %s}\n"
      "train: {batch: 16, steps: 2, accumulate: %d, precision: fp32, optimizer: {name: sgd, lr: 1}}\n"
      "parallel: {strategy: ddp, backend: %s, threads: 1, bucket_bytes: 4}\n";
  static const char *const ways[][2] = {{"false", "ref"}, {"false", "cpu"}, {"true", "cpu"}};
  static const int accumulate[] = {1, 2, 3, 5, 9};
  float x[GROUPED_ROWS * GROUPED_PIXELS] = {0}, y[GROUPED_ROWS] = {0};
  ls_data_memory_t memory = {
      .rows = GROUPED_ROWS, .inputs = GROUPED_PIXELS, .outputs = 1, .features = x, .targets = y};
  for (int w = 0; w < LS_COUNT(ways); w++)
    for (int a = 0; a < LS_COUNT(accumulate); a++) {
      char config[1024];
      int32_t row[GROUPED_ROWS];
      snprintf(config, sizeof config, text, ways[w][0], accumulate[a], ways[w][1]);
      sim_order(config, &memory, GROUPED_ROWS, row);
      grouped_images(row, accumulate[a], x, y);
      sim_result_t result;
      sim_same_on_ranks(config, config, &memory, &result);
      assert_true(result.loss[1] != result.loss[0]); /* it did train */
      ls_free(result.param);
    }
}

/* Twelve samples of three ranks in five micro-batches: the last one has none. */
static void test_batch_norm_of_no_rows(void **state) {
  (void)state;
  static const char *const backends[] = {"ref", "cpu"};
  for (int b = 0; b < LS_COUNT(backends); b++) {
    char config[512];
    snprintf(config, sizeof config,
             "model: {input: [4, 4, 2], loss: mse, layers: [conv2d: {filters: 4, kernel: 3}, batch_norm: {}, "
             "dense: {units: 2}]}\n"
             "data: {kind: synthetic, samples: 48}\n"
             "train: {batch: 12, steps: 8, accumulate: 5}\n"
             "parallel: {strategy: ddp, backend: %s, threads: 1}\n",
             backends[b]);
    sim_result_t result;
    sim_train(&(sim_run_t){.text = config, .ranks = 3}, &result);
    assert_string_equal(result.error, "");
    assert_true(isfinite(result.loss[7]) && result.loss[7] != result.loss[0]);
    for (int64_t i = 0; i < result.param_count; i++)
      assert_true(isfinite(result.param[i]));
    ls_free(result.param);
  }
}

static const char mlp[] =
    "model: {input: [20], loss: mse, layers: [{dense: {units: 32, activation: relu, dropout: 0.2}}, "
    "{dense: {units: 16, activation: tanh}}, {dense: {units: 3}}]}\n"
    "data: {kind: synthetic, samples: 500, validation: 0.1}\n"
    "train: {batch: 50, steps: 100, accumulate: %d, optimizer: {name: %s}}\n"
    "parallel: {strategy: %s, backend: cpu, threads: 1, bucket_bytes: 1024}\n";

/* Norm of the difference over the norm of the reference. */
static double relative(const sim_result_t *a, const sim_result_t *b) {
  double diff = 0, norm = 0;
  assert_int_equal(a->param_count, b->param_count);
  for (int64_t i = 0; i < a->param_count; i++) {
    diff += pow((double)a->param[i] - (double)b->param[i], 2);
    norm += pow((double)b->param[i], 2);
  }
  return sqrt(diff / norm);
}

static void compare_worlds(const char *optimizer, double param_tolerance, double loss_tolerance) {
  char single[512], ddp[512];
  sim_result_t one;
  snprintf(single, sizeof single, mlp, 1, optimizer, "single");
  sim_train(&(sim_run_t){.text = single, .ranks = 1}, &one);
  assert_string_equal(one.error, "");
  assert_int_equal(one.steps, 100);
  assert_true(one.loss[99] < one.loss[0]);
  for (int accumulate = 1; accumulate <= 2; accumulate++)
    for (int ranks = 2; ranks <= 3; ranks++) {
      sim_result_t many;
      snprintf(ddp, sizeof ddp, mlp, accumulate, optimizer, "ddp");
      sim_train(&(sim_run_t){.text = ddp, .ranks = ranks}, &many);
      assert_string_equal(many.error, "");
      assert_true(relative(&many, &one) <= param_tolerance);
      for (int s = 0; s < 100; s++)
        assert_true(fabs(many.loss[s] - one.loss[s]) <= loss_tolerance);
      for (int r = 1; r < ranks; r++)
        assert_string_equal(many.hash[r], many.hash[0]);
      ls_free(many.param);
    }
  ls_free(one.param);
}

static void test_sgd_differs_by_rounding(void **state) {
  (void)state;
  compare_worlds("sgd, lr: 0.05", 1e-5, 1e-4);
}

static void test_adam_loss_curves_agree(void **state) {
  (void)state;
  compare_worlds("adam, lr: 0.001", 1e-3, 1e-4);
}

/* Every sample of the validation part counts once, on any number of ranks and with shares of unequal sizes. */
static void test_uneven_shares_evaluate_every_sample_once(void **state) {
  (void)state;
  static const char text[] = "model: {input: [6], loss: mse, layers: [{dense: {units: 2}}]}\n"
                             "data: {kind: synthetic, samples: 2000, validation: 0.5}\n"
                             "train: {batch: %d, steps: 1, optimizer: {name: sgd, lr: 0.001}}\n"
                             "parallel: {strategy: %s, backend: cpu, threads: 1}\n";
  static const int batches[] = {200, 257, 512, 1000};
  for (int b = 0; b < LS_COUNT(batches); b++) {
    double alone[2] = {0};
    for (int ranks = 1; ranks <= 3; ranks++) {
      char config[512];
      sim_result_t result;
      snprintf(config, sizeof config, text, batches[b], ranks > 1 ? "ddp" : "single");
      sim_train(&(sim_run_t){.text = config, .ranks = ranks}, &result);
      assert_string_equal(result.error, "");
      const double loss[] = {result.report.val_loss_first, result.report.val_loss};
      for (int i = 0; i < 2; i++) {
        if (ranks == 1) alone[i] = loss[i];
        assert_true(fabs(loss[i] - alone[i]) <= 1e-6 * alone[i]);
      }
      ls_free(result.param);
    }
  }
}

static void test_threads_do_not_change_ref(void **state) {
  (void)state;
  static const char text[] = "model: {input: [6], loss: mse, layers: [{dense: {units: 5, activation: gelu}}, "
                             "{dense: {units: 2}}]}\n"
                             "data: {kind: synthetic, samples: 100}\n"
                             "train: {batch: 10, steps: 20}\nparallel: {backend: ref, threads: %d}\n";
  char hash[33] = "", config[512];
  for (int threads = 1; threads <= 3; threads++) {
    sim_result_t result;
    snprintf(config, sizeof config, text, threads);
    sim_train(&(sim_run_t){.text = config, .ranks = 1}, &result);
    assert_string_equal(result.error, "");
    if (threads == 1) memcpy(hash, result.hash[0], sizeof hash);
    assert_string_equal(result.hash[0], hash);
    ls_free(result.param);
  }
}

/* They would train together without a word, each in its own way. */
static void test_ranks_with_other_options_are_refused(void **state) {
  (void)state;
  static const char text[] = "model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}\n"
                             "data: {kind: synthetic, samples: 64}\n"
                             "train: {batch: 16, steps: 2, optimizer: {lr: %s}}\n"
                             "parallel: {strategy: ddp, backend: cpu, threads: %d, deadline_s: %d}\n";
  char first[512], other[512];
  sim_result_t result;
  snprintf(first, sizeof first, text, "0.01", 1, 60);
  snprintf(other, sizeof other, text, "0.02", 1, 60);
  sim_train(&(sim_run_t){.text = first, .last_text = other, .ranks = 3}, &result);
  assert_int_not_equal(result.status, LS_OK);
  if (!strstr(result.error, "rank 2 was started with train.optimizer.lr: 0.02, rank 0 with 0.01"))
    fail_msg("%s", result.error);
  snprintf(other, sizeof other, text, "0.01", 2, 50); /* a rank's own affair */
  sim_train(&(sim_run_t){.text = first, .last_text = other, .ranks = 3}, &result);
  assert_string_equal(result.error, "");
  ls_free(result.param);
}

/* The rate is not to blame for gradients that only the wire cannot hold. */
static void test_overflow_of_the_wire_is_named(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}\n"
      "data: {kind: synthetic, normalize: false}\n"
      "train: {batch: 16, steps: 5, max_skipped: 2, optimizer: {name: sgd, lr: 1e-9}}\n"
      "parallel: {strategy: ddp, backend: cpu, threads: 1, wire: f16}\n";
  float x[EXACT_ROWS * 2], y[EXACT_ROWS];
  for (int i = 0; i < EXACT_ROWS; i++) {
    x[2 * i] = x[2 * i + 1] = 1000;
    y[i] = 1e6f;
  }
  ls_data_memory_t memory = {.rows = EXACT_ROWS, .inputs = 2, .outputs = 1, .features = x, .targets = y};
  sim_result_t result;
  sim_train(&(sim_run_t){.text = text, .ranks = 2, .memory = &memory}, &result);
  assert_int_equal(result.status, LS_ERR_NONFINITE);
  if (!strstr(result.error, "none above 65504: set parallel.wire: bf16 or f32")) fail_msg("%s", result.error);
  ls_free(result.param);
}

/* It warms up: threads, libraries, caches. */
static void test_the_first_step_is_no_speed(void **state) {
  (void)state;
  static const char text[] = "model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}\n"
                             "data: {kind: synthetic, samples: 64}\n"
                             "train: {batch: 16, steps: 2}\n"
                             "parallel: {backend: cpu, threads: 1}\n";
  sim_result_t result;
  sim_train(&(sim_run_t){.text = text, .ranks = 1}, &result);
  assert_string_equal(result.error, "");
  const ls_train_report_t *r = &result.report; /* its mean is of both steps */
  assert_true(fabs(r->samples_per_s * r->step_time_mean_us * 1e-6 / 16 - 1) > 1e-9);
  ls_free(result.param);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ranks_with_other_options_are_refused),
      cmocka_unit_test(test_overflow_of_the_wire_is_named),
      cmocka_unit_test(test_the_first_step_is_no_speed),
      cmocka_unit_test(test_exact_data_gives_the_same_bits),
      cmocka_unit_test(test_exact_images_give_the_same_bits),
      cmocka_unit_test(test_micro_batches_have_the_same_samples_on_any_number_of_ranks),
      cmocka_unit_test(test_batch_norm_of_no_rows),
      cmocka_unit_test(test_sgd_differs_by_rounding),
      cmocka_unit_test(test_adam_loss_curves_agree),
      cmocka_unit_test(test_uneven_shares_evaluate_every_sample_once),
      cmocka_unit_test(test_threads_do_not_change_ref)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
