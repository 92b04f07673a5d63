/* Parameters that are trained in their own way: groups with another rate or decay, frozen ones, and the moving mean of
 * all. */
#include "sim_world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

enum { ROWS = 8 };
static char folder[64];
static float zeros[ROWS * 2], ones[ROWS];

static int make_folder(void **state) {
  (void)state;
  for (int i = 0; i < ROWS; i++)
    ones[i] = 1;
  snprintf(folder, sizeof folder, "/tmp/lockstep-parts-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
  (void)state;
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : 1;
}

static const ls_data_memory_t
    nothing = {.rows = ROWS, .inputs = 2, .outputs = 1, .features = zeros, .targets = zeros},
    one = {.rows = ROWS, .inputs = 2, .outputs = 1, .features = zeros, .targets = ones};

/* A trainer of one rank, which runs unless it only evaluates a checkpoint. */
typedef struct {
  ls_ctx_t *ctx;
  ls_comm_t *comm;
  ls_world_t world;
  ls_config_t *config;
  ls_trainer_t *t;
  ls_train_report_t report;
} rig_t;

static void open_rig(const char *text, const ls_data_memory_t *memory, const char *checkpoint, rig_t *rig) {
  rig->ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(ls_comm_self_create(rig->ctx, &rig->comm), LS_OK);
  rig->world = (ls_world_t){.comm = rig->comm};
  if (ls_config_parse(rig->ctx, "test", text, strlen(text), NULL, 0, &rig->config) != LS_OK)
    fail_msg("%s", ls_ctx_error(rig->ctx));
  const ls_trainer_options_t options = {
      .memory = memory, .checkpoint = checkpoint, .no_training = checkpoint != NULL};
  if (ls_trainer_create(rig->ctx, &rig->world, rig->config, &options, &rig->t) != LS_OK)
    fail_msg("%s", ls_ctx_error(rig->ctx));
  if (!checkpoint) assert_int_equal(ls_trainer_run(rig->t, NULL, &rig->report), LS_OK);
}

static void close_rig(rig_t *rig) {
  ls_trainer_destroy(rig->t);
  ls_config_destroy(rig->config);
  ls_comm_destroy(rig->comm);
  ls_ctx_destroy(rig->ctx);
}

/* The first element of a parameter in a row of the state. */
static float value_of(rig_t *rig, const char *row, const char *name) {
  const ls_layout_entry_t *e = ls_layout_find(rig->t->engine.table->layout, name);
  const float *flat;
  assert_non_null(e);
  assert_int_equal(ls_trainer_parameters(rig->t, &flat), LS_OK);
  return ((const float *)rig->t->engine.state->host[ls_state_find(rig->t->engine.table, row)])[e->offset];
}

/* Gradients are zero, so that only the decay moves a parameter: 1 becomes 1 - rate * decay. */
static void groups_have_their_own_rate_and_decay(void **state) {
  (void)state;
  static const char text[] = "model: {input: [2], loss: mse, layers: [{layer_norm: {name: a}}, {layer_norm: "
                             "{name: b}}, {layer_norm: "
                             "{name: c}}, {dense: {units: 1, init: zeros}}]}\n"
                             "data: {kind: synthetic, normalize: false}\n"
                             "train: {batch: 8, steps: 1, optimizer: {name: %s, lr: 0.125, weight_decay: "
                             "0.5, groups: [{match: [\"*\", "
                             "\"!a.*\", \"!c.*\"], decay: 0}, {match: \"?.weight\", lr: 0.5}]}}\n"
                             "parallel: {backend: cpu, threads: 1}\n";
  static const char *const names[] = {"sgd", "adamw"};
  for (int n = 0; n < LS_COUNT(names); n++) {
    char config[1024];
    rig_t rig;
    snprintf(config, sizeof config, text, names[n]);
    open_rig(config, &nothing, NULL, &rig);
    assert_true(value_of(&rig, "parameters", "a.weight") == 0.75f);
    assert_true(value_of(&rig, "parameters", "b.weight") == 1); /* the first group that matches */
    assert_true(value_of(&rig, "parameters", "c.weight") == 0.75f);
    const ls_layout_t *l = rig.t->engine.table->layout;
    assert_string_equal(l->entry[0].name, "c.bias"); /* those of no group lie first */
    assert_true(l->group_end[0] < l->group_end[1] && l->group_end[1] < l->group_end[2]);
    assert_true(l->group_end[2] == l->trained);
    close_rig(&rig);
  }
}

static void groups_change_no_bits_between_ranks(void **state) {
  (void)state;
  enum { EXACT = 64 };
  static const char text[] = "model: {input: [2], loss: mse, layers: [{dense: {units: 2, init: zeros}}, "
                             "{dense: {units: 1, init: zeros}}]}\n"
                             "data: {kind: synthetic, normalize: false}\n"
                             "train: {batch: 16, steps: 3, optimizer: {name: sgd, lr: 0.125, ema: 0.5, "
                             "groups: [{match: \"*.bias\", lr: "
                             "0.25}, {match: layers.1.weight, decay: 0.5}]}}\n"
                             "parallel: {strategy: ddp, backend: cpu, threads: 1, bucket_bytes: 4}\n";
  float x[EXACT * 2], y[EXACT];
  char first[33] = "";
  for (int i = 0; i < EXACT; i++) {
    x[2 * i] = (float)(i % 5 - 2);
    x[2 * i + 1] = (float)(i * 7 % 3 - 1);
    y[i] = x[2 * i] - 2 * x[2 * i + 1] + 1;
  }
  ls_data_memory_t memory = {.rows = EXACT, .inputs = 2, .outputs = 1, .features = x, .targets = y};
  for (int ranks = 1; ranks <= 3; ranks++) {
    sim_result_t result;
    sim_train(&(sim_run_t){.text = text, .ranks = ranks, .memory = &memory}, &result);
    assert_string_equal(result.error, "");
    if (ranks == 1) memcpy(first, result.hash[0], sizeof first);
    for (int r = 0; r < ranks; r++)
      assert_string_equal(result.hash[r], first);
    ls_free(result.param);
  }
}

static void frozen_patterns_keep_their_values(void **state) {
  (void)state;
  static const char text[] = "model: {input: [2], loss: mse, freeze: [\"*\", \"!*.bias\", layers.0.*], "
                             "layers: [{dense: {units: 2}}, {dense: "
                             "{units: 1}}]}\n"
                             "data: {kind: synthetic, normalize: false}\n"
                             "train: {batch: 8, steps: 3, optimizer: {name: sgd, lr: 0.125}}\n"
                             "parallel: {backend: cpu, threads: 1}\n";
  rig_t rig;
  open_rig(text, &one, NULL, &rig);
  const ls_layout_t *l = rig.t->engine.table->layout;
  assert_int_equal(l->trained_count, 1);
  assert_string_equal(l->entry[0].name, "layers.1.bias");
  assert_true(value_of(&rig, "parameters", "layers.1.bias") > 0);
  assert_true(value_of(&rig, "parameters", "layers.0.bias") == 0);
  close_rig(&rig);
}

/* A bias alone, whose values after every step are those of shorter runs. The evaluation, a checkpoint and what is read
 * back from it take the mean; the state of the run keeps both. */
static void the_mean_follows_the_parameters(void **state) {
  (void)state;
  static const char text[] = "model: {input: [2], loss: mse, layers: [{dense: {units: 1, init: zeros}}]}\n"
                             "data: {kind: synthetic, normalize: false, validation: 0.5}\n"
                             "train: {batch: 4, steps: %d, optimizer: {name: sgd, lr: 0.125, ema: %s}, "
                             "checkpoint: {dir: %s/mean%d}}\n"
                             "parallel: {backend: cpu, threads: 1}\n";
  enum { STEPS = 5 };
  char config[1024], dir[128];
  float mean = 0;
  rig_t rig;
  for (int steps = 1; steps <= STEPS; steps++) {
    snprintf(config, sizeof config, text, steps, "0.25", folder, steps);
    open_rig(config, &one, NULL, &rig);
    float p = value_of(&rig, "parameters", "layers.0.bias");
    double keep = (1.0 + steps - 1) / (10.0 + steps - 1);
    mean = mean + (float)(1 - (keep < 0.25 ? keep : 0.25)) * (p - mean);
    assert_true(value_of(&rig, "ema", "layers.0.bias") == mean && mean > 0 && mean < p);
    assert_true(fabs(rig.report.val_loss - (1.0 - (double)mean) * (1.0 - (double)mean)) < 1e-6);
    close_rig(&rig);
  }
  snprintf(dir, sizeof dir, "%s/mean%d", folder, STEPS);
  open_rig(config, &one, dir, &rig);
  assert_true(value_of(&rig, "parameters", "layers.0.bias") == mean);
  close_rig(&rig);
  snprintf(config, sizeof config, text, STEPS, "0", folder, STEPS); /* the parameters themselves */
  open_rig(config, &one, dir, &rig);
  assert_true(value_of(&rig, "parameters", "layers.0.bias") > mean);
  close_rig(&rig);
}

static void a_run_with_groups_and_mean_goes_on_to_the_bit(void **state) {
  (void)state;
  static const char text[] = "model: {input: [10], loss: mse, layers: [{dense: {units: 16, activation: "
                             "relu}}, {dense: {units: 2}}]}\n"
                             "data: {kind: synthetic, samples: 300, validation: 0.2}\n"
                             "train: {batch: 32, epochs: 4, optimizer: {name: adamw, lr: 0.01, ema: 0.9, "
                             "groups: [{match: \"*.bias\", decay: "
                             "0, lr: 0.02}], weight_decay: 0.1}, checkpoint: {dir: %s/%s}}\n"
                             "parallel: {backend: cpu, threads: 1}\n";
  char whole[1024], part[1024];
  sim_result_t result[3];
  snprintf(whole, sizeof whole, text, folder, "whole");
  snprintf(part, sizeof part, text, folder, "part");
  sim_train(&(sim_run_t){.text = whole, .ranks = 1}, &result[0]);
  sim_train(&(sim_run_t){.text = part, .ranks = 1, .stop_after = 11}, &result[1]);
  sim_train(&(sim_run_t){.text = part, .ranks = 1, .resume = true}, &result[2]);
  assert_string_equal(result[0].error, "");
  assert_string_equal(result[2].error, "");
  assert_int_equal(result[2].report.resumed_from, 11);
  assert_string_equal(result[2].hash[0], result[0].hash[0]);
  assert_true(result[2].report.val_loss == result[0].report.val_loss); /* of the mean */
  for (int i = 0; i < 3; i++)
    ls_free(result[i].param);
}

static void what_cannot_be_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *model, *optimizer, *says;
  } bad[] = {
      {"", "groups: [{match: \"*.bais\"}]",
       "train.optimizer.groups.match: no parameter has a name like `*.bais`"},
      {"freeze: [\"*\"], ", "lr: 1", "model.freeze: every parameter is frozen, so there is nothing to train"},
      {"freeze: [conv*], ", "lr: 1", "model.freeze: no parameter has a name like `conv*`"},
      {"", "groups: {match: a}", "train.optimizer.groups: a list of at most 16 groups was expected"},
      {"", "groups: [{decay: 0}]", "match"},
      {"", "groups: [{match: \"*\", weight_decay: 0}]", "weight_decay"},
  };
  for (int i = 0; i < LS_COUNT(bad); i++) {
    ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
    ls_config_t *config;
    char text[512];
    snprintf(text, sizeof text,
             "model: {input: [2], loss: mse, %slayers: [{dense: {units: 1}}]}\n"
             "data: {kind: synthetic}\ntrain: {optimizer: {%s}}\n",
             bad[i].model, bad[i].optimizer);
    assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_ERR_CONFIG);
    if (!strstr(ls_ctx_error(ctx), bad[i].says)) fail_msg("%s", ls_ctx_error(ctx));
    ls_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(groups_have_their_own_rate_and_decay),
      cmocka_unit_test(groups_change_no_bits_between_ranks),
      cmocka_unit_test(frozen_patterns_keep_their_values),
      cmocka_unit_test(the_mean_follows_the_parameters),
      cmocka_unit_test(a_run_with_groups_and_mean_goes_on_to_the_bit),
      cmocka_unit_test(what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
