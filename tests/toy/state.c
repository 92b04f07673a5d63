/* A kind of state: the sum of the gradients of all steps, carried on and saved. */
#include "graph/ops/ops.h"
#include "toy.h"

ls_status_t toy_state_declare(const ls_lower_t *in) {
  const ls_state_row_t row = {.name = TOY_STATE,
                              .part = TOY_STATE,
                              .of_layout = true,
                              .trained = true,
                              .shape = {.dtype = LS_F32},
                              .life = LS_STATE_CARRIED,
                              .file = LS_STATE_OPTIMIZER};
  return ls_state_declare(in->state, &row, NULL);
}

ls_status_t toy_state_add(ls_schedule_t *s, int gradients) {
  const ls_region_t region = LS_REGION_STATE + ls_state_find(s->state, TOY_STATE);
  int sums = ls_schedule_tensor(s, TOY_STATE, s->tensors[gradients].shape, region, 0);
  ls_schedule_op(s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, TOY_STATE, &ls_op_accumulate, NULL, 1,
                 &gradients, 1, &sums);
  return s->status;
}
