/* A context and an empty graph for every test. */
#ifndef TESTS_GRAPH_FIXTURE_H
#define TESTS_GRAPH_FIXTURE_H

#include "graph/graph.h"

typedef struct {
  ls_ctx_t *ctx;
  ls_graph_t *graph;
} fixture_t;

static inline int set_up(void **state) {
  static fixture_t f;
  f.ctx = ls_ctx_create(NULL, NULL);
  if (!f.ctx || ls_graph_create(f.ctx, &f.graph)) return -1;
  *state = &f;
  return 0;
}

static inline int tear_down(void **state) {
  fixture_t *f = *state;
  ls_graph_destroy(f->graph);
  ls_ctx_destroy(f->ctx);
  return 0;
}

#endif
