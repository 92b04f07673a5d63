/* A strategy for simulation alone, as Zhao et al., "PyTorch FSDP", VLDB 2023: parameters, gradients and the update
 * are spread over ranks, bucket by bucket. A bucket's parameters are gathered before each use, one bucket ahead, and
 * dropped after it; its gradients are scattered after the backward pass; a rank updates its part. */
#include "plan/workload.h"
#include "strategy/lower.h"

#include <stdio.h>

enum { FLOAT_BYTES = sizeof(float), NAME_BYTES = 48 };

/* A bucket: elements of the layout, its padded place among the gradients, and the parameters that lie in it. */
typedef struct {
  int64_t begin, end, padded, place;
  int ready;          /* the node after which its gradients are there */
  int used;           /* the task that last read its parameters: only then are they dropped; -1 = none */
  int gathered, pass; /* the schedule tensor that holds its parameters in this pass; -1 = none yet */
} shard_t;

typedef struct {
  const ls_lower_t *in;
  ls_schedule_t *s;
  ls_arena_t work;
  shard_t *shard;
  int count;
  int *tensor; /* per graph tensor: its schedule tensor, -1 = not yet */
  ls_region_t params, grads;
} sharded_t;

static int64_t part_of(const sharded_t *b, const shard_t *shard) {
  return shard->padded / b->in->world_size;
}

static ls_status_t make_shards(sharded_t *b) {
  ls_bucket_t *bucket;
  int64_t ranks = b->in->world_size, place = 0;
  ls_status_t status = ls_buckets_make(&b->work, b->in, NULL, &bucket, &b->count);
  if (status != LS_OK) return status;
  b->shard = ls_arena_array(&b->work, (size_t)b->count, sizeof *b->shard);
  if (!b->shard) return LS_ERR_MEMORY;
  for (int i = 0; i < b->count; i++) {
    shard_t *shard = &b->shard[i];
    int64_t begin = bucket[i].begin < LS_LAYOUT_HEAD ? LS_LAYOUT_HEAD : bucket[i].begin;
    int64_t padded = (bucket[i].end - begin + ranks - 1) / ranks * ranks;
    *shard = (shard_t){.begin = begin,
                       .end = bucket[i].end,
                       .padded = padded,
                       .place = place,
                       .ready = bucket[i].ready_node,
                       .used = -1,
                       .pass = -1};
    place += padded;
  }
  b->params = LS_REGION_STATE + LS_STATE_PARAMETERS;
  const ls_state_row_t row = {
      .name = "padded gradients", .part = "gradients", .shape = LS_SHAPE(LS_F32, place > 0 ? place : 1)};
  int index = 0;
  status = ls_state_declare(b->in->state, &row, &index);
  b->grads = LS_REGION_STATE + index;
  return status;
}

/* Gathers a bucket's parameters for a pass, unless they are there: the last of the forward pass stay. */
static void gather(sharded_t *b, int i, int pass) {
  if (i < 0 || i >= b->count || b->shard[i].padded == 0) return;
  shard_t *shard = &b->shard[i];
  if (shard->pass == pass || (pass == LS_PHASE_BACKWARD && i == 0 && shard->pass >= 0)) return;
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "parameters %d", i);
  int own = ls_schedule_tensor(b->s, "own part", LS_SHAPE(LS_F32, part_of(b, shard)), b->params,
                               (size_t)shard->begin * FLOAT_BYTES);
  shard->gathered =
      ls_schedule_tensor(b->s, name, LS_SHAPE(LS_F32, shard->padded), LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
  shard->pass = pass;
  int task = ls_schedule_collective(b->s, name, LS_GROUP_WORLD, LS_ALL_GATHER, own, shard->gathered);
  if (task >= 0 && shard->used >= 0) ls_schedule_after(b->s, task, shard->used);
}

static void scatter(sharded_t *b, int i) {
  const shard_t *shard = &b->shard[i];
  int64_t part = part_of(b, shard);
  if (part == 0) return;
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "gradients %d", i);
  int whole = ls_schedule_tensor(b->s, name, LS_SHAPE(LS_F32, shard->padded), b->grads,
                                 (size_t)shard->place * FLOAT_BYTES);
  int own = ls_schedule_part(b->s, "own part", LS_SHAPE(LS_F32, part), whole,
                             (size_t)(b->s->rank * part) * FLOAT_BYTES);
  ls_schedule_collective_as(b->s, name, LS_GROUP_WORLD, LS_REDUCE_SCATTER, b->in->options.wire, whole, own);
}

static int shard_of(const sharded_t *b, const ls_layout_entry_t *e) {
  int i = 0;
  while (b->shard[i].end <= e->offset)
    i++;
  return i;
}

static const ls_layout_entry_t *entry_of(const sharded_t *b, const char *name) {
  return ls_layout_find(b->in->state->layout, name);
}

static int place(sharded_t *b, ls_tensor_id_t id, int pass) {
  const ls_graph_tensor_t *t = &b->in->graph->tensors[id];
  if (t->role == LS_ROLE_PARAM) {
    const ls_layout_entry_t *e = entry_of(b, t->name);
    int i = shard_of(b, e);
    gather(b, i, pass);
    gather(b, pass == LS_PHASE_FORWARD ? i - 1 : i + 1, pass); /* the next, beside this one's use */
    return ls_schedule_part(b->s, t->name, t->shape, b->shard[i].gathered,
                            (size_t)(e->offset - b->shard[i].begin) * FLOAT_BYTES);
  }
  if (b->tensor[id] >= 0) return b->tensor[id];
  ls_region_t region = t->role == LS_ROLE_INPUT ? LS_REGION_INPUT : LS_REGION_TRANSIENT;
  return b->tensor[id] = ls_schedule_tensor(b->s, t->name, t->shape, region, LS_OFFSET_AUTO);
}

/* The gradients of parameters have places, all other values none of their own. */
static void place_gradients(sharded_t *b) {
  const ls_graph_t *graph = b->in->graph;
  for (int id = 0; id < graph->tensor_count; id++) {
    const ls_graph_tensor_t *t = &graph->tensors[id];
    if (t->role != LS_ROLE_PARAM || t->grad < 0) continue;
    const ls_layout_entry_t *e = entry_of(b, t->name);
    const shard_t *shard = &b->shard[shard_of(b, e)];
    b->tensor[t->grad] = ls_schedule_tensor(b->s, graph->tensors[t->grad].name, t->shape, b->grads,
                                            (size_t)(shard->place + e->offset - shard->begin) * FLOAT_BYTES);
  }
}

static void place_inputs(sharded_t *b) {
  const ls_graph_t *graph = b->in->graph;
  size_t offset_bytes = 0;
  for (int id = 0; id < graph->tensor_count; id++) {
    const ls_graph_tensor_t *t = &graph->tensors[id];
    b->tensor[id] = -1;
    if (t->role != LS_ROLE_INPUT) continue;
    b->tensor[id] = ls_schedule_tensor(b->s, t->name, t->shape, LS_REGION_INPUT, offset_bytes);
    offset_bytes += (ls_shape_bytes(&t->shape) + 63) / 64 * 64;
  }
}

/* A rank updates its part of everything: the rule's FLOPs and bytes are those of all (workload_graph.c). */
static void update(sharded_t *b) {
  const ls_layout_t *layout = b->in->state->layout;
  const shard_t *last = &b->shard[b->count - 1];
  ls_attrs_t attrs = b->in->optim->group[0].attrs;
  attrs.f[0] /= b->in->world_size;
  attrs.f[1] /= b->in->world_size;
  int in[] = {
      ls_schedule_tensor(b->s, "all gradients", LS_SHAPE(LS_F32, last->place + last->padded), b->grads, 0),
      ls_schedule_tensor(b->s, "ctrl", LS_SHAPE(LS_F32, LS_CTRL_COUNT), LS_REGION_STAT, 0)};
  int out = ls_schedule_tensor(b->s, "all parameters", LS_SHAPE(LS_F32, layout->trained - LS_LAYOUT_HEAD),
                               b->params, (size_t)LS_LAYOUT_HEAD * FLOAT_BYTES);
  ls_schedule_op(b->s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, "update", b->in->optim->update, &attrs, 2,
                 in, 1, &out);
}

static ls_status_t emit(sharded_t *b) {
  const ls_graph_t *graph = b->in->graph;
  ls_status_t status = make_shards(b);
  if (status != LS_OK) return status;
  place_inputs(b);
  place_gradients(b);
  for (int n = 0; n < graph->node_count && b->s->status == LS_OK; n++) {
    const ls_graph_node_t *node = &graph->nodes[n];
    bool forward = node->phase == LS_PHASE_FORWARD;
    int in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
    for (int i = 0; i < node->in_count; i++)
      in[i] = place(b, node->in[i], node->phase);
    for (int i = 0; i < node->out_count; i++)
      out[i] = place(b, node->out[i], node->phase);
    int task = ls_schedule_op(b->s, LS_LANE_COMPUTE, forward ? LS_PHASE_STEP_FORWARD : LS_PHASE_STEP_BACKWARD,
                              node->name, node->op, &node->attrs, node->in_count, in, node->out_count, out);
    for (int i = 0; i < node->in_count; i++)
      if (graph->tensors[node->in[i]].role == LS_ROLE_PARAM)
        b->shard[shard_of(b, entry_of(b, graph->tensors[node->in[i]].name))].used = task;
    for (int i = 0; i < b->count; i++)
      if (b->shard[i].ready == n) scatter(b, i);
  }
  if (b->s->status == LS_OK) update(b);
  return b->s->status;
}

static ls_status_t lower(ls_ctx_t *ctx, const ls_lower_t *in, ls_program_t *program) {
  sharded_t b = {.in = in};
  ls_status_t status = ls_schedule_create(ctx, in->state, in->rank, in->world_size, in->input_slots, &b.s);
  if (status != LS_OK) return status;
  ls_arena_init(&b.work, ctx);
  b.tensor = ls_arena_array(&b.work, (size_t)in->graph->tensor_count, sizeof *b.tensor);
  status = b.tensor ? emit(&b) : LS_ERR_MEMORY;
  if (status == LS_OK) status = ls_schedule_finish(b.s);
  ls_arena_release(&b.work);
  if (status != LS_OK) {
    ls_schedule_destroy(b.s);
    return status;
  }
  *program = ls_program_of(b.s);
  return LS_OK;
}

const ls_strategy_t ls_strategy_sharded = {
    .name = "sharded",
    .help = "parameters, gradients and the update are spread over ranks; simulated only",
    .distributed = true,
    .lower = lower,
};
