/* Programs: members, and their common properties. */
#include "schedule/program.h"
#include "schedule/access.h"

#include <string.h>

int ls_program_chain(const ls_program_t *p, int step, int m) {
  (void)step;
  return m == 0 ? 0 : m + 1 == p->micro_batches && m > 1 ? 2 : 1;
}

int ls_program_tree(const ls_program_t *p, int step, int m) {
  (void)p, (void)step;
  return __builtin_ctz(~(unsigned)m);
}

/* Names of views are not unique. */
static bool has_input(const ls_schedule_t *s, const ls_sched_tensor_t *x) {
  for (int i = 0; i < s->tensor_count; i++) {
    const ls_sched_tensor_t *y = &s->tensors[i];
    if (y->region == x->region && y->offset_bytes == x->offset_bytes &&
        ls_shape_equal(&y->shape, &x->shape) && !strcmp(y->name, x->name))
      return true;
  }
  return false;
}

/* A loader that fills a slot does not know which member will read it. */
static bool same_inputs(const ls_schedule_t *a, const ls_schedule_t *b) {
  if (a->run_bytes[LS_REGION_INPUT] != b->run_bytes[LS_REGION_INPUT]) return false;
  for (int i = 0; i < a->tensor_count; i++)
    if (a->tensors[i].region == LS_REGION_INPUT && !has_input(b, &a->tensors[i])) return false;
  return true;
}

ls_status_t ls_program_finish(ls_program_t *p) {
  const ls_schedule_t *first = p->member[0], *most = ls_program_groups(p);
  for (int i = 0; i < p->count; i++) {
    const ls_schedule_t *s = p->member[i];
    if (s->state != first->state || s->rank != first->rank || s->world_size != first->world_size ||
        s->input_slots != first->input_slots || !same_inputs(first, s) ||
        !ls_groups_agree(most, s, s->group_count))
      return ls_fail(s->ctx, LS_ERR_INTERNAL,
                     "program: members '%s' and '%s' differ in state, ranks, groups or inputs", first->name,
                     s->name);
  }
  memset(p->times, 0, sizeof p->times);
  for (int step = 0; step < p->period; step++)
    for (int m = 0; m < p->micro_batches; m++) {
      int at = p->rule(p, step, m);
      if (at < 0 || at >= p->count)
        return ls_fail(first->ctx, LS_ERR_INTERNAL,
                       "program: micro-batch %d of step %d wants member %d of %d", m, step, at, p->count);
      p->times[at]++;
    }
  return LS_OK;
}

ls_program_t ls_program_of(ls_schedule_t *s) {
  return (ls_program_t){
      .micro_batches = 1, .period = 1, .rule = ls_program_chain, .count = 1, .member = {s}, .times = {1}};
}

void ls_program_release(ls_program_t *p) {
  for (int i = 0; i < p->count; i++)
    ls_schedule_destroy(p->member[i]);
  memset(p, 0, sizeof *p);
}

int ls_program_at(const ls_program_t *p, int64_t step, int m) {
  return p->rule(p, (int)(step % p->period), m);
}

int ls_program_runs(const ls_program_t *p, int64_t step, int member) {
  int runs = 0;
  if (p->period == 1) return p->times[member];
  for (int m = 0; m < p->micro_batches; m++)
    runs += ls_program_at(p, step, m) == member;
  return runs;
}

double ls_program_times(const ls_program_t *p, int member) {
  return (double)p->times[member] / p->period;
}

const ls_schedule_t *ls_program_groups(const ls_program_t *p) {
  const ls_schedule_t *most = p->member[0];
  for (int i = 1; i < p->count; i++)
    if (p->member[i]->group_count > most->group_count) most = p->member[i];
  return most;
}

size_t ls_program_bytes(const ls_program_t *p, ls_region_t region) {
  size_t most = 0;
  for (int i = 0; i < p->count; i++)
    if (p->member[i]->run_bytes[region] > most) most = p->member[i]->run_bytes[region];
  return most;
}

int ls_program_task(const ls_program_t *p, int member, int task) {
  for (int i = 0; i < member; i++)
    task += p->member[i]->task_count;
  return task;
}

int64_t ls_program_step_tasks(const ls_program_t *p) {
  int64_t sum = 0;
  for (int i = 0; i < p->count; i++)
    sum += (int64_t)p->times[i] * p->member[i]->task_count;
  return sum / p->period;
}
