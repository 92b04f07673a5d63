/* Builds a schedule: tensors with a place in a region, and tasks that name them. Builder calls keep the first
 * failure in s->status, so that a strategy reads as a plain list and checks once, at finish. */
#include "graph/low.h"
#include "graph/ops/ops.h"
#include "schedule/access.h"

#include <string.h>

/* Room for one more element; the old array stays in the arena until the end. */
static void *grow(ls_schedule_t *s, void *old, int count, int *capacity, size_t size_bytes) {
  if (count < *capacity) return old;
  int wanted = *capacity ? 2 * *capacity : size_bytes < 64 ? 8 : 64;
  void *room = ls_arena_array(&s->arena, (size_t)wanted, size_bytes);
  if (!room) {
    s->status = LS_ERR_MEMORY;
    return NULL;
  }
  if (count) memcpy(room, old, (size_t)count * size_bytes);
  *capacity = wanted;
  return room;
}

ls_status_t ls_schedule_create(ls_ctx_t *ctx, ls_state_table_t *state, int rank, int world_size,
                               int input_slots, ls_schedule_t **schedule) {
  if (world_size < 1 || rank < 0 || rank >= world_size)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "schedule: rank %d of %d ranks", rank, world_size);
  if (input_slots < 1 || input_slots > LS_SLOT_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "schedule: %d input slots (1 to %d)", input_slots, LS_SLOT_MAX);
  ls_schedule_t *s = ls_alloc(ctx, sizeof(*s));
  if (!s) return LS_ERR_MEMORY;
  ls_arena_init(&s->arena, ctx);
  s->ctx = ctx;
  s->state = ls_state_table_hold(state);
  s->rank = rank;
  s->world_size = world_size;
  s->input_slots = input_slots;
  s->groups = grow(s, NULL, 0, &s->group_capacity, sizeof(*s->groups));
  if (!s->groups) {
    ls_schedule_destroy(s);
    return LS_ERR_MEMORY;
  }
  s->groups[s->group_count++] = (ls_sched_group_t){.name = "world", .count = world_size, .own = rank};
  *schedule = s;
  return LS_OK;
}

void ls_schedule_destroy(ls_schedule_t *s) {
  if (!s) return;
  ls_state_table_release(s->state);
  ls_arena_release(&s->arena);
  ls_free(s);
}

static ls_sched_tensor_t *tensor_append(ls_schedule_t *s, const char *name) {
  if (s->status) return NULL;
  ls_sched_tensor_t *room = grow(s, s->tensors, s->tensor_count, &s->tensor_capacity, sizeof(*room));
  if (!room) return NULL;
  s->tensors = room;
  char *copy = ls_arena_strdup(&s->arena, name);
  if (!copy) {
    s->status = LS_ERR_MEMORY;
    return NULL;
  }
  ls_sched_tensor_t *t = &s->tensors[s->tensor_count++];
  *t = (ls_sched_tensor_t){.name = copy, .alias_of = -1};
  return t;
}

int ls_schedule_tensor(ls_schedule_t *s, const char *name, ls_shape_t shape, ls_region_t region,
                       size_t offset_bytes) {
  bool known = region >= 0 && region < ls_region_count(s);
  if (!s->status && (!known || (region == LS_REGION_TRANSIENT) != (offset_bytes == LS_OFFSET_AUTO)))
    s->status =
        ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: the place of tensor '%s' does not fit its region", name);
  ls_sched_tensor_t *t = tensor_append(s, name);
  if (!t) return -1;
  t->shape = shape;
  t->region = region;
  t->offset_bytes = offset_bytes;
  t->size_bytes = ls_shape_bytes(&shape);
  return s->tensor_count - 1;
}

int ls_schedule_find(const ls_schedule_t *s, const char *name) {
  for (int i = 0; i < s->tensor_count; i++)
    if (!strcmp(s->tensors[i].name, name)) return i;
  return -1;
}

static bool tensors_known(ls_schedule_t *s, const char *task, int count, const int *ids) {
  if (s->status) return false;
  if (count <= LS_TASK_TENSOR_MAX) {
    int known = 0;
    while (known < count && ids[known] >= 0 && ids[known] < s->tensor_count)
      known++;
    if (known == count) return true;
  }
  s->status = ls_fail(s->ctx, LS_ERR_INTERNAL,
                      "schedule: '%s' names a tensor that does not exist, or too many", task);
  return false;
}

int ls_schedule_part(ls_schedule_t *s, const char *name, ls_shape_t shape, int of, size_t offset_bytes) {
  if (!tensors_known(s, name, 1, &of)) return -1;
  size_t size_bytes = ls_shape_bytes(&shape), room = s->tensors[of].size_bytes;
  if (offset_bytes > room || size_bytes > room - offset_bytes) {
    s->status = ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: '%s' does not lie within '%s'", name,
                        s->tensors[of].name);
    return -1;
  }
  ls_sched_tensor_t *t = tensor_append(s, name);
  if (!t) return -1;
  const ls_sched_tensor_t *whole = &s->tensors[of];
  t->shape = shape;
  t->region = whole->region;
  t->offset_bytes =
      whole->region == LS_REGION_TRANSIENT ? LS_OFFSET_AUTO : whole->offset_bytes + offset_bytes;
  t->size_bytes = size_bytes;
  t->alias_of = of;
  t->part_bytes = offset_bytes;
  return s->tensor_count - 1;
}

int ls_schedule_view(ls_schedule_t *s, const char *name, ls_shape_t shape, int of) {
  if (!tensors_known(s, name, 1, &of)) return -1;
  if (ls_shape_bytes(&shape) == s->tensors[of].size_bytes) return ls_schedule_part(s, name, shape, of, 0);
  s->status = ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: view '%s' of '%s' has another size", name,
                      s->tensors[of].name);
  return -1;
}

static ls_task_t *task_append(ls_schedule_t *s, const char *name, ls_task_kind_t kind, ls_lane_t lane,
                              ls_step_phase_t phase) {
  ls_task_t *room = grow(s, s->tasks, s->task_count, &s->task_capacity, sizeof(*room));
  if (!room) return NULL;
  s->tasks = room;
  char *copy = ls_arena_strdup(&s->arena, name);
  if (!copy) {
    s->status = LS_ERR_MEMORY;
    return NULL;
  }
  s->finished = false;
  ls_task_t *task = &s->tasks[s->task_count++];
  *task = (ls_task_t){.kind = kind, .lane = lane, .phase = phase, .name = copy, .scratch = -1};
  return task;
}

int ls_schedule_op(ls_schedule_t *s, ls_lane_t lane, ls_step_phase_t phase, const char *name,
                   const ls_op_t *op, const ls_attrs_t *attrs, int in_count, const int *in, int out_count,
                   const int *out) {
  if (!tensors_known(s, name, in_count, in) || !tensors_known(s, name, out_count, out)) return -1;
  if (in_count != op->in_count || out_count != op->out_count) {
    s->status = ls_fail(s->ctx, LS_ERR_INTERNAL,
                        "schedule: '%s' does not have the inputs and outputs of op %s", name, op->name);
    return -1;
  }
  static const ls_attrs_t none;
  if (!attrs) attrs = &none;
  ls_shape_t in_shape[LS_TASK_TENSOR_MAX], out_shape[LS_TASK_TENSOR_MAX];
  for (int i = 0; i < in_count; i++)
    in_shape[i] = s->tensors[in[i]].shape;
  for (int i = 0; i < out_count; i++)
    out_shape[i] = s->tensors[out[i]].shape;

  int scratch = -1;
  size_t scratch_bytes = ls_op_scratch(op, attrs, in_shape, out_shape, s->widens);
  if (scratch_bytes) {
    scratch = ls_schedule_tensor(s, "scratch", LS_SHAPE(LS_U8, (int64_t)scratch_bytes), LS_REGION_TRANSIENT,
                                 LS_OFFSET_AUTO);
    if (scratch < 0) return -1;
  }
  ls_task_t *task = task_append(s, name, LS_TASK_OP, lane, phase);
  if (!task) return -1;
  task->op = op;
  task->attrs = *attrs;
  task->in_count = in_count;
  task->out_count = out_count;
  memcpy(task->in, in, (size_t)in_count * sizeof(int));
  memcpy(task->out, out, (size_t)out_count * sizeof(int));
  task->scratch = scratch;
  task->flops = ls_op_flops(op, attrs, in_shape, out_shape);
  task->bytes = ls_op_bytes(op, attrs, in_shape, out_shape);
  return s->task_count - 1;
}

int ls_schedule_group(ls_schedule_t *s, const char *name, const int *ranks, int count) {
  if (s->status) return -1;
  int own = -1;
  bool good = count > 0;
  for (int i = 0; i < count; i++) {
    good = good && ranks[i] >= 0 && ranks[i] < s->world_size;
    for (int k = 0; k < i; k++)
      good = good && ranks[k] != ranks[i];
    if (ranks[i] == s->rank) own = i;
  }
  if (!good) {
    s->status = ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: group '%s' is no list of different ranks of %d",
                        name, s->world_size);
    return -1;
  }
  ls_sched_group_t *room = grow(s, s->groups, s->group_count, &s->group_capacity, sizeof(*room));
  if (!room) return -1;
  s->groups = room;
  int *list = ls_arena_array(&s->arena, (size_t)count, sizeof(int));
  char *copy = ls_arena_strdup(&s->arena, name);
  if (!list || !copy) {
    s->status = LS_ERR_MEMORY;
    return -1;
  }
  memcpy(list, ranks, (size_t)count * sizeof(int));
  s->groups[s->group_count] = (ls_sched_group_t){.name = copy, .count = count, .ranks = list, .own = own};
  return s->group_count++;
}

static bool is_message(ls_collective_kind_t kind) {
  return kind == LS_SEND || kind == LS_RECV;
}

/* True if the sizes are those of comm.h. */
static bool collective_fits(int size, ls_collective_kind_t kind, const ls_shape_t *in,
                            const ls_shape_t *out) {
  int64_t sends = ls_shape_count(in), receives = ls_shape_count(out);
  if (in->dtype != out->dtype) return false;
  if (kind == LS_ALL_GATHER) return receives == sends * size;
  if (kind == LS_REDUCE_SCATTER) return sends == receives * size;
  return sends == receives && (!is_message(kind) || size == 2);
}

/* A message has one tensor, which is then both `in` and `out`. */
static int append_collective(ls_schedule_t *s, const char *name, int group, ls_collective_kind_t kind, int in,
                             int out) {
  if (!tensors_known(s, name, 2, (int[]){in, out})) return -1;
  if (group < 0 || group >= s->group_count || s->groups[group].own < 0) {
    s->status = ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: %s '%s' in a group that rank %d is not in",
                        ls_collective_name(kind), name, s->rank);
    return -1;
  }
  const ls_shape_t *send = &s->tensors[in].shape, *recv = &s->tensors[out].shape;
  int size = s->groups[group].count;
  if (!collective_fits(size, kind, send, recv)) {
    char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
    s->status = ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: %s '%s' of %d ranks cannot go from %s to %s",
                        ls_collective_name(kind), name, size, ls_shape_text(send, a), ls_shape_text(recv, b));
    return -1;
  }
  int64_t count = ls_shape_count(kind == LS_ALL_GATHER ? send : recv); /* before the tensors may move */
  ls_dtype_t dtype = send->dtype;
  ls_task_t *task = task_append(s, name, LS_TASK_COLLECTIVE, LS_LANE_COMM, LS_PHASE_STEP_COMM);
  if (!task) return -1;
  task->collective = kind;
  task->group = group;
  task->in_count = kind != LS_RECV;
  task->out_count = kind != LS_SEND;
  task->in[0] = in;
  task->out[0] = out;
  task->bytes = ls_collective_bus_bytes(kind, count, dtype, size);
  return s->task_count - 1;
}

int ls_schedule_collective(ls_schedule_t *s, const char *name, int group, ls_collective_kind_t kind, int in,
                           int out) {
  return append_collective(s, name, group, kind, in, out);
}

static int cast(ls_schedule_t *s, const char *name, int from, int to) {
  ls_attrs_t attrs = {.i = {to < 0 ? 0 : s->tensors[to].shape.dtype}};
  return ls_schedule_op(s, LS_LANE_COMM, LS_PHASE_STEP_COMM, name, &ls_op_cast, &attrs, 1, &from, 1, &to);
}

int ls_schedule_collective_as(ls_schedule_t *s, const char *name, int group, ls_collective_kind_t kind,
                              ls_dtype_t wire, int in, int out) {
  if (!tensors_known(s, name, 2, (int[]){in, out})) return -1;
  if (s->tensors[in].shape.dtype == wire || group < 0 || group >= s->group_count)
    return append_collective(s, name, group, kind, in, out);
  bool gathers = kind == LS_ALL_GATHER, scatters = kind == LS_REDUCE_SCATTER;
  ls_shape_t whole = s->tensors[gathers ? out : in].shape, part = s->tensors[gathers ? in : out].shape;
  whole.dtype = part.dtype = wire;
  size_t own_bytes = (size_t)s->groups[group].own * ls_shape_bytes(&part);
  int large = ls_schedule_tensor(s, name, whole, LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
  int small = gathers || scatters ? ls_schedule_part(s, name, part, large, own_bytes) : large;
  cast(s, name, in, gathers ? small : large);
  append_collective(s, name, group, kind, gathers ? small : large, scatters ? small : large);
  return cast(s, name, scatters ? small : large, out);
}

int ls_schedule_message(ls_schedule_t *s, const char *name, int group, ls_collective_kind_t kind,
                        int tensor) {
  return append_collective(s, name, group, kind, tensor, tensor);
}

size_t ls_task_large_bytes(const ls_schedule_t *s, const ls_task_t *task) {
  size_t sends = task->in_count ? s->tensors[task->in[0]].size_bytes : 0;
  size_t receives = task->out_count ? s->tensors[task->out[0]].size_bytes : 0;
  return sends > receives ? sends : receives;
}

int ls_task_ranks(const ls_schedule_t *s, const ls_task_t *task) {
  return s->groups[task->group].count;
}

int ls_schedule_copy(ls_schedule_t *s, ls_lane_t lane, ls_step_phase_t phase, const char *name, int from,
                     int to) {
  if (!tensors_known(s, name, 1, &from) || !tensors_known(s, name, 1, &to)) return -1;
  if (s->tensors[from].size_bytes != s->tensors[to].size_bytes) {
    s->status =
        ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: copy '%s' between tensors of different size", name);
    return -1;
  }
  ls_task_t *task = task_append(s, name, LS_TASK_COPY, lane, phase);
  if (!task) return -1;
  task->in_count = task->out_count = 1;
  task->in[0] = from;
  task->out[0] = to;
  task->bytes = (int64_t)s->tensors[from].size_bytes;
  return s->task_count - 1;
}

void ls_schedule_after(ls_schedule_t *s, int task, int after) {
  if (s->status) return;
  if (after < 0 || after >= task || task >= s->task_count) {
    s->status = ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: task %d cannot wait for task %d", task, after);
    return;
  }
  ls_sched_edge_t *room = grow(s, s->edges, s->edge_count, &s->edge_capacity, sizeof(*room));
  if (!room) return;
  s->edges = room;
  s->edges[s->edge_count++] = (ls_sched_edge_t){task, after};
}
