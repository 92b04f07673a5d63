/* Passes: rows that rewrite a graph after its gradients are built and before it is lowered. One file each,
 * using the calls of graph/rewrite.h. Adding one: HACKING.md, recipe 4. */
#ifndef LS_GRAPH_PASS_PASS_H
#define LS_GRAPH_PASS_PASS_H

#include "graph/rewrite.h"

/* Facts about the backend that a pass may use. */
typedef struct {
  /* True if the backend has its own version of this op, for 16-bit floats if `low` is one. */
  bool (*has)(const void *backend, const char *op, ls_dtype_t low);
  const void *backend;
  ls_dtype_t low; /* train.precision: bf16 or f16 where it asks for 16-bit floats, else f32 */
  bool fuse;      /* parallel.fuse: ops may be fused even if that changes the rounding of their sums */
} ls_pass_context_t;

typedef struct {
  const char *name, *help;
  /* Returns the number of places that it changed. A failure becomes the graph's status. */
  int (*run)(ls_graph_t *graph, const ls_pass_context_t *context);
} ls_graph_pass_t;

/* Passes in execution order, NULL-terminated; at most LS_GRAPH_PASS_MAX. */
extern const ls_graph_pass_t *const ls_graph_passes[];

/* Runs all passes; graph->pass_changes[i] counts the changes of pass i. The result is proved
 * (ls_graph_check). */
ls_status_t ls_graph_run_passes(ls_graph_t *graph, const ls_pass_context_t *context);

#endif
