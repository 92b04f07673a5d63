/* Data on the device: the host sends row numbers instead of samples, and every member begins by gathering the
 * samples on the compute lane. This reads and writes a batch once more in the device's own memory, which
 * takes a small part of the time of copying it from the host. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

#include <string.h>

bool ls_lowering_gathered(const ls_lowering_t *l, const ls_graph_tensor_t *t) {
  return l->in->data_rows > 0 && (!strcmp(t->name, LS_NAME_X) || !strcmp(t->name, LS_NAME_TARGET));
}

static const ls_graph_tensor_t *find_input(const ls_lowering_t *l, const char *name) {
  ls_tensor_id_t id = ls_graph_find(l->in->graph, name);
  const ls_graph_tensor_t *t = id < 0 ? NULL : &l->in->graph->tensors[id];
  return t && t->role == LS_ROLE_INPUT && t->shape.rank > 0 ? t : NULL;
}

static int table(ls_lowering_t *l, const char *name, ls_shape_t shape) {
  const ls_state_row_t row = {.name = name, .part = "data", .shape = shape, .life = LS_STATE_CONSTANT};
  return ls_schedule_tensor(l->s, name, shape, ls_lowering_row(l, &row), 0);
}

ls_status_t ls_lowering_tables(ls_lowering_t *l, size_t *offset_bytes) {
  const ls_graph_tensor_t *x = find_input(l, LS_NAME_X), *target = find_input(l, LS_NAME_TARGET);
  if (!x || !target || x->shape.dim[0] != target->shape.dim[0] || l->in->data_rows > INT32_MAX)
    return ls_fail(
        l->s->ctx, LS_ERR_ARGUMENT,
        "lower: a graph without inputs '%s' and '%s' of as many rows, or a table of %lld rows, cannot "
        "have its data on the device",
        LS_NAME_X, LS_NAME_TARGET, (long long)l->in->data_rows);
  ls_shape_t features = x->shape, targets = target->shape, rows = LS_SHAPE(LS_I32, x->shape.dim[0]);
  features.dim[0] = targets.dim[0] = l->in->data_rows;
  l->table[0] = table(l, LS_NAME_FEATURES, features);
  l->table[1] = table(l, LS_NAME_TARGETS, targets);
  l->rows = ls_lowering_put(l, LS_NAME_ROWS, rows, LS_REGION_INPUT, offset_bytes);
  return l->s->status;
}

void ls_lowering_gather(ls_lowering_t *l) {
  int in[] = {l->rows, l->table[0], l->table[1]};
  int out[] = {ls_lowering_place(l, ls_graph_find(l->in->graph, LS_NAME_X)),
               ls_lowering_place(l, ls_graph_find(l->in->graph, LS_NAME_TARGET))};
  ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_INPUT, "gather", &ls_op_gather_rows, NULL, 3, in, 2,
                 out);
}
