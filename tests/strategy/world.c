/* See world.h. Values are chosen so that one step of SGD is exact in f32: every product and every partial
 * sum, in any order, is a multiple of a power of two that fits 24 bits. */

#include "world.h"
#include "engine/engine.h"
#include "graph/ops/ops.h"
#include "graph/pass/pass.h"
#include "support/threads.h"

#include "unit.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

job_t job_default(void) {
  return (job_t){.strategy = "single",
                 .backend = &ls_backend_ref,
                 .world_size = 1,
                 .micro_batches = 1,
                 .input_slots = 1,
                 .steps = 1,
                 .samples = 16,
                 .weight = 0.0625f,
                 .lr = 0.125f,
                 .bucket_bytes = 64,
                 .nan_step = -1,
                 .absent_rank = -1,
                 .only = -1};
}

float network_x(int step, int64_t sample, int64_t column) {
  return (float)((sample * 7 + column * 5 + step) % 5 - 2) * 0.5f;
}

float network_target(int step, int64_t sample, int64_t column) {
  return (float)((sample * 3 + column + step) % 3 - 1);
}

void network_make(ls_ctx_t *ctx, int64_t rows, double dropout, bool training, ls_graph_t **graph) {
  network_make_of(ctx, rows, &(job_t){.dropout = dropout, .evaluate = !training}, graph);
}

static int add_chains(ls_graph_t *g, int64_t rows, int h, int count) {
  enum { GATES = 4 };
  const ls_attrs_t sequence = {.i = {3, rows, HIDDEN, 1}}, flat = {.i = {2, rows, HIDDEN}};
  const ls_init_t zeros = {LS_INIT_ZEROS, 0};
  h = ls_graph_op(g, &ls_op_reshape, &sequence, 1, &h, NULL);
  for (int k = 0; k < count; k++) {
    char name[3][32];
    for (int i = 0; i < 3; i++)
      snprintf(name[i], sizeof name[i], "chain.%d.%s", k,
               (const char *[]){"weight_ih", "weight_hh", "bias"}[i]);
    int w = ls_graph_param(g, name[0], LS_SHAPE(LS_F32, GATES, 1), zeros);
    int along = ls_graph_param(g, name[1], LS_SHAPE(LS_F32, GATES, 1), zeros);
    int b = ls_graph_param(g, name[2], LS_SHAPE(LS_F32, GATES), zeros);
    h = ls_graph_op(g, &ls_op_linear, NULL, 3, (int[]){h, w, b}, NULL);
    h = ls_graph_op(g, &ls_op_lstm_chain, NULL, 2, (int[]){h, along}, NULL);
  }
  return ls_graph_op(g, &ls_op_reshape, &flat, 1, &h, NULL);
}

void network_make_of(ls_ctx_t *ctx, int64_t rows, const job_t *job, ls_graph_t **graph) {
  bool training = !job->evaluate;
  ls_graph_t *g;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  ls_init_t zeros = {LS_INIT_ZEROS, 0};
  int x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, rows, INPUTS));
  int target = ls_graph_input(g, "target", LS_SHAPE(LS_F32, rows, OUTPUTS));
  int weight = ls_graph_input(g, "weight", LS_SHAPE(LS_F32, rows));
  int step = ls_graph_input(g, "step", LS_SHAPE(LS_U8, 64));
  int w0 = ls_graph_param(g, "layers.0.weight", LS_SHAPE(LS_F32, HIDDEN, INPUTS), zeros);
  int b0 = ls_graph_param(g, "layers.0.bias", LS_SHAPE(LS_F32, HIDDEN), zeros);
  int w1 = ls_graph_param(g, "layers.1.weight", LS_SHAPE(LS_F32, OUTPUTS, HIDDEN), zeros);
  int b1 = ls_graph_param(g, "layers.1.bias", LS_SHAPE(LS_F32, OUTPUTS), zeros);
  int h = ls_graph_op(g, &ls_op_linear, NULL, 3, (int[]){x, w0, b0}, NULL);
  h = ls_graph_op(g, &ls_op_relu, NULL, 1, (int[]){h}, NULL);
  g->tensors[w0].trainable = g->tensors[b0].trainable = !job->frozen;
  if (job->chains) h = add_chains(g, rows, h, job->chains);
  if (job->shared) {
    int w = ls_graph_param(g, "twice.weight", LS_SHAPE(LS_F32, HIDDEN, HIDDEN), zeros);
    int b = ls_graph_param(g, "twice.bias", LS_SHAPE(LS_F32, HIDDEN), zeros);
    for (int use = 0; use < 2; use++)
      h = ls_graph_op(g, &ls_op_linear, NULL, 3, (int[]){h, w, b}, NULL);
  }
  ls_attrs_t drop = {.f = {job->dropout}};
  if (job->dropout > 0 && training) h = ls_graph_op(g, &ls_op_dropout, &drop, 2, (int[]){h, step}, NULL);
  int y = ls_graph_op(g, &ls_op_linear, NULL, 3, (int[]){h, w1, b1}, NULL);
  ls_graph_rename(g, y, "output");
  int loss[2];
  ls_graph_op(g, &ls_op_mse, NULL, 3, (int[]){y, target, weight}, loss);
  ls_graph_rename(g, loss[0], "loss");
  ls_graph_rename(g, loss[1], "correct");
  if (training) ls_graph_backward(g, loss[0], -1);
  assert_int_equal(g->status, LS_OK);
  *graph = g;
}

static void fill_params(const ls_layout_t *layout, float *flat) {
  memset(flat, 0, (size_t)layout->total * sizeof(float));
  for (int i = 0; i < layout->count; i++) {
    const ls_layout_entry_t *e = &layout->entry[i];
    bool twice = strncmp(e->name, "twice", 5) == 0; /* few and whole: products of products stay exact */
    for (int64_t k = 0; k < e->count; k++)
      flat[e->offset + k] = twice ? (float)(k * 7 % 5 == 0) : (float)((k * 7 + e->ordinal) % 5 - 2) * 0.5f;
  }
}

typedef struct {
  const job_t *job;
  ls_comm_t *comm;
  ls_ctx_t *ctx;
  ls_graph_t *graph;
  ls_state_table_t *table;
  ls_device_t *device;
  ls_run_t *run;
  rank_result_t *result;
  ls_engine_share_t share;
} worker_t;

/* Micro-batch `unit` of the run, counted from its first step. */
static void fill_slot(worker_t *w, int unit) {
  const job_t *job = w->job;
  int slot = unit % job->input_slots, step = unit / job->micro_batches;
  int64_t first = w->share.first + w->share.stride * (unit % job->micro_batches);
  float *x = ls_run_input(w->run, "x", slot), *target = ls_run_input(w->run, "target", slot);
  float *weight = ls_run_input(w->run, "weight", slot);
  for (int64_t i = 0; i < w->share.rows; i++) {
    int64_t sample = first + i;
    bool valid = sample < job->samples;
    for (int64_t c = 0; c < INPUTS; c++)
      x[i * INPUTS + c] = valid ? network_x(step, sample, c) : 0;
    for (int64_t c = 0; c < OUTPUTS; c++)
      target[i * OUTPUTS + c] = valid ? network_target(step, sample, c) : 0;
    weight[i] = valid && (job->only < 0 || job->only == sample) ? job->weight : 0;
    if (step == job->nan_step && sample == 3 && valid) x[i * INPUTS] = NAN;
  }
  *(ls_step_params_t *)ls_run_input(w->run, "step", slot) = (ls_step_params_t){
      .seed = 42, .position = (uint64_t)(step * job->samples + first), .lr = job->lr, .dloss = 1};
}

/* Adds the times of the micro-batch that was waited for. */
static void add_times(worker_t *w) {
  int64_t parts_ns[LS_PHASE_STEP_COUNT], end_ns = 0;
  const ls_schedule_t *s = w->result->program.member[ls_run_member(w->run)];
  const ls_task_time_t *times = ls_run_times(w->run);
  ls_run_parts(w->run, parts_ns);
  for (int p = 0; p < LS_PHASE_STEP_COUNT; p++)
    w->result->parts_ns[p] += parts_ns[p];
  for (int t = 0; times && t < s->task_count; t++)
    if (times[t].end_ns > end_ns) end_ns = times[t].end_ns;
  w->result->step_ns += end_ns;
}

static ls_status_t run_steps(worker_t *w) {
  const job_t *job = w->job;
  const float *stats = NULL;
  fill_slot(w, 0);
  ls_status_t status = ls_run_prime(w->run, 0);
  for (int unit = 0; unit < job->steps * job->micro_batches && !status; unit++) {
    int slot = unit % job->input_slots, step = unit / job->micro_batches;
    if (job->input_slots > 1)
      fill_slot(w, unit + 1);
    else if (unit > 0) {
      fill_slot(w, unit);
      status = ls_run_prime(w->run, 0);
    }
    if (w->comm) ls_comm_set_step(w->comm, step);
    if (!status) status = ls_run_launch(w->run, slot, unit);
    if (!status) status = ls_run_wait(w->run, slot, &stats);
    if (!status && step == job->steps - 1) add_times(w);
  }
  if (status) return status;
  if (stats) memcpy(w->result->stats, stats, sizeof(w->result->stats));
  if (job->evaluate)
    return ls_run_read(w->run, "output", 0, w->result->output,
                       (size_t)(w->share.rows * OUTPUTS) * sizeof(float));
  return LS_OK;
}

static ls_status_t work(worker_t *w) {
  rank_result_t *result = w->result;
  size_t total_bytes = (size_t)w->table->layout->total * sizeof(float);
  int gradients = ls_state_find(w->table, "gradients");
  ls_state_t *state;
  ls_status_t status = ls_state_create(w->ctx, w->table, w->device, false, &state);
  if (status) return status;
  float *param = state->data[ls_state_find(w->table, "parameters")];
  fill_params(w->table->layout, param);
  memcpy(result->initial, param, total_bytes);
  status = ls_run_create(w->ctx, &result->program, w->device, w->comm, state, NULL, &w->run);
  if (!status) status = run_steps(w);
  memcpy(result->param, param, total_bytes);
  if (gradients >= 0)
    memcpy(result->grad, state->data[gradients], ls_state_row_bytes(&w->table->row[gradients]));
  ls_run_destroy(w->run);
  ls_state_destroy(state);
  return status;
}

static void *thread_main(void *arg) {
  worker_t *w = arg;
  if (w->comm && w->comm->rank == w->job->absent_rank) return NULL;
  ls_device_options_t options = {.threads = 1};
  w->result->status = w->job->backend->device->open(w->ctx, &options, &w->device);
  if (w->result->status) return NULL;
  w->result->status = work(w);
  w->job->backend->device->close(w->device);
  snprintf(w->result->error, sizeof(w->result->error), "%s", ls_ctx_error(w->ctx));
  return NULL;
}

static bool has_none(const void *backend, const char *op, ls_dtype_t low) {
  (void)backend;
  (void)op;
  (void)low;
  return false;
}

/* The rows that were declared are all that the program uses. */
static void check_declared(const worker_t *w, int rows) {
  ls_fit_t fit;
  ls_program_fit(&w->result->program, &fit);
  const int64_t runs =
      ls_fit_bytes(&fit, "inputs") + ls_fit_bytes(&fit, "activations") + ls_fit_bytes(&fit, "other");
  assert_int_equal(w->table->count, rows);
  assert_int_equal(ls_state_bytes(w->table), fit.device_total_bytes - runs);
}

static void lower_rank(worker_t *w, int rank) {
  const job_t *job = w->job;
  rank_result_t *result = w->result;
  const int64_t shards = job->reproducible ? job->micro_batches * job->world_size : 0;
  const ls_batching_t cut = {.batch = job->samples, .micro_batches = job->micro_batches, .shards = shards};
  const ls_optim_config_t optimizer = {.name = job->adam ? LS_OPTIM_ADAM : LS_OPTIM_SGD,
                                       .lr = job->lr,
                                       .momentum = job->momentum,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .eps = 1e-8};
  ls_engine_share(cut, rank, job->world_size, &w->share);
  network_make_of(w->ctx, w->share.rows, job, &w->graph);
  const ls_pass_context_t passes = {.has = has_none, .low = job->low};
  assert_int_equal(ls_graph_run_passes(w->graph, &passes), LS_OK);
  const ls_strategy_t *strategy = ls_strategy_find(job->strategy);
  const int parts = strategy->shards ? job->world_size : 1;
  assert_int_equal(ls_state_table_create(w->ctx, w->graph, parts, &w->table), LS_OK);
  assert_true(w->table->layout->total <= PARAMS_MAX);
  result->param_count = w->table->layout->total;
  ls_optim_rule_t optim;
  ls_optim_rule(&optimizer, job->clip, &optim);
  if (job->low == LS_F16) optim.control_attrs.i[0] = job->good_steps ? job->good_steps : LS_SCALE_STEPS;
  ls_lower_t in = {.graph = w->graph,
                   .state = w->table,
                   .optim = job->evaluate ? NULL : &optim,
                   .rank = rank,
                   .world_size = job->world_size,
                   .micro_batches = job->micro_batches,
                   .input_slots = job->input_slots,
                   .copies = job->copies,
                   .widens = true,
                   .options = {.bucket_bytes = job->bucket_bytes,
                               .reproducible = job->reproducible,
                               .side_lane = job->side_lane,
                               .wire = job->wire,
                               .shard = job->shard}};
  ls_status_t status = ls_strategy_declare(w->ctx, strategy, &in);
  const int rows = w->table->count;
  if (!status) status = ls_strategy_lower(w->ctx, strategy, &in, &result->program);
  if (!status) check_declared(w, rows);
  if (!status) status = ls_program_check(&result->program);
  assert_string_equal(ls_ctx_error(w->ctx), "");
  assert_int_equal(status, LS_OK);
}

void world_run(const job_t *job, world_t *world) {
  worker_t worker[WORLD_MAX] = {0};
  ls_comm_t *comm[WORLD_MAX] = {0};
  ls_program_t programs[WORLD_MAX];
  memset(world, 0, sizeof(*world));
  ls_ctx_t *comm_ctx = ls_ctx_create(NULL, NULL);
  if (job->world_size > 1)
    assert_int_equal(ls_comm_sim_create(comm_ctx, job->world_size, job->deadline_ns, comm), LS_OK);
  for (int r = 0; r < job->world_size; r++) {
    world->ctx[r] = ls_ctx_create(NULL, NULL);
    worker[r] = (worker_t){.job = job, .comm = comm[r], .ctx = world->ctx[r], .result = &world->rank[r]};
    lower_rank(&worker[r], r);
    programs[r] = world->rank[r].program;
  }
  assert_int_equal(ls_program_check_world(programs, job->world_size), LS_OK);
  threads_run(job->world_size, thread_main, worker, sizeof *worker);
  for (int r = 0; r < job->world_size; r++) {
    if (!world->rank[r].error[0] && world->rank[r].status)
      snprintf(world->rank[r].error, sizeof(world->rank[r].error), "%s", ls_ctx_error(comm_ctx));
    ls_comm_destroy(comm[r]);
    ls_state_table_release(worker[r].table);
    ls_graph_destroy(worker[r].graph);
  }
  ls_ctx_destroy(comm_ctx);
}

void world_release(world_t *world) {
  for (int r = 0; r < WORLD_MAX; r++) {
    ls_program_release(&world->rank[r].program);
    ls_ctx_destroy(world->ctx[r]);
  }
}
