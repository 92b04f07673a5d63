/* Data that stay on the device: whether they do is one rule, and the bits of a run do not depend on it. Host
 * backends take the same path when they are told to. */
#include "sim_world.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

/* Dropout, validation between epochs, a batch that does not divide the data, a short last batch. */
static const char *const models[] = {
    "model: {input: [7], loss: mse, layers: [{dense: {units: 9, activation: relu, dropout: 0.3}}, {dense: "
    "{units: "
    "3}}]}\n",
    "model: {input: [8], loss: cross-entropy, layers: [{dense: {units: 6, activation: tanh}}, {dense: "
    "{units: 4}}]}\n"};

static void config_text(char *text, size_t size, const char *model, const char *resident, const char *backend,
                        int accumulate, const char *more) {
  snprintf(text, size,
           "%sdata: {kind: synthetic, samples: 210, validation: 0.3, normalize: true, resident: %s}\n"
           "train: {batch: 32, epochs: 3, accumulate: %d, optimizer: {name: adam, lr: 0.01}%s}\n"
           "parallel: {strategy: ddp, backend: %s, threads: 2, bucket_bytes: 64}\n",
           model, resident, accumulate, more, backend);
}

static void train(const char *model, const char *resident, const char *backend, int accumulate, int ranks,
                  sim_result_t *result) {
  char text[1024];
  config_text(text, sizeof text, model, resident, backend, accumulate, "");
  sim_train(&(sim_run_t){.text = text, .ranks = ranks}, result);
  assert_string_equal(result->error, "");
  assert_int_equal(result->status, LS_OK);
}

static void test_same_bits(void **state) {
  (void)state;
  static const char *const backends[] = {"ref", "cpu"};
  for (int m = 0; m < 2; m++)
    for (int b = 0; b < 2; b++)
      for (int ranks = 1; ranks <= 3; ranks++)
        for (int accumulate = 1; accumulate <= 3; accumulate += 2) {
          sim_result_t there, here;
          train(models[m], "true", backends[b], accumulate, ranks, &there);
          train(models[m], "false", backends[b], accumulate, ranks, &here);
          assert_int_equal(there.steps, 14);
          assert_string_not_equal(here.hash[0], "");
          for (int r = 0; r < ranks; r++)
            assert_string_equal(there.hash[r], here.hash[r]);
          assert_memory_equal(there.loss, here.loss, sizeof here.loss);
          assert_true(there.report.val_loss == here.report.val_loss);
          assert_true(m == 0 || there.report.val_accuracy == here.report.val_accuracy);
          assert_true(there.loss[13] != there.loss[0]);
          ls_free(there.param);
          ls_free(here.param);
        }
}

/* Where the data are is not part of a run's state. */
static void test_resume_on_the_other_side(void **state) {
  (void)state;
  char folder[] = "/tmp/lockstep-resident-XXXXXX", more[128], text[1024];
  assert_non_null(mkdtemp(folder));
  sim_result_t whole, part, rest;
  train(models[0], "false", "cpu", 1, 1, &whole);
  snprintf(more, sizeof more, ", checkpoint: {dir: %s/run}", folder);
  config_text(text, sizeof text, models[0], "true", "cpu", 1, more);
  sim_train(&(sim_run_t){.text = text, .ranks = 1, .stop_after = 5}, &part);
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  config_text(text, sizeof text, models[0], "false", "cpu", 1, more);
  sim_train(&(sim_run_t){.text = text, .ranks = 1, .resume = true}, &rest);
  assert_string_equal(rest.error, "");
  assert_int_equal(rest.report.resumed_from, 5);
  assert_string_equal(rest.hash[0], whole.hash[0]);
  ls_free(whole.param);
  ls_free(part.param);
  ls_free(rest.param);
  assert_int_equal(ls_dir_remove(NULL, folder), LS_OK);
}

static ls_config_t *parse(ls_ctx_t *ctx, const char *resident) {
  char text[1024];
  ls_config_t *config = NULL;
  config_text(text, sizeof text, models[0], resident, "ref", 2, "");
  assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_OK);
  return config;
}

/* The tables are there, the slots are small, and what is given to predict comes from the host all the same.
 */
static void test_what_a_trainer_has(void **state) {
  (void)state;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm;
  assert_int_equal(ls_comm_self_create(ctx, &comm), LS_OK);
  ls_world_t world = {.comm = comm};
  float features[3 * 7], outputs[2][3 * 3];
  for (int i = 0; i < 3 * 7; i++)
    features[i] = (float)(i % 5) - 2;
  for (int side = 0; side < 2; side++) {
    ls_config_t *config = parse(ctx, side ? "false" : "true");
    ls_trainer_t *t;
    ls_fit_t fit;
    assert_int_equal(ls_trainer_create(ctx, &world, config, NULL, &t), LS_OK);
    ls_program_fit(&t->engine.step[LS_STEP_TRAIN].program, &fit);
    const ls_schedule_t *s = t->engine.step[LS_STEP_TRAIN].program.member[0];
    if (side == 0) {
      const ls_state_t *at = t->engine.state;
      assert_int_equal(t->engine.data_rows, 210);
      assert_int_equal(ls_fit_bytes(&fit, "data"), 210 * 7 * 4 + 210 * 3 * 4);
      assert_memory_equal(at->data[ls_state_find(t->engine.table, "features")], t->dataset->features,
                          210 * 7 * 4);
      assert_memory_equal(at->data[ls_state_find(t->engine.table, "targets")], t->dataset->targets,
                          210 * 3 * 4);
      assert_string_equal(s->tasks[0].name, "gather");
      assert_int_equal(s->tasks[0].phase, LS_PHASE_STEP_INPUT);
      assert_null(ls_run_input(t->engine.step[LS_STEP_TRAIN].run, "x", 0));
      assert_non_null(ls_run_input(t->engine.step[LS_STEP_TRAIN].run, "rows", 0));
    } else {
      assert_int_equal(t->engine.data_rows, 0);
      assert_int_equal(ls_fit_bytes(&fit, "data"), 0);
      assert_int_equal(ls_state_find(t->engine.table, "features"), -1);
      assert_non_null(ls_run_input(t->engine.step[LS_STEP_TRAIN].run, "x", 0));
      assert_null(ls_run_input(t->engine.step[LS_STEP_TRAIN].run, "rows", 0));
    }
    for (int again = 0; again < 2; again++) {
      memset(outputs[side], 0xff, sizeof outputs[side]);
      assert_int_equal(ls_trainer_predict(t, 3, features, outputs[side]), LS_OK);
    }
    ls_trainer_destroy(t);
    ls_config_destroy(config);
  }
  assert_memory_equal(outputs[0], outputs[1], sizeof outputs[0]);
  ls_comm_destroy(comm);
  ls_ctx_destroy(ctx);
}

static int64_t choose(ls_ctx_t *ctx, const char *resident, bool copies, int64_t rows, int64_t free_bytes,
                      ls_status_t want) {
  ls_config_t *config = parse(ctx, resident);
  const ls_backend_t backend = {.name = "device", .host_memory = !copies};
  ls_train_room_t room = {.backend = &backend, .rows = rows, .free_bytes = free_bytes};
  int64_t data_rows = -1;
  ls_ctx_clear(ctx);
  assert_int_equal(ls_train_resident(ctx, config, 2, &room, &data_rows), want);
  assert_int_equal(want == LS_OK, ls_ctx_error(ctx)[0] == 0);
  ls_config_destroy(config);
  return data_rows;
}

static int64_t step_bytes(ls_ctx_t *ctx, int64_t rows) {
  ls_config_t *config = parse(ctx, "auto");
  ls_step_t step;
  ls_fit_t fit;
  const ls_backend_t device = {.name = "device"};
  const ls_step_spec_t spec = {.step = ls_config_step(config),
                               .kind = LS_STEP_TRAIN,
                               .world_size = 2,
                               .rows = 8,
                               .data_rows = rows,
                               .backend = &device};
  assert_int_equal(ls_step_lower(ctx, &spec, &step), LS_OK);
  ls_program_fit(&step.program, &fit);
  ls_step_release(&step);
  ls_config_destroy(config);
  return fit.device_total_bytes;
}

static void test_the_rule(void **state) {
  (void)state;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  const bool gpu = true, host = false;
  const int64_t sample = (7 + 3) * 4, rows = 1000, many = INT64_C(1) << 40;
  /* auto: known, and at most a quarter */
  assert_int_equal(choose(ctx, "auto", host, rows, many, LS_OK), 0);
  assert_int_equal(choose(ctx, "auto", gpu, rows, many, LS_OK), rows);
  assert_int_equal(choose(ctx, "auto", gpu, rows, 0, LS_OK), 0);
  assert_int_equal(choose(ctx, "auto", gpu, 0, many, LS_OK), 0);
  assert_int_equal(choose(ctx, "auto", gpu, rows, 4 * rows * sample, LS_OK), rows);
  assert_int_equal(choose(ctx, "auto", gpu, rows, 4 * rows * sample - 1, LS_OK), 0);
  assert_int_equal(choose(ctx, "auto", gpu, INT64_C(1) + INT32_MAX, many, LS_OK), 0);
  assert_int_equal(choose(ctx, "auto", gpu, INT64_MAX, many, LS_OK), 0);
  /* the step beside it */
  int64_t need = step_bytes(ctx, 3);
  assert_int_equal(choose(ctx, "auto", gpu, 3, need + need / 7 + 8, LS_OK), 3);
  assert_int_equal(choose(ctx, "auto", gpu, 3, need + need / 7 - 8, LS_OK), 0);
  assert_int_equal(choose(ctx, "true", gpu, 3, need, LS_OK), 3);
  assert_int_equal(choose(ctx, "true", gpu, 3, need - 1, LS_ERR_MEMORY), 0);
  /* true: more than a quarter is fine, too much is said */
  assert_int_equal(choose(ctx, "true", gpu, rows, step_bytes(ctx, rows), LS_OK), rows);
  choose(ctx, "true", gpu, rows, rows * sample - 1, LS_ERR_MEMORY);
  choose(ctx, "true", gpu, INT64_C(1) + INT32_MAX, many, LS_ERR_CONFIG);
  assert_int_equal(choose(ctx, "true", gpu, rows, 0, LS_OK), rows);
  assert_int_equal(choose(ctx, "true", host, rows, 0, LS_OK), rows);
  assert_int_equal(choose(ctx, "false", gpu, rows, many, LS_OK), 0);
  ls_ctx_destroy(ctx);
}

static void test_loader_threads(void **state) {
  (void)state;
  ls_backend_t gpu = ls_backend_ref;
  assert_int_equal(ls_feed_threads(&gpu, 16, 1 << 20, 400, true), 1);
  /* a step of 3 us took 12, most of it the two threads' waiting for each other */
  assert_int_equal(ls_feed_threads(&gpu, 16, 5, 96, false), 0);
  assert_int_equal(ls_feed_threads(&gpu, 16, 128, 400, false), 1);
  gpu.host_processors = false;
  assert_int_equal(ls_feed_threads(&gpu, 16, 5, 96, false), 8);
  assert_int_equal(ls_feed_threads(&gpu, 16, 128, 400, false), 8);
  assert_int_equal(ls_feed_threads(&gpu, 3, 128, 400, false), 3);
  assert_int_equal(ls_feed_threads(&gpu, 16, 128, 400, true), 1);
  assert_int_equal(ls_feed_threads(&gpu, 16, 16384, 400, true), 4);
  assert_int_equal(ls_feed_threads(&gpu, 2, 16384, 400, true), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits),
                                     cmocka_unit_test(test_resume_on_the_other_side),
                                     cmocka_unit_test(test_what_a_trainer_has),
                                     cmocka_unit_test(test_the_rule), cmocka_unit_test(test_loader_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
