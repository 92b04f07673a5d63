/* Changes a built graph; passes are made of these calls. Tensors keep their ids. Nodes are renumbered only in
 * ls_graph_sweep, so a pass can walk the list while it changes it. Until then removed nodes have no op. */
#ifndef LS_GRAPH_REWRITE_H
#define LS_GRAPH_REWRITE_H

#include "graph/op.h"

/* Replaces the nodes `old` (ascending) by one node op(in...) -> out in the place of the last of them. `out`:
 * tensors that the old nodes made, one for each output of op, with its shapes. Returns false and leaves the
 * graph unchanged if the replacement would break it:
 *   - another tensor that the old nodes made is read by others, looked up by name, or the gradient of a
 *     parameter;
 *   - one of `out` is read before the new node's place;
 *   - an old node is a view and not just removed, is of another phase, changes a state, or reads a state before the new node's
 *     place.
 * Also false after a failure (a shape is refused or differs), which becomes the graph's status. */
bool ls_graph_replace(ls_graph_t *graph, int count, const int *old, const ls_op_t *op,
                      const ls_attrs_t *attrs, int in_count, const ls_tensor_id_t *in,
                      const ls_tensor_id_t *out);
/* Removes a node whose results are not read; false under the conditions above. */
bool ls_graph_remove(ls_graph_t *graph, int node);
/* Closes the gaps in the list of nodes. */
void ls_graph_sweep(ls_graph_t *graph);

/* Empties the list of nodes for a pass that inserts nodes. The pass then appends the old nodes again, in the same
 * order, with new ones (ls_graph_op) between them. The old list stays valid as long as the graph. */
void ls_graph_begin_again(ls_graph_t *graph, const ls_graph_node_t **old, int *count);
/* Appends a node of the old list, or a new one that makes tensors of the graph. Its inputs may be others than
 * before; the shapes of its outputs follow from them. */
void ls_graph_keep(ls_graph_t *graph, const ls_graph_node_t *node);
/* A new tensor of the same name, role and shape, of this dtype, that no node makes yet. The twin of a parameter's
 * gradient is an ordinary gradient. */
ls_tensor_id_t ls_graph_twin(ls_graph_t *graph, ls_tensor_id_t id, ls_dtype_t dtype);

/* Proves from scratch: every node reads only earlier results and makes the tensors that name it as producer,
 * with the shapes of its op's rule; the uses are the reading nodes, in order; a tensor that no node makes any
 * more is not read; a view, or a new value of a state, lies over the tensor that owns the bytes.
 * LS_ERR_INTERNAL names the place. */
ls_status_t ls_graph_check(const ls_graph_t *graph);

#endif
