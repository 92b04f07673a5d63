/* Every family of networks: ranks change no bits, and a run that was killed goes on to the bits of one that was not. */
#include "sim_world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { ROWS = 7, OUTPUTS = 2, VALUES_MAX = 48 };

/* Without dropout, so that an evaluation predicts what training does. */
static const struct {
  const char *name, *model;
  int inputs, ids; /* ids: samples are whole numbers below it */
} families[] = {
    {"lstm", "input: [4, 3], layers: [{lstm: {units: 5, output: last}}, {dense: {units: 2}}]", 12, 0},
    {"gru", "input: [4, 3], layers: [{gru: {units: 5, layers: 2, output: last}}, {dense: {units: 2}}]", 12,
     0},
    {"attention",
     "input: [4, 6], layers: [{attention: {name: a, heads: 2}}, {add: {from: [a, input]}}, {layer_norm: "
     "{over: last}}, "
     "{global_pool: {}}, {dense: {units: 2}}]",
     24, 0},
    {"embedding",
     "input: [6], layers: [{embedding: {size: 9, units: 4, init_std: 1}}, {positions: {}}, {attention: "
     "{heads: 1, "
     "causal: true}}, {global_pool: {kind: last}}, {dense: {units: 2}}]",
     6, 9},
    {"padded",
     "input: [6], pad: 1, layers: [{embedding: {size: 9, units: 4, init_std: 1}}, {lstm: {units: 3, "
     "bidirectional: true}}, {gru: {units: 3, bidirectional: true}}, {global_pool: {kind: max}}, {dense: "
     "{units: 2}}]",
     6, 9},
    {"convolution",
     "input: [4, 4, 3], layers: [{conv2d: {filters: 4, kernel: 3}}, {group_norm: {groups: 2}}, {activation: "
     "{kind: "
     "relu}}, {global_pool: {}}, {dense: {units: 2}}]",
     48, 0},
};

static char folder[64];
static float x[ROWS * VALUES_MAX], y[ROWS * OUTPUTS];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/lockstep-families-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
  (void)state;
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : 1;
}

static ls_data_memory_t make_data(int f) {
  for (int i = 0; i < ROWS * families[f].inputs; i++)
    x[i] = families[f].ids > 0 ? (float)(i * 5 % families[f].ids) : (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < ROWS * OUTPUTS; i++)
    y[i] = (float)(i % 3) - 1;
  return (ls_data_memory_t){
      .rows = ROWS, .inputs = families[f].inputs, .outputs = OUTPUTS, .features = x, .targets = y};
}

static void config_text(char text[1024], int f, const char *backend, const char *more) {
  snprintf(text, 1024,
           "model: {loss: mse, %s}\ndata: {kind: synthetic, normalize: false}\n"
           "train: {batch: %d, optimizer: {name: sgd, lr: 0.25}%s}\n"
           "parallel: {strategy: ddp, backend: %s, threads: 1, bucket_bytes: 4}\n",
           families[f].model, ROWS, more, backend);
}

/* The initial network's outputs, computed as training computes them. */
static void predict_first(const char *text, const ls_data_memory_t *memory, float *outputs) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm;
  ls_config_t *config;
  ls_trainer_t *t;
  const ls_trainer_options_t options = {.memory = memory};
  assert_int_equal(ls_comm_self_create(ctx, &comm), LS_OK);
  ls_world_t world = {.comm = comm};
  assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_OK);
  if (ls_trainer_create(ctx, &world, config, &options, &t) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
  assert_int_equal(ls_trainer_predict(t, ROWS, memory->features, outputs), LS_OK);
  ls_trainer_destroy(t);
  ls_config_destroy(config);
  ls_comm_destroy(comm);
  ls_ctx_destroy(ctx);
}

/* All samples but one have the network's own outputs as targets, and so no gradient: any order of adding is exact. The one
 * is another rank's each time, in uneven shares. */
static void ranks_change_no_bits(void **state) {
  (void)state;
  for (int f = 0; f < LS_COUNT(families); f++)
    for (int one = 0; one < ROWS; one += 3) {
      char text[1024];
      float outputs[ROWS * OUTPUTS];
      config_text(text, f, "ref", ", steps: 1");
      ls_data_memory_t memory = make_data(f);
      predict_first(text, &memory, outputs);
      memcpy(y, outputs, sizeof outputs);
      y[one * OUTPUTS] += 1;
      y[one * OUTPUTS + 1] -= 2;
      sim_result_t result;
      sim_same_on_ranks(families[f].name, text, &memory, &result);
      assert_true(result.loss[0] > 0);
      ls_free(result.param);
    }
}

static void a_killed_run_goes_on_to_the_bit(void **state) {
  (void)state;
  for (int f = 0; f < LS_COUNT(families); f++) {
    char whole[1024], part[1024], more[256];
    sim_result_t result[2];
    int ended;
    ls_data_memory_t memory = make_data(f);
    config_text(whole, f, "cpu", ", steps: 9");
    snprintf(more, sizeof more, ", steps: 9, checkpoint: {dir: %s/%s, every_steps: 2}", folder,
             families[f].name);
    config_text(part, f, "cpu", more);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      sim_train(&(sim_run_t){.text = part, .ranks = 1, .memory = &memory, .kill_after = 7}, &result[0]);
      _exit(1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    sim_train(&(sim_run_t){.text = part, .ranks = 1, .memory = &memory, .resume = true}, &result[0]);
    sim_train(&(sim_run_t){.text = whole, .ranks = 1, .memory = &memory}, &result[1]);
    assert_string_equal(result[0].error, "");
    assert_string_equal(result[1].error, "");
    assert_in_range(result[0].report.resumed_from, 2, 6);
    if (strcmp(result[0].hash[0], result[1].hash[0]) != 0) fail_msg("%s: other bits", families[f].name);
    ls_free(result[0].param);
    ls_free(result[1].param);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_run_goes_on_to_the_bit),
                                     cmocka_unit_test(ranks_change_no_bits)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
