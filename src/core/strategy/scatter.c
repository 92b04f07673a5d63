/* A placement that scatters. A bucket's gradients live in transient memory from the first of them to their reduce-scatter,
 * and row "gradients" holds this rank's part alone.
 *
 * A bucket ends on a place that all ranks can share, so its last parameter may reach into the next bucket: the tensor of the
 * first one holds all of it, and the rest, fewer elements than 16 for each rank, is copied. Nothing computes padding,
 * which is zeroed. What a rank receives is kept when the next bucket is complete: compute then need not wait for the
 * exchange at once, and the memory of every other bucket is free again. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

enum { FLOAT_BYTES = sizeof(float) };

void ls_lowering_scatter_place(ls_lowering_t *l, ls_bucket_t *bucket) {
  const int64_t first = ls_bucket_first(bucket), own = bucket->own.end - bucket->own.begin;
  bucket->gradients = bucket->parts = ls_schedule_tensor(
      l->s, bucket->name, LS_SHAPE(LS_F32, bucket->span - first), LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
  bucket->trained =
      ls_schedule_part(l->s, bucket->name, LS_SHAPE(LS_F32, bucket->end - first), bucket->gradients, 0);
  bucket->received =
      ls_schedule_tensor(l->s, "received", LS_SHAPE(LS_F32, own), LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
}

/* Elements [begin, end) of the layout in the bucket's gradients. */
static int part(ls_lowering_t *l, const ls_bucket_t *bucket, int64_t begin, int64_t end) {
  return ls_schedule_part(l->s, bucket->name, LS_SHAPE(LS_F32, end - begin), bucket->gradients,
                          (size_t)(begin - ls_bucket_first(bucket)) * FLOAT_BYTES);
}

static void zero(ls_lowering_t *l, const ls_bucket_t *bucket, int64_t begin, int64_t end) {
  const ls_attrs_t attrs = {.i = {end - begin}};
  if (begin >= end) return;
  int padding = part(l, bucket, begin, end);
  ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_BACKWARD, "padding", &ls_op_fill, &attrs, 0, &padding,
                 1, &padding);
}

static void zero_padding(ls_lowering_t *l, const ls_bucket_t *bucket) {
  int64_t end = ls_bucket_first(bucket); /* of the parameters so far */
  for (int i = 0; i < l->layout->trained_count; i++) {
    const ls_layout_entry_t *e = &l->layout->entry[i];
    if (e->offset + e->count <= end || e->offset >= bucket->end) continue;
    zero(l, bucket, end, e->offset);
    end = e->offset + e->count;
  }
  zero(l, bucket, end, bucket->end);
}

void ls_lowering_scatter(ls_lowering_t *l, int bucket) {
  const ls_bucket_t *b = &l->bucket[bucket], *before = bucket > 0 ? b - 1 : NULL;
  ls_lowering_scatter_keep(l);
  if (before && before->span > before->end)
    ls_schedule_copy(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_BACKWARD, b->name,
                     part(l, before, before->end, before->span), part(l, b, before->end, before->span));
  zero_padding(l, b);
  l->scattered = bucket;
}

void ls_lowering_scatter_keep(ls_lowering_t *l) {
  if (l->scattered < 0) return;
  const ls_bucket_t *b = &l->bucket[l->scattered];
  int own = ls_lowering_flat(l, b->name, l->grads, b->sums_at, b->sums_at + b->own.end - b->own.begin);
  if (l->adds)
    ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_BACKWARD, b->name, &ls_op_accumulate, NULL, 1,
                   &b->received, 1, &own);
  else
    ls_schedule_copy(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_BACKWARD, b->name, b->received, own);
  l->scattered = -1;
}
