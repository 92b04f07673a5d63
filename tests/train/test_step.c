/* Runs a step a call, and parameters by name: the public calls. */
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "sim_world.h"

#include "unit.h"

static const char text[] =
    "model: {input: [6], loss: mse, layers: [{dense: {units: 8, activation: tanh}}, {dense: {units: 2}}]}\n"
    "data: {kind: synthetic, samples: 96, validation: 0.25}\n"
    "train: {batch: 12, epochs: 3, optimizer: {name: adamw, lr: 0.01}}\n"
    "parallel: {strategy: single, backend: cpu, threads: 1}\n";

typedef struct {
  ls_ctx_t *ctx;
  ls_world_t *world;
  ls_config_t *config;
  ls_trainer_t *trainer;
} run_t;

/* `set`: an assignment to the configuration above, or NULL. */
static run_t open_run(const char *set) {
  run_t r = {.ctx = ls_ctx_create(NULL, NULL)};
  assert_int_equal(ls_config_parse(r.ctx, "test", text, strlen(text), &set, set != NULL, &r.config), LS_OK);
  assert_int_equal(ls_world_open(r.ctx, 0, &r.world), LS_OK);
  assert_int_equal(ls_trainer_create(r.ctx, r.world, r.config, NULL, &r.trainer), LS_OK);
  return r;
}

static void close_run(run_t *r) {
  ls_trainer_destroy(r->trainer);
  ls_world_close(r->world);
  ls_config_destroy(r->config);
  ls_ctx_destroy(r->ctx);
}

static const char *const sets[] = {NULL, "train.accumulate=3", "train.patience=1",
                                   "train.prune={sparsity: 0.5, begin: 2, end: 9}", "parallel.backend=ref"};

static void predict_and_look(ls_trainer_t *t) {
  const float x[3 * 6] = {0.5f, -1};
  float y[3 * 2];
  ls_parameter_t p = {.struct_bytes = sizeof p};
  ls_eval_report_t evaluation;
  assert_int_equal(ls_trainer_predict(t, 3, x, y), LS_OK);
  assert_int_equal(ls_trainer_evaluate(t, &evaluation), LS_OK);
  assert_int_equal(ls_trainer_parameter(t, NULL, 0, &p), LS_OK);
}

/* Also with predictions and evaluations between two steps, and where the last steps are taken by run. */
static void steps_give_the_bits_of_a_run(void **state) {
  (void)state;
  for (int i = 0; i < LS_COUNT(sets); i++)
    for (int64_t by_run = 0; by_run < 4; by_run += 3) {
      run_t whole = open_run(sets[i]), parts = open_run(sets[i]);
      ls_train_report_t expected, report;
      ls_step_stats_t s = {.struct_bytes = sizeof s, .left = INT64_MAX};
      assert_int_equal(ls_trainer_run(whole.trainer, NULL, &expected), LS_OK);
      for (int64_t step = 1; s.left > by_run; step++) {
        assert_int_equal(ls_trainer_step(parts.trainer, &s), LS_OK);
        assert_int_equal(s.step, step);
        assert_true(s.applied && s.loss > 0 && s.step_time_ns > 0);
        predict_and_look(parts.trainer);
        if (step == 1) assert_true(s.loss == expected.train_loss_first);
      }
      assert_int_equal(ls_trainer_run(parts.trainer, NULL, &report), LS_OK);
      assert_string_equal(report.params_xxh3, expected.params_xxh3);
      assert_true(report.train_loss == expected.train_loss && report.val_loss == expected.val_loss);
      assert_int_equal(report.steps, expected.steps);
      assert_string_equal(report.stopped_early, expected.stopped_early);
      close_run(&whole);
      close_run(&parts);
    }
}

static void take_steps(void *user, ls_trainer_t *t) {
  ls_step_stats_t s = {.struct_bytes = sizeof s};
  for (int i = 0; i < *(const int *)user; i++)
    if (ls_trainer_step(t, &s) != LS_OK) abort();
}

static void ranks_take_steps_together(void **state) {
  (void)state;
  static const char *const strategies[] = {"strategy: ddp", "strategy: fsdp, shard: optimizer"};
  for (int i = 0; i < LS_COUNT(strategies); i++)
    for (int ranks = 2; ranks <= 3; ranks++) {
      char several[1024];
      const char *parallel = strstr(text, "parallel:");
      snprintf(several, sizeof several, "%.*sparallel: {%s, backend: cpu, threads: 1}\n",
               (int)(parallel - text), text, strategies[i]);
      sim_result_t whole, parts;
      int steps = 7;
      sim_train(&(sim_run_t){.text = several, .ranks = ranks}, &whole);
      sim_train(&(sim_run_t){.text = several, .ranks = ranks, .begin = take_steps, .user = &steps}, &parts);
      assert_int_equal(whole.status, LS_OK);
      assert_int_equal(parts.status, LS_OK);
      assert_string_equal(parts.hash[ranks - 1], whole.hash[0]);
      assert_int_equal(parts.report.steps, whole.report.steps);
      ls_free(whole.param);
      ls_free(parts.param);
    }
}

static bool at_once(void *user) {
  (void)user;
  return true;
}

static void a_run_that_steps_began_ends_where_it_is(void **state) {
  (void)state;
  run_t whole = open_run(NULL), parts = open_run(NULL);
  const ls_train_hooks_t stop = {.stop = at_once};
  ls_train_report_t expected, report;
  ls_step_stats_t s = {.struct_bytes = sizeof s};
  for (int i = 0; i < 5; i++)
    assert_int_equal(ls_trainer_step(parts.trainer, &s), LS_OK);
  assert_null(ls_trainer_report_text(parts.trainer));
  assert_int_equal(ls_trainer_run(parts.trainer, &stop, &report), LS_ERR_INTERRUPTED);
  assert_int_equal(report.steps, 5);
  char *document = ls_trainer_report_text(parts.trainer);
  assert_non_null(strstr(document, "\"steps\":5"));
  ls_free(document);
  /* and the next run goes on from there */
  assert_int_equal(ls_trainer_step(parts.trainer, &s), LS_OK);
  assert_int_equal(s.step, 6);
  assert_int_equal(ls_trainer_run(parts.trainer, NULL, &report), LS_OK);
  assert_int_equal(ls_trainer_run(whole.trainer, NULL, &expected), LS_OK);
  assert_string_equal(report.params_xxh3, expected.params_xxh3);
  close_run(&whole);
  close_run(&parts);
}

static void steps_end_with_the_run(void **state) {
  (void)state;
  run_t r = open_run("train.epochs=1");
  ls_step_stats_t s = {.struct_bytes = sizeof s};
  for (int i = 0; i < 6; i++)
    assert_int_equal(ls_trainer_step(r.trainer, &s), LS_OK);
  assert_int_equal(s.left, 0);
  assert_int_equal(ls_trainer_step(r.trainer, &s), LS_ERR_ARGUMENT);
  assert_int_equal(ls_trainer_run(r.trainer, NULL, NULL), LS_OK);
  close_run(&r);
}

/* A caller that was compiled with fewer fields gets those. */
static void no_more_is_written_than_the_caller_has(void **state) {
  (void)state;
  run_t r = open_run(NULL);
  ls_step_stats_t s = {.struct_bytes = offsetof(ls_step_stats_t, loss), .loss = -7};
  ls_parameter_t p = {.struct_bytes = offsetof(ls_parameter_t, values)};
  assert_int_equal(ls_trainer_step(r.trainer, &s), LS_OK);
  assert_int_equal(s.step, 1);
  assert_true(s.loss == -7);
  assert_int_equal(ls_trainer_parameter(r.trainer, "layers.0.bias", 0, &p), LS_OK);
  assert_null(p.values);
  s.struct_bytes = p.struct_bytes = 0;
  assert_int_equal(ls_trainer_step(r.trainer, &s), LS_ERR_ARGUMENT);
  assert_int_equal(ls_trainer_parameter(r.trainer, NULL, 0, &p), LS_ERR_ARGUMENT);
  close_run(&r); /* with the run open */
}

static void parameters_are_got_and_set_by_name(void **state) {
  (void)state;
  run_t r = open_run(NULL);
  ls_parameter_t p = {.struct_bytes = sizeof p};
  static const char *const names[] = {"layers.0.bias", "layers.0.weight", "layers.1.bias", "layers.1.weight"};
  assert_int_equal(ls_trainer_parameter_count(r.trainer), LS_COUNT(names));
  for (int i = 0; i < LS_COUNT(names); i++) {
    assert_int_equal(ls_trainer_parameter(r.trainer, NULL, i, &p), LS_OK);
    assert_string_equal(p.name, names[i]);
    assert_true(p.trained);
  }
  assert_true(p.rank == 2 && p.dim[0] == 2 && p.dim[1] == 8);
  const float zeros[16] = {0}, bias[2] = {3, -4}, x[6] = {1, 2, 3};
  float y[2];
  assert_int_equal(ls_trainer_parameter_set(r.trainer, "layers.1.weight", zeros, 16), LS_OK);
  assert_int_equal(ls_trainer_parameter_set(r.trainer, "layers.1.bias", bias, 2), LS_OK);
  assert_int_equal(ls_trainer_parameter(r.trainer, "layers.1.bias", 0, &p), LS_OK);
  assert_memory_equal(p.values, bias, sizeof bias);
  assert_int_equal(ls_trainer_predict(r.trainer, 1, x, y), LS_OK);
  const ls_norm_t *norm = &ls_trainer_data(r.trainer)->norm;
  for (int i = 0; i < 2; i++)
    assert_true(y[i] == (float)((double)bias[i] / (double)norm->target_scale[i] + norm->target_mean[i]));
  assert_int_equal(ls_trainer_parameter_set(r.trainer, "layers.1.bias", bias, 3), LS_ERR_SHAPE);
  assert_int_equal(ls_trainer_parameter_set(r.trainer, "layers.7.bias", bias, 2), LS_ERR_NOT_FOUND);
  assert_int_equal(ls_trainer_parameter(r.trainer, NULL, 4, &p), LS_ERR_NOT_FOUND);
  assert_int_equal(ls_trainer_parameter(r.trainer, NULL, -1, &p), LS_ERR_NOT_FOUND);
  close_run(&r);
}

TESTS(NULL, NULL, steps_give_the_bits_of_a_run, ranks_take_steps_together,
      a_run_that_steps_began_ends_where_it_is, steps_end_with_the_run, no_more_is_written_than_the_caller_has,
      parameters_are_got_and_set_by_name)
