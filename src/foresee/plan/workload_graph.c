/* A workload as a graph of opaque ops, which the real strategies lower. The ops compute nothing: their FLOPs and
 * bytes stand in their attributes, so that lowering, check and price treat them like any other. Activations are
 * tokens of one element (their bytes are in the attributes); parameters have their true size. */
#include "plan/workload.h"

#include <math.h>

/* f[0] FLOPs, f[1] bytes; i[0] of the update: elements that it writes */
static int64_t attr_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)in, (void)out;
  return (int64_t)attrs->f[0];
}
static int64_t attr_bytes(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)in, (void)out;
  return (int64_t)attrs->f[1];
}

/* f[2] the work of the backward pass over that of the forward pass */
static ls_attrs_t backward_attrs(const ls_attrs_t *forward) {
  return (ls_attrs_t){.f = {forward->f[0] * forward->f[2], forward->f[1] * forward->f[2]}};
}

static ls_status_t shape_tokens(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)ctx, (void)attrs, (void)in;
  out[0] = out[1] = LS_SHAPE(LS_F32, 1);
  return LS_OK;
}
static ls_status_t shape_gradients(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                   ls_shape_t *out) {
  (void)ctx, (void)attrs;
  out[0] = LS_SHAPE(LS_F32, 1);
  out[1] = in[2];
  return LS_OK;
}
static ls_status_t shape_token(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)ctx, (void)attrs, (void)in;
  out[0] = LS_SHAPE(LS_F32, 1);
  return LS_OK;
}
static ls_status_t shape_update(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)ctx, (void)in;
  out[0] = LS_SHAPE(LS_F32, attrs->i[0]);
  return LS_OK;
}

#define OPAQUE(name_, ins, outs, shape_)                                                                     \
  .name = (name_), .in_count = (ins), .out_count = (outs), .shape = (shape_), .flops = attr_flops,           \
  .bytes = attr_bytes

/* (x, dy, w) -> (dx, dw), and of a layer without parameters (x, dy) -> dx */
static const ls_op_t op_backward = {OPAQUE("opaque_backward", 3, 2, shape_gradients)};
static const ls_op_t op_backward_bare = {OPAQUE("opaque_backward_bare", 2, 1, shape_token)};
/* (grad, ctrl) -> parameters */
static const ls_op_t op_update = {OPAQUE("opaque_update", 2, 1, shape_update), .inout = 1};

static ls_status_t backward(ls_graph_t *graph, const ls_graph_node_t *node, const ls_tensor_id_t *grad_out,
                            const bool *wanted, ls_tensor_id_t *grad_in) {
  const ls_attrs_t attrs = backward_attrs(&node->attrs);
  const ls_tensor_id_t in[] = {node->in[0], grad_out[0], node->in[1]};
  ls_tensor_id_t out[2];
  bool bare = node->in_count == 1;
  ls_graph_op(graph, bare ? &op_backward_bare : &op_backward, &attrs, bare ? 2 : 3, in, out);
  grad_in[0] = wanted[0] ? out[0] : -1;
  if (!bare) grad_in[1] = out[1];
  return graph->status;
}

/* (x, w) -> (y, a second scalar of the last layer), and without parameters x -> the same */
static const ls_op_t op_forward = {OPAQUE("opaque", 2, 2, shape_tokens), .backward = backward};
static const ls_op_t op_forward_bare = {OPAQUE("opaque_bare", 1, 2, shape_tokens), .backward = backward};

/* Whole cache lines, as the layout has them, so that there is nothing between two parameters. */
static int64_t elements_of(const ls_workload_t *w, int64_t parameters) {
  const int64_t line = 64;
  return (parameters * w->gradient_element_bytes + line - 1) / line * (line / (int64_t)sizeof(float));
}

static ls_status_t make_graph(ls_ctx_t *ctx, const ls_workload_t *w, int64_t rows, ls_graph_t **graph) {
  ls_graph_t *g;
  ls_status_t status = ls_graph_create(ctx, &g);
  if (status != LS_OK) return status;
  ls_tensor_id_t at[] = {ls_graph_input(g, "x", LS_SHAPE(LS_F32, 1)), -1};
  ls_tensor_id_t seed = ls_graph_input(g, "seed", LS_SHAPE(LS_F32, 1)), out[2] = {-1, -1};
  ls_graph_input(g, LS_NAME_STEP, LS_SHAPE(LS_U8, 64));
  for (int i = 0; i < w->layer_count; i++)
    for (int64_t k = 0; k < w->layer[i].repeat && g->status == LS_OK; k++) {
      const ls_workload_layer_t *layer = &w->layer[i];
      const ls_attrs_t attrs = {.f = {(double)rows * layer->flops_per_sample,
                                      (double)rows * layer->bytes_per_sample, w->backward_factor}};
      ls_graph_scope(g, "%d.%d %.64s", i, (int)k, layer->name);
      if (layer->parameters > 0)
        at[1] = ls_graph_param(g, "parameters", LS_SHAPE(LS_F32, elements_of(w, layer->parameters)),
                               (ls_init_t){LS_INIT_ZEROS, 0});
      bool bare = layer->parameters == 0;
      at[0] = ls_graph_op(g, bare ? &op_forward_bare : &op_forward, &attrs, bare ? 1 : 2, at, out);
    }
  ls_graph_scope(g, "%s", "");
  ls_graph_rename(g, out[0], LS_NAME_LOSS);
  ls_graph_rename(g, out[1], LS_NAME_CORRECT);
  if (g->status == LS_OK) ls_graph_backward(g, out[0], seed);
  status = g->status;
  if (status != LS_OK) {
    ls_graph_destroy(g);
    return status;
  }
  *graph = g;
  return LS_OK;
}

ls_status_t ls_workload_lower(ls_ctx_t *ctx, const ls_workload_t *workload, const ls_strategy_t *strategy,
                              int rank, int ranks, int64_t rows, ls_program_t *program) {
  double parameters = (double)ls_workload_parameters(workload);
  const ls_attrs_t attrs = {.f = {4 * parameters, parameters * workload->optimizer_bytes_per_parameter}};
  ls_optim_rule_t rule = {.update = &op_update, .group_count = 1, .group[0] = {.attrs = attrs, .rate = 1}};
  ls_graph_t *graph;
  ls_state_table_t *table = NULL;
  ls_status_t status = make_graph(ctx, workload, rows, &graph);
  if (status != LS_OK) return status;
  status = ls_state_table_create(ctx, graph, 1, &table);
  if (status == LS_OK) rule.group[0].attrs.i[0] = table->layout->trained - LS_LAYOUT_HEAD;
  const ls_lower_t in = {.graph = graph,
                         .state = table,
                         .optim = &rule,
                         .rank = rank,
                         .world_size = ranks,
                         .micro_batches = 1,
                         .input_slots = LS_ENGINE_SLOTS,
                         .copies = true,
                         .options = {.bucket_bytes = llround(workload->bucket_bytes)}};
  if (ranks == 1) strategy = ls_strategy_default(1, false);
  if (status == LS_OK) status = ls_strategy_lower(ctx, strategy, &in, program);
  ls_state_table_release(table);
  ls_graph_destroy(graph);
  return status;
}

static ls_status_t lower(ls_ctx_t *ctx, const void *user, int rank, int ranks, int64_t rows,
                         ls_program_t *program) {
  const ls_workload_run_t *run = user;
  return ls_workload_lower(ctx, run->workload, run->strategy, rank, ranks, rows, program);
}

/* The step time of one device according to the report. */
static double reported_step_ns(const ls_workload_t *w) {
  for (int i = 0; i < w->reported_count; i++) {
    const ls_reported_t *row = &w->reported[i];
    if (row->ranks != 1) continue;
    if (row->step_time_ms > 0) return row->step_time_ms * 1e6;
    return (double)ls_reported_batch(w, row) / row->samples_per_s * 1e9;
  }
  return 0;
}

ls_status_t ls_workload_work(ls_ctx_t *ctx, const ls_sim_machine_t *machine, const ls_workload_run_t *run,
                             ls_sim_work_t *out) {
  const ls_workload_t *w = run->workload;
  ls_sim_work_t work = {.lower = lower,
                        .user = run,
                        .precision = w->precision,
                        .global_batch = w->global_batch,
                        .batch_per_device = w->batch_per_device,
                        .compute_scale = 1,
                        .strategy = run->strategy->name};
  double target_ns = w->calibrate ? reported_step_ns(w) : 0;
  if (target_ns > 0) {
    ls_sim_point_t point;
    ls_status_t status = ls_sim_point(ctx, machine, &work, 1, LS_SIM_EVEN, &point);
    if (status != LS_OK) return status;
    double overhead_ns = machine->node.step_overhead_ns.value; /* is not scaled */
    if (target_ns <= overhead_ns || point.step_ns <= overhead_ns)
      return ls_fail(ctx, LS_ERR_CONFIG,
                     "%s: the reported step of one device is shorter than the machine's overhead", w->name);
    work.compute_scale = (target_ns - overhead_ns) / (point.step_ns - overhead_ns);
  }
  *out = work;
  return LS_OK;
}
