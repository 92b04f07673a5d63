/* A state of the graph: a toy op keeps the running mean of what passes through it. Each micro-batch changes
 * it in order, evaluation reads it, it is saved with the parameters, and the optimizer leaves it alone. */

#include "graph/ops/ops.h"
#include "graph/ops/row.h"
#include "world.h"

#include "unit.h"
#include <string.h>

enum { ROWS = 2, MICRO = 3, STEPS = 2 };

static ls_ctx_t *ctx;

/* (x (n)) -> y (n) = x, mean (1) inout: mean = mean / 2 + (average of x) / 2 */
static ls_status_t toy_shape(ls_ctx_t *c, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)c;
  (void)attrs;
  out[0] = in[0];
  out[1] = LS_SHAPE(LS_F32, 1);
  return LS_OK;
}

static ls_status_t toy_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  float sum = 0, *mean = ls_out_f32(args, 1);
  for (int64_t k = 0; k < count; k++) {
    sum += ls_in_f32(args, 0)[k];
    ls_out_f32(args, 0)[k] = ls_in_f32(args, 0)[k];
  }
  *mean = *mean / 2 + sum / (float)count / 2;
  return LS_OK;
}

static ls_status_t toy_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                const ls_tensor_id_t *grad_out, const bool *wanted, ls_tensor_id_t *grad_in) {
  (void)node;
  (void)wanted;
  grad_in[0] = grad_out[0];
  return graph->status;
}

static const ls_op_t toy = {.name = "toy",
                            .in_count = 1,
                            .out_count = 2,
                            .shape = toy_shape,
                            .forward = toy_forward,
                            .backward = toy_backward,
                            .inout = 2};

/* y = toy(x w); in evaluation y = x w + mean */
static ls_graph_t *make_graph(bool training) {
  ls_graph_t *g;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  int x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, ROWS, 1)), out[2];
  int target = ls_graph_input(g, "target", LS_SHAPE(LS_F32, ROWS, 1));
  int weight = ls_graph_input(g, "weight", LS_SHAPE(LS_F32, ROWS));
  ls_graph_input(g, "step", LS_SHAPE(LS_U8, 64));
  int mean = ls_graph_state(g, "norm.mean", LS_SHAPE(LS_F32, 1), (ls_init_t){LS_INIT_ONES, 0});
  int w = ls_graph_param(g, "w", LS_SHAPE(LS_F32, 1, 1), (ls_init_t){LS_INIT_ONES, 0});
  int zero = ls_graph_op(g, &ls_op_fill, &(ls_attrs_t){.i = {1}}, 0, NULL, NULL);
  int y = ls_graph_op(g, &ls_op_linear, NULL, 3, (int[]){x, w, training ? zero : mean}, NULL);
  if (training) {
    y = ls_graph_op(g, &toy, NULL, 1, &y, out);
    ls_graph_update(g, out[1], mean);
  }
  ls_graph_rename(g, y, "output");
  ls_graph_op(g, &ls_op_mse, NULL, 3, (int[]){y, target, weight}, out);
  ls_graph_rename(g, out[0], "loss");
  ls_graph_rename(g, out[1], "correct");
  if (training) ls_graph_backward(g, out[0], -1);
  assert_int_equal(g->status, LS_OK);
  return g;
}

static ls_status_t lower(ls_graph_t *g, ls_state_table_t *table, bool training, int ranks, ls_program_t *p) {
  ls_optim_rule_t optim;
  ls_optim_rule(&(ls_optim_config_t){.name = LS_OPTIM_SGD, .lr = 0.5, .momentum = 0.5}, 0, &optim);
  ls_lower_t in = {.graph = g,
                   .state = table,
                   .optim = training ? &optim : NULL,
                   .world_size = ranks,
                   .micro_batches = training ? MICRO : 1,
                   .input_slots = 1,
                   .options = {.bucket_bytes = 64}};
  ls_status_t status = ls_strategy_lower(ctx, &ls_strategy_ddp, &in, p);
  return status ? status : ls_program_check(p);
}

static float sample(int step, int row) {
  return (float)(step * 5 + row * 3 % 7);
}

/* All of a step's micro-batches. */
static void launch(ls_run_t *run, int micro_batches, int step) {
  const float *stats;
  for (int m = 0; m < micro_batches; m++) {
    float *x = ls_run_input(run, "x", 0), *target = ls_run_input(run, "target", 0);
    float *weight = ls_run_input(run, "weight", 0);
    for (int i = 0; i < ROWS; i++) {
      x[i] = sample(step, m * ROWS + i);
      target[i] = 0;
      weight[i] = 0.0625f;
    }
    *(ls_step_params_t *)ls_run_input(run, "step", 0) = (ls_step_params_t){.lr = 0.0078125f, .dloss = 1};
    assert_int_equal(ls_run_prime(run, 0), LS_OK);
    assert_int_equal(ls_run_launch(run, 0, m), LS_OK);
    assert_int_equal(ls_run_wait(run, 0, &stats), LS_OK);
    assert_int_equal(stats != NULL, m + 1 == micro_batches);
  }
}

static void a_running_mean_is_kept_by_tasks(void **unused) {
  ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *g = make_graph(true), *forward = make_graph(false);
  ls_state_table_t *table;
  ls_program_t train, eval;
  ls_device_t *device;
  ls_stream_t *stream;
  ls_state_t *state;
  ls_run_t *run, *reader;
  assert_int_equal(ls_state_table_create(ctx, g, 1, &table), LS_OK);
  assert_int_equal(lower(g, table, true, 1, &train), LS_OK);
  assert_int_equal(lower(forward, table, false, 1, &eval), LS_OK);
  const ls_layout_entry_t *mean = ls_layout_find(table->layout, "norm.mean"),
                          *w = ls_layout_find(table->layout, "w");
  assert_int_equal(w->offset, LS_LAYOUT_HEAD);
  assert_int_equal(mean->offset, table->layout->trained);
  assert_int_equal(ls_state_row_count(&table->row[ls_state_find(table, "momentum")]), table->layout->trained);
  assert_int_equal(table->row[0].file, LS_STATE_MODEL); /* both are entries of the row "parameters" */

  assert_int_equal(ls_backend_ref.device->open(ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  assert_int_equal(ls_backend_ref.stream->create(device, LS_STREAM_INLINE, &stream), LS_OK);
  assert_int_equal(ls_state_create(ctx, table, device, true, &state), LS_OK);
  assert_int_equal(ls_state_fill(state, stream, 1, 0), LS_OK);
  assert_int_equal(ls_run_create(ctx, &train, device, NULL, state, NULL, &run), LS_OK);
  assert_int_equal(ls_run_create(ctx, &eval, device, NULL, state, NULL, &reader), LS_OK);
  const float *flat = state->host[0];
  float want = 1;
  for (int step = 0; step < STEPS; step++) {
    float factor = flat[w->offset];
    launch(run, MICRO, step);
    for (int m = 0; m < MICRO; m++)
      want = want / 2 + (sample(step, 2 * m) + sample(step, 2 * m + 1)) * factor / 4;
    assert_true(flat[mean->offset] == want);
    assert_true(flat[w->offset] != factor); /* the optimizer's alone */
  }
  float output[ROWS];
  launch(reader, 1, 9);
  assert_int_equal(ls_run_read(reader, "output", 0, output, sizeof output), LS_OK);
  for (int i = 0; i < ROWS; i++)
    assert_true(output[i] == sample(9, i) * flat[w->offset] + want);
  assert_true(flat[mean->offset] == want); /* evaluation leaves it */

  ls_run_destroy(run);
  ls_run_destroy(reader);
  ls_state_destroy(state);
  ls_backend_ref.stream->destroy(stream);
  ls_backend_ref.device->close(device);
  ls_program_release(&train);
  ls_program_release(&eval);
  assert_int_equal(lower(g, table, true, 2, &train), LS_ERR_UNSUPPORTED); /* ranks would disagree */
  assert_non_null(strstr(ls_ctx_error(ctx), "would change the state 'norm.mean'"));
  ls_state_table_release(table);
  ls_graph_destroy(forward);
  ls_graph_destroy(g);
  ls_ctx_destroy(ctx);
}

static void only_in_out_values_are_states(void **unused) {
  ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *g;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  int s = ls_graph_state(g, "s", LS_SHAPE(LS_F32, 1), (ls_init_t){0}), out[2];
  ls_graph_op(g, &toy, NULL, 1, &s, out);
  ls_graph_update(g, out[1], s);
  assert_int_equal(g->status, LS_OK);
  ls_graph_update(g, out[0], s); /* is only written */
  assert_int_equal(g->status, LS_ERR_ARGUMENT);
  assert_non_null(strstr(ls_ctx_error(ctx), "toy is no in-out output that can be the state s"));
  ls_graph_destroy(g);
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, a_running_mean_is_kept_by_tasks, only_in_out_values_are_states)
