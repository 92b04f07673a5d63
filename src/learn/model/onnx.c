/* The graph of one sample as an ONNX file. Sources: onnx.proto and "Operators" of onnx 1.12 (opset 17). */
#include "model/onnx.h"

#include "graph/ops/ops.h"
#include "model/onnx_write.h"

#include <string.h>

/* Fields of the messages. */
enum {
  MODEL_IR = 1,
  MODEL_PRODUCER = 2,
  MODEL_GRAPH = 7,
  MODEL_OPSET = 8,
  MODEL_METADATA = 14,
  METADATA_KEY = 1,
  METADATA_VALUE = 2,
  OPSET_DOMAIN = 1,
  OPSET_VERSION = 2
};
enum { GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { IR_VERSION = 8, OPSET = 17, ROWS = 1 };

/* Marks the nodes on which `output` depends. */
static void mark(const ls_graph_t *g, ls_tensor_id_t output, bool *needed) {
  needed[output] = true;
  for (int i = g->node_count - 1; i >= 0; i--) {
    bool any = false;
    for (int k = 0; k < g->nodes[i].out_count; k++)
      any = any || needed[g->nodes[i].out[k]];
    bool loss = g->nodes[i].op == &ls_op_softmax_xent || g->nodes[i].op == &ls_op_bce;
    int reads = loss ? 1 : g->nodes[i].in_count; /* no targets */
    for (int k = 0; k < reads && any; k++)
      needed[g->nodes[i].in[k]] = true;
  }
}

static bool is_read(const ls_graph_node_t *n, const bool *needed) {
  bool any = false;
  for (int k = 0; k < n->out_count; k++)
    any = any || needed[n->out[k]];
  return any;
}

/* x (or y) of the data's units. */
static const char *shifted(ls_onnx_t *o, const char *in, const char *what, const ls_shape_t *one,
                           const double *mean, const float *scale, bool back, const char *out) {
  int64_t count = ls_shape_count(one);
  float *shift = ls_alloc_array(o->ctx, (size_t)count, sizeof *shift);
  if (!shift) {
    o->status = LS_ERR_MEMORY;
    return in;
  }
  for (int64_t i = 0; i < count; i++)
    shift[i] = (float)mean[i];
  const char *m = ls_onnx_floats(o, ls_onnx_named(o, "%s mean", what), one, shift),
             *s = ls_onnx_floats(o, ls_onnx_named(o, "%s scale", what), one, scale);
  ls_free(shift);
  if (back) return ls_onnx_op2(o, "Add", ls_onnx_op2(o, "Div", in, s, ls_onnx_temp(o)), m, out);
  return ls_onnx_op2(o, "Mul", ls_onnx_op2(o, "Sub", in, m, ls_onnx_temp(o)), s, out);
}

/* {name, type {tensor_type {elem_type, shape {dim ..}}}} */
static void put_value(ls_onnx_t *o, int field, const char *name, const ls_shape_t *one) {
  enum { TYPE = 2, TENSOR_TYPE_ = 1, ELEM = 1, SHAPE = 2, DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };
  ls_proto_t dim = {.ctx = o->ctx}, shape = {.ctx = o->ctx}, type = {.ctx = o->ctx};
  for (int i = -1; i < one->rank; i++) {
    if (i < 0)
      ls_proto_text(&dim, DIM_PARAM, "N");
    else
      ls_proto_int(&dim, DIM_VALUE, one->dim[i]);
    ls_proto_put(&shape, DIM, &dim);
  }
  ls_proto_int(&o->inner, ELEM, LS_ONNX_FLOAT);
  ls_proto_put(&o->inner, SHAPE, &shape);
  ls_proto_put(&type, TENSOR_TYPE_, &o->inner);
  ls_proto_text(&o->node, 1, name);
  ls_proto_put(&o->node, TYPE, &type);
  ls_proto_put(&o->out, field, &o->node);
  ls_proto_release(&dim);
  ls_proto_release(&shape);
  ls_proto_release(&type);
}

static ls_status_t put_graph(ls_onnx_t *o, const ls_model_config_t *model) {
  const ls_graph_t *g = o->graph;
  const ls_onnx_source_t *s = o->source;
  const ls_shape_t x = ls_model_x(model);
  const int64_t positions = ls_model_positions(model), each[] = {-1, positions, ls_model_classes(model)};
  const ls_shape_t y =
      positions ? LS_SHAPE(LS_F32, positions, each[2]) : LS_SHAPE(LS_F32, ls_model_outputs(model));
  ls_tensor_id_t in = ls_graph_find(g, "x"), out = ls_graph_find(g, "output");
  bool *needed = ls_arena_array(&o->arena, (size_t)g->tensor_count, sizeof *needed);
  o->name = ls_arena_array(&o->arena, (size_t)g->tensor_count, sizeof *o->name);
  if (!needed || !o->name) return LS_ERR_MEMORY;
  bool values = !ls_model_loss(model)->probabilities;
  const char *result = values ? "values" : "probabilities";
  mark(g, out, needed);
  ls_proto_text(&o->out, GRAPH_NAME, "lockstep");
  put_value(o, GRAPH_INPUT, "x", &x);
  put_value(o, GRAPH_OUTPUT, result, &y);
  o->name[in] = shifted(o, "x", "x", &x, s->mean, s->scale, false, "x normalised");
  if (!values && !positions) o->name[out] = result;
  for (int i = 0; i < g->node_count && o->status == LS_OK; i++)
    if (is_read(&g->nodes[i], needed)) ls_onnx_emit(o, &g->nodes[i], needed);
  if (positions && o->status == LS_OK) ls_onnx_reshape(o, o->name[out], 3, each, result);
  if (values && o->status == LS_OK)
    shifted(o, o->name[out], "y", &y, s->target_mean, s->target_scale, true, result);
  return o->status;
}

ls_status_t ls_onnx_make(ls_ctx_t *ctx, const ls_model_config_t *given, const ls_onnx_source_t *source,
                         char **bytes, size_t *size) {
  ls_graph_t *graph;
  ls_model_config_t model = *given;
  model.dtype = LS_F32;
  model.int8 = NULL;
  ls_status_t status = ls_model_build(ctx, &model, ROWS, false, &graph);
  if (status != LS_OK) return status;
  ls_onnx_t o = {.ctx = ctx, .graph = graph, .source = source};
  ls_proto_t whole_file = {.ctx = ctx}, opset = {.ctx = ctx};
  ls_proto_t *parts[] = {&o.out, &o.inits, &o.node, &o.inner};
  for (int i = 0; i < LS_COUNT(parts); i++)
    parts[i]->ctx = ctx;
  ls_arena_init(&o.arena, ctx);
  status = put_graph(&o, &model);
  if (status != LS_OK) goto release;
  ls_proto_int(&whole_file, MODEL_IR, IR_VERSION);
  ls_proto_text(&whole_file, MODEL_PRODUCER, "lockstep");
  ls_proto_text(&opset, OPSET_DOMAIN, "");
  ls_proto_int(&opset, OPSET_VERSION, OPSET);
  ls_proto_put(&whole_file, MODEL_OPSET, &opset);
  ls_proto_join(&o.out, &o.inits); /* both are fields of the graph */
  ls_proto_put(&whole_file, MODEL_GRAPH, &o.out);
  for (int i = 0; i < LS_COUNT(source->meta); i++) {
    if (!source->meta[i].text) continue;
    ls_proto_text(&o.node, METADATA_KEY, source->meta[i].key);
    ls_proto_text(&o.node, METADATA_VALUE, source->meta[i].text);
    ls_proto_put(&whole_file, MODEL_METADATA, &o.node);
  }
  status = whole_file.status;
  if (status == LS_OK && whole_file.used > LS_ONNX_FILE_MAX)
    status = ls_fail(ctx, LS_ERR_UNSUPPORTED, "the network is larger than the 2 GiB of an ONNX file");
  if (status != LS_OK) goto release;
  *bytes = whole_file.bytes;
  *size = whole_file.used;
  whole_file = (ls_proto_t){0};
release:
  ls_proto_release(&whole_file);
  ls_proto_release(&opset);
  for (int i = 0; i < LS_COUNT(parts); i++)
    ls_proto_release(parts[i]);
  ls_free(o.made);
  ls_arena_release(&o.arena);
  ls_graph_destroy(graph);
  return status;
}
