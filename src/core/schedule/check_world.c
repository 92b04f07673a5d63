/* Proves that the schedules of all ranks fit together: every collective meets its counterpart on the other
 * ranks of its group, and groups never wait for each other in a circle. Walks the lists of collectives side
 * by side, as ranks with one lane each would; more lanes only relax that. */
#include "schedule/access.h"

#include <string.h>

typedef struct {
  const ls_schedule_t *const *ranks;
  int count;
  int *at;   /* per rank: its next collective; task_count = none is left */
  int *done; /* per rank: number of collectives before it */
} world_t;

static int next_collective(const ls_schedule_t *s, int t) {
  while (t < s->task_count && s->tasks[t].kind != LS_TASK_COLLECTIVE)
    t++;
  return t;
}

/* NULL at the end. */
static const ls_task_t *task_of(const world_t *w, int rank) {
  const ls_schedule_t *s = w->ranks[rank];
  return w->at[rank] < s->task_count ? &s->tasks[w->at[rank]] : NULL;
}

static int member(const ls_sched_group_t *group, int i) {
  return group->ranks ? group->ranks[i] : i;
}

static ls_status_t differ(const world_t *w, int a, int b) {
  const ls_task_t *x = task_of(w, a), *y = task_of(w, b);
  return ls_fail(w->ranks[0]->ctx, LS_ERR_INTERNAL,
                 "schedule: collective %d differs: rank %d issues '%s', rank %d '%s'", w->done[a], a,
                 x ? x->name : "nothing", b, y ? y->name : "nothing");
}

static const ls_shape_t *payload(const ls_schedule_t *s, const ls_task_t *task) {
  return &s->tensors[task->out_count ? task->out[0] : task->in[0]].shape;
}

/* A send meets a receive; every other kind meets its own. The builder has already compared what is sent with
 * what is received. */
static bool match(const world_t *w, int a, int b) {
  const ls_task_t *x = task_of(w, a), *y = task_of(w, b);
  const ls_shape_t *p = payload(w->ranks[a], x), *q = payload(w->ranks[b], y);
  ls_collective_kind_t other = x->collective == LS_SEND   ? LS_RECV
                               : x->collective == LS_RECV ? LS_SEND
                                                          : x->collective;
  return y->collective == other && !strcmp(x->name, y->name) && p->dtype == q->dtype &&
         ls_shape_count(p) == ls_shape_count(q);
}

/* Lets the group whose first rank is at one of its collectives continue, once all of it has arrived. */
static ls_status_t meet(world_t *w, int rank, bool *moved) {
  const ls_task_t *task = task_of(w, rank);
  if (!task) return LS_OK;
  const ls_sched_group_t *group = &w->ranks[rank]->groups[task->group];
  if (member(group, 0) != rank) return LS_OK;
  for (int i = 1; i < group->count; i++) {
    int other = member(group, i);
    const ls_task_t *theirs = task_of(w, other);
    if (!theirs || theirs->group != task->group) return LS_OK;
    if (!match(w, rank, other)) return differ(w, rank, other);
  }
  for (int i = 0; i < group->count; i++) {
    int r = member(group, i);
    w->at[r] = next_collective(w->ranks[r], w->at[r] + 1);
    w->done[r]++;
  }
  *moved = true;
  return LS_OK;
}

/* Nothing can continue: names a rank that still waits, and the rank for which it waits. */
static ls_status_t check_end(const world_t *w) {
  for (int r = 0; r < w->count; r++) {
    const ls_task_t *task = task_of(w, r);
    if (!task) continue;
    const ls_sched_group_t *group = &w->ranks[r]->groups[task->group];
    for (int i = 0; i < group->count; i++) {
      int other = member(group, i);
      const ls_task_t *theirs = task_of(w, other);
      if (!theirs || theirs->group != task->group) return differ(w, r, other);
    }
  }
  return LS_OK;
}

static ls_status_t walk(world_t *w) {
  ls_status_t status = LS_OK;
  for (int r = 0; r < w->count; r++)
    w->at[r] = next_collective(w->ranks[r], 0);
  for (bool moved = true; moved && !status;) {
    moved = false;
    for (int r = 0; r < w->count && !status; r++)
      status = meet(w, r, &moved);
  }
  return status ? status : check_end(w);
}

bool ls_groups_agree(const ls_schedule_t *a, const ls_schedule_t *b, int count) {
  bool same = a->group_count >= count && b->group_count >= count;
  for (int g = 1; same && g < count; g++) {
    const ls_sched_group_t *x = &a->groups[g], *y = &b->groups[g];
    same = !strcmp(x->name, y->name) && x->count == y->count &&
           !memcmp(x->ranks, y->ranks, (size_t)x->count * sizeof(int));
  }
  return same;
}

ls_status_t ls_schedule_check_world(const ls_schedule_t *const *ranks, int count) {
  ls_ctx_t *ctx = ranks[0]->ctx;
  for (int r = 0; r < count; r++) {
    if (ranks[r]->world_size != count || ranks[r]->rank != r)
      return ls_fail(ctx, LS_ERR_INTERNAL, "schedule: rank %d of %d stands at place %d of %d", ranks[r]->rank,
                     ranks[r]->world_size, r, count);
    ls_status_t status = ls_schedule_check(ranks[r]);
    if (status) return status;
    if (ranks[r]->group_count != ranks[0]->group_count ||
        !ls_groups_agree(ranks[0], ranks[r], ranks[0]->group_count))
      return ls_fail(ctx, LS_ERR_INTERNAL, "schedule: ranks 0 and %d do not declare the same groups", r);
  }
  world_t w = {.ranks = ranks,
               .count = count,
               .at = ls_alloc_array(ctx, (size_t)count, sizeof(int)),
               .done = ls_alloc_array(ctx, (size_t)count, sizeof(int))};
  ls_status_t status = w.at && w.done ? walk(&w) : LS_ERR_MEMORY;
  ls_free(w.done);
  ls_free(w.at);
  return status;
}
