/* ddp, distributed data parallel: every rank holds all parameters and computes its share of the batch.
 * Gradients are summed over ranks, bucket by bucket, during the backward pass. Samples are weighted by 1 /
 * global batch, so sums are exact for uneven shares too. The first bucket carries the loss.
 *
 * Reproducible: every rank gathers the sums of all ranks and adds them up itself, in a tree whose lower
 * levels are the shards of each rank. An all-reduce would not do: its order depends on the transport and the
 * number of ranks. */
#include "graph/ops/ops.h"
#include "strategy/lower.h"

#include <stdio.h>

enum { NAME_BYTES = 32 };

static const char *name_of(int bucket, char name[NAME_BYTES]) {
  snprintf(name, NAME_BYTES, "gradients %d", bucket);
  return name;
}

static ls_status_t reduce_bucket(ls_schedule_t *s, const ls_lower_t *in, int bucket, int parts,
                                 int gradients) {
  char name[NAME_BYTES];
  ls_dtype_t wire = in->options.wire;
  (void)gradients;
  if (bucket == 0 && wire != LS_F32) { /* counts stay exact, and the loss as exact as with one rank */
    ls_shape_t head = LS_SHAPE(LS_F32, LS_LAYOUT_HEAD), rest = s->tensors[parts].shape;
    int loss = ls_schedule_part(s, "head", head, parts, 0);
    ls_schedule_collective(s, "loss", LS_GROUP_WORLD, LS_ALL_REDUCE, loss, loss);
    rest.dim[0] -= LS_LAYOUT_HEAD;
    parts = ls_schedule_part(s, "gradients", rest, parts, ls_shape_bytes(&head));
  }
  ls_schedule_collective_as(s, name_of(bucket, name), LS_GROUP_WORLD, LS_ALL_REDUCE, wire, parts, parts);
  return s->status;
}

static ls_status_t gather_bucket(ls_schedule_t *s, const ls_lower_t *in, int bucket, int parts,
                                 int gradients) {
  char name[NAME_BYTES];
  (void)in, (void)gradients;
  const ls_shape_t *all = &s->tensors[parts].shape; /* (world_size, n) */
  ls_shape_t part = LS_SHAPE(all->dtype, all->dim[1]);
  int own = ls_schedule_part(s, "own part", part, parts, (size_t)s->rank * ls_shape_bytes(&part));
  ls_schedule_collective(s, name_of(bucket, name), LS_GROUP_WORLD, LS_ALL_GATHER, own, parts);
  return s->status;
}

static ls_status_t add_bucket(ls_schedule_t *s, const ls_lower_t *in, int bucket, int parts, int gradients) {
  char name[NAME_BYTES];
  (void)in;
  ls_schedule_op(s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, name_of(bucket, name), &ls_op_tree_sum, NULL, 1,
                 &parts, 1, &gradients);
  return s->status;
}

static ls_status_t place(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement) {
  static const ls_placement_t plain = {.ready = reduce_bucket},
                              reproducible = {.gathers = true, .ready = gather_bucket, .collect = add_bucket};
  if (!in->optim || in->world_size == 1) return LS_OK; /* there is nothing to exchange */
  if (in->options.reproducible && in->options.wire != LS_F32)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "ddp: a reproducible step exchanges f32: one rank rounds nothing");
  *placement = in->options.reproducible ? &reproducible : &plain;
  return LS_OK;
}

const ls_strategy_t ls_strategy_ddp = {
    .name = "ddp",
    .help = "data parallel: each rank computes its share of the batch; gradients are summed "
            "during the backward pass",
    .distributed = true,
    .propose = ls_buckets_propose,
    .place = place,
};
