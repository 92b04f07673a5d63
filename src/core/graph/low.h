/* Ops on 16-bit floats ("low": bf16 or f16). Rows of ops know f32 alone; their fields low_in and low_out (op.h) say
 * which tensors may be low instead. A node runs low if these inputs are low, all of one dtype, or, of an op without
 * such inputs, if its attributes ask for it (LS_ATTR_LOW). Arithmetic is f32 in any case, rounded once at the end. */
#ifndef LS_GRAPH_LOW_H
#define LS_GRAPH_LOW_H

#include "device/device.h"
#include "graph/op.h"

static inline bool ls_dtype_is_low(ls_dtype_t dtype) {
  return dtype == LS_BF16 || dtype == LS_F16;
}

/* The dtype in which a node of these inputs runs low; LS_F32: it does not. */
ls_dtype_t ls_op_low(const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in);
/* The op's shape rule, for low tensors too: everybody asks it through this call. */
ls_status_t ls_op_shape(ls_ctx_t *ctx, const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in,
                        ls_shape_t *out);
/* Bytes of scratch. `widened`: for ls_op_kernel on a device that may have to widen low tensors to f32. */
size_t ls_op_scratch(const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out,
                     bool widened);
/* Finds the kernel for an op on tensors of these shapes (args->in): the device's version, else the row's plain C if
 * it runs there. A host's version for f32 serves low tensors too: args->plain then names it, and args->widened
 * widens low inputs, calls it and rounds low outputs. args->widened is returned unless the version itself takes
 * some low tensors. NULL: the backend has neither, and `lacks` says what is missing: "kernel for op 'relu'", "bf16
 * kernel for op 'relu'". */
enum { LS_KERNEL_TEXT_BYTES = 96 };
ls_kernel_fn ls_op_kernel(const ls_device_t *device, const ls_op_t *op, ls_kernel_args_t *args,
                          char lacks[LS_KERNEL_TEXT_BYTES]);

#endif
