/* Runs the plain C version of one op on arrays, for tests with known values. Outputs that are not read by the
 * op are poisoned with NaN first. */
#ifndef TESTS_GRAPH_RUN_OP_H
#define TESTS_GRAPH_RUN_OP_H

#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

/* in[i].data and out[i].data are given; the shapes of the outputs are filled in by the op's rule. */
static inline ls_status_t run_op(const ls_op_t *op, const ls_attrs_t *attrs, const ls_tensor_t *in,
                                 ls_tensor_t *out) {
  static const ls_attrs_t none = {{0}, {0}};
  ls_shape_t in_shape[LS_NODE_IN_MAX], out_shape[LS_NODE_OUT_MAX];
  if (!attrs) attrs = &none;
  for (int i = 0; i < op->in_count; i++)
    in_shape[i] = in[i].shape;
  ls_status_t status = op->shape(NULL, attrs, in_shape, out_shape);
  if (status) return status;
  for (int i = 0; i < op->out_count; i++) {
    out[i].shape = out_shape[i];
    if (!(op->inout >> i & 1)) memset(out[i].data, 0xff, ls_shape_bytes(&out_shape[i]));
  }
  size_t scratch_bytes = op->scratch_bytes ? op->scratch_bytes(attrs, in_shape, out_shape) : 0;
  void *scratch = scratch_bytes ? malloc(scratch_bytes) : NULL;
  if (scratch_bytes && !scratch) return LS_ERR_MEMORY;
  if (scratch) memset(scratch, 0xff, scratch_bytes);
  ls_kernel_args_t args = {attrs, in, op->in_count, out, op->out_count, scratch, scratch_bytes};
  status = op->forward(NULL, &args);
  free(scratch);
  return status;
}

#define F32(data_, ...) ((ls_tensor_t){.data = (data_), .shape = LS_SHAPE(LS_F32, __VA_ARGS__)})
#define OUT(data_)      ((ls_tensor_t){.data = (data_)})

#endif
