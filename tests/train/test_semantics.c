/* What the reference of options says about training, computed. Gradients are zero here, so that only the
 * weight decay moves a parameter. What is said of one function alone is computed beside it:
 * test_graph_ops_values (gelu, layer_norm), test_graph_init (kaiming, xavier), test_optim_config (warm-up,
 * cosine), test_optim_update (adam's decay and eps). */
#include "sim_world.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { ROWS = 8 };

/* Weights of layer_norm begin at 1. Behind a layer of zeros, with targets of 0, the loss and every gradient
 * are 0. */
static void weight_decay_acts_on_layer_norm(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [2], loss: mse, layers: [{layer_norm: {}}, {dense: {units: 1, init: zeros}}]}\n"
      "data: {kind: synthetic, normalize: false}\n"
      "train: {batch: 8, steps: 1, optimizer: {name: %s, lr: 0.125, weight_decay: 0.5}}\n"
      "parallel: {backend: cpu, threads: 1}\n";
  static const char *const names[] = {"sgd", "adamw"};
  float x[ROWS * 2], y[ROWS] = {0};
  for (int i = 0; i < ROWS * 2; i++)
    x[i] = (float)(i % 5);
  ls_data_memory_t memory = {.rows = ROWS, .inputs = 2, .outputs = 1, .features = x, .targets = y};
  for (int n = 0; n < LS_COUNT(names); n++) {
    char config[512];
    sim_result_t result;
    snprintf(config, sizeof config, text, names[n]);
    sim_train(&(sim_run_t){.text = config, .ranks = 1, .memory = &memory}, &result);
    assert_string_equal(result.error, "");
    int decayed = 0;
    for (int64_t i = 0; i < result.param_count; i++) {
      if (result.param[i] == 0) continue;
      assert_true(result.param[i] == 0.9375f); /* 1 - 0.125 * 0.5 */
      decayed++;
    }
    assert_int_equal(decayed, 2);
    ls_free(result.param);
  }
}

/* One step with the bias alone: prediction b, target 1. Without decay the loss pulls b towards 1 and stays
 * there; with L2 decay wd the fixed point of b <- b - lr (2 (b - 1) + wd b) is 2 / (2 + wd). */
static void weight_decay_acts_on_biases(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [2], loss: mse, layers: [{dense: {units: 1, init: zeros}}]}\n"
      "data: {kind: synthetic, normalize: false}\n"
      "train: {batch: 8, steps: 200, optimizer: {name: sgd, lr: 0.125, weight_decay: 2}}\n"
      "parallel: {backend: cpu, threads: 1}\n";
  float x[ROWS * 2] = {0}, y[ROWS];
  for (int i = 0; i < ROWS; i++)
    y[i] = 1;
  ls_data_memory_t memory = {.rows = ROWS, .inputs = 2, .outputs = 1, .features = x, .targets = y};
  sim_result_t result;
  sim_train(&(sim_run_t){.text = text, .ranks = 1, .memory = &memory}, &result);
  assert_string_equal(result.error, "");
  float sum = 0;
  for (int64_t i = 0; i < result.param_count; i++)
    sum += result.param[i];
  assert_float_equal(sum, 0.5f, 1e-6);
  ls_free(result.param);
}

/* A program that embeds the library reads its configuration before it knows how many ranks there are. */
static void ranks_without_a_named_strategy_take_the_usual_one(void **state) {
  (void)state;
  static const char text[] = "model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}\n"
                             "data: {kind: synthetic, samples: 40}\n"
                             "train: {batch: 8, steps: 2}\n"
                             "parallel: {backend: cpu, threads: 1%s}\n";
  static const char *const open[] = {"", ", strategy: auto"};
  char config[512];
  sim_result_t result;
  for (int i = 0; i < LS_COUNT(open); i++) {
    snprintf(config, sizeof config, text, open[i]);
    sim_train(&(sim_run_t){.text = config, .ranks = 2}, &result);
    assert_string_equal(result.error, "");
    assert_string_equal(result.report.strategy, "ddp");
    assert_int_equal(result.report.world_size, 2);
    ls_free(result.param);
  }
  snprintf(config, sizeof config, text, ", strategy: single");
  sim_train(&(sim_run_t){.text = config, .ranks = 2}, &result);
  assert_non_null(strstr(result.error, "strategy \"single\" uses one rank, but 2 were started; use ddp"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weight_decay_acts_on_layer_norm),
      cmocka_unit_test(weight_decay_acts_on_biases),
      cmocka_unit_test(ranks_without_a_named_strategy_take_the_usual_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
