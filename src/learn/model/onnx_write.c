/* Names, initializers and nodes of an ONNX graph. Source: onnx.proto of onnx 1.12. */
#include "model/onnx_write.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fields of the messages. */
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };

/* ---- names ---- */

const char *ls_onnx_named(ls_onnx_t *o, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  const char *name = ls_arena_strdup(&o->arena, text);
  if (!name) o->status = LS_ERR_MEMORY;
  return name ? name : "";
}

const char *ls_onnx_temp(ls_onnx_t *o) {
  return ls_onnx_named(o, "t%d", o->temps++);
}

/* ---- initializers ---- */

/* Whether this is the first of that name. */
static bool is_new(ls_onnx_t *o, const char *name) {
  for (int i = 0; i < o->made_count; i++)
    if (!strcmp(o->made[i], name)) return false;
  if (o->made_count == o->made_capacity) {
    int capacity = o->made_capacity ? 2 * o->made_capacity : 64;
    const char **grown = ls_realloc_array(o->ctx, o->made, (size_t)capacity, sizeof *grown);
    if (!grown) {
      o->status = LS_ERR_MEMORY;
      return false;
    }
    o->made = grown;
    o->made_capacity = capacity;
  }
  o->made[o->made_count++] = name;
  return true;
}

const char *ls_onnx_initializer(ls_onnx_t *o, const char *name, int type, int rank, const int64_t *dim,
                                const void *data, size_t each) {
  size_t count = 1;
  for (int i = 0; i < rank; i++)
    count *= (size_t)dim[i];
  if (o->status != LS_OK || !is_new(o, name)) return name;
  if (count * each > LS_ONNX_FILE_MAX - o->inits.used) {
    o->status = ls_fail(o->ctx, LS_ERR_UNSUPPORTED, "the network is larger than the 2 GiB of an ONNX file");
    return name;
  }
  for (int i = 0; i < rank; i++)
    ls_proto_int(&o->inner, TENSOR_DIMS, dim[i]);
  ls_proto_int(&o->inner, TENSOR_TYPE, type);
  ls_proto_text(&o->inner, TENSOR_NAME, name);
  ls_proto_bytes(&o->inner, TENSOR_RAW, data, count * each);
  ls_proto_put(&o->inits, LS_ONNX_GRAPH_INITIALIZER, &o->inner);
  return name;
}

const char *ls_onnx_floats(ls_onnx_t *o, const char *name, const ls_shape_t *shape, const float *data) {
  return ls_onnx_initializer(o, name, LS_ONNX_FLOAT, shape->rank, shape->dim, data, sizeof *data);
}

const char *ls_onnx_scalar(ls_onnx_t *o, double value) {
  const float v = (float)value;
  return ls_onnx_initializer(o, ls_onnx_named(o, "c %.9g", (double)v), LS_ONNX_FLOAT, 0, NULL, &v, sizeof v);
}

const char *ls_onnx_ints(ls_onnx_t *o, int count, const int64_t *value) {
  const int64_t dim = count;
  return ls_onnx_initializer(o, ls_onnx_named(o, "i%d", o->temps++), LS_ONNX_INT64, 1, &dim, value,
                             sizeof *value);
}

const ls_graph_tensor_t *ls_onnx_tensor(const ls_onnx_t *o, const ls_graph_node_t *n, int in) {
  return &o->graph->tensors[n->in[in]];
}

const float *ls_onnx_param(ls_onnx_t *o, const ls_graph_tensor_t *t) {
  const float *data = o->source->param(o->source->user, t->name);
  if (!data && o->status == LS_OK)
    o->status = ls_fail(o->ctx, LS_ERR_INTERNAL, "the model has no tensor \"%s\"", t->name);
  return data;
}

/* The name of a node's input. Parameters become initializers when they are first read. */
const char *ls_onnx_in(ls_onnx_t *o, const ls_graph_node_t *n, int in) {
  const ls_graph_tensor_t *t = ls_onnx_tensor(o, n, in);
  const char **name = &o->name[n->in[in]];
  if (*name) return *name;
  *name = t->name;
  if (t->role == LS_ROLE_PARAM || t->role == LS_ROLE_STATE) {
    const float *data = ls_onnx_param(o, t);
    if (data) ls_onnx_floats(o, t->name, &t->shape, data);
  }
  return *name;
}

/* A parameter in another layout. */
const char *ls_onnx_in_layout(ls_onnx_t *o, const ls_graph_node_t *n, int in, ls_weight_layout_t layout) {
  const ls_graph_tensor_t *t = ls_onnx_tensor(o, n, in);
  const ls_shape_t shape = ls_weight_shape(layout, &t->shape);
  const float *data = ls_onnx_param(o, t);
  float *copy = ls_alloc_array(o->ctx, (size_t)ls_shape_count(&shape), sizeof *copy);
  const char *name = ls_onnx_named(o, "%s other", t->name);
  if (!copy) o->status = LS_ERR_MEMORY;
  if (copy && data) {
    ls_weight_copy(layout, &t->shape, false, data, copy);
    ls_onnx_floats(o, name, &shape, copy);
  }
  ls_free(copy);
  return name;
}

/* ---- nodes ---- */

static void attribute(ls_onnx_t *o, const char *name, int type) {
  ls_proto_text(&o->inner, ATTR_NAME, name);
  ls_proto_int(&o->inner, ATTR_TYPE, type);
}
void ls_onnx_attr_int(ls_onnx_t *o, const char *name, int64_t value) {
  attribute(o, name, TYPE_INT);
  ls_proto_int(&o->inner, ATTR_I, value);
  ls_proto_put(&o->node, NODE_ATTRIBUTE, &o->inner);
}
void ls_onnx_attr_float(ls_onnx_t *o, const char *name, double value) {
  attribute(o, name, TYPE_FLOAT);
  ls_proto_float(&o->inner, ATTR_F, (float)value);
  ls_proto_put(&o->node, NODE_ATTRIBUTE, &o->inner);
}
void ls_onnx_attr_text(ls_onnx_t *o, const char *name, const char *value) {
  attribute(o, name, TYPE_STRING);
  ls_proto_text(&o->inner, ATTR_S, value);
  ls_proto_put(&o->node, NODE_ATTRIBUTE, &o->inner);
}
void ls_onnx_attr_ints(ls_onnx_t *o, const char *name, int count, const int64_t *value) {
  attribute(o, name, TYPE_INTS);
  for (int i = 0; i < count; i++)
    ls_proto_int(&o->inner, ATTR_INTS, value[i]);
  ls_proto_put(&o->node, NODE_ATTRIBUTE, &o->inner);
}

/* op(in..) -> out. Attributes were written before. An input "" is left out. */
const char *ls_onnx_node(ls_onnx_t *o, const char *op, int count, const char *const *in, const char *out) {
  for (int i = 0; i < count; i++)
    ls_proto_text(&o->node, NODE_INPUT, in[i]);
  ls_proto_text(&o->node, NODE_OUTPUT, out);
  ls_proto_text(&o->node, NODE_NAME, out);
  ls_proto_text(&o->node, NODE_OP, op);
  ls_proto_put(&o->out, LS_ONNX_GRAPH_NODE, &o->node);
  return out;
}
const char *ls_onnx_op1(ls_onnx_t *o, const char *op, const char *a, const char *out) {
  return ls_onnx_node(o, op, 1, &a, out);
}
const char *ls_onnx_op2(ls_onnx_t *o, const char *op, const char *a, const char *b, const char *out) {
  return ls_onnx_node(o, op, 2, (const char *const[]){a, b}, out);
}

const char *ls_onnx_transpose(ls_onnx_t *o, const char *in, int rank, const int64_t *order, const char *out) {
  ls_onnx_attr_ints(o, "perm", rank, order);
  return ls_onnx_op1(o, "Transpose", in, out);
}
const char *ls_onnx_reshape(ls_onnx_t *o, const char *in, int rank, const int64_t *dim, const char *out) {
  return ls_onnx_op2(o, "Reshape", in, ls_onnx_ints(o, rank, dim), out);
}
