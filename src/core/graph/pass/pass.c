/* The list of passes, and running it. */
#include "graph/pass/pass.h"

extern const ls_graph_pass_t ls_pass_precision, ls_pass_fuse_activation, ls_pass_fuse_norm,
    ls_pass_fuse_residual, ls_pass_fuse_scale, ls_pass_align_classes;

const ls_graph_pass_t *const ls_graph_passes[] = {&ls_pass_precision,
                                                  &ls_pass_fuse_activation,
                                                  &ls_pass_fuse_norm,
                                                  &ls_pass_fuse_residual,
                                                  &ls_pass_fuse_scale,
                                                  &ls_pass_align_classes,
                                                  NULL};
_Static_assert(LS_COUNT(ls_graph_passes) - 1 <= LS_GRAPH_PASS_MAX, "the graph counts what each pass changed");

ls_status_t ls_graph_run_passes(ls_graph_t *graph, const ls_pass_context_t *context) {
  bool changed = false;
  for (int i = 0; ls_graph_passes[i] && !graph->status; i++) {
    graph->pass_changes[i] = ls_graph_passes[i]->run(graph, context);
    if (graph->pass_changes[i] > 0) ls_graph_sweep(graph);
    changed |= graph->pass_changes[i] > 0;
  }
  return changed ? ls_graph_check(graph) : graph->status;
}
