/* Writes names, initializers and nodes of an ONNX graph; for the rows of ops (onnx_ops.c) and the file (onnx.c). A failure
 * stays in `status`, and later calls do nothing that matters. */
#ifndef LS_MODEL_ONNX_WRITE_H
#define LS_MODEL_ONNX_WRITE_H

#include "model/names.h"
#include "model/onnx.h"
#include "model/proto.h"

enum { LS_ONNX_GRAPH_NODE = 1, LS_ONNX_GRAPH_INITIALIZER = 5 }; /* fields of a graph */
enum { LS_ONNX_FLOAT = 1, LS_ONNX_INT64 = 7 };                  /* types of elements */
#define LS_ONNX_FILE_MAX (((size_t)1 << 31) - 1)

typedef struct {
  ls_ctx_t *ctx;
  ls_arena_t arena;
  const ls_graph_t *graph;
  const ls_onnx_source_t *source;
  ls_proto_t out, inits, node, inner; /* of the graph; of its initializers; being written */
  const char **name;                  /* per tensor; NULL: has none yet */
  const char **made;                  /* names of initializers */
  int made_count, made_capacity, temps;
  ls_status_t status;
} ls_onnx_t;

/* Names: formatted, and of an intermediate value. */
const char *ls_onnx_named(ls_onnx_t *o, const char *fmt, ...) LS_PRINTF(2, 3);
const char *ls_onnx_temp(ls_onnx_t *o);

/* Initializers; each returns its name. One of a name that exists is not written again. */
const char *ls_onnx_initializer(ls_onnx_t *o, const char *name, int type, int rank, const int64_t *dim,
                                const void *data, size_t each);
const char *ls_onnx_floats(ls_onnx_t *o, const char *name, const ls_shape_t *shape, const float *data);
const char *ls_onnx_scalar(ls_onnx_t *o, double value);
const char *ls_onnx_ints(ls_onnx_t *o, int count, const int64_t *value);

/* Inputs of a node: the tensor, a parameter's values (NULL: failed), its name (a parameter becomes an initializer when it is
 * first read), that of a parameter in another layout. */
const ls_graph_tensor_t *ls_onnx_tensor(const ls_onnx_t *o, const ls_graph_node_t *n, int in);
const float *ls_onnx_param(ls_onnx_t *o, const ls_graph_tensor_t *t);
const char *ls_onnx_in(ls_onnx_t *o, const ls_graph_node_t *n, int in);
const char *ls_onnx_in_layout(ls_onnx_t *o, const ls_graph_node_t *n, int in, ls_weight_layout_t layout);

/* Attributes of the node that is written next. */
void ls_onnx_attr_int(ls_onnx_t *o, const char *name, int64_t value);
void ls_onnx_attr_float(ls_onnx_t *o, const char *name, double value);
void ls_onnx_attr_text(ls_onnx_t *o, const char *name, const char *value);
void ls_onnx_attr_ints(ls_onnx_t *o, const char *name, int count, const int64_t *value);

/* Nodes op(in..) -> out; each returns `out`. An input "" is left out. */
const char *ls_onnx_node(ls_onnx_t *o, const char *op, int count, const char *const *in, const char *out);
const char *ls_onnx_op1(ls_onnx_t *o, const char *op, const char *a, const char *out);
const char *ls_onnx_op2(ls_onnx_t *o, const char *op, const char *a, const char *b, const char *out);
const char *ls_onnx_transpose(ls_onnx_t *o, const char *in, int rank, const int64_t *order, const char *out);
const char *ls_onnx_reshape(ls_onnx_t *o, const char *in, int rank, const int64_t *dim, const char *out);

/* onnx_ops.c: the nodes of a node of the graph, of which `needed` says what is read. LS_ERR_UNSUPPORTED in `status`: it has
 * no row. */
void ls_onnx_emit(ls_onnx_t *o, const ls_graph_node_t *n, const bool *needed);

#endif
