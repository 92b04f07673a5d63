/* Changing a graph that is built: what passes are made of. Tensors keep their ids. Nodes are renumbered, but
 * not before ls_graph_sweep, so that a pass can walk the list while it changes it; until then nodes that are
 * gone have no op. */
#ifndef LS_GRAPH_REWRITE_H
#define LS_GRAPH_REWRITE_H

#include "graph/op.h"

/* Puts one node op(in...) -> out in the place of the last of the nodes `old` (ascending), and the old nodes
 * are gone. `out`: tensors that they made, one for each output of op, of its shapes. Returns false and leaves
 * the graph as it was when that would break it:
 *   - something else that they made is read by others, looked up by name, or the gradient of a parameter;
 *   - one of `out` is read before the new node's place;
 *   - an old node is a view, of another phase, changes a state, or reads one before the new node's place.
 * Also false after a failure, which becomes the graph's status: a shape that is refused or differs. */
bool ls_graph_replace(ls_graph_t *graph, int count, const int *old, const ls_op_t *op,
                      const ls_attrs_t *attrs, int in_count, const ls_tensor_id_t *in,
                      const ls_tensor_id_t *out);
/* A node whose results nobody reads is gone; false under the conditions above. */
bool ls_graph_remove(ls_graph_t *graph, int node);
/* Closes the gaps in the list of nodes. */
void ls_graph_sweep(ls_graph_t *graph);

/* Proves from scratch: every node reads what comes before it and makes what names it as producer, of the
 * shapes that its op's rule gives; the uses are the nodes that read, in order; what no node makes any more is
 * not read; a view, or a new value of a state, lies over the tensor that owns the bytes. LS_ERR_INTERNAL
 * names the place. */
ls_status_t ls_graph_check(const ls_graph_t *graph);

#endif
