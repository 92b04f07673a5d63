/* Inside the graph module: functions that the builder shares with differentiation and rewriting. */
#ifndef LS_GRAPH_INSIDE_H
#define LS_GRAPH_INSIDE_H

#include "graph/op.h"

/* Names a tensor (the name is borrowed, in the arena) and adds it to the index of names. A failure becomes
 * the graph's status. */
void ls_graph_name(ls_graph_t *graph, ls_tensor_id_t id, const char *name);
/* Appends a tensor that no node makes yet; the name is borrowed. -1 after a failure. */
ls_tensor_id_t ls_graph_append_tensor(ls_graph_t *graph, const char *name, ls_shape_t shape, ls_role_t role);
/* Appends a node whose outputs are tensors already, and records its uses and its products. */
void ls_graph_append(ls_graph_t *graph, const ls_graph_node_t *node);
/* The tensor that owns the bytes. */
ls_tensor_id_t ls_graph_owner(const ls_graph_t *graph, ls_tensor_id_t id);
/* Records that `node` reads the tensor, in order. A failure becomes the graph's status. */
void ls_graph_use(ls_graph_t *graph, ls_tensor_id_t id, int node);
/* Makes a node op(in...) in the present scope and phase, not yet in the graph and without outputs, and its
 * output shapes. A failure, reported with op name and shapes, becomes the graph's status. */
ls_status_t ls_graph_describe(ls_graph_t *graph, const ls_op_t *op, const ls_attrs_t *attrs, int in_count,
                              const ls_tensor_id_t *in, ls_graph_node_t *node, ls_shape_t *out_shape);

#endif
