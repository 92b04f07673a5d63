/* Samples that are no f32 yet: bytes of images, and tokens where a model takes them for numbers. i[0]: channels, the last
 * dimension, if each has its mean and scale, at most LS_STEP_CHANNELS; 0: all values have the first.
 *   x u8, u16 or i32 (n, .., c), step u8 (64) -> y f32 (n, .., c) = (x - step.mean[c]) * step.scale[c]
 * in f64, rounded once: the bits of a host that does it beforehand. Data have no gradient. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static ls_status_t normalize_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                   ls_shape_t *out) {
  int64_t channels = attrs ? attrs->i[0] : 0;
  ls_dtype_t dtype = in[0].dtype == LS_U16 || in[0].dtype == LS_I32 ? in[0].dtype : LS_U8;
  ls_status_t status = ls_rule_tensor(ctx, "normalize", "x", &in[0], dtype, 1, 0);
  if (!status) status = ls_rule_step(ctx, "normalize", &in[1]);
  if (status) return status;
  if (channels != 0 && (channels != in[0].dim[in[0].rank - 1] || channels > LS_STEP_CHANNELS))
    return ls_fail(ctx, LS_ERR_SHAPE,
                   "normalize: %lld channels are not those of samples with %lld, or are more than %d",
                   (long long)channels, (long long)in[0].dim[in[0].rank - 1], LS_STEP_CHANNELS);
  out[0] = in[0];
  out[0].dtype = LS_F32;
  return LS_OK;
}

#define NORMALIZE(type)                                                                                      \
  for (int64_t k = 0; k < count; k++)                                                                        \
    y[k] = (float)((((const type *)args->in[0].data)[k] - (double)step->mean[k % channels]) *                \
                   (double)step->scale[k % channels]);                                                       \
  break;

static ls_status_t normalize_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_step_params_t *step = args->in[1].data;
  int64_t channels = args->attrs->i[0] > 0 ? args->attrs->i[0] : 1;
  float *y = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  switch (ls_in_shape(args, 0)->dtype) {
  case LS_U8:
    NORMALIZE(uint8_t)
  case LS_U16:
    NORMALIZE(uint16_t)
  default:
    NORMALIZE(int32_t)
  }
  return LS_OK;
}

const ls_op_t ls_op_normalize = {
    LS_OP("normalize", LS_OP_ELEMENTWISE, 2, 1, normalize_shape, normalize_forward), .flops_each = 2,
    .low_out = 1, .low_wants = true};
