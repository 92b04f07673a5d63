/* Figures of evaluations: against the same computed from predictions, and equal for any number of ranks; the one that
 * makes a checkpoint the best. */
#include "sim_world.h"

#include "monitor/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { ROWS = 210, INPUTS = 4, OUTPUTS = 29 };

static float features[ROWS * INPUTS], values[ROWS * OUTPUTS];
static int32_t classes[ROWS];

/* Class c is wide where column c mod INPUTS is large, so a network of a few steps is often but not always right. The
 * last classes never occur, and one value lies far from 0. */
static int make_data(void **state) {
  (void)state;
  for (int i = 0; i < ROWS * INPUTS; i++)
    features[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < ROWS; i++) {
    const float *x = features + i * INPUTS;
    classes[i] = (x[0] > x[1]) + 2 * (x[2] > 0) + (x[3] > 0.5f) + 6 * (i % 4);
    for (int o = 0; o < OUTPUTS; o++)
      values[i * OUTPUTS + o] = x[o % INPUTS] * x[(o + 1) % INPUTS] + (o == 1 ? 4000 : 0);
  }
  return 0;
}

static void config_text(char text[1024], const char *loss, const char *metrics, const char *more) {
  snprintf(text, 1024,
           "model: {input: [%d], loss: %s, layers: [{dense: {units: %d}}]}\n"
           "data: {kind: synthetic, validation: 0.3, normalize: %s}\n"
           "train: {batch: 16, epochs: 2, metrics: [%s], optimizer: {name: sgd, lr: 0.05}%s}\n"
           "parallel: {strategy: ddp, backend: cpu, threads: 1, reproducible: true, shards: 4}\n",
           INPUTS, loss, OUTPUTS, strcmp(loss, "mse") == 0 ? "true" : "false", metrics, more);
}

static ls_data_memory_t memory_of(const char *loss) {
  ls_data_memory_t m = {.rows = ROWS, .inputs = INPUTS, .features = features};
  if (strcmp(loss, "cross-entropy") == 0) {
    m.classes = classes;
  } else {
    m.outputs = OUTPUTS;
    m.targets = values;
  }
  return m;
}

/* A trained trainer of one rank. */
typedef struct {
  ls_ctx_t *ctx;
  ls_comm_t *comm;
  ls_world_t world;
  ls_config_t *config;
  ls_trainer_t *t;
  ls_train_report_t report;
} trained_t;

static void train_with(const char *text, const char *const *sets, int count, const ls_data_memory_t *memory,
                       trained_t *one) {
  one->ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(ls_comm_self_create(one->ctx, &one->comm), LS_OK);
  one->world = (ls_world_t){.comm = one->comm};
  assert_int_equal(ls_config_parse(one->ctx, "test", text, strlen(text), sets, count, &one->config), LS_OK);
  const ls_trainer_options_t options = {.memory = memory};
  assert_int_equal(ls_trainer_create(one->ctx, &one->world, one->config, &options, &one->t), LS_OK);
  assert_int_equal(ls_trainer_run(one->t, NULL, &one->report), LS_OK);
}

static void train_one(const char *text, const ls_data_memory_t *memory, trained_t *one) {
  train_with(text, NULL, 0, memory, one);
}

static void release_one(trained_t *one) {
  ls_trainer_destroy(one->t);
  ls_config_destroy(one->config);
  ls_comm_destroy(one->comm);
  ls_ctx_destroy(one->ctx);
}

static double metric(const ls_eval_metrics_t *m, const char *name) {
  for (int i = 0; i < m->count; i++)
    if (strcmp(m->v[i].name, name) == 0) return m->v[i].value;
  fail_msg("no figure %s", name);
  return NAN;
}

static void assert_near(double a, double b) {
  if (!(fabs(a - b) <= 1e-6 * (1 + fabs(b)))) fail_msg("%.9g is not %.9g", a, b);
}

/* The harmonic mean of precision and recall, of one class or label. */
typedef struct {
  double right, predicted, is;
} counts_t;
static double f1_of(const counts_t *c, int count) {
  double sum = 0, present = 0;
  for (int i = 0; i < count; i++) {
    if (c[i].predicted + c[i].is == 0) continue;
    double precision = c[i].right / c[i].predicted, recall = c[i].right / c[i].is;
    sum += c[i].right > 0 ? 2 * precision * recall / (precision + recall) : 0;
    present++;
  }
  return sum / present;
}

/* The validation part's rows with the outputs for them. */
static int64_t predict(trained_t *one, int64_t *row, float *y) {
  const ls_dataset_t *d = one->t->dataset;
  float x[ROWS * INPUTS];
  for (int64_t i = 0; i < d->validation_count; i++) {
    row[i] = ls_dataset_row(d, LS_PART_VALIDATION, i);
    memcpy(x + i * INPUTS, features + row[i] * INPUTS, INPUTS * sizeof *x);
  }
  assert_int_equal(ls_trainer_predict(one->t, d->validation_count, x, y), LS_OK);
  return d->validation_count;
}

static void test_figures_of_classes(void **state) {
  (void)state;
  trained_t one;
  char text[1024];
  int64_t row[ROWS];
  float y[ROWS * OUTPUTS];
  counts_t count[OUTPUTS] = {{0}};
  double top5 = 0;
  config_text(text, "cross-entropy", "top5, f1, accuracy, loss", "");
  ls_data_memory_t memory = memory_of("cross-entropy");
  train_one(text, &memory, &one);
  int64_t rows = predict(&one, row, y);
  for (int64_t i = 0; i < rows; i++) {
    int best = 0, before = 0, is = classes[row[i]];
    for (int c = 0; c < OUTPUTS; c++) {
      if (y[i * OUTPUTS + c] > y[i * OUTPUTS + best]) best = c;
      before += y[i * OUTPUTS + c] > y[i * OUTPUTS + is];
    }
    count[best].predicted++;
    count[is].is++;
    count[is].right += best == is;
    top5 += before < 5;
  }
  const ls_eval_metrics_t *m = &one.report.val_metrics;
  assert_int_equal(m->count, 4);
  assert_near(metric(m, "f1"), f1_of(count, OUTPUTS));
  assert_near(metric(m, "top5"), top5 / (double)rows);
  assert_true(top5 > 0 && top5 < (double)rows);
  assert_true(metric(m, "accuracy") == one.report.val_accuracy && metric(m, "loss") == one.report.val_loss);
  release_one(&one);
}

static void test_figures_of_labels(void **state) {
  (void)state;
  trained_t one;
  char text[1024];
  int64_t row[ROWS];
  float y[ROWS * OUTPUTS], labels[ROWS * OUTPUTS];
  counts_t count[OUTPUTS] = {{0}};
  double right = 0;
  for (int i = 0; i < ROWS * OUTPUTS; i++)
    labels[i] = values[i] > 0.05f;
  config_text(text, "binary-cross-entropy", "f1, accuracy", "");
  ls_data_memory_t memory = memory_of("");
  memory.targets = labels;
  train_one(text, &memory, &one);
  int64_t rows = predict(&one, row, y);
  for (int64_t i = 0; i < rows; i++)
    for (int o = 0; o < OUTPUTS; o++) {
      bool predicted = y[i * OUTPUTS + o] > 0.5f, is = labels[row[i] * OUTPUTS + o] > 0.5f;
      assert_true(y[i * OUTPUTS + o] >= 0 && y[i * OUTPUTS + o] <= 1);
      count[o].predicted += predicted;
      count[o].is += is;
      count[o].right += predicted && is;
      right += predicted == is;
    }
  assert_near(metric(&one.report.val_metrics, "f1"), f1_of(count, OUTPUTS));
  assert_near(one.report.val_accuracy, right / (double)(rows * OUTPUTS));
  release_one(&one);
}

/* R2 keeps its digits where the targets lie far from 0, and the error has the unit of the data. */
static void test_figures_of_values(void **state) {
  (void)state;
  static const char *const losses[] = {"mse", "l1", "huber"}; /* mse normalises, see config_text */
  for (int l = 0; l < LS_COUNT(losses); l++) {
    trained_t one;
    char text[1024];
    int64_t row[ROWS];
    float y[ROWS * OUTPUTS];
    double mae = 0, r2 = 0;
    config_text(text, losses[l], "r2, mae", "");
    ls_data_memory_t memory = memory_of(losses[l]);
    train_one(text, &memory, &one);
    int64_t rows = predict(&one, row, y);
    for (int o = 0; o < OUTPUTS; o++) {
      double mean = 0, residual = 0, total = 0;
      for (int64_t i = 0; i < rows; i++)
        mean += (double)values[row[i] * OUTPUTS + o] / (double)rows;
      for (int64_t i = 0; i < rows; i++) {
        double t = values[row[i] * OUTPUTS + o], d = (double)y[i * OUTPUTS + o] - t;
        residual += d * d;
        total += (t - mean) * (t - mean);
        mae += fabs(d) / (double)(rows * OUTPUTS);
      }
      r2 += (1 - residual / total) / OUTPUTS;
    }
    /* predictions are rounded where they are made the data's */
    const ls_eval_metrics_t *m = &one.report.val_metrics;
    assert_true(fabs(metric(m, "r2") - r2) <= 1e-3 * (1 + fabs(r2)));
    assert_true(fabs(metric(m, "mae") - mae) <= 1e-4 * (1 + mae));
    release_one(&one);
  }
}

/* The sums of a constant output leave only rounding: it counts nowhere, and the figure is NaN where no output varies.
 * One sample is constant, too. */
static void test_r2_of_constant_outputs(void **state) {
  (void)state;
  static const float constants[] = {0.33333333f, 4000.1f, 1e-20f, 0, -3e15f, 1e6f / 3};
  static float targets[ROWS * OUTPUTS];
  static const struct {
    const char *validation;
    bool varies;
  } cases[] = {{"0.3", true}, {"0.3", false}, {"0.035", false}, {"0.005", true}};
  for (int k = 0; k < LS_COUNT(cases); k++)
    for (int ranks = 1; ranks <= 3; ranks++) {
      char text[1024];
      for (int i = 0; i < ROWS * OUTPUTS; i++) {
        int o = i % OUTPUTS;
        targets[i] = o == 5 && cases[k].varies ? values[i] + 4000 : constants[o % LS_COUNT(constants)];
      }
      snprintf(text, sizeof text,
               "model: {input: [%d], loss: l1, layers: [{dense: {units: %d, init: zeros}}]}\n"
               "data: {kind: synthetic, validation: %s}\n"
               "train: {batch: 16, steps: 1, metrics: [r2], best: r2, optimizer: {name: sgd, lr: 1e-12}}\n"
               "parallel: {backend: cpu, threads: 1}\n",
               INPUTS, OUTPUTS, cases[k].validation);
      ls_data_memory_t memory = memory_of("l1");
      memory.targets = targets;
      sim_result_t result;
      sim_train(&(sim_run_t){.text = text, .ranks = ranks, .memory = &memory}, &result);
      assert_string_equal(result.error, "");
      const double r2 = result.report.val_metrics.v[0].value;
      /* the network says 0, so only the mean of the output that varies is missed: by 4000 where it deviates by < 1 */
      if (k == 0 ? !(r2 < -1e6 && r2 > -1e10) : !isnan(r2))
        fail_msg("case %d, %d ranks: r2 %g", k, ranks, r2);
      ls_free(result.param);
    }
}

/* Errors of a load in MW and of a temperature were one mean. */
static void test_each_target_has_its_own_figures(void **state) {
  (void)state;
  enum { TARGETS = 3 };
  static float targets[ROWS * TARGETS];
  static const char *const names[] = {"0", "1", "2"};
  trained_t one;
  int64_t row[ROWS];
  float y[ROWS * TARGETS];
  for (int i = 0; i < ROWS; i++)
    for (int o = 0; o < TARGETS; o++)
      targets[i * TARGETS + o] = values[i * OUTPUTS + o] * (o == 0 ? 1e6f : 1) + (o == 0 ? 5e7f : 0);
  ls_data_memory_t memory = {
      .rows = ROWS, .inputs = INPUTS, .features = features, .outputs = TARGETS, .targets = targets};
  train_one("model: {input: [4], loss: mse, layers: [{dense: {units: 3}}]}\n"
            "data: {kind: synthetic, validation: 0.3}\n"
            "train: {batch: 16, epochs: 2, metrics: [loss, mae, r2], optimizer: {name: sgd, lr: 0.05}}\n"
            "parallel: {backend: cpu, threads: 1}\n",
            &memory, &one);
  const int64_t rows = predict(&one, row, y);
  const ls_eval_metrics_t *m = &one.report.val_metrics;
  assert_int_equal(m->targets, TARGETS);
  assert_true(!m->v[0].each && m->v[1].each && m->v[2].each);
  double mean[2] = {0, 0};
  for (int o = 0; o < TARGETS; o++) {
    double mae = 0;
    for (int64_t i = 0; i < rows; i++)
      mae += fabs((double)y[i * TARGETS + o] - (double)targets[row[i] * TARGETS + o]) / (double)rows;
    assert_string_equal(m->target[o], names[o]);
    assert_true(fabs(m->v[1].of[o] - mae) <= 1e-3 * mae);
    mean[0] += m->v[1].of[o] / TARGETS;
    mean[1] += m->v[2].of[o] / TARGETS;
  }
  assert_true(m->v[1].of[0] > 1e4 && m->v[1].of[2] < 10);
  assert_near(m->v[1].value, mean[0]);
  assert_near(m->v[2].value, mean[1]);
  release_one(&one);
}

/* Every figure is a value of the monitor's records, and so in its files. */
static void test_records_have_every_figure(void **state) {
  (void)state;
  for (int i = 0; ls_scores[i].name; i++) {
    char name[64];
    snprintf(name, sizeof name, "val_%s", ls_scores[i].name);
    if (!ls_metric_find(name, strlen(name))) fail_msg("no %s in record.h", name);
  }
}

/* Only what is certain: a constant answer is as good. */
static void test_notes_of_a_network_that_has_learned_nothing(void **state) {
  (void)state;
  static const struct {
    const char *loss, *lr;
    const char *notes[2];
  } runs[] = {{"cross-entropy",
               "1e-3",
               {"that of always answering with the classes' shares", "the validation accuracy is not above"}},
              {"cross-entropy", "1", {NULL, NULL}},
              {"mse", "1e-9", {"that of always answering with the targets' means", NULL}},
              {"mse", "0.3", {NULL, NULL}}};
  static int32_t few[ROWS];
  for (int i = 0; i < ROWS; i++)
    few[i] = features[i * INPUTS] > -0.8f; /* the second class is nine times as frequent */
  for (int k = 0; k < LS_COUNT(runs); k++) {
    const bool of_classes = strcmp(runs[k].loss, "cross-entropy") == 0;
    char text[1024];
    trained_t one;
    ls_data_memory_t memory = memory_of(runs[k].loss);
    static float linear[ROWS];
    for (int i = 0; i < ROWS; i++)
      linear[i] = 3 * features[i * INPUTS] - features[i * INPUTS + 1];
    memory.classes = of_classes ? few : NULL;
    memory.targets = linear;
    memory.outputs = 1;
    snprintf(text, sizeof text,
             "model: {input: [4], loss: %s, layers: [{dense: {units: %d%s}}]}\n"
             "data: {kind: synthetic, validation: 0.3}\n"
             "train: {batch: 16, epochs: 5, optimizer: {name: sgd, lr: %s}}\n"
             "parallel: {backend: cpu, threads: 1}\n",
             runs[k].loss, of_classes ? 2 : 1, of_classes ? ", init: zeros" : "", runs[k].lr);
    train_one(text, &memory, &one);
    int expected = 0;
    for (int i = 0; i < 2 && runs[k].notes[i]; i++, expected++)
      if (!strstr(one.report.note[i], runs[k].notes[i])) fail_msg("run %d: %s", k, one.report.note[i]);
    if (one.report.notes != expected) fail_msg("run %d: %s", k, one.report.note[0]);
    release_one(&one);
  }
}

/* The seed was that of everything: no two of its runs could be compared on one split. */
static void test_a_split_has_a_seed_of_its_own(void **state) {
  (void)state;
  static const struct {
    int seed, split;
    bool same_split, same_bits; /* as the first */
  } runs[] = {{5, -1, true, true}, {5, 5, true, true},    {6, 5, true, false},
              {7, 5, true, false}, {6, -1, false, false}, {5, 6, false, false}};
  int64_t first[ROWS];
  char hash[33] = "";
  for (int k = 0; k < LS_COUNT(runs); k++) {
    char text[1024], more[32];
    trained_t one;
    ls_data_memory_t memory = memory_of("mse");
    snprintf(more, sizeof more, ", seed: %d", runs[k].seed);
    config_text(text, "mse", "r2", more);
    char set[64];
    snprintf(set, sizeof set, "data.split_seed=%d", runs[k].split);
    const char *sets[] = {set};
    train_with(text, sets, 1, &memory, &one);
    bool same = true;
    for (int64_t i = 0; i < one.t->dataset->validation_count; i++) {
      const int64_t row = ls_dataset_row(one.t->dataset, LS_PART_VALIDATION, i);
      if (k == 0) first[i] = row;
      same = same && first[i] == row;
    }
    if (k == 0) memcpy(hash, one.report.params_xxh3, sizeof hash);
    assert_int_equal(same, runs[k].same_split);
    assert_int_equal(strcmp(hash, one.report.params_xxh3) == 0, runs[k].same_bits);
    release_one(&one);
  }
}

static void test_ranks_change_no_figure(void **state) {
  (void)state;
  static const struct {
    const char *loss, *metrics;
  } cases[] = {{"cross-entropy", "top5, f1"}, {"mse", "r2, mae"}};
  for (int k = 0; k < LS_COUNT(cases); k++) {
    char text[1024];
    ls_eval_metrics_t first = {0};
    ls_data_memory_t memory = memory_of(cases[k].loss);
    config_text(text, cases[k].loss, cases[k].metrics, "");
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
      sim_result_t result;
      sim_train(&(sim_run_t){.text = text, .ranks = ranks, .memory = &memory}, &result);
      assert_string_equal(result.error, "");
      const ls_eval_metrics_t *m = &result.report.val_metrics;
      assert_int_equal(m->count, 2);
      if (ranks == 1) first = *m;
      for (int i = 0; i < m->count; i++)
        assert_true(m->v[i].value == first.v[i].value && isfinite(m->v[i].value));
      ls_free(result.param);
    }
  }
}

/* What is shared out unevenly counts once: three ranks, of whose chunks the last is not full. */
static void test_uneven_shares_count_once(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [4], loss: cross-entropy, layers: [{dense: {units: 7, init: zeros, freeze: true}}, "
      "{dense: "
      "{units: 29, init: zeros}}]}\n"
      "data: {kind: synthetic, validation: 0.5}\n"
      "train: {batch: 16, steps: 1, metrics: [f1, top5], optimizer: {name: sgd, lr: 1e-12}}\n"
      "parallel: {backend: cpu, threads: 1}\n";
  double first[2] = {0};
  ls_data_memory_t memory = memory_of("cross-entropy");
  for (int ranks = 1; ranks <= 3; ranks++) {
    sim_result_t result;
    sim_train(&(sim_run_t){.text = text, .ranks = ranks, .memory = &memory}, &result);
    assert_string_equal(result.error, "");
    for (int i = 0; i < 2; i++) {
      double value = result.report.val_metrics.v[i].value;
      if (ranks == 1) first[i] = value;
      assert_true(value == first[i] && value > 0 && value < 1);
    }
    ls_free(result.param);
  }
}

/* Only the figure that train.best names counts, in its own direction: with as high a rate the accuracy rises while the
 * loss does not fall. */
static void test_the_named_figure_ends_a_run(void **state) {
  (void)state;
  static const char *const best[] = {"accuracy", "f1", "loss"};
  for (int i = 0; i < LS_COUNT(best); i++) {
    char text[1024], more[64];
    trained_t one;
    ls_data_memory_t memory = memory_of("cross-entropy");
    snprintf(more, sizeof more, ", patience: 1, best: %s", best[i]);
    config_text(text, "cross-entropy", "f1, accuracy, loss", more);
    train_one(text, &memory, &one);
    double value = metric(&one.report.val_metrics, best[i]);
    assert_true(one.t->run.val_figure == (i < 2 ? -value : value));
    release_one(&one);
  }
}

static void test_a_figure_that_the_loss_does_not_have_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *loss, *metrics, *says;
  } bad[] = {
      {"mse", "f1", "train.metrics: `f1` is none of the figures that loss: mse has: loss, r2, mae"},
      {"cross-entropy", "perplexity", "`perplexity` is none of the figures"},
      {"cross-entropy", "acuracy", "did you mean `accuracy`?"},
  };
  for (int i = 0; i < LS_COUNT(bad); i++) {
    ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
    ls_config_t *config;
    char text[1024];
    config_text(text, bad[i].loss, bad[i].metrics, "");
    assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_ERR_CONFIG);
    if (!strstr(ls_ctx_error(ctx), bad[i].says)) fail_msg("%s", ls_ctx_error(ctx));
    ls_ctx_destroy(ctx);
  }
}

static void test_a_label_outside_0_and_1_is_refused(void **state) {
  (void)state;
  char text[1024];
  ls_data_memory_t memory = memory_of("");
  sim_result_t result;
  config_text(text, "binary-cross-entropy", "f1", "");
  sim_train(&(sim_run_t){.text = text, .ranks = 1, .memory = &memory}, &result);
  assert_int_equal(result.status, LS_ERR_DATA);
  if (!strstr(result.error, "given targets: row 0, target 1 (from 0): 40") &&
      !strstr(result.error, "is not in [0, 1], where loss: binary-cross-entropy has its labels"))
    fail_msg("%s", result.error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_figures_of_classes),
      cmocka_unit_test(test_figures_of_labels),
      cmocka_unit_test(test_figures_of_values),
      cmocka_unit_test(test_r2_of_constant_outputs),
      cmocka_unit_test(test_each_target_has_its_own_figures),
      cmocka_unit_test(test_records_have_every_figure),
      cmocka_unit_test(test_notes_of_a_network_that_has_learned_nothing),
      cmocka_unit_test(test_a_split_has_a_seed_of_its_own),
      cmocka_unit_test(test_ranks_change_no_figure),
      cmocka_unit_test(test_uneven_shares_count_once),
      cmocka_unit_test(test_the_named_figure_ends_a_run),
      cmocka_unit_test(test_a_figure_that_the_loss_does_not_have_is_refused),
      cmocka_unit_test(test_a_label_outside_0_and_1_is_refused),
  };
  return cmocka_run_group_tests(tests, make_data, NULL);
}
