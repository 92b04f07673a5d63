/* The step that all strategies share: a graph becomes tasks on the compute lane, and on the side lane if there is one,
 * once for each member. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

#include <stdlib.h>

static void emit_node(ls_lowering_t *l, const ls_graph_node_t *node) {
  int in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  for (int i = 0; i < node->in_count; i++)
    in[i] = ls_lowering_place(l, node->in[i]);
  bool summed = node->op == &ls_op_sum_ranks, exchanged = summed && l->in->world_size > 1 && l->in->optim;
  if (summed && !exchanged) l->tensor[node->out[0]] = in[0]; /* the sum of one rank is its own */
  for (int i = 0; i < node->out_count; i++)
    out[i] = ls_lowering_place(l, node->out[i]);
  /* Casts of parameters are one task (ls_lowering_cast), and the seed is an input. */
  bool there = l->param[node->out[0]] >= 0 || l->input[node->out[0]] >= 0;
  if (exchanged) {
    ls_schedule_collective(l->s, node->name, LS_GROUP_WORLD, LS_ALL_REDUCE, in[0], out[0]);
  } else if (!node->op->view && !summed && !there) {
    ls_step_phase_t phase = node->phase == LS_PHASE_FORWARD ? LS_PHASE_STEP_FORWARD : LS_PHASE_STEP_BACKWARD;
    ls_schedule_op(l->s, l->on, phase, node->name, node->op, &node->attrs, node->in_count, in,
                   node->out_count, out);
  }
  for (int i = 0; i < node->out_count; i++)
    ls_lowering_deliver(l, node->out[i]);
}

/* Emits the exchange of buckets that are complete once `node` has been emitted in the member that ends the
 * step; nodes come in order. Without an exchange there is nothing to wait for, and the squares are summed
 * while the gradients are still in cache. The next nodes do not need them either. */
static ls_status_t complete_buckets(ls_lowering_t *l, int node) {
  ls_status_t status = LS_OK;
  for (; l->last && l->complete < l->bucket_count && !status; l->complete++) {
    int b = l->bucket_order[l->complete];
    if (l->bucket[b].ready_node != node) break;
    if (l->placement)
      status = l->placement->ready(l->s, l->in, b, l->bucket_parts[b], l->bucket_tensor[b]);
    else if (!l->in->options.reproducible)
      ls_lowering_sumsq(l, node < l->last_compute ? LS_LANE_SIDE : LS_LANE_COMPUTE, b);
  }
  return status;
}

static ls_status_t emit_graph(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  if (l->in->data_rows > 0) ls_lowering_gather(l);
  ls_lowering_cast(l);
  ls_status_t status = complete_buckets(l, -1);
  for (int n = 0; n < graph->node_count && !status; n++) {
    l->on = l->lane[n];
    emit_node(l, &graph->nodes[n]);
    status = l->s->status;
    if (!status) status = complete_buckets(l, n);
  }
  return status;
}

/* After the backward pass: it need not wait for what is collected. */
static ls_status_t finish_buckets(ls_lowering_t *l) {
  ls_status_t status = LS_OK;
  bool summed = !l->placement && !l->in->options.reproducible;
  for (int b = 0; b < l->bucket_count && !summed && !status; b++) {
    if (l->placement && l->placement->collect)
      status = l->placement->collect(l->s, l->in, b, l->bucket_parts[b], l->bucket_tensor[b]);
    ls_lowering_sumsq(l, LS_LANE_COMPUTE, b);
  }
  return status;
}

static ls_status_t emit_member(ls_lowering_t *l) {
  ls_status_t status = ls_lowering_places(l);
  if (!status) status = ls_lowering_lanes(l);
  if (!status) status = emit_graph(l);
  if (status || !l->last) return status;
  if (!l->in->optim) {
    ls_lowering_copy_out(l);
    return l->s->status;
  }
  status = finish_buckets(l);
  if (status) return status;
  ls_lowering_update(l);
  return l->s->status;
}

static int by_ready_node(const void *x, const void *y, void *buckets) {
  int a = *(const int *)x, b = *(const int *)y;
  int ready_a = ((const ls_bucket_t *)buckets)[a].ready_node,
      ready_b = ((const ls_bucket_t *)buckets)[b].ready_node;
  return ready_a != ready_b ? (ready_a > ready_b) - (ready_a < ready_b) : (a > b) - (a < b);
}

static ls_status_t prepare(ls_lowering_t *l) {
  size_t count = (size_t)l->in->graph->tensor_count + 1;
  l->tensor = ls_arena_array(&l->work, count, sizeof(int));
  l->param = ls_arena_array(&l->work, count, sizeof(int));
  l->input = ls_arena_array(&l->work, count, sizeof(int));
  l->destination = ls_arena_array(&l->work, count, sizeof(*l->destination));
  if (!l->tensor || !l->param || !l->input || !l->destination) return LS_ERR_MEMORY;
  for (size_t id = 0; id < count; id++) {
    l->tensor[id] = l->param[id] = l->input[id] = -1;
    l->destination[id].tensor = -1;
  }
  if (!l->in->optim) return LS_OK;
  const int64_t own = l->placement ? l->placement->bucket_bytes : 0;
  const int64_t bytes = own > 0 ? own : l->in->options.bucket_bytes;
  ls_status_t status = ls_buckets_make(&l->work, l->in, bytes, &l->bucket, &l->bucket_count);
  if (status) return status;
  l->bucket_tensor = ls_arena_array(&l->work, (size_t)l->bucket_count, sizeof(int));
  l->bucket_parts = ls_arena_array(&l->work, (size_t)l->bucket_count, sizeof(int));
  l->bucket_order = ls_arena_array(&l->work, (size_t)l->bucket_count, sizeof(int));
  if (!l->bucket_tensor || !l->bucket_parts || !l->bucket_order) return LS_ERR_MEMORY;
  for (int b = 0; b < l->bucket_count; b++)
    l->bucket_order[b] = b;
  qsort_r(l->bucket_order, (size_t)l->bucket_count, sizeof(int), by_ready_node, l->bucket);
  return LS_OK;
}

int ls_lowering_levels(const ls_lower_t *in) {
  return in->optim && in->options.reproducible && in->accumulate > 0 ? __builtin_ctz((unsigned)in->accumulate)
                                                                     : 0;
}

/* Member k of a step that has `count`. */
static ls_status_t lower_member(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t *placement, int k,
                                int count, bool tree, ls_schedule_t **schedule) {
  const bool gathers = placement && placement->gathers;
  ls_lowering_t l = {.in = in,
                     .layout = in->state->layout,
                     .placement = placement,
                     .adds = tree || k == 0 ? k : 1,
                     .last = k + 1 == count,
                     .levels = tree ? count - 1 : 0,
                     .parts = gathers ? in->world_size : 1,
                     .part = gathers ? in->rank : 0};
  ls_status_t status = ls_schedule_create(ctx, in->state, in->rank, in->world_size, in->input_slots, &l.s);
  if (status) return status;
  l.s->lanes_are_threads = !in->copies;
  l.s->widens = in->widens;
  if (tree && count > 1)
    l.s->name = ls_arena_printf(&l.s->arena, "sum of %d", 1 << k);
  else if (count > 1)
    l.s->name = k == 0 ? "first" : l.last ? "last" : "middle";
  ls_arena_init(&l.work, ctx);
  status = count == 1 || l.s->name ? prepare(&l) : LS_ERR_MEMORY;
  if (!status) status = emit_member(&l);
  if (!status) status = ls_schedule_finish(l.s);
  ls_arena_release(&l.work);
  if (status) {
    ls_schedule_destroy(l.s);
    return status;
  }
  *schedule = l.s;
  return LS_OK;
}

ls_status_t ls_lower_step(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t *placement,
                          ls_program_t *program) {
  enum { CHAIN_MEMBERS = 3 };
  ls_status_t status = LS_OK;
  const bool tree = in->optim && in->options.reproducible;
  const int chain = in->accumulate < CHAIN_MEMBERS ? in->accumulate : CHAIN_MEMBERS,
            count = tree ? 1 + ls_lowering_levels(in) : chain;
  ls_program_t p = {
      .micro_batches = in->accumulate, .period = 1, .rule = tree ? ls_program_tree : ls_program_chain};
  for (int k = 0; k < count && !status; k++) {
    status = lower_member(ctx, in, placement, k, count, tree, &p.member[k]);
    p.count += !status;
  }
  if (!status) status = ls_program_finish(&p);
  if (status) {
    ls_program_release(&p);
    return status;
  }
  *program = p;
  return LS_OK;
}
_Static_assert(LS_TREE_PARTS_MAX < 1 << LS_PROGRAM_MEMBERS_MAX, "a member for each level of the tree");
