/* A graph as text, to compare it: sources first, then a node a line in the order that runs. Include after cmocka.h.
 *
 *   input    x f32 (16, 799)
 *   param    layers.0.weight f32 (256, 799)
 *   forward  layers.0 linear (x, layers.0.weight, layers.0.bias) -> layers.0.linear f32 (16, 256)
 *   backward layers.0 linear_dwb (...) -> grad.layers.0.weight f32 (256, 799),
 * grad.layers.0.bias f32 (256) */
#ifndef TESTS_GRAPH_GRAPH_TEXT_H
#define TESTS_GRAPH_GRAPH_TEXT_H

#include "graph/op.h"

#include <stdio.h>
#include <stdlib.h>

static inline void put_tensor(FILE *text, const ls_graph_tensor_t *tensor) {
  char shape[LS_SHAPE_TEXT_BYTES];
  fprintf(text, "%s %s", tensor->name, ls_shape_text(&tensor->shape, shape));
}

static inline void put_node(FILE *text, const ls_graph_t *graph, const ls_graph_node_t *node) {
  fprintf(text, "%-8s %s (", node->phase == LS_PHASE_FORWARD ? "forward" : "backward", node->name);
  for (int i = 0; i < node->in_count; i++)
    fprintf(text, "%s%s", i ? ", " : "", graph->tensors[node->in[i]].name);
  fprintf(text, ") ->");
  for (int i = 0; i < node->out_count; i++) {
    fputs(i ? ", " : " ", text);
    put_tensor(text, &graph->tensors[node->out[i]]);
  }
  fprintf(text, "%s\n", node->op->view ? ", a view" : "");
}

/* The caller owns it (free). */
static inline char *graph_text(const ls_graph_t *graph) {
  char *bytes = NULL;
  size_t size_bytes = 0;
  FILE *text = open_memstream(&bytes, &size_bytes);
  assert_non_null(text);
  for (int id = 0; id < graph->tensor_count; id++) {
    const ls_graph_tensor_t *tensor = &graph->tensors[id];
    static const char *const sources[] = {
        [LS_ROLE_INPUT] = "input", [LS_ROLE_PARAM] = "param", [LS_ROLE_STATE] = "state"};
    if (tensor->role > LS_ROLE_STATE) continue;
    fprintf(text, "%-8s ",
            tensor->role == LS_ROLE_PARAM && !tensor->trainable ? "frozen" : sources[tensor->role]);
    put_tensor(text, tensor);
    fprintf(text, "\n");
  }
  for (int n = 0; n < graph->node_count; n++)
    put_node(text, graph, &graph->nodes[n]);
  assert_int_equal(fclose(text), 0);
  return bytes;
}

#endif
