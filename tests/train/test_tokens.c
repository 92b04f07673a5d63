/* Networks of tokens: embedding, positions, attention, a class for every place. Ranks and resuming change nothing. */
#include "sim_world.h"

#include "graph/ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/lockstep-tokens-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
  (void)state;
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : 1;
}

/* Two layers, width 12, three heads; 9 places. */
#define GPT                                                                                                  \
  "model: {input: [9], loss: cross-entropy, label_smoothing: 0.1, layers: ["                                 \
  "{embedding: {name: wte, size: 17, units: 12}}, {positions: {kind: %s, size: 11}}, {dropout: {rate: "      \
  "0.1}}, "                                                                                                  \
  "{repeat: {times: 2, name: h, layers: [{layer_norm: {over: last}}, "                                       \
  "{attention: {name: attn, heads: 3, causal: true, dropout: 0.2}}, {add: {name: mid, from: [input, "        \
  "attn]}}, "                                                                                                \
  "{dense: {units: 48, over: last, activation: gelu_tanh}}, {dense: {units: 12, over: last, activation: "    \
  "silu}}, "                                                                                                 \
  "{drop_path: {name: fc, rate: 0.1}}, {add: {name: out, from: [mid, fc]}}]}}, {global_pool: {kind: "        \
  "first}}, "                                                                                                \
  "{dense: {name: gate, units: 12, activation: sigmoid}}, {multiply: {from: [h.1.out, gate]}}, "             \
  "{dense: {units: 17, over: last, bias: false, share: wte}}]}\n"

static void text_of(char text[2048], const char *positions, const char *dir, const char *strategy,
                    bool reproducible) {
  snprintf(text, 2048,
           GPT "data: {kind: synthetic, samples: 200, validation: 0.2}\n"
               "train: {batch: 20, steps: 60, optimizer: {name: adamw, lr: 0.01}, clip_norm: 1, "
               "checkpoint: {dir: %s/%s, every_steps: 7}}\n"
               "parallel: {strategy: %s, backend: cpu, threads: 2, reproducible: %s}\n",
           positions, folder, dir, strategy, reproducible ? "true" : "false");
}

static void test_it_learns_and_goes_on_to_the_bit(void **state) {
  (void)state;
  static const char *const kinds[] = {"learned", "sinusoidal"};
  for (int k = 0; k < 2; k++) {
    char text[2048], dir[32];
    sim_result_t whole, part, rest;
    snprintf(dir, sizeof dir, "whole-%s", kinds[k]);
    text_of(text, kinds[k], dir, "single", false);
    sim_train(&(sim_run_t){.text = text, .ranks = 1}, &whole);
    assert_string_equal(whole.error, "");
    assert_true(whole.loss[59] < 0.8 * whole.loss[0] && whole.report.val_loss < 0.8 * log(17));
    assert_true(whole.report.val_perplexity == exp(whole.report.val_loss));
    assert_true(whole.report.val_accuracy > 0.3 && whole.report.val_accuracy <= 1);
    snprintf(dir, sizeof dir, "part-%s", kinds[k]);
    text_of(text, kinds[k], dir, "single", false);
    sim_train(&(sim_run_t){.text = text, .ranks = 1, .stop_after = 16}, &part);
    assert_int_equal(part.status, LS_ERR_INTERRUPTED);
    sim_train(&(sim_run_t){.text = text, .ranks = 1, .resume = true}, &rest);
    assert_string_equal(rest.error, "");
    assert_string_equal(rest.report.params_xxh3, whole.report.params_xxh3);
    assert_true(rest.report.val_loss == whole.report.val_loss);
    ls_free(whole.param);
    ls_free(part.param);
    ls_free(rest.param);
  }
}

/* Dropout within attention included: its mask follows the sample. */
static void test_ranks_change_no_bits_of_a_reproducible_run(void **state) {
  (void)state;
  char first[33] = "";
  for (int ranks = 1; ranks <= 4; ranks *= 2) {
    char text[2048], dir[32];
    sim_result_t result;
    snprintf(dir, sizeof dir, "ranks-%d", ranks);
    text_of(text, "learned", dir, "ddp", true);
    sim_train(&(sim_run_t){.text = text, .ranks = ranks}, &result);
    assert_string_equal(result.error, "");
    if (ranks == 1) memcpy(first, result.hash[0], sizeof first);
    for (int r = 0; r < ranks; r++)
      assert_string_equal(result.hash[r], first);
    ls_free(result.param);
  }
}

/* Sines and cosines of place 0 are 0 and 1; all other numbers begin at 0 and stay small multiples of powers of two. */
static void test_exact_tokens_give_the_same_bits(void **state) {
  (void)state;
  enum { ROWS = 64 };
  static const char text[] =
      "model: {input: [1], loss: mse, layers: [{embedding: {name: e, size: 4, units: 4, init_std: 0}}, "
      "{positions: {kind: sinusoidal}}, {dense: {units: 1, init: zeros}}]}\n"
      "data: {kind: synthetic}\n"
      "train: {batch: 16, steps: 2, optimizer: {name: sgd, lr: 0.125}}\n"
      "parallel: {strategy: ddp, backend: %s, threads: 1, bucket_bytes: 4}\n";
  float x[ROWS], y[ROWS];
  for (int i = 0; i < ROWS; i++) {
    x[i] = (float)(i * 7 % 4);
    y[i] = (float)(i % 3 - 1);
  }
  ls_data_memory_t memory = {.rows = ROWS, .inputs = 1, .outputs = 1, .features = x, .targets = y};
  static const char *const backends[] = {"ref", "cpu"};
  for (int b = 0; b < 2; b++) {
    char config[1024];
    sim_result_t result;
    snprintf(config, sizeof config, text, backends[b]);
    sim_same_on_ranks(backends[b], config, &memory, &result);
    int trained = 0;
    for (int64_t i = 0; i < result.param_count; i++)
      trained += fabsf(result.param[i]) > 0;
    assert_true(trained > 10);
    ls_free(result.param);
  }
}

/* The loss of a batch in which some places do not count is the mean over samples of the mean over the others. */
static void test_ignored_places_count_nowhere(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [3], loss: cross-entropy, layers: [{embedding: {size: 3, units: 5, "
      "init_std: 1}}]}\ndata: {kind: synthetic}\ntrain: {batch: 2, steps: 1}\n";
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_config_t *config;
  ls_graph_t *graph;
  assert_int_equal(ls_config_parse(ctx, "c.yaml", text, strlen(text), NULL, 0, &config), LS_OK);
  assert_int_equal(ls_model_positions(&config->model), 3);
  assert_int_equal(ls_model_classes(&config->model), 5);
  assert_int_equal(ls_model_build(ctx, &config->model, 2, false, &graph), LS_OK);
  int32_t target[] = {0, -1, 4, -1, -1, 2};
  float weight[] = {0.5f, 0.5f}, each[6];
  int32_t to[6];
  const ls_attrs_t attrs = {.i = {config->model.ignore}};
  const ls_tensor_t in[] = {{target, LS_SHAPE(LS_I32, 2, 3)}, {weight, LS_SHAPE(LS_F32, 2)}};
  const ls_tensor_t out[] = {{each, LS_SHAPE(LS_F32, 6)}, {to, LS_SHAPE(LS_I32, 6)}};
  ls_kernel_args_t args = {.attrs = &attrs, .in = in, .in_count = 2, .out = out, .out_count = 2};
  assert_int_equal(ls_op_position_weights.forward(NULL, &args), LS_OK);
  const float want[] = {0.25f, 0, 0.25f, 0, 0, 0.5f};
  for (int i = 0; i < 6; i++) {
    assert_true(each[i] == want[i]);
    assert_int_equal(to[i], target[i] < 0 ? 0 : target[i]);
  }
  ls_graph_destroy(graph);
  ls_config_destroy(config);
  ls_ctx_destroy(ctx);
}

/* Samples of three lengths, filled up with token 0 to the same or to more places: each network trains to the same bits as
 * one whose places are just enough, and measures the same. */
static void test_padding_takes_no_part(void **state) {
  (void)state;
  enum { ROWS = 24, SHORT = 5, LONG = 8 };
  static const char *const nets[] = {
      "positions: {size: 8, init_std: 0.5}, attention: {heads: 2, dropout: 0}, layer_norm: {over: last}, "
      "global_pool: "
      "{kind: mean}, dense: {units: 3}",
      "attention: {heads: 1, causal: true}, global_pool: {kind: last}, dense: {units: 3}",
      "lstm: {units: 4, output: last}, dense: {units: 3}",
      "lstm: {units: 4, layers: 2, bidirectional: true}, global_pool: {kind: max}, dense: {units: 3}",
      "gru: {units: 4, layers: 2, bidirectional: true, output: last}, dense: {units: 3}",
  };
  static const int context[] = {SHORT, LONG};
  for (int n = 0; n < LS_COUNT(nets); n++) {
    char first[33] = "";
    double loss = 0, accuracy = 0;
    for (int k = 0; k < LS_COUNT(context); k++) {
      char text[1024];
      float x[ROWS * LONG] = {0};
      int32_t classes[ROWS];
      int places = context[k];
      for (int i = 0; i < ROWS; i++) {
        for (int t = 0; t < 3 + i % 3; t++) /* 3 to 5 tokens */
          x[i * places + t] = (float)(1 + (i * 7 + t * 3) % 10);
        classes[i] = i % 3;
      }
      snprintf(text, sizeof text,
               "model: {input: [%d], loss: cross-entropy, pad: 0, layers: [embedding: {size: 11, units: 4, "
               "init_std: 1}, "
               "%s]}\ndata: {kind: synthetic, validation: 0.5}\n"
               "train: {batch: 4, steps: 3, optimizer: {name: sgd, lr: 0.1}}\n"
               "parallel: {backend: ref, threads: 1}\n",
               places, nets[n]);
      const ls_data_memory_t memory = {.rows = ROWS, .inputs = places, .features = x, .classes = classes};
      sim_result_t result;
      sim_train(&(sim_run_t){.text = text, .ranks = 1, .memory = &memory}, &result);
      assert_string_equal(result.error, "");
      if (k == 0) {
        memcpy(first, result.hash[0], sizeof first);
        loss = result.report.val_loss;
        accuracy = result.report.val_accuracy;
      }
      assert_string_equal(result.hash[0], first);
      assert_true(result.report.val_loss == loss && result.report.val_accuracy == accuracy);
      assert_true(result.loss[2] != result.loss[0]);
      ls_free(result.param);
    }
  }
}

/* Of a class for every position those behind a sample's end are ignored. */
static void test_targets_in_padding_are_ignored(void **state) {
  (void)state;
  const int32_t target[] = {1, 2, 3, 4, 5, 6}, lengths[] = {2, 0};
  int32_t to[6];
  const ls_attrs_t attrs = {.i = {-1}};
  const ls_tensor_t in[] = {{(void *)(uintptr_t)target, LS_SHAPE(LS_I32, 2, 3)},
                            {(void *)(uintptr_t)lengths, LS_SHAPE(LS_I32, 2)}},
                    out = {to, LS_SHAPE(LS_I32, 2, 3)};
  ls_kernel_args_t args = {.attrs = &attrs, .in = in, .in_count = 2, .out = &out, .out_count = 1};
  assert_int_equal(ls_op_mask_targets.forward(NULL, &args), LS_OK);
  const int32_t want[] = {1, 2, -1, -1, -1, -1};
  assert_memory_equal(to, want, sizeof want);
}

static void test_what_padding_cannot_do_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *model, *says;
  } bad[] = {
      {"input: [4], pad: 0, layers: [dense: {units: 3}]", "model.pad has no effect without tokens"},
      {"input: [4], pad: 9, layers: [embedding: {size: 9, units: 4}, global_pool: {}, dense: {units: 3}]",
       "model.pad: 9 is no token of the embedding, whose rows are 0 to 8"},
      {"input: [4, 4, 6], layers: [group_norm: {groups: 4}, global_pool: {}, dense: {units: 3}]",
       "4 groups do not divide the 6 channels"},
  };
  for (int i = 0; i < LS_COUNT(bad); i++) {
    char text[512];
    sim_result_t result;
    snprintf(
        text, sizeof text,
        "model: {loss: cross-entropy, %s}\ndata: {kind: synthetic}\ntrain: {steps: 1, batch: 4}\nparallel: "
        "{backend: ref}\n",
        bad[i].model);
    sim_train(&(sim_run_t){.text = text, .ranks = 1}, &result);
    if (!strstr(result.error, bad[i].says)) fail_msg("%s", result.error);
  }
}

/* Like batch norm, but a sample alone: micro-batches and ranks change nothing. */
static void test_group_norm_trains_alike_in_parts(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [4, 4, 2], loss: mse, layers: [conv2d: {filters: 6, kernel: 3}, group_norm: {groups: "
      "3}, "
      "activation: {kind: relu}, global_pool: {}, dense: {units: 2}]}\n"
      "data: {kind: synthetic, samples: 64}\n"
      "train: {batch: 16, steps: 4, optimizer: {name: sgd, lr: 0.1}}\n"
      "parallel: {strategy: ddp, backend: cpu, threads: 1, reproducible: true, shards: 4}\n";
  char first[33] = "";
  for (int ranks = 1; ranks <= 4; ranks *= 2) {
    sim_result_t result;
    sim_train(&(sim_run_t){.text = text, .ranks = ranks}, &result);
    assert_string_equal(result.error, "");
    if (ranks == 1) memcpy(first, result.hash[0], sizeof first);
    assert_string_equal(result.hash[0], first);
    assert_true(result.loss[3] < result.loss[0]);
    ls_free(result.param);
  }
}

/* Which text a place belongs to decides: the network has nothing else. The separator ends the first at any place, and two
 * ranks give the same bits. */
static void test_two_texts_are_told_apart(void **state) {
  (void)state;
  enum { ROWS = 64, PLACES = 5, SEPARATOR = 3 };
  static const char text[] = "model: {input: [5], loss: mse, layers: [{embedding: {name: type, size: 2, "
                             "units: 1, id: 0, separator: 3, "
                             "init_std: 0}}, {global_pool: {kind: mean}}, {dense: {units: 1}}]}\n"
                             "data: {kind: synthetic, validation: 0.25}\n"
                             "train: {batch: 16, steps: 400, optimizer: {name: adam, lr: 0.05}}\n"
                             "parallel: {strategy: ddp, backend: cpu, threads: 1, reproducible: true}\n";
  float x[ROWS * PLACES], y[ROWS];
  for (int i = 0; i < ROWS; i++) {
    const int at = i * 7 % PLACES;
    for (int t = 0; t < PLACES; t++)
      x[i * PLACES + t] = (float)(t == at ? SEPARATOR : (i + t) % 3);
    y[i] = (float)(PLACES - 1 - at);
  }
  ls_data_memory_t memory = {.rows = ROWS, .inputs = PLACES, .outputs = 1, .features = x, .targets = y};
  char first[33];
  for (int ranks = 1; ranks <= 2; ranks++) {
    sim_result_t result;
    sim_train(&(sim_run_t){.text = text, .ranks = ranks, .memory = &memory}, &result);
    assert_string_equal(result.error, "");
    assert_true(result.loss[0] > 1 && result.report.val_loss < 1e-2);
    if (ranks == 1) memcpy(first, result.hash[0], sizeof first);
    assert_string_equal(result.hash[0], first);
    ls_free(result.param);
  }
}

/* Masks follow (seed, place in the stream of samples): ranks share a batch's, and a resumed run goes on with its own. */
static void test_masks_are_the_same_on_any_ranks_and_after_a_stop(void **state) {
  (void)state;
  enum { BYTES = 4000 };
  static const char bert[] =
      "model: {input: [16], loss: cross-entropy, layers: [{embedding: {name: wte, size: 64, units: 8}}, "
      "{positions: {size: 16}}, {attention: {heads: 2}}, {dense: {units: 64, over: last, bias: false, share: "
      "wte}}]}\n"
      "data: {kind: text, path: %s/corpus, tokens: bytes, context: 16, validation: 0.1, masked: 0.15}\n"
      "train: {batch: 24, steps: 12, optimizer: {name: adamw, lr: 0.01}, checkpoint: {dir: %s/masked-%d, "
      "every_steps: 5}}\n"
      "parallel: {strategy: ddp, backend: cpu, threads: 1, reproducible: %s}\n";
  char path[128], text[2048];
  snprintf(path, sizeof path, "%s/corpus", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int i = 0; i < BYTES; i++)
    fputc(1 + i * i % 7 + i % 50, file);
  assert_int_equal(fclose(file), 0);
  sim_result_t one;
  for (int ranks = 1; ranks <= 3; ranks++) {
    sim_result_t result;
    snprintf(text, sizeof text, bert, folder, folder, ranks, ranks < 3 ? "true" : "false");
    sim_train(&(sim_run_t){.text = text, .ranks = ranks}, &result);
    assert_string_equal(result.error, "");
    if (ranks == 1) one = result;
    if (ranks < 3) assert_string_equal(result.hash[0], one.hash[0]);
    for (int i = 0; i < 12; i++)
      assert_true(fabs(result.loss[i] - one.loss[i]) < 1e-4);
    assert_true(fabs(result.report.val_loss - one.report.val_loss) < 1e-4);
    if (ranks > 1) ls_free(result.param);
  }
  sim_result_t part, rest;
  snprintf(text, sizeof text, bert, folder, folder, 4, "true");
  sim_train(&(sim_run_t){.text = text, .ranks = 1, .stop_after = 7}, &part);
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  sim_train(&(sim_run_t){.text = text, .ranks = 2, .resume = true}, &rest);
  assert_string_equal(rest.error, "");
  assert_string_equal(rest.hash[0], one.hash[0]);
  assert_true(rest.report.val_loss == one.report.val_loss);
  ls_free(one.param);
  ls_free(part.param);
  ls_free(rest.param);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_it_learns_and_goes_on_to_the_bit),
      cmocka_unit_test(test_ranks_change_no_bits_of_a_reproducible_run),
      cmocka_unit_test(test_exact_tokens_give_the_same_bits),
      cmocka_unit_test(test_ignored_places_count_nowhere),
      cmocka_unit_test(test_padding_takes_no_part),
      cmocka_unit_test(test_targets_in_padding_are_ignored),
      cmocka_unit_test(test_what_padding_cannot_do_is_refused),
      cmocka_unit_test(test_group_norm_trains_alike_in_parts),
      cmocka_unit_test(test_two_texts_are_told_apart),
      cmocka_unit_test(test_masks_are_the_same_on_any_ranks_and_after_a_stop),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
