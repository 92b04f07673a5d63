/* A strategy whose ranks share the optimizer's state: each sums the gradients of its part of a bucket (reduce-scatter),
 * updates these parameters with moments that no other rank has, and gives them to all (all-gather). Rajbhandari et al.,
 * "ZeRO", SC 2020, stage 1. */
#include "toy.h"

enum { FLOAT_BYTES = sizeof(float) };

/* This rank's part of a tensor that begins at an element of the layout. */
static int own_part(ls_schedule_t *s, const ls_bucket_t *bucket, int of, int64_t begin) {
  return ls_schedule_part(s, "own part", LS_SHAPE(LS_F32, bucket->own.end - bucket->own.begin), of,
                          (size_t)(bucket->own.begin - begin) * FLOAT_BYTES);
}

static ls_status_t scatter(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  const int64_t head = bucket->begin == 0 ? LS_LAYOUT_HEAD : 0;
  const ls_shape_t rest = s->tensors[bucket->parameters].shape;
  (void)in;
  if (head > 0) {
    int loss = ls_schedule_part(s, "head", LS_SHAPE(LS_F32, head), bucket->gradients, 0);
    ls_schedule_collective(s, "loss", LS_GROUP_WORLD, LS_ALL_REDUCE, loss, loss);
  }
  int whole = ls_schedule_part(s, "gradients", rest, bucket->gradients, (size_t)head * FLOAT_BYTES);
  ls_schedule_collective(s, bucket->name, LS_GROUP_WORLD, LS_REDUCE_SCATTER, whole,
                         own_part(s, bucket, bucket->gradients, bucket->begin));
  return s->status;
}

static ls_status_t gather(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  (void)in;
  int own = own_part(s, bucket, bucket->parameters, bucket->begin == 0 ? LS_LAYOUT_HEAD : bucket->begin);
  ls_schedule_collective(s, "parameters", LS_GROUP_WORLD, LS_ALL_GATHER, own, bucket->parameters);
  return s->status;
}

static ls_status_t place(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement) {
  static const ls_placement_t parts = {.shards = true, .ready = scatter, .updated = gather};
  if (!in->optim || in->world_size == 1) return LS_OK;
  if (in->options.wire != LS_F32)
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "strategy parts: gradients are f32");
  *placement = &parts;
  return LS_OK;
}

static const ls_strategy_t strategy = {.name = TOY_PARTS,
                                       .help = "each rank has a part of the optimizer's state",
                                       .distributed = true,
                                       .propose = ls_buckets_propose,
                                       .place = place};

__attribute__((constructor)) static void add(void) {
  ls_strategy_register(&strategy);
}
