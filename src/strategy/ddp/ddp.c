/* ddp, distributed data parallel: every rank holds all parameters and computes its share of the batch;
 * gradients are summed over ranks, bucket by bucket, while the backward pass goes on. Samples are weighted by
 * 1 / global batch, so sums are exact for uneven shares too. The first bucket carries the loss. */
#include "strategy/lower.h"

#include <stdio.h>

static ls_status_t reduce_bucket(void *user, ls_schedule_t *s, int bucket, int tensor) {
  (void)user;
  char name[32];
  snprintf(name, sizeof(name), "gradients %d", bucket);
  ls_schedule_collective(s, name, LS_ALL_REDUCE, tensor);
  return s->status;
}

static ls_status_t lower(ls_ctx_t *ctx, const ls_lower_t *in, ls_schedule_t **schedule) {
  return ls_lower_step(ctx, in, in->world_size > 1 ? reduce_bucket : NULL, NULL, schedule);
}

const ls_strategy_t ls_strategy_ddp = {
    .name = "ddp",
    .help = "data parallel: every rank computes its share, gradients are summed while they come",
    .distributed = true,
    .lower = lower,
};
