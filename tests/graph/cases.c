/* Deterministic data for op test cases, counter-based so that no case depends on another. */
#include "graph/cases.h"

#include "graph/low.h"

#include <string.h>

/* FNV-1a (Fowler, Noll, Vo): one seed per op, case and tensor. */
static uint64_t seed_of(const ls_op_t *op, const ls_op_case_t *c, int index) {
  uint64_t hash = 0xcbf29ce484222325u + (uint64_t)index;
  for (const char *p = op->name; *p; p++)
    hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
  for (const char *p = c->name; *p; p++)
    hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
  return hash;
}

static float unit(uint64_t seed, int64_t k) {
  return ls_rng_unit(ls_rng(seed, 0, (uint64_t)k / 4).v[k % 4]);
}

void case_fill_uniform(uint64_t seed, float lo, float hi, int64_t count, float *to) {
  for (int64_t k = 0; k < count; k++)
    to[k] = hi > lo ? lo + (hi - lo) * unit(seed, k) : lo;
}

void case_fill_inout(const ls_op_t *op, const ls_op_case_t *c, int index, int64_t count, float *to) {
  uint64_t seed = seed_of(op, c, 100 + index);
  for (int64_t k = 0; k < count; k++)
    to[k] = (float)(1 + (int)(4 * unit(seed, k)));
}

void case_fill_input(const ls_op_t *op, const ls_op_case_t *c, int index, void *to) {
  const ls_case_input_t *in = &c->in[index];
  uint64_t seed = seed_of(op, c, index);
  int64_t count = ls_shape_count(&in->shape);
  float *f = to;
  switch (in->fill) {
  case LS_FILL_UNIFORM:
    case_fill_uniform(seed, in->lo, in->hi, count, f);
    break;
  case LS_FILL_POSITIVE: {
    double sum = 0;
    case_fill_uniform(seed, in->lo, in->hi, count, f);
    for (int64_t k = 0; k < count; k++)
      sum += f[k];
    for (int64_t k = 0; k < count; k++)
      f[k] = (float)(f[k] / sum);
    break;
  }
  case LS_FILL_CLASS:
    for (int64_t k = 0; k < count; k++) {
      int32_t whole = (int32_t)(in->hi * unit(seed, k));
      if (in->shape.dtype == LS_U8) ((uint8_t *)to)[k] = (uint8_t)whole;
      if (ls_dtype_bytes(in->shape.dtype) == sizeof(uint16_t)) ((uint16_t *)to)[k] = (uint16_t)whole;
      if (in->shape.dtype == LS_I32) ((int32_t *)to)[k] = whole;
    }
    break;
  case LS_FILL_STEP: {
    ls_step_params_t step = {.seed = 42,
                             .position = (uint64_t)in->lo,
                             .lr = 0.125f,
                             .mean = {33.3f, 44.5f, 0.25f, 7.0f},
                             .scale = {0.0123f, 0.25f, 3.5f, 0.0625f}};
    memcpy(to, &step, sizeof step);
    break;
  }
  }
}

ls_status_t case_shapes(ls_ctx_t *ctx, const ls_op_t *op, const ls_op_case_t *c, ls_shape_t *in,
                        ls_shape_t *out) {
  for (int i = 0; i < c->in_count; i++)
    in[i] = c->in[i].shape;
  return ls_op_shape(ctx, op, &c->attrs, in, out);
}
