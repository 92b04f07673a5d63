/* Saving beside the training: the copy of the state that a thread writes from. */
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static char folder[64];
static const char text_format[] =
    "model: {input: [10], loss: mse, layers: [{dense: {units: 16}}, {dense: {units: 2}}]}\n"
    "data: {kind: synthetic, samples: 64}\n"
    "train: {batch: 16, epochs: 1, optimizer: {name: adamw, lr: 0.01}, checkpoint: {dir: %s/run, keep: 9}}\n"
    "parallel: {strategy: single, backend: cpu, threads: 1}\n";

typedef struct {
  ls_ctx_t *ctx;
  ls_world_t world;
  ls_config_t *config;
  ls_trainer_t *trainer;
} run_t;

static int setup(void **state) {
  static run_t run;
  char text[512];
  snprintf(folder, sizeof folder, "/tmp/lockstep-beside-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(text, sizeof text, text_format, folder);
  run = (run_t){.ctx = ls_ctx_create(NULL, NULL)};
  assert_int_equal(ls_comm_self_create(run.ctx, &run.world.comm), LS_OK);
  assert_int_equal(ls_config_parse(run.ctx, "test", text, strlen(text), NULL, 0, &run.config), LS_OK);
  assert_int_equal(
      ls_trainer_create(run.ctx, &run.world, run.config, &(ls_trainer_options_t){0}, &run.trainer), LS_OK);
  *state = &run;
  return 0;
}

static int teardown(void **state) {
  run_t *run = *state;
  ls_trainer_destroy(run->trainer);
  ls_config_destroy(run->config);
  ls_comm_destroy(run->world.comm);
  ls_ctx_destroy(run->ctx);
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : 1;
}

/* The copy once began as an object that was kept without its buffers: the next save then wrote from the memory that the
 * training changes meanwhile. */
static void a_copy_for_which_memory_was_short_is_made_anew(void **state) {
  run_t *run = *state;
  ls_trainer_t *t = run->trainer;
  int64_t failed = 0;
  for (bool made = false; !made; failed++) {
    ls_status_t status = LS_OK;
    ls_ctx_fail_alloc(run->ctx, failed + 1);
    made = ls_beside_copy(t, &status) != NULL;
    ls_ctx_fail_alloc(run->ctx, 0);
    assert_int_equal(status, made ? LS_OK : LS_ERR_MEMORY);
    assert_int_equal(t->saver.beside != NULL, made);
    if (!made) assert_int_equal(ls_beside_end(t), LS_OK); /* nothing is under way */
    status = LS_OK;
    void *const *copy = ls_beside_copy(t, &status);
    assert_non_null(copy);
    int apart = 0;
    for (int i = 0; i < t->engine.table->count; i++) {
      if (!t->engine.state->host[i]) continue;
      assert_ptr_not_equal(copy[i], t->engine.state->host[i]);
      assert_memory_equal(copy[i], t->engine.state->host[i], ls_state_row_bytes(&t->engine.table->row[i]));
      apart++;
    }
    assert_in_range(apart, 2, t->engine.table->count);
    ls_beside_destroy(t);
  }
  assert_in_range(failed, 3, 100);
}

static bool saved(int64_t step) {
  char path[128];
  snprintf(path, sizeof path, "%s/run/step-%012lld", folder, (long long)step);
  return ls_path_exists(path);
}

static void save_best(ls_trainer_t *t, int64_t step) {
  t->run.step = step;
  assert_int_equal(ls_trainer_save(t, LS_SAVE_BEST), LS_OK);
}

/* Saves of better evaluations that come faster than the disk is to be asked: the newest copy waits, older ones give way, and
 * every other reader or writer of the state finds it written. */
static void a_better_evaluation_waits_for_its_turn(void **state) {
  run_t *run = *state;
  ls_trainer_t *t = run->trainer;
  const int64_t long_ns = INT64_C(1000000000000000000) / LS_WRITES_APART;
  save_best(t, 1);
  assert_int_equal(ls_beside_end(t), LS_OK);
  assert_true(saved(1));
  t->saver.took_ns = long_ns; /* as if the first one had taken years */
  save_best(t, 2);
  save_best(t, 3);
  assert_false(ls_beside_failed(t));
  assert_false(saved(2) || saved(3));
  const float *unused;
  assert_int_equal(ls_trainer_parameters(t, &unused),
                   LS_OK); /* a pull: on a device the copy is where it goes */
  assert_true(saved(3) && !saved(2));
  t->saver.took_ns = long_ns;
  save_best(t, 4);
  t->saver.took_ns = 0; /* its turn has come */
  assert_false(ls_beside_failed(t));
  ls_beside_wait(t);
  assert_true(saved(4));
  assert_int_equal(ls_beside_end(t), LS_OK);
  t->saver.took_ns = long_ns;
  save_best(t, 5);
  t->run.step = 6;
  assert_int_equal(ls_trainer_save(t, LS_SAVE_BESIDE), LS_OK);
  assert_true(saved(5));
  assert_int_equal(ls_trainer_saved(t), LS_OK);
  assert_true(saved(6));
  t->saver.took_ns = long_ns;
  save_best(t, 7);
  assert_int_equal(t->saver.saves, 5);
  ls_beside_destroy(t); /* a trainer that ends, for whatever reason */
  assert_true(saved(7));
  assert_string_equal(ls_ctx_error(run->ctx), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_copy_for_which_memory_was_short_is_made_anew, setup, teardown),
      cmocka_unit_test_setup_teardown(a_better_evaluation_waits_for_its_turn, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
