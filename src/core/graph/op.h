/* An op is one row, in a file of its own under graph/ops (families share one). Only backends that offer a
 * faster version know ops by name. Adding an op: HACKING.md, recipe 1. */
#ifndef LS_GRAPH_OP_H
#define LS_GRAPH_OP_H

#include "graph/graph.h"

/* Ops without low_in have low outputs of the dtype attrs.i[LS_ATTR_LOW]; 0 is LS_F32. */
enum { LS_ATTR_LOW = 15 };

/* The resource that bounds an op's time, for code that prices or lists ops without knowing them. */
typedef enum {
  LS_OP_OTHER,       /* unspecified: rows that compute nothing */
  LS_OP_PRODUCT,     /* matrix products: arithmetic */
  LS_OP_CONVOLUTION, /* arithmetic too */
  LS_OP_RECURRENT,   /* products and functions, position by position */
  LS_OP_ATTENTION,   /* products and exponentials */
  LS_OP_ELEMENTWISE, /* each element once: bytes */
  LS_OP_REDUCTION,   /* sums over elements: bytes */
  LS_OP_GATHER,      /* rows in any order */
  LS_OP_OPTIMIZER    /* the decision and the update */
} ls_op_class_t;

struct ls_op {
  const char *name;
  ls_op_class_t class;
  int in_count, out_count;
  /* Checks the inputs' shapes and fills the outputs'. Reports with ls_fail and returns LS_ERR_SHAPE. */
  ls_status_t (*shape)(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out);
  /* Plain readable C on host memory. It defines the op and is the reference for every other version. */
  ls_kernel_fn forward;
  /* Appends nodes for d loss / d in, given d loss / d out (-1 = zero). Writes grad_in[i] for every i with
   * wanted[i]; -1 = no gradient. NULL: not differentiable. */
  ls_status_t (*backward)(ls_graph_t *graph, const ls_graph_node_t *node, const ls_tensor_id_t *grad_out,
                          const bool *wanted, ls_tensor_id_t *grad_in);
  /* per element of input 0 or output 0, whichever has more; a function like exp or erf counts as 4 */
  int flops_each;
  /* The whole op's, if that rule does not give them. */
  int64_t (*flops)(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out);
  /* Bytes moved; NULL = every input and output once. */
  int64_t (*bytes)(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out);
  size_t (*scratch_bytes)(const ls_attrs_t *attrs, const ls_shape_t *in,
                          const ls_shape_t *out); /* NULL = 0 */
  uint32_t inplace; /* bit i: output 0 may share the bytes of input i if no later task reads that input */
  uint32_t inout;   /* bit i: output i is also read (optimizer state) */
  bool view;        /* output 0 is input 0 with another shape: no work */
  /* Precision (low.h). Bit i: input i may be a 16-bit float; output i then is one, too. */
  uint32_t low_in, low_out;
  bool
      low_wants; /* products and the like, which are worth casting inputs for; other ops run low if an input is low already */
  bool host; /* only hosts have it: inference with 8-bit integers */
};

/* All op rows of the graph module, NULL-terminated. */
extern const ls_op_t *const ls_ops[];
const ls_op_t *ls_op_find(const char *name);

int64_t ls_op_flops(const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out);
int64_t ls_op_bytes(const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out);

#endif
