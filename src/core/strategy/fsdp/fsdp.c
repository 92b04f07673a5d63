/* fsdp, sharded data parallel: like ddp, but each rank updates its part of the parameters alone, and holds the optimizer's
 * state for that part alone (ZeRO 1, Rajbhandari et al. 2020). Gradients are scattered instead of all-reduced, bucket by
 * bucket during the backward pass, and updated parameters are gathered: together as many bytes as ddp's all-reduce.
 * With `shard: gradients` a rank keeps the gradients of its part alone, too (ZeRO 2), and scatters every micro-batch's.
 *
 * Reproducible: gradients are summed as ddp sums them, and every rank has them all. */
#include "strategy/lower.h"

static ls_status_t scatter_gradients(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  ls_sum_head(s, bucket);
  ls_schedule_collective_as(s, bucket->name, LS_GROUP_WORLD, LS_REDUCE_SCATTER, in->options.wire,
                            bucket->trained, bucket->received);
  return s->status;
}

static ls_status_t gather_parameters(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  (void)in;
  const ls_shape_t part = LS_SHAPE(LS_F32, bucket->own.end - bucket->own.begin);
  int own = ls_schedule_part(s, "own part", part, bucket->parameters,
                             (size_t)(bucket->own.begin - ls_bucket_first(bucket)) * sizeof(float));
  ls_schedule_collective(s, "parameters", LS_GROUP_WORLD, LS_ALL_GATHER, own, bucket->parameters);
  return s->status;
}

static ls_status_t place(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement) {
  static const ls_placement_t plain = {.shards = true,
                                       .ready = scatter_gradients,
                                       .updated = gather_parameters},
                              gradients = {.shards = true,
                                           .scatters = true,
                                           .ready = scatter_gradients,
                                           .updated = gather_parameters},
                              reproducible = {.shards = true,
                                              .gathers = true,
                                              .bucket_bytes =
                                                  INT64_MAX, /* one: a tree's parts are whole parameters */
                                              .ready = ls_tree_gather,
                                              .collect = ls_tree_add,
                                              .updated = gather_parameters};
  if (!in->optim || in->world_size == 1) return LS_OK; /* there is nothing to share */
  if (in->options.reproducible && in->options.wire != LS_F32)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "fsdp: a reproducible step exchanges f32: one rank rounds nothing");
  *placement = in->options.reproducible                  ? &reproducible
               : in->options.shard == LS_SHARD_GRADIENTS ? &gradients
                                                         : &plain;
  return LS_OK;
}

const ls_strategy_t ls_strategy_fsdp = {
    .name = "fsdp",
    .help = "data parallel with shards: each rank updates its part of the parameters and holds the "
            "optimizer's state, and with shard: gradients the gradients, for that part alone",
    .distributed = true,
    .shards = true,
    .propose = ls_buckets_propose,
    .place = place,
};
