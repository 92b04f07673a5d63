/* fsdp, sharded data parallel: like ddp, but each rank updates its part of the parameters alone, and holds the optimizer's
 * state for that part alone (ZeRO 1, Rajbhandari et al. 2020). Gradients are scattered instead of all-reduced, bucket by
 * bucket during the backward pass, and updated parameters are gathered: together as many bytes as ddp's all-reduce.
 *
 * Reproducible: gradients are summed as ddp sums them, and every rank has them all. */
#include "strategy/lower.h"

/* This rank's part of a tensor whose first element is element `first` of the layout. */
static int own_part(ls_schedule_t *s, const ls_bucket_t *bucket, int tensor, int64_t first) {
  return ls_schedule_part(s, "own part", LS_SHAPE(LS_F32, bucket->own.end - bucket->own.begin), tensor,
                          (size_t)(bucket->own.begin - first) * sizeof(float));
}

static ls_status_t scatter_gradients(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  const int64_t first = ls_bucket_first(bucket);
  if (bucket->begin == 0) ls_sum_head(s, bucket);
  int whole = ls_schedule_part(s, bucket->name, LS_SHAPE(LS_F32, bucket->end - first), bucket->gradients,
                               (size_t)(first - bucket->begin) * sizeof(float));
  ls_schedule_collective_as(s, bucket->name, LS_GROUP_WORLD, LS_REDUCE_SCATTER, in->options.wire, whole,
                            own_part(s, bucket, bucket->gradients, bucket->begin));
  return s->status;
}

static ls_status_t gather_parameters(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  (void)in;
  ls_schedule_collective(s, "parameters", LS_GROUP_WORLD, LS_ALL_GATHER,
                         own_part(s, bucket, bucket->parameters, ls_bucket_first(bucket)),
                         bucket->parameters);
  return s->status;
}

static ls_status_t place(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement) {
  static const ls_placement_t plain = {.shards = true,
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
  *placement = in->options.reproducible ? &reproducible : &plain;
  return LS_OK;
}

const ls_strategy_t ls_strategy_fsdp = {
    .name = "fsdp",
    .help = "data parallel with shards: each rank updates its part of the parameters and holds the "
            "optimizer's state for that part alone",
    .distributed = true,
    .shards = true,
    .propose = ls_buckets_propose,
    .place = place,
};
