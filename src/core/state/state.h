/* The state of a run: every buffer that outlives a step is one row of a table. The module that needs a kind
 * of state declares its row: the graph its parameters, the optimizer its moments, a strategy the buffers of
 * its exchange, the data section its tables. Allocation, filling, the memory report, saving, loading, hashing
 * and the proof of a schedule iterate rows. Only the module that declares a row knows its name, and a new kind of
 * state is one more row.
 *
 * The table describes the rows; a state (ls_state_t) is the memory of one rank for them. */
#ifndef LS_STATE_STATE_H
#define LS_STATE_STATE_H

#include "device/device.h"
#include "state/layout.h"

#include <stdatomic.h>

/* A step's use of a row. */
typedef enum {
  LS_STATE_STEP,    /* written in each step before it is read: gradients */
  LS_STATE_CARRIED, /* read as the previous step left it: parameters, moments */
  LS_STATE_CONSTANT /* filled before the first step, written by no task: the samples on a device */
} ls_state_life_t;

/* Which ranks hold it. */
typedef enum {
  LS_STATE_REPLICATED, /* the same values on every rank */
  LS_STATE_SHARDED,    /* each rank holds its own ranges of one whole */
  LS_STATE_LOCAL       /* each rank holds values of its own: not compared, not saved */
} ls_state_owner_t;

/* The file of a checkpoint that keeps the row. A row of the layout is saved parameter by parameter, named
 * "weight" in the model's file and "row.weight" in the optimizer's; any other row is one tensor with the
 * row's name. */
typedef enum { LS_STATE_UNSAVED, LS_STATE_MODEL, LS_STATE_OPTIMIZER } ls_state_file_t;

typedef struct {
  int64_t begin, end; /* elements, end excluded */
} ls_range_t;

typedef struct ls_state_row ls_state_row_t;
struct ls_state_row {
  const char *name; /* unique in its table: "parameters", "gradients", "momentum" */
  const char *part; /* line of the memory report: "parameters", "optimizer"; any other text is a new line */
  bool of_layout;   /* has an element for each of the layout; `shape` then follows from its dtype */
  bool trained;     /* has an element for each of the layout's head and trainable parameters: gradients,
                     * moments */
  ls_shape_t shape; /* of the whole */
  ls_state_life_t life;
  ls_state_owner_t owner;
  const ls_range_t *range; /* SHARDED: the ranges that this rank holds, ascending, packed in this order */
  int range_count;
  ls_state_file_t file;
  bool copies_parameters; /* begins with the parameters' values: a row that is `trained` */
  /* Writes the initial values of the whole to host memory that is zero. NULL: zeros. */
  void (*fill)(const ls_state_row_t *row, const ls_layout_t *layout, uint64_t seed, void *whole);
};

typedef struct {
  atomic_int holders;
  ls_arena_t arena;
  ls_ctx_t *ctx;
  ls_layout_t *layout; /* owned; NULL without a graph */
  ls_state_row_t *row;
  int count, capacity;
} ls_state_table_t;

/* A table whose first row holds the graph's parameters and states, which `parts` ranks can share evenly (layout.h); without a
 * graph (NULL) an empty table. */
enum { LS_STATE_PARAMETERS = 0 };
ls_status_t ls_state_table_create(ls_ctx_t *ctx, const ls_graph_t *graph, int parts,
                                  ls_state_table_t **table);
/* A schedule keeps the table from which it was made; the last holder's release destroys it. NULL is
 * allowed. */
ls_state_table_t *ls_state_table_hold(ls_state_table_t *table);
void ls_state_table_release(ls_state_table_t *table);

/* Appends the row unless there is one of that name. Names and ranges are copied. *index: its index; NULL is allowed.
 * LS_ERR_INTERNAL if a row of that name differs. Declare rows before the state is created. */
ls_status_t ls_state_declare(ls_state_table_t *table, const ls_state_row_t *row, int *index);
int ls_state_find(const ls_state_table_t *table, const char *name); /* -1 = none */
/* Elements and bytes of a row on this rank; bytes of all rows. */
int64_t ls_state_row_count(const ls_state_row_t *row);
size_t ls_state_row_bytes(const ls_state_row_t *row);
size_t ls_state_bytes(const ls_state_table_t *table);

/* The memory of one rank. */
typedef struct {
  ls_state_table_t *table; /* held */
  ls_device_t *device;     /* borrowed */
  int count;
  void **data; /* per row, of the device; NULL: no bytes */
  void **host; /* per row: the copy that pull made; the device's own memory if that is the host's. NULL:
                * not saved */
} ls_state_t;

/* Allocates all rows, zeroed. staging: also host memory for pull, on devices with memory of their own. */
ls_status_t ls_state_create(ls_ctx_t *ctx, ls_state_table_t *table, ls_device_t *device, bool staging,
                            ls_state_t **state);
void ls_state_destroy(ls_state_t *state); /* NULL is allowed */
/* Writes the initial values of all rows. Local. The values are a pure function of table and seed. */
ls_status_t ls_state_fill(ls_state_t *state, ls_stream_t *stream, uint64_t seed, int64_t deadline_ns);
/* The same for a state that has taken steps: rows that steps change begin again, constant rows stay. */
ls_status_t ls_state_refill(ls_state_t *state, ls_stream_t *stream, uint64_t seed, int64_t deadline_ns);
/* Gives the rows that copy the parameters their values of now. Local. Part of fill and refill. */
ls_status_t ls_state_copy_parameters(ls_state_t *state, ls_stream_t *stream, int64_t deadline_ns);
/* Copies saved rows to host memory (state->host), and back. Local. Needs staging. */
ls_status_t ls_state_pull(ls_state_t *state, ls_stream_t *stream, int64_t deadline_ns);
ls_status_t ls_state_push(ls_state_t *state, ls_stream_t *stream, int64_t deadline_ns);
/* Advances the device's epoch, so that kernels drop what they derived from rows (ls_kernel_args_t.stable).
 * The calls above do it, and runs whose schedules write carried rows. Any other code that writes to `data`
 * calls it. */
void ls_state_changed(const ls_state_t *state);

#endif
