/* Proves that the members of a program fit together. Each is proven alone; here they are walked as each
 * step of a period runs them, over the written bytes of the rows that steps do not carry over, and of the stats. Written bytes
 * stay written, so each member is walked once, where a step runs it first. */
#include "schedule/program.h"
#include "schedule/shadow.h"

typedef struct {
  const ls_program_t *p;
  ls_shadow_t *now;   /* per region: as the walk goes; the writer is a member */
  ls_shadow_t *whole; /* per region: everything that any member writes, except by a collective in place */
} walk_t;

static bool carried_within(const ls_schedule_t *s, ls_region_t region) {
  if (region < LS_REGION_STATE) return region == LS_REGION_STAT;
  return s->state->row[region - LS_REGION_STATE].life == LS_STATE_STEP;
}

static ls_status_t write(ls_shadow_t *shadow, const ls_access_t *a, int member) {
  int first, last;
  ls_status_t status = ls_shadow_range(shadow, a->begin, a->end, &first, &last);
  if (!status) ls_shadow_write(shadow, first, last, member, -1);
  return status;
}

/* Bytes that nothing has written yet may be read if nothing ever writes them, or if they are padding between two
 * parameters. */
static ls_status_t read(walk_t *w, int member, const ls_task_t *task, const ls_access_t *a) {
  const ls_schedule_t *s = w->p->member[member];
  ls_shadow_t *now = &w->now[a->region], *whole = &w->whole[a->region];
  int first, last, from, until;
  ls_status_t status = ls_shadow_range(now, a->begin, a->end, &first, &last);
  for (int i = first; i < last && !status; i++) {
    const ls_shadow_segment_t *seg = &now->segment[i];
    if (seg->writer >= 0 || ls_is_padding(s, a->region, seg->begin, seg->end)) continue;
    status = ls_shadow_range(whole, seg->begin, seg->end, &from, &until);
    for (; from < until && !status; from++)
      if (whole->segment[from].writer >= 0)
        status = ls_fail(
            s->ctx, LS_ERR_INTERNAL,
            "program: '%s' of member '%s' reads tensor '%s', which no member before it has written in "
            "the step",
            task->name, s->name ? s->name : "whole", s->tensors[a->tensor].name);
  }
  return status;
}

typedef ls_status_t (*visit_t)(walk_t *w, int member, const ls_task_t *task, const ls_access_t *a);

static ls_status_t note_written(walk_t *w, int member, const ls_task_t *task, const ls_access_t *a) {
  bool in_place = task->kind == LS_TASK_COLLECTIVE && task->in_count && task->out_count;
  return a->write && !in_place ? write(&w->whole[a->region], a, member) : LS_OK;
}

static ls_status_t follow(walk_t *w, int member, const ls_task_t *task, const ls_access_t *a) {
  return a->write ? write(&w->now[a->region], a, member) : read(w, member, task, a);
}

static ls_status_t walk(walk_t *w, int member, visit_t visit) {
  const ls_schedule_t *s = w->p->member[member];
  ls_access_t list[LS_ACCESS_MAX];
  ls_status_t status = LS_OK;
  for (int t = 0; t < s->task_count && !status; t++) {
    int n = ls_task_access(s, &s->tasks[t], list);
    for (int i = 0; i < n && !status; i++)
      if (carried_within(s, list[i].region)) status = visit(w, member, &s->tasks[t], &list[i]);
  }
  return status;
}

/* Nothing is written when a step begins. */
static ls_status_t begin(ls_shadow_t *now) {
  int first, last;
  size_t end = now->segment[now->count - 1].end;
  ls_status_t status = end ? ls_shadow_range(now, 0, end, &first, &last) : LS_OK;
  if (!status && end) ls_shadow_write(now, first, last, -1, -1);
  return status;
}

static ls_status_t walk_step(walk_t *w, int step) {
  const ls_program_t *p = w->p;
  bool seen[LS_PROGRAM_MEMBERS_MAX] = {false}, same = step > 0;
  ls_status_t status = LS_OK;
  for (int m = 0; m < p->micro_batches && same; m++)
    same = p->rule(p, step, m) == p->rule(p, step - 1, m);
  if (same) return LS_OK; /* it has been walked */
  for (int r = 0; r < ls_region_count(p->member[0]) && !status; r++)
    status = begin(&w->now[r]);
  for (int m = 0; m < p->micro_batches && !status; m++) {
    int i = p->rule(p, step, m);
    if (!seen[i]) status = walk(w, i, follow);
    seen[i] = true;
  }
  return status;
}

static ls_status_t walk_all(walk_t *w) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < w->p->count && !status; i++)
    status = walk(w, i, note_written);
  for (int step = 0; step < w->p->period && !status; step++)
    status = walk_step(w, step);
  return status;
}

/* The name of a region of the run or of the state. */
static size_t region_bytes(const ls_program_t *p, ls_region_t region) {
  return region < LS_REGION_STATE ? ls_program_bytes(p, region)
                                  : ls_schedule_region_bytes(p->member[0], region);
}

ls_status_t ls_program_check(const ls_program_t *p) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < p->count && !status; i++)
    status = ls_schedule_check(p->member[i]);
  if (status) return status;
  const ls_schedule_t *first = p->member[0];
  int regions = ls_region_count(first);
  walk_t w = {.p = p,
              .now = ls_alloc_array(first->ctx, (size_t)regions, sizeof(*w.now)),
              .whole = ls_alloc_array(first->ctx, (size_t)regions, sizeof(*w.whole))};
  if (!w.now || !w.whole) status = LS_ERR_MEMORY;
  for (int r = 0; r < regions && !status; r++) {
    status = ls_shadow_create(first->ctx, region_bytes(p, r), &w.now[r]);
    if (!status) status = ls_shadow_create(first->ctx, region_bytes(p, r), &w.whole[r]);
  }
  if (!status) status = walk_all(&w);
  for (int r = 0; r < regions && w.now && w.whole; r++) {
    ls_shadow_release(&w.now[r]);
    ls_shadow_release(&w.whole[r]);
  }
  ls_free(w.whole);
  ls_free(w.now);
  return status;
}

ls_status_t ls_program_check_world(const ls_program_t *ranks, int count) {
  ls_ctx_t *ctx = ranks[0].member[0]->ctx;
  ls_status_t status = LS_OK;
  const ls_schedule_t **member = ls_alloc_array(ctx, (size_t)count, sizeof(*member));
  if (!member) return LS_ERR_MEMORY;
  for (int r = 0; r < count && !status; r++) {
    status = ls_program_check(&ranks[r]);
    if (!status && (ranks[r].count != ranks[0].count || ranks[r].micro_batches != ranks[0].micro_batches ||
                    ranks[r].period != ranks[0].period || ranks[r].rule != ranks[0].rule))
      status = ls_fail(ctx, LS_ERR_INTERNAL, "program: ranks 0 and %d do not have the same members", r);
  }
  for (int i = 0; i < ranks[0].count && !status; i++) {
    for (int r = 0; r < count; r++)
      member[r] = ranks[r].member[i];
    status = ls_schedule_check_world(member, count);
  }
  ls_free(member);
  return status;
}
