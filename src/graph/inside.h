/* What the builder shares with those who differentiate and rewrite. Inside of the graph module. */
#ifndef LS_GRAPH_INSIDE_H
#define LS_GRAPH_INSIDE_H

#include "graph/op.h"

/* Gives a tensor a name (borrowed, of the arena) and brings it into the index of names. A failure becomes the
 * graph's status. */
void ls_graph_name(ls_graph_t *graph, ls_tensor_id_t id, const char *name);
/* `node` reads the tensor: enters it among the uses, in order. A failure becomes the graph's status. */
void ls_graph_use(ls_graph_t *graph, ls_tensor_id_t id, int node);
/* Nodes made from now on carry the scope of that node: "layers.0 linear" gives "layers.0". */
void ls_graph_scope_like(ls_graph_t *graph, const ls_graph_node_t *node);
/* A node op(in...) in the present scope and phase that is not in the graph yet, without outputs; and their
 * shapes. A failure, reported with op name and shapes, becomes the graph's status. */
ls_status_t ls_graph_describe(ls_graph_t *graph, const ls_op_t *op, const ls_attrs_t *attrs, int in_count,
                              const ls_tensor_id_t *in, ls_graph_node_t *node, ls_shape_t *out_shape);

#endif
