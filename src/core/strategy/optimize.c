/* The end of a training step: the norm of the gradients bucket by bucket, the decision, and one update over
 * all trainable parameters. They are contiguous, so this is the same few tasks for any network. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

enum { FLOAT_BYTES = sizeof(float) };

void ls_lowering_sumsq(ls_lowering_t *l, ls_lane_t lane, int bucket) {
  int64_t begin = l->bucket[bucket].sums_at,
          end = begin + l->bucket[bucket].own.end - l->bucket[bucket].own.begin;
  if (l->in->options.reproducible) {
    if (bucket + 1 < l->bucket_count) return;
    begin = LS_LAYOUT_HEAD;
    end = l->layout->group_end[LS_LAYOUT_GROUPS_MAX - 1]; /* without padding for ranks */
    bucket = 0;
  }
  char *name = ls_arena_printf(&l->work, "sum of squares %d", bucket);
  if (!name) {
    l->s->status = LS_ERR_MEMORY;
    return;
  }
  int in = ls_lowering_flat(l, name, l->grads, begin, end);
  size_t offset_bytes = l->s->tensors[l->partials].offset_bytes + (size_t)bucket * FLOAT_BYTES;
  int out = ls_schedule_tensor(l->s, name, LS_SHAPE(LS_F32, 1), LS_REGION_STAT, offset_bytes);
  ls_schedule_op(l->s, lane, LS_PHASE_STEP_OPTIMIZER, name, &ls_op_sumsq, NULL, 1, &in, 1, &out);
}

void ls_lowering_copy_out(ls_lowering_t *l) {
  if (!l->in->copies) return;
  int to = ls_schedule_tensor(l->s, "stats (host)", LS_SHAPE(LS_F32, LS_STAT_COUNT), LS_REGION_HOST_STAT, 0);
  ls_schedule_copy(l->s, LS_LANE_COPY_OUT, LS_PHASE_STEP_REST, "stats", l->stats, to);
}

int ls_lowering_counter(ls_lowering_t *l, const ls_shape_t *shape) {
  if (!l->in->optim)
    l->s->status = ls_fail(l->s->ctx, LS_ERR_ARGUMENT, "lower: a graph with a loss scale is not trained");
  return ls_schedule_tensor(l->s, LS_COUNTER_NAME, *shape, ls_lowering_row(l, LS_COUNTER_NAME), 0);
}

/* The update of a range of what this rank owns in a bucket. */
static void update_range(ls_lowering_t *l, int group, int ctrl, ls_range_t range, const ls_bucket_t *bucket) {
  const ls_optim_rule_t *optim = l->in->optim;
  const int64_t count = range.end - range.begin, skipped = range.begin - bucket->own.begin,
                sums = bucket->sums_at + skipped, slots = bucket->own_at + skipped;
  int in[] = {ls_lowering_flat(l, "all gradients", l->grads, sums, sums + count), ctrl};
  int out[1 + LS_OPTIM_SLOT_MAX] = {ls_lowering_flat(l, "all parameters", l->params, range.begin, range.end)};
  for (int k = 0; k < optim->slot_count; k++)
    out[1 + k] = ls_lowering_flat(l, optim->slot_name[k], ls_lowering_row(l, optim->slot_name[k]), slots,
                                  slots + count);
  ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, "update", optim->update,
                 &optim->group[group].attrs, 2, in, 1 + optim->slot_count, out);
}

/* The update of a group's range: of all of it, or of this rank's part of each bucket. A group without parameters, or a
 * layout that has none (0), has no task. */
static void update_group(ls_lowering_t *l, int group, int64_t begin, int64_t end) {
  const ls_attrs_t rate = {.f = {l->in->optim->group[group].rate}};
  const ls_bucket_t all = {.own = {0, l->layout->trained}}, *piece = l->placement->shards ? l->bucket : &all;
  const int pieces = l->placement->shards ? l->bucket_count : 1;
  int ctrl = l->ctrl;
  if (begin >= end) return;
  if (rate.f[0] != 1) {
    ctrl = ls_schedule_tensor(l->s, "ctrl of a group", LS_SHAPE(LS_F32, LS_CTRL_COUNT), LS_REGION_TRANSIENT,
                              LS_OFFSET_AUTO);
    ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, "rate of a group", &ls_op_rate_scale,
                   &rate, 1, &l->ctrl, 1, &ctrl);
  }
  for (int i = 0; i < pieces; i++) {
    const ls_range_t own = piece[i].own,
                     range = {begin > own.begin ? begin : own.begin, end < own.end ? end : own.end};
    if (range.begin < range.end) update_range(l, group, ctrl, range, &piece[i]);
  }
}

/* Pruned parameters stay 0. */
static void apply_masks(ls_lowering_t *l, int values) {
  if (!l->in->optim->masks) return;
  int masks =
      ls_lowering_flat(l, LS_MASK_NAME, ls_lowering_row(l, LS_MASK_NAME), LS_LAYOUT_HEAD, l->layout->trained);
  ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, "prune", &ls_op_mul, NULL, 2,
                 (int[]){values, masks}, 1, &values);
}

void ls_lowering_update(ls_lowering_t *l) {
  const ls_optim_rule_t *optim = l->in->optim;
  int64_t end = l->layout->trained;
  int step = ls_lowering_step(l);
  if (l->s->status) return;
  if (step < 0) {
    l->s->status = ls_fail(l->s->ctx, LS_ERR_ARGUMENT, "lower: the graph has no input '%s'", LS_NAME_STEP);
    return;
  }
  if (l->placement->shards && !l->in->options.reproducible)
    ls_schedule_collective(l->s, "sums of squares", LS_GROUP_WORLD, LS_ALL_REDUCE, l->partials, l->partials);
  int head = ls_lowering_flat(l, "head", l->grads, 0, LS_LAYOUT_HEAD);
  int counter = ls_lowering_flat(l, LS_COUNTER_NAME, ls_lowering_row(l, LS_COUNTER_NAME), 0, LS_STAT_COUNT);
  ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, "step control", &ls_op_step_control,
                 &optim->control_attrs, 3, (int[]){head, l->partials, step}, 3,
                 (int[]){l->ctrl, l->stats, counter});
  ls_lowering_copy_out(l);

  int64_t begin = LS_LAYOUT_HEAD;
  for (int g = 0; g < optim->group_count;
       begin = l->layout->group_end[g++]) /* the last takes padding, which stays zero */
    update_group(l, g, begin, g + 1 < optim->group_count ? l->layout->group_end[g] : end);
  int all = ls_lowering_flat(l, "all parameters", l->params, LS_LAYOUT_HEAD, end);
  apply_masks(l, all);
  for (int b = 0; l->placement->updated && b < l->bucket_count && !l->s->status; b++)
    l->s->status = l->placement->updated(l->s, l->in, &l->bucket[b]);
  if (optim->ema == 0) return;
  const ls_attrs_t keep = {.f = {optim->ema}};
  int mean = ls_lowering_flat(l, LS_OPTIM_EMA, ls_lowering_row(l, LS_OPTIM_EMA), LS_LAYOUT_HEAD, end);
  ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, "mean of parameters", &ls_op_ema, &keep, 3,
                 (int[]){all, l->ctrl, counter}, 1, &mean);
  apply_masks(l, mean);
}
