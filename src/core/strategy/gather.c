/* Data on the device: the host sends row numbers instead of samples, and every member begins by gathering the
 * samples on the compute lane. This reads and writes a batch once more in the device's own memory, which
 * takes a small part of the time of copying it from the host. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

#include <string.h>

bool ls_lowering_gathered(const ls_lowering_t *l, const ls_graph_tensor_t *t) {
  return l->in->data_rows > 0 && (!strcmp(t->name, LS_NAME_X) || !strcmp(t->name, LS_NAME_TARGET));
}

void ls_lowering_tables(ls_lowering_t *l, size_t *offset_bytes) {
  static const char *const names[] = {LS_NAME_FEATURES, LS_NAME_TARGETS};
  const ls_graph_tensor_t *x = &l->in->graph->tensors[ls_graph_find(l->in->graph, LS_NAME_X)];
  for (int i = 0; i < LS_COUNT(names); i++) {
    const ls_region_t region = ls_lowering_row(l, names[i]);
    if (l->s->status) return;
    l->table[i] =
        ls_schedule_tensor(l->s, names[i], l->in->state->row[region - LS_REGION_STATE].shape, region, 0);
  }
  l->rows =
      ls_lowering_put(l, LS_NAME_ROWS, LS_SHAPE(LS_I32, x->shape.dim[0]), LS_REGION_INPUT, offset_bytes);
}

void ls_lowering_gather(ls_lowering_t *l) {
  int in[] = {l->rows, l->table[0], l->table[1]};
  int out[] = {ls_lowering_place(l, ls_graph_find(l->in->graph, LS_NAME_X)),
               ls_lowering_place(l, ls_graph_find(l->in->graph, LS_NAME_TARGET))};
  ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_INPUT, "gather", &ls_op_gather_rows, NULL, 3, in, 2,
                 out);
}
