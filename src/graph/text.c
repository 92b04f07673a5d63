/* A graph as text, for people: sources first, then a node a line in the order that runs.
 *
 *   input    x f32 (16, 799)
 *   param    layers.0.weight f32 (256, 799)
 *   forward  layers.0 linear (x, layers.0.weight, layers.0.bias) -> layers.0.linear f32 (16, 256)
 *   backward layers.0 linear_dwb (...) -> grad.layers.0.weight f32 (256, 799),
 * grad.layers.0.bias f32 (256) */
#include "graph/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  ls_ctx_t *ctx;
  char *bytes;
  size_t used, size;
  bool failed;
} text_t;

static bool reserve(text_t *text, size_t more) {
  if (text->failed) return false;
  if (text->size - text->used > more) return true;
  size_t size = (text->used + more) * 2 + 256;
  char *wider = ls_realloc_array(text->ctx, text->bytes, size, 1);
  if (!wider) {
    text->failed = true;
    return false;
  }
  text->bytes = wider;
  text->size = size;
  return true;
}

static void put(text_t *text, const char *fmt, ...) LS_PRINTF(2, 3);
static void put(text_t *text, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (len >= 0 && reserve(text, (size_t)len)) {
    vsnprintf(text->bytes + text->used, (size_t)len + 1, fmt, again);
    text->used += (size_t)len;
  }
  va_end(again);
}

static void put_tensor(text_t *text, const ls_graph_tensor_t *tensor) {
  char shape[LS_SHAPE_TEXT_BYTES];
  put(text, "%s %s", tensor->name, ls_shape_text(&tensor->shape, shape));
}

static void put_node(text_t *text, const ls_graph_t *graph, const ls_graph_node_t *node) {
  put(text, "%-8s %s (", node->phase == LS_PHASE_FORWARD ? "forward" : "backward", node->name);
  for (int i = 0; i < node->in_count; i++)
    put(text, "%s%s", i ? ", " : "", graph->tensors[node->in[i]].name);
  put(text, ") ->");
  for (int i = 0; i < node->out_count; i++) {
    put(text, i ? ", " : " ");
    put_tensor(text, &graph->tensors[node->out[i]]);
  }
  put(text, "%s\n", node->op->view ? ", a view" : "");
}

char *ls_graph_text(const ls_graph_t *graph) {
  text_t text = {.ctx = graph->ctx};
  put(&text, "%s", "");
  for (int id = 0; id < graph->tensor_count; id++) {
    const ls_graph_tensor_t *tensor = &graph->tensors[id];
    static const char *const sources[] = {
        [LS_ROLE_INPUT] = "input", [LS_ROLE_PARAM] = "param", [LS_ROLE_STATE] = "state"};
    if (tensor->role > LS_ROLE_STATE) continue;
    put(&text, "%-8s ",
        tensor->role == LS_ROLE_PARAM && !tensor->trainable ? "frozen" : sources[tensor->role]);
    put_tensor(&text, tensor);
    put(&text, "\n");
  }
  for (int n = 0; n < graph->node_count; n++)
    put_node(&text, graph, &graph->nodes[n]);
  if (!text.failed) return text.bytes;
  ls_free(text.bytes);
  return NULL;
}
