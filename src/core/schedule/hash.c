/* The identity of a program. */
#include "schedule/program.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static void add(XXH3_state_t *to, int64_t number) {
  XXH3_64bits_update(to, &number, sizeof number);
}

static void add_numbers(XXH3_state_t *to, const int *numbers, int count) {
  add(to, count);
  for (int i = 0; i < count; i++)
    add(to, numbers[i]);
}

static void add_tensor(XXH3_state_t *to, const ls_sched_tensor_t *t) {
  add(to, t->shape.dtype);
  add(to, t->shape.rank);
  for (int i = 0; i < t->shape.rank; i++)
    add(to, t->shape.dim[i]);
  add(to, t->region);
  add(to, (int64_t)t->offset_bytes);
}

static void add_task(XXH3_state_t *to, const ls_schedule_t *s, const ls_task_t *t) {
  const int facts[] = {(int)t->kind, (int)t->lane, (int)t->phase, (int)t->collective, t->group};
  add_numbers(to, facts, LS_COUNT(facts));
  if (t->op) XXH3_64bits_update(to, t->op->name, strlen(t->op->name));
  XXH3_64bits_update(to, &t->attrs, sizeof t->attrs);
  add(to, t->in_count);
  for (int i = 0; i < t->in_count; i++)
    add_tensor(to, &s->tensors[t->in[i]]);
  add(to, t->out_count);
  for (int i = 0; i < t->out_count; i++)
    add_tensor(to, &s->tensors[t->out[i]]);
  add_numbers(to, t->wait, t->wait_count);
}

static void add_schedule(XXH3_state_t *to, const ls_schedule_t *s) {
  const int facts[] = {s->rank, s->world_size, s->input_slots, s->task_count, s->group_count};
  add_numbers(to, facts, LS_COUNT(facts));
  for (int g = 0; g < s->group_count; g++)
    add_numbers(to, s->groups[g].ranks, s->groups[g].ranks ? s->groups[g].count : 0);
  for (int t = 0; t < s->task_count; t++)
    add_task(to, s, &s->tasks[t]);
}

uint64_t ls_program_hash(const ls_program_t *p) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  add(&state, p->micro_batches);
  for (int step = 0; step < p->period; step++)
    for (int m = 0; m < p->micro_batches; m++)
      add(&state, p->rule(p, step, m));
  for (int i = 0; i < p->count; i++)
    add_schedule(&state, p->member[i]);
  return XXH3_64bits_digest(&state);
}
_Static_assert(sizeof(ls_attrs_t) == 16 * sizeof(int64_t) + 8 * sizeof(double), "has no padding");
