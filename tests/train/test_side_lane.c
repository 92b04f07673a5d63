/* The side lane on whole networks: which tasks go there, that it changes no bit of what is saved, and the option. */
#include "engine/engine.h"
#include "graph/ops/ops.h"
#include "optim/optim.h"
#include "schedule/double.h"
#include "schedule/run.h"
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { TEXT_BYTES = 2048, STEPS = 3 };

static uint32_t seed;
static int draw(int below) {
  seed = seed * 1664525u + 1013904223u;
  return (int)((seed >> 16) % (uint32_t)below);
}

typedef struct {
  ls_ctx_t *ctx;
  ls_config_t *config;
  ls_step_t step;
} net_t;

static void open_net_on(net_t *n, const char *model, const char *train, const char *parallel,
                        const ls_backend_t *backend) {
  char text[TEXT_BYTES];
  snprintf(text, sizeof text,
           "model: {%s}\ndata: {kind: synthetic, samples: 64}\ntrain: {steps: 1, %s}\nparallel: {%s}\n",
           model, train, parallel);
  *n = (net_t){.ctx = ls_ctx_create(NULL, NULL)};
  ls_config_parse(n->ctx, "c.yaml", text, strlen(text), NULL, 0, &n->config);
  assert_string_equal(ls_ctx_error(n->ctx), "");
  const ls_step_spec_t spec = {
      .step = ls_config_step(n->config), .kind = LS_STEP_TRAIN, .world_size = 1, .backend = backend};
  assert_int_equal(ls_step_lower(n->ctx, &spec, &n->step), LS_OK);
  assert_int_equal(ls_program_check(&n->step.program), LS_OK);
}

/* copies: of a device with memory of its own, which computes on two streams. */
static void open_net(net_t *n, const char *model, const char *train, const char *parallel, bool copies) {
  ls_backend_t backend = double_capture;
  backend.side_bytes = copies ? 1 : 0;
  backend.host_memory = !copies;
  open_net_on(n, model, train, parallel, &backend);
}

static void close_net(net_t *n) {
  ls_step_release(&n->step);
  ls_config_destroy(n->config);
  ls_ctx_destroy(n->ctx);
}

/* Tasks of an op in the backward pass on a lane; op NULL: of any. */
static int count(const net_t *n, const ls_op_t *op, ls_lane_t lane) {
  const ls_schedule_t *s = n->step.program.member[0];
  int tasks = 0;
  for (int t = 0; t < s->task_count; t++)
    tasks += s->tasks[t].phase == LS_PHASE_STEP_BACKWARD && s->tasks[t].lane == lane &&
             (!op || s->tasks[t].op == op);
  return tasks;
}

/* Gradients of matrices, with and without a bias'. */
static int of_weights(const net_t *n, ls_lane_t lane) {
  return count(n, &ls_op_linear_dwb, lane) + count(n, &ls_op_linear_dw, lane);
}

#define TRAIN "batch: 4, optimizer: {name: sgd, lr: 0.1}"

/* The chain of each layer stays, with the gradient of what is between the layers. The shifted states that the gradient of
 * w_hh takes depend on no gradient, so they are made aside; of the first layer's two gradients one is left to the compute
 * lane, which has nothing else to do. */
static void what_a_chain_leaves_runs_beside_it(void **state) {
  (void)state;
  static const struct {
    const char *kind;
    const ls_op_t *chain;
    int aside, left, alone; /* alone: without a bias' gradient, which w_hh of an LSTM has none of */
  } rows[] = {{"lstm", &ls_op_lstm_chain_dx, 4, 1, 2}, {"gru", &ls_op_gru_chain_dx, 4, 1, 0}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    char model[256];
    net_t n;
    snprintf(
        model, sizeof model,
        "input: [6, 5], loss: mse, layers: [{%s: {units: 8, layers: 2, output: last}}, {dense: {units: 2}}]",
        rows[i].kind);
    open_net(&n, model, TRAIN, "side_lane: \"on\"", true);
    assert_int_equal(count(&n, rows[i].chain, LS_LANE_COMPUTE), 2);
    assert_int_equal(count(&n, &ls_op_linear_dx, LS_LANE_SIDE), 0);
    assert_int_equal(of_weights(&n, LS_LANE_SIDE), rows[i].aside);
    assert_int_equal(of_weights(&n, LS_LANE_COMPUTE), rows[i].left);
    assert_int_equal(count(&n, &ls_op_linear_dw, LS_LANE_SIDE) + count(&n, &ls_op_linear_dw, LS_LANE_COMPUTE),
                     rows[i].alone);
    assert_int_equal(count(&n, &ls_op_shift_positions, LS_LANE_SIDE), 2);
    const ls_schedule_t *s = n.step.program.member[0];
    for (int t = 0, chains = 0; t < s->task_count && chains < 2;
         t++) { /* until the last chain, nothing waits */
      if (s->tasks[t].lane == LS_LANE_COMPUTE && s->tasks[t].phase == LS_PHASE_STEP_BACKWARD)
        assert_int_equal(s->tasks[t].wait_count, 0);
      chains += s->tasks[t].op == rows[i].chain;
    }
    close_net(&n);
  }
}

/* The output layer shares the table of the embedding: its gradient is the sum of two, and both of these are on the side
 * lane, or at the end. The sum is where the second is made. */
static void a_shared_matrix_is_summed_aside(void **state) {
  (void)state;
  net_t n;
  open_net(
      &n,
      "input: [6], loss: cross-entropy, layers: [{embedding: {name: wte, size: 9, units: 4, init_std: 1}}, "
      "{attention: {heads: 2, causal: true}}, {layer_norm: {over: last}}, "
      "{dense: {units: 9, over: last, share: wte, bias: false}}]",
      TRAIN, "side_lane: \"on\"", true);
  assert_int_equal(count(&n, &ls_op_attention_dx, LS_LANE_COMPUTE), 1);
  assert_int_equal(of_weights(&n, LS_LANE_COMPUTE), 0);
  assert_true(of_weights(&n, LS_LANE_SIDE) >= 3);
  assert_int_equal(count(&n, &ls_op_linear_dx, LS_LANE_SIDE), 0);
  assert_int_equal(count(&n, &ls_op_layer_norm_dx, LS_LANE_SIDE), 0);
  assert_int_equal(count(&n, &ls_op_layer_norm_dgb, LS_LANE_SIDE), 1);
  assert_int_equal(
      count(&n, &ls_op_embedding_dw, LS_LANE_SIDE) + count(&n, &ls_op_embedding_dw, LS_LANE_COMPUTE), 1);
  assert_int_equal(count(&n, &ls_op_embedding_dw, LS_LANE_SIDE), count(&n, &ls_op_add, LS_LANE_SIDE));
  close_net(&n);
}

/* auto, without a plan, and every choice on a host: one lane computes. */
static void the_option_decides_on_a_device_alone(void **state) {
  (void)state;
  static const struct {
    const char *option;
    bool copies, aside;
  } rows[] = {{"", true, false},
              {"side_lane: auto", true, false},
              {"side_lane: \"off\"", true, false},
              {"side_lane: \"on\"", true, true},
              {"side_lane: on", true, true},
              {"side_lane: \"on\"", false, false}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    net_t n;
    open_net(&n,
             "input: [3], loss: mse, layers: [{dense: {units: 4, activation: relu}}, {dense: {units: 2}}]",
             TRAIN, rows[i].option, rows[i].copies);
    assert_int_equal(count(&n, NULL, LS_LANE_SIDE) > 0, rows[i].aside);
    close_net(&n);
  }
}

static int said;
static void count_words(void *user, ls_log_level_t level, const char *message) {
  (void)user, (void)level;
  said += strstr(message, "parallel.side_lane is on: without effect") != NULL;
}

/* What is said and what is lowered asked two facts: a device with memory of its own and one stream got the lane that was
 * said to be without effect. */
static void what_is_said_is_what_is_lowered(void **state) {
  (void)state;
  for (int sides = 0; sides < 2; sides++) {
    net_t n;
    ls_backend_t backend = double_capture;
    backend.side_bytes = (size_t)sides;
    ls_ctx_t *ctx = ls_ctx_create(count_words, NULL);
    open_net_on(&n,
                "input: [3], loss: mse, layers: [{dense: {units: 4, activation: relu}}, {dense: {units: 2}}]",
                TRAIN, "side_lane: on", &backend);
    said = 0;
    ls_config_say_unused(ctx, n.config, &backend);
    assert_int_equal(said, !sides);
    assert_int_equal(count(&n, NULL, LS_LANE_SIDE) > 0, sides);
    close_net(&n);
    ls_ctx_destroy(ctx);
  }
}

/* Inputs by their names; those of an embedding are whole numbers. */
static void fill_inputs(const net_t *n, ls_run_t *run, int slot, int unit) {
  const ls_schedule_t *s = n->step.program.member[0];
  for (int i = 0; i < s->tensor_count; i++) {
    const ls_sched_tensor_t *t = &s->tensors[i];
    if (t->region != LS_REGION_INPUT || strcmp(t->name, "input") == 0 || strcmp(t->name, LS_NAME_STEP) == 0)
      continue;
    void *to = ls_run_input(run, t->name, slot);
    const int64_t values = ls_shape_count(&t->shape);
    const bool ids = strcmp(t->name, LS_NAME_X) == 0 && ls_model_ids(&n->config->model) > 0;
    assert_int_equal(t->shape.dtype, LS_F32);
    for (int64_t k = 0; k < values; k++) {
      const uint32_t word = ls_rng(7, LS_RNG_SYNTHETIC, (uint64_t)(unit * 4096 + k)).v[i % 4];
      const float noise = ls_rng_unit(word) - 0.5f;
      ((float *)to)[k] = ids ? (float)(word % 9) : strcmp(t->name, LS_NAME_WEIGHT) == 0 ? 0.25f : noise;
    }
  }
  *(ls_step_params_t *)ls_run_input(run, LS_NAME_STEP, slot) =
      (ls_step_params_t){.seed = 5, .position = (uint64_t)unit * 4, .lr = 0.05f, .dloss = 1};
}

/* What a checkpoint after a few steps holds: the saved rows, one after the other. Owned by the caller. */
static char *train(const net_t *n, const ls_backend_t *backend, size_t *size_bytes) {
  const ls_program_t *p = &n->step.program;
  ls_state_table_t *table = p->member[0]->state;
  ls_device_t *device;
  ls_stream_t *stream;
  ls_state_t *memory;
  ls_run_t *run;
  const float *stats = NULL;
  assert_int_equal(backend->device->open(n->ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  assert_int_equal(backend->stream->create(device, LS_STREAM_INLINE, &stream), LS_OK);
  assert_int_equal(ls_state_create(n->ctx, table, device, true, &memory), LS_OK);
  assert_int_equal(ls_state_fill(memory, stream, 3, 0), LS_OK);
  ls_run_create(n->ctx, p, device, NULL, memory, NULL, &run);
  assert_string_equal(ls_ctx_error(n->ctx), "");
  const int slots = p->member[0]->input_slots, units = STEPS * p->micro_batches;
  fill_inputs(n, run, 0, 0);
  assert_int_equal(ls_run_prime(run, 0), LS_OK);
  for (int unit = 0; unit < units; unit++) {
    fill_inputs(n, run, (unit + 1) % slots, unit + 1);
    assert_int_equal(ls_run_launch(run, unit % slots, unit), LS_OK);
    assert_int_equal(ls_run_wait(run, unit % slots, &stats), LS_OK);
  }
  assert_non_null(stats);
  assert_true(stats[LS_STAT_APPLIED] == 1);
  assert_int_equal(ls_state_pull(memory, stream, 0), LS_OK);
  size_t used = 0;
  char *saved = calloc(1, 1 << 20);
  assert_non_null(saved);
  for (int i = 0; i < table->count; i++) {
    const size_t row_bytes = ls_state_row_bytes(&table->row[i]);
    if (table->row[i].file == LS_STATE_UNSAVED) continue;
    assert_true(used + row_bytes <= 1 << 20);
    memcpy(saved + used, memory->host[i], row_bytes);
    used += row_bytes;
  }
  *size_bytes = used;
  ls_run_destroy(run);
  ls_state_destroy(memory);
  backend->stream->destroy(stream);
  backend->device->close(device);
  return saved;
}

/* Drawn networks of every family and numbers of micro-batches. */
static void drawn_networks_save_the_same_bits(void **state) {
  (void)state;
  static const char *const models[] = {
      "input: [7], layers: [{dense: {units: %d, activation: relu}}, {layer_norm: {}}, {dense: {units: %d, "
      "activation: "
      "tanh, dropout: 0.3}}, {dense: {units: 2}}]",
      "input: [5, 3], layers: [{lstm: {units: %d, layers: 2}}, {lstm: {units: %d, output: last}}, {dense: "
      "{units: 2}}]",
      "input: [5, 3], layers: [{gru: {units: %d, layers: 2}}, {gru: {units: %d, output: last}}, {dense: "
      "{units: 2}}]",
      "input: [6], layers: [{embedding: {size: 9, units: 4, init_std: 1}}, {positions: {}}, {attention: "
      "{heads: 2, "
      "causal: true}}, {dense: {units: %d, over: last, activation: gelu}}, {dense: {units: %d, over: last}}, "
      "{global_pool: {kind: last}}, "
      "{dense: {units: 2}}]",
      "input: [5, 4, 3], layers: [{conv2d: {filters: %d, kernel: 3}}, {group_norm: {groups: 1}}, "
      "{activation: {kind: "
      "relu}}, {conv2d: {filters: %d, kernel: 1}}, {batch_norm: {}}, {global_pool: {}}, {dense: {units: 2}}]",
      "input: [4], layers: [{dense: {units: 6, name: stem}}, {repeat: {times: 2, layers: [{dense: {units: 6, "
      "activation: "
      "tanh, name: fc}}, {dense: {units: 6, share: fc, name: again}}, {add: {from: [input, again], name: "
      "sum}}]}}, "
      "{dense: {units: %d}}, {dense: {units: %d}}, {dense: {units: 2}}]"};
  static const char *const optimizers[] = {"{name: adamw, lr: 0.01}", "{name: sgd, lr: 0.1, momentum: 0.9}"};
  static const ls_op_t *const *const lists[] = {ls_ops, ls_optim_ops};
  double_ops(2, lists);
  for (int n = 1; n <= 60; n++) {
    char model[TEXT_BYTES / 2], layers[TEXT_BYTES / 4], train_text[256], parallel[2][128];
    char *saved[2];
    size_t saved_bytes[2];
    seed = (uint32_t)n;
    const char *form = models[n % LS_COUNT(models)];
    const int first = 1 + draw(9), second = 1 + draw(9);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(layers, sizeof layers, form, first, second);
#pragma GCC diagnostic pop
    snprintf(model, sizeof model, "loss: mse, %s", layers);
    const bool batch_norm = strstr(form, "batch_norm") != NULL, reproducible = draw(3) == 0;
    snprintf(train_text, sizeof train_text, "batch: 8, clip_norm: %s, optimizer: %s%s", draw(2) ? "0.5" : "0",
             optimizers[draw(2)],
             reproducible ? ""
             : draw(2)    ? ", accumulate: 3"
                          : "");
    for (int on = 0; on < 2; on++)
      snprintf(parallel[on], sizeof parallel[on], "side_lane: \"%s\", bucket_bytes: %d%s", on ? "on" : "off",
               n % 2 ? 64 : 1 << 20, reproducible && !batch_norm ? ", reproducible: true, shards: 4" : "");
    const ls_backend_t *backend = draw(2) ? &double_eager : &double_capture;
    for (int on = 0; on < 2; on++) {
      net_t net;
      open_net(&net, model, train_text, parallel[on], true);
      assert_int_equal(count(&net, NULL, LS_LANE_SIDE) > 0, on);
      saved[on] = train(&net, backend, &saved_bytes[on]);
      close_net(&net);
    }
    assert_int_equal(saved_bytes[0], saved_bytes[1]);
    assert_memory_equal(saved[0], saved[1], saved_bytes[0]);
    free(saved[0]);
    free(saved[1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_chain_leaves_runs_beside_it),
      cmocka_unit_test(a_shared_matrix_is_summed_aside),
      cmocka_unit_test(the_option_decides_on_a_device_alone),
      cmocka_unit_test(what_is_said_is_what_is_lowered),
      cmocka_unit_test(drawn_networks_save_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
