/* Shapes, scratch and kernels of ops on 16-bit floats. */
#include "graph/low.h"

#include "graph/ops/ops.h"

#include <stdio.h>

enum { PART_BYTES = 64 };

ls_dtype_t ls_op_low(const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in) {
  if (!op->low_in) return op->low_out ? (ls_dtype_t)attrs->i[LS_ATTR_LOW] : LS_F32;
  for (int i = 0; i < op->in_count; i++)
    if (op->low_in >> i & 1 && ls_dtype_is_low(in[i].dtype)) return in[i].dtype;
  return LS_F32;
}

/* The shapes that the row's rule knows. */
static ls_status_t widen_shapes(ls_ctx_t *ctx, const ls_op_t *op, ls_dtype_t low, const ls_shape_t *in,
                                ls_shape_t *wide) {
  for (int i = 0; i < op->in_count; i++) {
    wide[i] = in[i];
    if (low == LS_F32 || !(op->low_in >> i & 1)) continue;
    char text[LS_SHAPE_TEXT_BYTES];
    if (in[i].dtype != low)
      return ls_fail(ctx, LS_ERR_SHAPE, "%s: input %d is %s, others are %s", op->name, i,
                     ls_shape_text(&in[i], text), ls_dtype_name(low));
    wide[i].dtype = LS_F32;
  }
  return LS_OK;
}

ls_status_t ls_op_shape(ls_ctx_t *ctx, const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in,
                        ls_shape_t *out) {
  ls_dtype_t low = ls_op_low(op, attrs, in);
  ls_shape_t wide[LS_NODE_IN_MAX];
  ls_status_t status = widen_shapes(ctx, op, low, in, wide);
  if (!status) status = op->shape(ctx, attrs, wide, out);
  for (int i = 0; i < op->out_count && !status && low != LS_F32; i++)
    if (op->low_out >> i & 1) out[i].dtype = low;
  return status;
}

static size_t widened_bytes(const ls_shape_t *shape) {
  size_t size_bytes = ls_dtype_is_low(shape->dtype) ? (size_t)ls_shape_count(shape) * sizeof(float) : 0;
  return (size_bytes + PART_BYTES - 1) / PART_BYTES * PART_BYTES;
}

size_t ls_op_scratch(const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out,
                     bool widened) {
  size_t size_bytes = op->scratch_bytes ? op->scratch_bytes(attrs, in, out) : 0;
  if (!widened || ls_op_low(op, attrs, in) == LS_F32) return size_bytes;
  for (int i = 0; i < op->in_count; i++)
    size_bytes += widened_bytes(&in[i]);
  for (int i = 0; i < op->out_count; i++)
    size_bytes += widened_bytes(&out[i]);
  return size_bytes;
}

static ls_kernel_fn plain_kernel(const ls_device_t *device, const ls_op_t *op) {
  const ls_backend_t *backend = device->backend;
  ls_kernel_fn own = backend->device->kernel ? backend->device->kernel(device, op->name) : NULL;
  return own || !backend->plain_c ? own : op->forward;
}

static ls_status_t cast(ls_stream_t *stream, const ls_tensor_t *from, const ls_tensor_t *to) {
  const ls_attrs_t attrs = {.i = {to->shape.dtype}};
  const ls_kernel_args_t args = {.attrs = &attrs, .in = from, .in_count = 1, .out = to, .out_count = 1};
  return plain_kernel(stream->device, &ls_op_cast)(stream, &args);
}

/* The f32 tensors that stand for the low ones lie at the beginning of scratch. */
static ls_status_t run_widened(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_tensor_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  ls_status_t status = LS_OK;
  ls_kernel_args_t wide = *args;
  for (int i = 0; i < args->in_count + args->out_count; i++) {
    const bool reads = i < args->in_count;
    const ls_tensor_t *given = reads ? &args->in[i] : &args->out[i - args->in_count];
    ls_tensor_t *t = reads ? &in[i] : &out[i - args->in_count];
    *t = *given;
    if (!ls_dtype_is_low(given->shape.dtype)) continue;
    size_t size_bytes = widened_bytes(&given->shape);
    t->shape.dtype = LS_F32;
    t->data = wide.scratch;
    wide.scratch = (char *)wide.scratch + size_bytes;
    wide.scratch_bytes -= size_bytes;
    if (reads && !status) status = cast(stream, given, t);
  }
  wide.in = in;
  wide.out = out;
  if (!status) status = args->plain(stream, &wide);
  for (int i = 0; i < args->out_count && !status; i++)
    if (ls_dtype_is_low(args->out[i].shape.dtype)) status = cast(stream, &out[i], &args->out[i]);
  return status;
}

ls_kernel_fn ls_op_kernel(const ls_device_t *device, const ls_op_t *op, ls_kernel_args_t *args,
                          char lacks[LS_KERNEL_TEXT_BYTES]) {
  const ls_backend_t *backend = device->backend;
  ls_shape_t in[LS_NODE_IN_MAX];
  for (int i = 0; i < args->in_count; i++)
    in[i] = args->in[i].shape;
  ls_dtype_t low = ls_op_low(op, args->attrs, in);
  ls_kernel_fn kernel = plain_kernel(device, op);
  const bool takes = low == LS_F32 || (backend->device->low && backend->device->low(device, op->name, low));
  if (kernel && (takes && (low == LS_F32 || !backend->plain_c))) return kernel;
  if (kernel && backend->plain_c) {
    ls_shape_t out[LS_NODE_OUT_MAX];
    for (int i = 0; i < args->out_count; i++)
      out[i] = args->out[i].shape;
    args->plain = kernel;
    args->widened = run_widened;
    if (args->scratch_bytes >= ls_op_scratch(op, args->attrs, in, out, true))
      return takes ? kernel : run_widened;
    snprintf(lacks, LS_KERNEL_TEXT_BYTES, "room to widen the tensors of op '%s'", op->name);
    return NULL;
  }
  snprintf(lacks, LS_KERNEL_TEXT_BYTES, "%s%skernel for op '%s'", kernel ? ls_dtype_name(low) : "",
           kernel ? " " : "", op->name);
  return NULL;
}
