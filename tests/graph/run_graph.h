/* Runs a graph by the plain C versions of its ops. Include after cmocka.h. */
#ifndef TESTS_GRAPH_RUN_GRAPH_H
#define TESTS_GRAPH_RUN_GRAPH_H

#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

/* Host memory of every tensor of a graph, and the plain C versions run in order. */
static inline void **graph_memory(const ls_graph_t *graph) {
  void **memory = calloc((size_t)graph->tensor_count, sizeof *memory);
  assert_non_null(memory);
  for (int id = 0; id < graph->tensor_count; id++) {
    size_t size = ls_shape_bytes(&graph->tensors[id].shape);
    memory[id] = malloc(size);
    assert_non_null(memory[id]);
    memset(memory[id], 0xff, size); /* NaN */
  }
  return memory;
}

static inline void graph_memory_free(const ls_graph_t *graph, void **memory) {
  for (int id = 0; id < graph->tensor_count; id++)
    free(memory[id]);
  free(memory);
}

static inline void run_node(const ls_graph_t *graph, int n, void **memory) {
  const ls_graph_node_t *node = &graph->nodes[n];
  ls_tensor_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  ls_shape_t in_shape[LS_NODE_IN_MAX], out_shape[LS_NODE_OUT_MAX];
  for (int i = 0; i < node->in_count; i++) {
    in_shape[i] = graph->tensors[node->in[i]].shape;
    in[i] = (ls_tensor_t){memory[node->in[i]], in_shape[i]};
  }
  for (int i = 0; i < node->out_count; i++) {
    out_shape[i] = graph->tensors[node->out[i]].shape;
    out[i] = (ls_tensor_t){memory[node->out[i]], out_shape[i]};
    if (!(node->op->inout >> i & 1)) memset(out[i].data, 0xff, ls_shape_bytes(&out_shape[i]));
  }
  size_t scratch = node->op->scratch_bytes ? node->op->scratch_bytes(&node->attrs, in_shape, out_shape) : 0;
  ls_kernel_args_t args = {.attrs = &node->attrs,
                           .in = in,
                           .in_count = node->in_count,
                           .out = out,
                           .out_count = node->out_count,
                           .scratch = scratch ? malloc(scratch) : NULL,
                           .scratch_bytes = scratch};
  if (scratch) memset(args.scratch, 0xff, scratch);
  assert_int_equal(node->op->forward(NULL, &args), LS_OK);
  free(args.scratch);
}

#endif
