/* The step that all strategies share: a graph becomes tasks on the compute lane, and on the side lane if there is one,
 * once for each member. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

static void emit_node(ls_lowering_t *l, const ls_graph_node_t *node) {
  int in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  for (int i = 0; i < node->in_count; i++)
    in[i] = ls_lowering_place(l, node->in[i]);
  bool summed = node->op == &ls_op_sum_ranks, exchanged = summed && l->in->world_size > 1 && l->in->optim;
  /* Casts of parameters are one task (ls_lowering_cast), and the seed is an input. */
  const bool there = l->tensor[node->out[0]] >= 0;
  if (summed && !exchanged) l->tensor[node->out[0]] = in[0]; /* the sum of one rank is its own */
  for (int i = 0; i < node->out_count; i++)
    out[i] = ls_lowering_place(l, node->out[i]);
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

/* Emits the exchange of the buckets that `node` completes. Without an exchange there is nothing to wait for, and the
 * squares are summed while the gradients are still in cache. The next nodes do not need them either. */
static ls_status_t complete_buckets(ls_lowering_t *l, int node) {
  ls_status_t status = LS_OK;
  const bool exchanges = l->last || l->placement->scatters;
  for (int b = 0; exchanges && b < l->bucket_count && !status; b++) {
    if (l->bucket[b].ready_node != node) continue;
    if (l->placement->scatters) ls_lowering_scatter(l, b);
    if (l->placement->ready)
      status = l->placement->ready(l->s, l->in, &l->bucket[b]);
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
  ls_lowering_scatter_keep(l);
  return status;
}

/* Runs after the backward pass, which need not wait for what is collected. */
static ls_status_t finish_buckets(ls_lowering_t *l) {
  const bool summed = !l->placement->ready && !l->in->options.reproducible;
  ls_status_t status = LS_OK;
  for (int b = 0; b < l->bucket_count && !status; b++) {
    if (l->placement->collect) status = l->placement->collect(l->s, l->in, &l->bucket[b]);
    if (!summed) ls_lowering_sumsq(l, LS_LANE_COMPUTE, b);
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

static ls_status_t prepare(ls_lowering_t *l) {
  const size_t count = (size_t)l->in->graph->tensor_count + 1;
  l->tensor = ls_arena_array(&l->work, count, sizeof(int));
  l->destination = ls_arena_array(&l->work, count, sizeof(*l->destination));
  if (!l->tensor || !l->destination) return LS_ERR_MEMORY;
  for (size_t id = 0; id < count; id++)
    l->tensor[id] = l->destination[id].tensor = -1;
  return l->in->optim ? ls_buckets_make(&l->work, l->in, l->placement, &l->bucket, &l->bucket_count) : LS_OK;
}

/* A step of 2^k shards has members for sums of 1, 2, .. 2^k. The two largest sums are made where the gradients are. */
static int tree_members(const ls_lower_t *in) {
  return in->optim && in->options.reproducible && in->micro_batches > 0
             ? 1 + __builtin_ctz((unsigned)in->micro_batches)
             : 0;
}

int ls_lowering_levels(const ls_lower_t *in) {
  const int members = tree_members(in);
  return members > 2 ? members - 2 : 0;
}

/* Member k of a step that has `count`. */
static ls_status_t lower_member(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t *placement, int k,
                                int count, bool tree, ls_schedule_t **schedule) {
  ls_lowering_t l = {.in = in,
                     .layout = in->state->layout,
                     .placement = placement,
                     .adds = tree || k == 0 ? k : 1,
                     .levels = ls_lowering_levels(in),
                     .last = k + 1 == count,
                     .scattered = -1,
                     .parts = placement->gathers ? in->world_size : 1,
                     .part = placement->gathers ? in->rank : 0};
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
  static const ls_placement_t none = {0};
  ls_status_t status = LS_OK;
  const int tree = tree_members(in),
            chain = in->micro_batches < CHAIN_MEMBERS ? in->micro_batches : CHAIN_MEMBERS,
            count = tree ? tree : chain;
  ls_program_t p = {
      .micro_batches = in->micro_batches, .period = 1, .rule = tree ? ls_program_tree : ls_program_chain};
  for (int k = 0; k < count && !status; k++) {
    status = lower_member(ctx, in, placement ? placement : &none, k, count, tree, &p.member[k]);
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
