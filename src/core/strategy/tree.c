/* What several strategies exchange alike: the head, and the sums of a reproducible step. */
#include "graph/ops/ops.h"
#include "strategy/lower.h"

ls_status_t ls_tree_gather(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  const ls_shape_t part = s->tensors[bucket->gradients].shape;
  int own = ls_schedule_part(s, "own part", part, bucket->parts, (size_t)in->rank * ls_shape_bytes(&part));
  ls_schedule_collective(s, bucket->name, LS_GROUP_WORLD, LS_ALL_GATHER, own, bucket->parts);
  return s->status;
}

ls_status_t ls_tree_add(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  (void)in;
  ls_schedule_op(s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, bucket->name, &ls_op_tree_sum, NULL, 1,
                 &bucket->parts, 1, &bucket->gradients);
  return s->status;
}

void ls_sum_head(ls_schedule_t *s, const ls_bucket_t *bucket) {
  if (bucket->head >= 0)
    ls_schedule_collective(s, "loss", LS_GROUP_WORLD, LS_ALL_REDUCE, bucket->head, bucket->head);
}
