/* A workload as a schedule. Its ops compute nothing: they are rows whose FLOPs and bytes stand in their
 * attributes, so that memory layout, waits, check and price treat them like any other. Activations are tokens of
 * one element (their bytes are in the attributes); gradients have their true place and size, because buckets
 * are made of them.
 *   ddp      Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020
 *   sharded  Zhao et al., "PyTorch FSDP", VLDB 2023: a bucket's parameters are gathered before each use, one
 *            bucket ahead, and its gradients are scattered after the backward pass; a rank updates its part. */
#include "plan/workload.h"

#include <stdio.h>
#include <string.h>

/* f[0] FLOPs, f[1] bytes; i[0] elements of the gradient that backward writes (u8). */
static int64_t attr_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)in, (void)out;
  return (int64_t)attrs->f[0];
}
static int64_t attr_bytes(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)in, (void)out;
  return (int64_t)attrs->f[1];
}

static ls_status_t shape_token(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)ctx, (void)attrs, (void)in;
  out[0] = LS_SHAPE(LS_U8, 1);
  return LS_OK;
}
static ls_status_t shape_backward(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                  ls_shape_t *out) {
  (void)ctx, (void)in;
  out[0] = LS_SHAPE(LS_U8, 1);
  out[1] = LS_SHAPE(LS_U8, attrs->i[0]);
  return LS_OK;
}
static ls_status_t shape_update(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)ctx, (void)in;
  out[0] = LS_SHAPE(LS_U8, attrs->i[0]);
  return LS_OK;
}

/* (activation, parameters) -> activation */
const ls_op_t ls_op_workload_forward = {.name = "workload forward",
                                        .in_count = 2,
                                        .out_count = 1,
                                        .shape = shape_token,
                                        .flops = attr_flops,
                                        .bytes = attr_bytes};
/* (activation, gradient of the output, parameters) -> (gradient of the input, gradient of the parameters) */
const ls_op_t ls_op_workload_backward = {.name = "workload backward",
                                         .in_count = 3,
                                         .out_count = 2,
                                         .shape = shape_backward,
                                         .flops = attr_flops,
                                         .bytes = attr_bytes};
/* (gradients) -> parameters, in place */
const ls_op_t ls_op_workload_update = {.name = "workload update",
                                       .in_count = 1,
                                       .out_count = 1,
                                       .shape = shape_update,
                                       .flops = attr_flops,
                                       .bytes = attr_bytes,
                                       .inout = 1};

/* One layer after the other, repeats written out. Gradients lie from the last layer to the first. */
typedef struct {
  const ls_workload_layer_t *layer;
  int64_t grad_begin, grad_bytes; /* bytes among the gradients and, alike, among the parameters */
  int bucket;
  int before, param; /* schedule tensors: the activation that it reads, its parameters */
} unit_t;

typedef struct {
  int64_t begin, end;
  int first, last; /* units: `first` is the one nearest to the loss */
  int param;       /* schedule tensor: all parameters of the bucket */
} bucket_t;

typedef struct {
  const ls_workload_t *w;
  ls_schedule_t *s;
  ls_arena_t work;
  int strategy, ranks;
  int64_t rows;
  unit_t *unit;
  int unit_count;
  bucket_t *bucket;
  int bucket_count;
  int64_t total_bytes;
  ls_region_t params, grads;
} build_t;

static bool sharded(const build_t *b) {
  return b->strategy == LS_WORKLOAD_SHARDED && b->ranks > 1;
}

static ls_status_t make_units(build_t *b) {
  int64_t count = 0;
  for (int i = 0; i < b->w->layer_count; i++)
    count += b->w->layer[i].repeat;
  b->unit = ls_arena_array(&b->work, (size_t)count, sizeof *b->unit);
  b->bucket = ls_arena_array(&b->work, (size_t)count, sizeof *b->bucket);
  if (!b->unit || !b->bucket) return LS_ERR_MEMORY;
  for (int i = 0; i < b->w->layer_count; i++)
    for (int64_t k = 0; k < b->w->layer[i].repeat; k++)
      b->unit[b->unit_count++].layer = &b->w->layer[i];
  return LS_OK;
}

/* Greedy, from the layer whose gradient comes first. A layer without parameters has a gradient of no bytes.
 */
static void make_buckets(build_t *b) {
  bucket_t now = {.first = b->unit_count - 1};
  for (int u = b->unit_count - 1; u >= 0; u--) {
    unit_t *unit = &b->unit[u];
    unit->grad_begin = now.end;
    unit->grad_bytes = unit->layer->parameters * b->w->gradient_element_bytes;
    unit->bucket = b->bucket_count;
    now.end += unit->grad_bytes;
    now.last = u;
    if (u > 0 && (double)(now.end - now.begin) < b->w->bucket_bytes) continue;
    now.end += (b->ranks - (now.end - now.begin) % b->ranks) % b->ranks; /* every rank has a part of it */
    b->bucket[b->bucket_count++] = now;
    now = (bucket_t){.begin = now.end, .end = now.end, .first = u - 1};
  }
  b->total_bytes = now.end;
}

static int flat(build_t *b, const char *name, ls_region_t region, int64_t begin, int64_t end) {
  return ls_schedule_tensor(b->s, name, LS_SHAPE(LS_U8, end - begin), region, (size_t)begin);
}

static int token(build_t *b, const char *name) {
  return ls_schedule_tensor(b->s, name, LS_SHAPE(LS_U8, 1), LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
}

static ls_region_t declare_row(build_t *b, const char *name, ls_state_life_t life) {
  const ls_state_row_t row = {
      .name = name, .part = name, .shape = LS_SHAPE(LS_U8, b->total_bytes), .life = life};
  int index = 0;
  if (!b->s->status) b->s->status = ls_state_declare(b->s->state, &row, &index);
  return LS_REGION_STATE + index;
}

static void declare(build_t *b) {
  b->params = declare_row(b, "parameters", LS_STATE_CARRIED);
  b->grads = declare_row(b, "gradients", LS_STATE_STEP);
  for (int i = 0; i < b->bucket_count; i++)
    b->bucket[i].param = flat(b, "bucket's parameters", b->params, b->bucket[i].begin, b->bucket[i].end);
  for (int u = 0; u < b->unit_count; u++) {
    unit_t *unit = &b->unit[u];
    unit->param =
        flat(b, unit->layer->name, b->params, unit->grad_begin, unit->grad_begin + unit->grad_bytes);
  }
}

static void collective(build_t *b, const char *what, ls_collective_kind_t kind, int bucket, int tensor) {
  int64_t bytes = b->bucket[bucket].end - b->bucket[bucket].begin;
  if (bytes == 0) return;
  char name[64];
  snprintf(name, sizeof name, "%s %d", what, bucket);
  int own = tensor;
  if (kind != LS_ALL_REDUCE)
    own = ls_schedule_part(b->s, "own part", LS_SHAPE(LS_U8, bytes / b->ranks), tensor,
                           (size_t)(b->s->rank * (bytes / b->ranks)));
  ls_schedule_collective(b->s, name, LS_GROUP_WORLD, kind, kind == LS_ALL_GATHER ? own : tensor,
                         kind == LS_ALL_GATHER ? tensor : own);
}

/* Gathers a bucket's parameters when they are spread over ranks. */
static void gather(build_t *b, int bucket) {
  if (sharded(b) && bucket >= 0 && bucket < b->bucket_count)
    collective(b, "parameters", LS_ALL_GATHER, bucket, b->bucket[bucket].param);
}

static ls_attrs_t work_of(const build_t *b, const unit_t *unit, double factor) {
  double rows = (double)b->rows * factor;
  return (ls_attrs_t){.i = {unit->grad_bytes},
                      .f = {rows * unit->layer->flops_per_sample, rows * unit->layer->bytes_per_sample}};
}

/* Buckets are numbered from the loss; the forward pass meets them in the opposite order. */
static int forward(build_t *b) {
  int activation = ls_schedule_tensor(b->s, "input", LS_SHAPE(LS_U8, 1), LS_REGION_INPUT, 0);
  gather(b, b->bucket_count - 1);
  for (int u = 0; u < b->unit_count && !b->s->status; u++) {
    unit_t *unit = &b->unit[u];
    if (u == b->bucket[unit->bucket].last) gather(b, unit->bucket - 1);
    ls_attrs_t attrs = work_of(b, unit, 1);
    int out = token(b, unit->layer->name);
    unit->before = activation;
    ls_schedule_op(b->s, LS_LANE_COMPUTE, LS_PHASE_STEP_FORWARD, unit->layer->name, &ls_op_workload_forward,
                   &attrs, 2, (int[]){activation, unit->param}, 1, &out);
    activation = out;
  }
  return activation;
}

static void reduce(build_t *b, int bucket) {
  if (b->ranks < 2) return;
  int grad = flat(b, "bucket's gradients", b->grads, b->bucket[bucket].begin, b->bucket[bucket].end);
  collective(b, "gradients", sharded(b) ? LS_REDUCE_SCATTER : LS_ALL_REDUCE, bucket, grad);
}

static void backward(build_t *b, int upstream) {
  for (int u = b->unit_count - 1; u >= 0 && !b->s->status; u--) {
    unit_t *unit = &b->unit[u];
    bucket_t *bucket = &b->bucket[unit->bucket];
    if (u == bucket->first) gather(b, unit->bucket + 1); /* the first bucket's are still there */
    ls_attrs_t attrs = work_of(b, unit, b->w->backward_factor);
    int out[2] = {token(b, unit->layer->name), flat(b, unit->layer->name, b->grads, unit->grad_begin,
                                                    unit->grad_begin + unit->grad_bytes)};
    ls_schedule_op(b->s, LS_LANE_COMPUTE, LS_PHASE_STEP_BACKWARD, unit->layer->name, &ls_op_workload_backward,
                   &attrs, 3, (int[]){unit->before, upstream, unit->param}, 2, out);
    upstream = out[0];
    if (u == bucket->last) reduce(b, unit->bucket);
  }
}

static void update(build_t *b) {
  int64_t parts = sharded(b) ? b->ranks : 1;
  int grad = flat(b, "all gradients", b->grads, 0, b->total_bytes);
  int param = flat(b, "all parameters", b->params, 0, b->total_bytes);
  double parameters = (double)(b->total_bytes / b->w->gradient_element_bytes) / (double)parts;
  ls_attrs_t attrs = {.i = {b->total_bytes},
                      .f = {4 * parameters, parameters * b->w->optimizer_bytes_per_parameter}};
  ls_schedule_op(b->s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, "update", &ls_op_workload_update, &attrs, 1,
                 &grad, 1, &param);
}

ls_status_t ls_workload_schedule(ls_ctx_t *ctx, const ls_workload_t *workload, int strategy, int rank,
                                 int ranks, int64_t rows, ls_schedule_t **schedule) {
  build_t b = {.w = workload, .strategy = strategy, .ranks = ranks, .rows = rows};
  ls_state_table_t *table;
  ls_status_t status = ls_state_table_create(ctx, NULL, &table);
  if (status != LS_OK) return status;
  status = ls_schedule_create(ctx, table, rank, ranks, 1, &b.s);
  ls_state_table_release(table); /* the schedule holds it */
  if (status != LS_OK) return status;
  ls_arena_init(&b.work, ctx);
  status = make_units(&b);
  if (status == LS_OK) {
    make_buckets(&b);
    declare(&b);
    backward(&b, forward(&b));
    if (b.total_bytes > 0) update(&b);
    status = ls_schedule_finish(b.s);
  }
  ls_arena_release(&b.work);
  if (status != LS_OK) {
    ls_schedule_destroy(b.s);
    return status;
  }
  *schedule = b.s;
  return LS_OK;
}

static ls_status_t lower(ls_ctx_t *ctx, const void *user, int rank, int ranks, int64_t rows,
                         ls_program_t *program) {
  const ls_workload_run_t *run = user;
  ls_schedule_t *s;
  ls_status_t status = ls_workload_schedule(ctx, run->workload, run->strategy, rank, ranks, rows, &s);
  if (status == LS_OK) *program = ls_program_of(s);
  return status;
}

/* What one device takes according to the report. */
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
                        .strategy = run->strategy == LS_WORKLOAD_SHARDED ? "sharded" : "ddp"};
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
