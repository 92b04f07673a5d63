/* An interrupted and resumed run ends in the same bits as an undisturbed one; another world size goes on too;
 * steps that are not finite are skipped, counted and end the run when they do not stop. */
#include "sim_world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/lockstep-resume-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
  (void)state;
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : 1;
}

static void config_text(char *text, size_t size, const char *dir, const char *strategy) {
  snprintf(
      text, size,
      "model: {input: [10], loss: mse, layers: [{dense: {units: 16, activation: relu, dropout: 0.3}}, "
      "{dense: {units: 2}}]}\n"
      "data: {kind: synthetic, samples: 300, validation: 0.2}\n"
      "train: {batch: 32, epochs: 12, accumulate: 2, optimizer: {name: adamw, lr: 0.01, weight_decay: 0.01}, "
      "schedule: {name: cosine, warmup_steps: 5}, clip_norm: 1.0, checkpoint: {dir: %s/%s, every_steps: 7}}\n"
      "parallel: {strategy: %s, backend: cpu, threads: 1}\n",
      folder, dir, strategy);
}

static void test_resume_gives_the_same_bits(void **state) {
  (void)state;
  char text[1024], interrupted[1024];
  sim_result_t whole, part, rest;
  config_text(text, sizeof text, "whole", "single");
  config_text(interrupted, sizeof interrupted, "part", "single");
  sim_train(&(sim_run_t){.text = text, .ranks = 1}, &whole);
  assert_string_equal(whole.error, "");
  sim_train(&(sim_run_t){.text = interrupted, .ranks = 1, .stop_after = 25}, &part);
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  assert_int_equal(part.report.steps, 25);
  assert_string_not_equal(part.report.params_xxh3, whole.report.params_xxh3);
  sim_train(&(sim_run_t){.text = interrupted, .ranks = 1, .resume = true}, &rest);
  assert_string_equal(rest.error, "");
  assert_int_equal(rest.report.resumed_from, 25);
  assert_string_equal(rest.report.params_xxh3, whole.report.params_xxh3);
  assert_true(rest.report.val_loss == whole.report.val_loss);
  ls_free(whole.param);
  ls_free(part.param);
  ls_free(rest.param);
}

/* Like config_text, of three epochs; samples by twos have gradients that overflow in f16 with the first loss scale. */
static void precision_text(char *text, size_t size, const char *dir, const char *precision) {
  snprintf(text, size,
           "model: {input: [10], loss: mse, layers: [{dense: {units: 16, activation: relu, dropout: 0.3}}, "
           "{dense: {units: 2}}]}\n"
           "data: {kind: synthetic, samples: 120, validation: 0.2}\n"
           "train: {batch: 2, epochs: 3, precision: %s, optimizer: {name: adam, lr: 0.01}, "
           "checkpoint: {dir: %s/%s, every_steps: 40}}\n"
           "parallel: {strategy: single, backend: cpu, threads: 1}\n",
           precision, folder, dir);
}

/* Parameters, moments and the loss scale are saved: the rest of the run has the same bits, and halves nothing again. */
static void test_resume_in_16_bits_gives_the_same_bits(void **state) {
  (void)state;
  static const char *const precisions[] = {"bf16", "fp16"};
  for (int k = 0; k < LS_COUNT(precisions); k++) {
    char text[1024], dir[32];
    sim_result_t whole, part, rest;
    snprintf(dir, sizeof dir, "whole-%s", precisions[k]);
    precision_text(text, sizeof text, dir, precisions[k]);
    sim_train(&(sim_run_t){.text = text, .ranks = 1}, &whole);
    assert_string_equal(whole.error, "");
    snprintf(dir, sizeof dir, "part-%s", precisions[k]);
    precision_text(text, sizeof text, dir, precisions[k]);
    sim_train(&(sim_run_t){.text = text, .ranks = 1, .stop_after = 11}, &part);
    assert_int_equal(part.status, LS_ERR_INTERRUPTED);
    sim_train(&(sim_run_t){.text = text, .ranks = 1, .resume = true}, &rest);
    assert_string_equal(rest.error, "");
    assert_int_equal(rest.report.resumed_from, 11);
    assert_string_equal(rest.report.params_xxh3, whole.report.params_xxh3);
    assert_true(rest.report.val_loss == whole.report.val_loss);
    assert_true(rest.report.loss_scale == whole.report.loss_scale);
    assert_int_equal(part.report.skipped_steps + rest.report.skipped_steps, whole.report.skipped_steps);
    bool scaled = strcmp(precisions[k], "fp16") == 0;
    assert_int_equal(part.report.skipped_steps > 0, scaled);
    assert_int_equal(whole.report.loss_scale > 0 && whole.report.loss_scale < 65536, scaled);
    ls_free(whole.param);
    ls_free(part.param);
    ls_free(rest.param);
  }
}

/* A checkpoint has the masters, so each precision goes on from that of another. */
static void test_a_checkpoint_of_any_precision(void **state) {
  (void)state;
  static const char *const precisions[] = {"fp32", "bf16", "fp16", "bf16", "fp32"};
  char text[1024];
  for (int k = 0; k < LS_COUNT(precisions); k++) {
    bool last = k + 1 == LS_COUNT(precisions);
    sim_result_t part;
    precision_text(text, sizeof text, "chain", precisions[k]);
    sim_train(&(sim_run_t){.text = text, .ranks = 1, .resume = k > 0, .stop_after = last ? 0 : 9 * (k + 1)},
              &part);
    assert_int_equal(part.status, last ? LS_OK : LS_ERR_INTERRUPTED);
    if (last) assert_string_equal(part.error, "");
    assert_int_equal(part.report.resumed_from, k > 0 ? 9 * k : -1);
    assert_string_equal(part.report.precision, precisions[k]);
    if (last) assert_true(part.report.val_loss < part.report.val_loss_first);
    ls_free(part.param);
  }
}

static void test_resume_on_another_world_size(void **state) {
  (void)state;
  char text[1024], other[1024];
  sim_result_t whole, part, rest;
  config_text(text, sizeof text, "whole2", "single");
  config_text(other, sizeof other, "other", "single");
  sim_train(&(sim_run_t){.text = text, .ranks = 1}, &whole);
  sim_train(&(sim_run_t){.text = other, .ranks = 1, .stop_after = 30}, &part);
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  config_text(other, sizeof other, "other", "ddp");
  sim_train(&(sim_run_t){.text = other, .ranks = 3, .resume = true}, &rest);
  assert_string_equal(rest.error, "");
  assert_int_equal(rest.report.resumed_from, 30);
  assert_true(fabs(rest.report.val_loss - whole.report.val_loss) < 1e-4);
  ls_free(whole.param);
  ls_free(part.param);
  ls_free(rest.param);
}

static void test_a_finished_run_stays_as_it_is(void **state) {
  (void)state;
  char text[1024];
  sim_result_t whole, again;
  config_text(text, sizeof text, "finished", "single");
  sim_train(&(sim_run_t){.text = text, .ranks = 1}, &whole);
  sim_train(&(sim_run_t){.text = text, .ranks = 1, .resume = true}, &again);
  assert_string_equal(again.error, "");
  assert_int_equal(again.report.steps, 0);
  assert_string_equal(again.report.params_xxh3, whole.report.params_xxh3);
  ls_free(whole.param);
  ls_free(again.param);
}

/* Two epochs at one batch and one at another are three epochs: each sample comes once in each. */
static void test_another_batch_goes_on_at_the_same_sample(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [3], loss: mse, layers: [{dense: {units: 1}}]}\n"
      "data: {kind: synthetic, samples: 60}\n"
      "train: {batch: %d, epochs: 3, optimizer: {name: sgd, lr: 0.01}, checkpoint: {dir: %s/batch}}\n"
      "parallel: {backend: cpu, threads: 1}\n";
  char first[512], second[512];
  sim_result_t part, rest;
  snprintf(first, sizeof first, text, 20, folder);
  snprintf(second, sizeof second, text, 12, folder);
  sim_train(&(sim_run_t){.text = first, .ranks = 1, .stop_after = 6}, &part); /* 120 samples: 2 epochs */
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  sim_train(&(sim_run_t){.text = second, .ranks = 1, .resume = true}, &rest);
  assert_string_equal(rest.error, "");
  assert_int_equal(rest.report.resumed_from, 6);
  assert_int_equal(rest.report.steps, 5); /* 60 samples left */
  assert_int_equal(rest.report.total_steps, 11);
  ls_free(part.param);
  ls_free(rest.param);
}

/* A rate so low that no parameter changes: the first evaluation is the best, and three later ones are not
 * better. */
static void test_early_stopping_counts_through_a_resume(void **state) {
  (void)state;
  static const char text[] = "model: {input: [3], loss: mse, layers: [{dense: {units: 1}}]}\n"
                             "data: {kind: synthetic, samples: 50, validation: 0.2}\n"
                             "train: {batch: 10, epochs: 30, patience: 3, optimizer: {name: sgd, lr: 1e-12}, "
                             "checkpoint: {dir: %s/%s}}\n"
                             "parallel: {backend: cpu, threads: 1}\n";
  char whole_text[512], part_text[512], best[128], target[64] = "";
  sim_result_t whole, part, rest, again;
  snprintf(whole_text, sizeof whole_text, text, folder, "early");
  snprintf(part_text, sizeof part_text, text, folder, "early-part");
  sim_train(&(sim_run_t){.text = whole_text, .ranks = 1}, &whole);
  assert_string_equal(whole.error, "");
  assert_int_equal(whole.report.steps, 16); /* 4 epochs of 4 steps */
  assert_non_null(
      strstr(whole.report.stopped_early, "at epoch 4: the validation loss has not improved for 3"));
  snprintf(best, sizeof best, "%s/early/best", folder);
  assert_true(readlink(best, target, sizeof target - 1) > 0);
  sim_train(&(sim_run_t){.text = part_text, .ranks = 1, .stop_after = 10}, &part);
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  sim_train(&(sim_run_t){.text = part_text, .ranks = 1, .resume = true}, &rest);
  assert_string_equal(rest.error, "");
  assert_int_equal(rest.report.steps, 6);
  assert_string_equal(rest.report.stopped_early, whole.report.stopped_early);
  assert_string_equal(rest.report.params_xxh3, whole.report.params_xxh3);
  sim_train(&(sim_run_t){.text = part_text, .ranks = 1, .resume = true}, &again);
  assert_int_equal(again.report.steps, 0);
  ls_free(whole.param);
  ls_free(part.param);
  ls_free(rest.param);
  ls_free(again.param);
}

/* A network with more parameters than samples: the validation loss falls and rises again. */
static void overfitting_text(char *text, size_t size, const char *dir, const char *more) {
  snprintf(text, size,
           "model: {input: [6], loss: mse, layers: [{dense: {units: 64, activation: relu}}, {dense: {units: "
           "1}}]}\n"
           "data: {kind: synthetic, samples: 80, validation: 0.4, noise: 2}\n"
           "train: {batch: 8, epochs: 24, seed: 3, metrics: [r2], optimizer: {name: adam, lr: 0.01}, "
           "checkpoint: {dir: %s/%s%s}}\n"
           "parallel: {backend: cpu, threads: 1}\n",
           folder, dir, more);
}

/* The lines of a run's history; the step of its lowest validation loss behind the beginning. */
static int read_history(const char *dir, json_t *line[64], int64_t *best) {
  char path[160];
  double lowest = INFINITY;
  int count = 0;
  snprintf(path, sizeof path, "%s/%s/history.jsonl", folder, dir);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (count < 64 && (line[count] = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL))) {
    const int64_t step = json_integer_value(json_object_get(line[count], "step"));
    const double loss = json_number_value(json_object_get(line[count++], "val_loss"));
    if (step == 0 || loss >= lowest) continue;
    lowest = loss;
    *best = step;
  }
  fclose(file);
  return count;
}

static int64_t linked_best(const char *dir) {
  char path[160], target[64] = "";
  long long step = -1;
  snprintf(path, sizeof path, "%s/%s/best", folder, dir);
  assert_true(readlink(path, target, sizeof target - 1) > 0);
  assert_int_equal(sscanf(target, "step-%lld", &step), 1);
  return step;
}

/* With the default every_steps only the last step was saved, and best was a link to that. */
static void test_the_best_evaluation_is_saved_and_named(void **state) {
  (void)state;
  static const struct {
    const char *dir, *more;
    int ranks;
  } runs[] = {{"fit", "", 1},
              {"fit-2", "", 2},
              {"fit-0", ", every_steps: 0, keep: 1", 1},
              {"fit-now", ", beside: false", 1}};
  for (int i = 0; i < LS_COUNT(runs); i++) {
    char text[1024];
    json_t *line[64];
    int64_t best = -1;
    sim_result_t run;
    overfitting_text(text, sizeof text, runs[i].dir, runs[i].more);
    sim_train(&(sim_run_t){.text = text, .ranks = runs[i].ranks}, &run);
    assert_string_equal(run.error, "");
    int lines = read_history(runs[i].dir, line, &best);
    assert_int_equal(lines, 25); /* before training and after each epoch */
    assert_in_range(best, 1, run.report.total_steps - 1);
    assert_int_equal(linked_best(runs[i].dir), best);
    assert_int_equal(run.report.best.step, best);
    assert_int_equal(run.report.best.epoch, best / 6);
    assert_true(run.report.best.value < run.report.val_loss && run.report.val_ended);
    assert_string_equal(run.report.best.name, "loss");
    assert_in_range(run.report.saves, 2, 24);
    for (int k = 0; k < lines; k++) {
      assert_true(json_is_number(json_object_get(line[k], "val_r2")));
      const bool behind = json_integer_value(json_object_get(line[k], "step")) >= best;
      if (behind)
        assert_int_equal(json_is_true(json_object_get(line[k], "best")),
                         json_integer_value(json_object_get(line[k], "step")) == best);
      json_decref(line[k]);
    }
    ls_free(run.param);
  }
}

/* The lines behind the checkpoint are the resumed process's; the best evaluation of the first process is still known. */
static void test_history_goes_on_where_a_run_is_resumed(void **state) {
  (void)state;
  char whole_text[1024], part_text[1024];
  json_t *whole_line[64], *line[64];
  int64_t best, again;
  sim_result_t whole, part, rest;
  overfitting_text(whole_text, sizeof whole_text, "history", "");
  overfitting_text(part_text, sizeof part_text, "history-part", ", every_steps: 48, keep: 9");
  sim_train(&(sim_run_t){.text = whole_text, .ranks = 1}, &whole);
  sim_train(&(sim_run_t){.text = part_text, .ranks = 1, .stop_after = 110}, &part);
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  /* as after a crash: the newest checkpoint is older than the newest lines */
  char newest[160];
  snprintf(newest, sizeof newest, "%s/history-part/step-%012d", folder, 110);
  assert_int_equal(ls_dir_remove(NULL, newest), LS_OK);
  sim_train(&(sim_run_t){.text = part_text, .ranks = 1, .resume = true}, &rest);
  assert_string_equal(rest.error, "");
  assert_int_equal(rest.report.resumed_from, 96);
  int lines = read_history("history", whole_line, &best);
  assert_int_equal(read_history("history-part", line, &again), lines);
  for (int i = 0; i < lines; i++) {
    const char *const alike[] = {"step", "val_loss", "val_r2", "best"};
    for (int k = 0; k < LS_COUNT(alike); k++)
      assert_true(json_equal(json_object_get(line[i], alike[k]), json_object_get(whole_line[i], alike[k])));
    assert_true(json_integer_value(json_object_get(line[i], "step")) > 96 || i == 0 ||
                json_equal(line[i], whole_line[i]));
    json_decref(line[i]);
    json_decref(whole_line[i]);
  }
  assert_int_equal(again, best);
  assert_int_equal(rest.report.best.step, best);
  assert_true(rest.report.best.value == whole.report.best.value);
  assert_int_equal(linked_best("history-part"), best);
  ls_free(whole.param);
  ls_free(part.param);
  ls_free(rest.param);
}

/* The report had the loss from before the training as the one at the end, an older checkpoint than the newest, and no
 * train.checkpoint.dir where there was one. */
static void test_a_diverged_run_reports_what_is_so(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [4], loss: mse, layers: [{dense: {units: 8}}, {dense: {units: 1}}]}\n"
      "data: {kind: synthetic, samples: 100, validation: 0.2}\n"
      "train: {batch: 10, steps: 400, max_skipped: 4, optimizer: {name: sgd, lr: %s}, "
      "checkpoint: {dir: %s/%s, every_steps: %d}}\n"
      "parallel: {backend: cpu, threads: 1}\n";
  static const struct {
    const char *dir, *lr, *unsaved;
    int every;
  } runs[] = {{"wild", "100", "the run ended before its first save", 0}, {"wild-saved", "100", "", 1}};
  for (int i = 0; i < LS_COUNT(runs); i++) {
    char config[512], dir[96], newest[1024];
    sim_result_t run;
    ls_ckpt_t *ckpt;
    ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
    snprintf(config, sizeof config, text, runs[i].lr, folder, runs[i].dir, runs[i].every);
    sim_train(&(sim_run_t){.text = config, .ranks = 1}, &run);
    assert_int_equal(run.status, LS_ERR_NONFINITE);
    assert_null(strstr(run.error, "-nan"));
    assert_true(isfinite(run.report.val_loss_first) && isnan(run.report.val_loss) && !run.report.val_ended);
    assert_string_equal(run.report.unsaved, runs[i].unsaved);
    snprintf(dir, sizeof dir, "%s/%s", folder, runs[i].dir);
    const bool saved = runs[i].every > 0;
    assert_int_equal(ls_ckpt_open_newest(ctx, dir, &ckpt), saved ? LS_OK : LS_ERR_NOT_FOUND);
    snprintf(newest, sizeof newest, "%s", saved ? ls_ckpt_path(ckpt) : "");
    assert_string_equal(run.report.checkpoint, newest);
    if (saved) ls_ckpt_close(ckpt);
    ls_ctx_destroy(ctx);
    ls_free(run.param);
  }
}

static void test_divergence_is_stopped_and_named(void **state) {
  (void)state;
  static const char text[] =
      "model: {input: [4], loss: mse, layers: [{dense: {units: 8}}, {dense: {units: 1}}]}\n"
      "data: {kind: synthetic, samples: 100}\n"
      "train: {batch: 10, steps: 400, max_skipped: 4, optimizer: {name: sgd, lr: 1e6}}\n"
      "parallel: {backend: cpu, threads: 1}\n";
  sim_result_t result;
  sim_train(&(sim_run_t){.text = text, .ranks = 1}, &result);
  assert_int_equal(result.status, LS_ERR_NONFINITE);
  assert_int_equal(result.report.skipped_steps, 4);
  assert_non_null(strstr(result.error, "train.optimizer.lr"));
  for (int64_t i = 0; i < result.param_count; i++)
    assert_true(isfinite(result.param[i]));
  ls_free(result.param);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_resume_gives_the_same_bits),
                                     cmocka_unit_test(test_resume_in_16_bits_gives_the_same_bits),
                                     cmocka_unit_test(test_a_checkpoint_of_any_precision),
                                     cmocka_unit_test(test_resume_on_another_world_size),
                                     cmocka_unit_test(test_a_finished_run_stays_as_it_is),
                                     cmocka_unit_test(test_another_batch_goes_on_at_the_same_sample),
                                     cmocka_unit_test(test_early_stopping_counts_through_a_resume),
                                     cmocka_unit_test(test_the_best_evaluation_is_saved_and_named),
                                     cmocka_unit_test(test_history_goes_on_where_a_run_is_resumed),
                                     cmocka_unit_test(test_a_diverged_run_reports_what_is_so),
                                     cmocka_unit_test(test_divergence_is_stopped_and_named)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
