/* The schedule: one micro-batch of a training step (or one evaluation) of one rank as an ordered list of
 * tasks on lanes over a memory layout. The schedules of a step form a program (program.h): training runs it,
 * the planner prices it, `fit` counts its bytes, `draw` shows it.
 *
 * A strategy builds it: tensors first, then tasks in an order that could run on one lane. `finish` places the
 * transient tensors (reusing bytes that nobody reads any more) and derives each task's waits from the bytes
 * that tasks read and write. `check` proves the result from scratch. */
#ifndef LS_SCHEDULE_SCHEDULE_H
#define LS_SCHEDULE_SCHEDULE_H

#include "comm/comm.h"
#include "graph/op.h"
#include "state/state.h"

/* SIDE computes what none of compute's next tasks needs, off the critical path. Compute waits for it as for
 * every other lane. */
typedef enum {
  LS_LANE_COMPUTE,
  LS_LANE_SIDE,
  LS_LANE_COMM,
  LS_LANE_COPY_IN,
  LS_LANE_COPY_OUT,
  LS_LANE_COUNT
} ls_lane_t;
typedef enum { LS_TASK_OP, LS_TASK_COLLECTIVE, LS_TASK_COPY } ls_task_kind_t;
typedef enum {
  LS_PHASE_STEP_INPUT,
  LS_PHASE_STEP_FORWARD,
  LS_PHASE_STEP_BACKWARD,
  LS_PHASE_STEP_COMM,
  LS_PHASE_STEP_OPTIMIZER,
  LS_PHASE_STEP_REST,
  LS_PHASE_STEP_COUNT
} ls_step_phase_t;

/* Regions of memory; each is one allocation: of the run, or of the state that outlives it. */
typedef int ls_region_t;
enum {
  LS_REGION_INPUT,      /* one per input slot: the host's inputs for a step */
  LS_REGION_INPUT_NEXT, /* the input slot of the step after this one: target of the copy-in lane */
  LS_REGION_HOST_NEXT,  /* pinned host side of INPUT_NEXT */
  LS_REGION_STAT,       /* stats on the device */
  LS_REGION_HOST_STAT,  /* stats for the host, one per slot */
  LS_REGION_TRANSIENT,  /* activations and everything else that lives within the step; placed by finish */
  LS_REGION_STATE       /* + i: row i of the state table */
};

enum { LS_TASK_TENSOR_MAX = LS_NODE_IN_MAX, LS_SLOT_MAX = 4, LS_GROUP_WORLD = 0 };
#define LS_OFFSET_AUTO SIZE_MAX

typedef struct {
  const char *name;
  ls_shape_t shape;
  ls_region_t region;
  size_t offset_bytes; /* in its region; transient ones after finish */
  size_t size_bytes;
  int alias_of;      /* the tensor of which it is a view or a part, -1 = none */
  size_t part_bytes; /* its offset in that tensor */
} ls_sched_tensor_t;

/* Ranks that communicate among themselves. Group LS_GROUP_WORLD contains all ranks. */
typedef struct {
  const char *name;
  int count;
  const int *ranks; /* of the world, in the order of the group; NULL: all */
  int own;          /* place of this rank in the group, -1 = not a member */
} ls_sched_group_t;

typedef struct {
  ls_task_kind_t kind;
  ls_lane_t lane;
  ls_step_phase_t phase;
  const char *name;
  const ls_op_t *op; /* LS_TASK_OP */
  ls_attrs_t attrs;
  ls_collective_kind_t collective; /* LS_TASK_COLLECTIVE: send in[0], recv out[0] (comm.h) */
  int group;                       /* of its ranks */
  int in_count, out_count;         /* copy: in[0] -> out[0] */
  int in[LS_TASK_TENSOR_MAX], out[LS_TASK_TENSOR_MAX]; /* sched tensors */
  int scratch;                                         /* sched tensor (transient u8), -1 = none */
  int wait_count;
  int *wait; /* tasks of other lanes that must have run; order within a lane is implied. Set by finish */
  int64_t flops, bytes;
} ls_task_t;

typedef struct {
  int task, after;
} ls_sched_edge_t;

typedef struct ls_schedule {
  ls_arena_t arena;
  ls_ctx_t *ctx;
  const char *name;        /* of a member of a program, static or in the arena; NULL: it is the only one */
  ls_state_table_t *state; /* kept alive; NULL: the schedule has no state */
  int rank, world_size;
  int input_slots; /* 1..LS_SLOT_MAX */
  bool widens; /* ops of 16-bit floats get room to be widened (ls_op_scratch); set before they are added */
  bool lanes_are_threads; /* of a host; if set before finish, finish moves the last collective (see there) */
  ls_sched_tensor_t *tensors;
  int tensor_count, tensor_capacity;
  ls_task_t *tasks;
  int task_count, task_capacity;
  ls_sched_group_t *groups;
  int group_count, group_capacity;
  ls_sched_edge_t *edges; /* waits asked for */
  int edge_count, edge_capacity;
  size_t run_bytes[LS_REGION_STATE]; /* of the run's regions: exact, after finish */
  bool finished;
  ls_status_t status; /* first failure of a builder call */
} ls_schedule_t;

ls_status_t ls_schedule_create(ls_ctx_t *ctx, ls_state_table_t *state, int rank, int world_size,
                               int input_slots, ls_schedule_t **s);
void ls_schedule_destroy(ls_schedule_t *s);
/* Size of any region, after finish: of the tensors placed in it, or of the row of the state. */
size_t ls_schedule_region_bytes(const ls_schedule_t *s, ls_region_t region);

enum { LS_ALIGN_BYTES = 64 }; /* of tensors and task memory */
static inline size_t ls_align_up(size_t size_bytes) {
  return (size_bytes + LS_ALIGN_BYTES - 1) / LS_ALIGN_BYTES * LS_ALIGN_BYTES;
}

/* Builder calls return an id or -1 after setting s->status (reported). Names are copied.
 * offset_bytes: LS_OFFSET_AUTO for TRANSIENT, else the place in the region. */
int ls_schedule_tensor(ls_schedule_t *s, const char *name, ls_shape_t shape, ls_region_t region,
                       size_t offset_bytes);
/* The first tensor of that name; -1 = none. */
int ls_schedule_find(const ls_schedule_t *s, const char *name);
int ls_schedule_view(ls_schedule_t *s, const char *name, ls_shape_t shape, int of); /* same bytes */
/* A part of a tensor's bytes, from offset_bytes on. */
int ls_schedule_part(ls_schedule_t *s, const char *name, ls_shape_t shape, int of, size_t offset_bytes);
int ls_schedule_op(ls_schedule_t *s, ls_lane_t lane, ls_step_phase_t phase, const char *name,
                   const ls_op_t *op, const ls_attrs_t *attrs, int in_count, const int *in, int out_count,
                   const int *out);
/* Declares a group of `count` different ranks of the world, numbered in this order; returns its id. All ranks
 * of the world declare the same groups in the same order, including those of which they are no members. The
 * list is copied. */
int ls_schedule_group(ls_schedule_t *s, const char *name, const int *ranks, int count);
/* A collective on the communication lane, among the ranks of a group that includes this one. comm.h gives the
 * sizes of `in` and `out` for the size of the group: equal for all-reduce and broadcast (from the group's
 * rank 0), `out` size times `in` for all-gather, the reverse for reduce-scatter. In place: the same tensor,
 * or the part of the larger one at this rank's place in the group. */
int ls_schedule_collective(ls_schedule_t *s, const char *name, int group, ls_collective_kind_t kind, int in,
                           int out);
/* The same in another dtype on the way: f32 tensors travel as bf16 or f16, cast before and after on the
 * communication lane. Returns the last of these tasks. */
int ls_schedule_collective_as(ls_schedule_t *s, const char *name, int group, ls_collective_kind_t kind,
                              ls_dtype_t wire, int in, int out);
/* LS_SEND of a tensor to the other rank of a group of two, or LS_RECV from it. The other rank's task has the
 * same name. */
int ls_schedule_message(ls_schedule_t *s, const char *name, int group, ls_collective_kind_t kind, int tensor);
int ls_schedule_copy(ls_schedule_t *s, ls_lane_t lane, ls_step_phase_t phase, const char *name, int from,
                     int to);
/* Makes `task` wait for `after`, an earlier task, whatever bytes they touch. For example, an early gather
 * must not take memory before the tensor that it replaces has been dropped. */
void ls_schedule_after(ls_schedule_t *s, int task, int after);
/* Places transient tensors and derives the waits. With lanes_are_threads, the step's last collective moves
 * to the compute lane if compute would wait for it next: no computation overlaps it, and two switches of
 * threads cost more than a small collective. */
ls_status_t ls_schedule_finish(ls_schedule_t *s);

/* Proves: every read of bytes that the step writes happens after the intended write and before the next write
 * (through lane order and waits alone); no two live transient tensors share bytes; everything lies inside its
 * region; shapes fit the ops; collectives run in list order. LS_ERR_INTERNAL names the two tasks. */
ls_status_t ls_schedule_check(const ls_schedule_t *s);
/* Also proves: all ranks declare the same groups; each group's ranks issue the same collectives in it (name,
 * kind, count, dtype), each send with its receive, in an order that never deadlocks, whatever other groups
 * wait for. */
ls_status_t ls_schedule_check_world(const ls_schedule_t *const *ranks, int count);

/* fit: exact bytes on this rank (ls_program_fit). */
enum { LS_FIT_PARTS_MAX = 16 };
typedef struct {
  struct {
    const char *name; /* "parameters", "gradients", "optimizer", "data", "inputs", "activations", "other";
                         then what else the rows of the state say. Borrowed from the schedule's state */
    int64_t bytes;
  } part[LS_FIT_PARTS_MAX];
  int part_count;
  int64_t device_total_bytes;
  int64_t host_pinned_bytes;
  int64_t transient_unshared_bytes; /* what activations would be without reuse, of the member with most */
} ls_fit_t;
int64_t ls_fit_bytes(const ls_fit_t *fit, const char *part); /* 0 without such a part */

/* The larger of the bytes that a collective sends and receives, and the number of ranks in it. */
size_t ls_task_large_bytes(const ls_schedule_t *s, const ls_task_t *task);
int ls_task_ranks(const ls_schedule_t *s, const ls_task_t *task);

/* The time at which a task ran, relative to the beginning of its schedule. */
typedef struct {
  int64_t start_ns, end_ns;
} ls_task_time_t;

/* parts: a step's time by phase; the parts add up to the whole. Other lanes count only as far as the compute
 * lane could not hide them: COMM is exposed communication, the time in which compute waited. Where a collective had to
 * wait for the side lane, compute's wait is that of the side lane's phase until then. */
void ls_schedule_parts(const ls_schedule_t *s, const ls_task_time_t *times,
                       int64_t parts_ns[LS_PHASE_STEP_COUNT]);

/* Names for people: "compute", "side", "comm", "copy in", "copy out"; "input", "forward", .. */
const char *ls_lane_name(ls_lane_t lane);
const char *ls_step_phase_name(ls_step_phase_t phase);
/* draw: terminal bars, a row per lane. Without times the widths show work (FLOPs, else bytes), and the title
 * says so; with times (per task) they show measured time. `width` columns in all (at least 40 are used).
 * UTF-8. Owned by the caller (ls_free); NULL when memory is short. */
char *ls_schedule_draw(const ls_schedule_t *s, const ls_task_time_t *times, int width);
/* Appends a run's tasks of micro-batch m of a step as Chrome trace events (https://ui.perfetto.dev) to a JSON
 * array. */
ls_status_t ls_schedule_trace(const ls_schedule_t *s, const ls_task_time_t *times, int64_t step, int m,
                              int64_t start_ns, json_t *events);

#endif
