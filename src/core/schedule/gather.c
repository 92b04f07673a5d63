/* Gathering: the sharded rows of a state made whole, by a program of one member for each. */
#include "schedule/program.h"

/* Range after range: the ranks' parts of it lie behind each other, in their order. */
static bool in_equal_parts(const ls_state_row_t *row, int rank, int world_size) {
  int64_t begin = 0;
  for (int i = 0; i < row->range_count; i++) {
    int64_t count = row->range[i].end - row->range[i].begin;
    if (row->range[i].begin != begin + rank * count) return false;
    begin += world_size * count;
  }
  return begin == ls_shape_count(&row->shape);
}

static ls_status_t gather_row(ls_ctx_t *ctx, ls_state_table_t *state, int index, int rank, int world_size,
                              ls_schedule_t **schedule) {
  const ls_state_row_t *row = &state->row[index];
  const ls_dtype_t dtype = row->shape.dtype;
  const size_t each = ls_dtype_bytes(dtype);
  ls_schedule_t *s;
  if (!in_equal_parts(row, rank, world_size))
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "gather: the ranks do not hold equal parts of '%s'", row->name);
  ls_status_t status = ls_schedule_create(ctx, state, rank, world_size, 1, &s);
  if (status) return status;
  s->name = row->name;
  int whole = ls_schedule_tensor(s, row->name, row->shape, LS_REGION_STAT, 0);
  int64_t held = 0;
  for (int i = 0; i < row->range_count; i++) {
    int64_t count = row->range[i].end - row->range[i].begin;
    int own = ls_schedule_tensor(s, "own part", LS_SHAPE(dtype, count), LS_REGION_STATE + index,
                                 (size_t)held * each);
    int all = ls_schedule_part(s, "all parts", LS_SHAPE(dtype, count * world_size), whole,
                               (size_t)(held * world_size) * each);
    if (world_size > 1)
      ls_schedule_collective(s, row->name, LS_GROUP_WORLD, LS_ALL_GATHER, own, all);
    else
      ls_schedule_copy(s, LS_LANE_COMPUTE, LS_PHASE_STEP_REST, row->name, own, all);
    held += count;
  }
  status = ls_schedule_finish(s);
  if (status)
    ls_schedule_destroy(s);
  else
    *schedule = s;
  return status;
}

static int one_each(const ls_program_t *p, int step, int m) {
  (void)p, (void)step;
  return m;
}

ls_status_t ls_program_gather(ls_ctx_t *ctx, ls_state_table_t *state, int rank, int world_size,
                              ls_program_t *program) {
  ls_program_t p = {.period = 1, .rule = one_each};
  ls_status_t status = LS_OK;
  for (int i = 0; i < state->count && !status; i++) {
    const ls_state_row_t *row = &state->row[i];
    if (row->owner != LS_STATE_SHARDED || row->file == LS_STATE_UNSAVED) continue;
    if (p.count == LS_PROGRAM_MEMBERS_MAX)
      status = ls_fail(ctx, LS_ERR_UNSUPPORTED, "gather: more than %d rows", p.count);
    else
      status = gather_row(ctx, state, i, rank, world_size, &p.member[p.count]);
    p.count += !status;
  }
  p.micro_batches = p.count;
  if (!status && p.count) status = ls_program_finish(&p);
  if (status)
    ls_program_release(&p);
  else
    *program = p;
  return status;
}
