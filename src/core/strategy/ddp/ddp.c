/* ddp, distributed data parallel: every rank holds all parameters and computes its share of the batch.
 * Gradients are summed over ranks, bucket by bucket, during the backward pass. Samples are weighted by 1 /
 * global batch, so sums are exact for uneven shares too. The first bucket carries the loss. */
#include "strategy/lower.h"

static ls_status_t reduce_bucket(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  const ls_dtype_t wire = in->options.wire;
  const bool apart = wire != LS_F32; /* counts stay exact, and the loss as exact as with one rank */
  const int gradients = apart ? bucket->trained : bucket->gradients;
  if (apart) ls_sum_head(s, bucket);
  ls_schedule_collective_as(s, bucket->name, LS_GROUP_WORLD, LS_ALL_REDUCE, wire, gradients, gradients);
  return s->status;
}

static ls_status_t place(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement) {
  static const ls_placement_t plain = {.ready = reduce_bucket}, reproducible = {.gathers = true,
                                                                                .ready = ls_tree_gather,
                                                                                .collect = ls_tree_add};
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
