/* Passes: rows that rewrite a graph between its gradients and its lowering. One file each, by the calls of
 * graph/rewrite.h. Adding one: HACKING.md, recipe 4. */
#ifndef LS_GRAPH_PASS_PASS_H
#define LS_GRAPH_PASS_PASS_H

#include "graph/rewrite.h"

/* What a pass may know of what runs the graph. */
typedef struct {
  /* Whether the backend has a version of its own of this op. */
  bool (*has)(const void *backend, const char *op);
  const void *backend;
  bool fuse; /* parallel.fuse: ops may become one although its sums may then round otherwise */
} ls_pass_context_t;

typedef struct {
  const char *name, *help;
  /* Returns how many places it changed. A failure becomes the graph's status. */
  int (*run)(ls_graph_t *graph, const ls_pass_context_t *context);
} ls_graph_pass_t;

/* In the order in which they run, NULL-terminated; at most LS_GRAPH_PASS_MAX. */
extern const ls_graph_pass_t *const ls_graph_passes[];

/* Runs all of them; graph->pass_changes[i] says what pass i changed. What they leave is proved
 * (ls_graph_check). */
ls_status_t ls_graph_run_passes(ls_graph_t *graph, const ls_pass_context_t *context);

#endif
