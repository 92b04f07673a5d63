/* The state of a run: every buffer that outlives a step is one row of a table. Whoever needs a kind of state
 * declares its row: the graph its parameters, the optimizer its moments, a strategy what its exchange keeps,
 * the data section its tables. Allocation, filling, the memory report, saving, loading, hashing and the proof
 * of a schedule iterate rows: no other code knows a kind of state by name, and a new kind is one more row.
 *
 * The table says what there is; a state (ls_state_t) is the memory of one rank for it. */
#ifndef LS_STATE_STATE_H
#define LS_STATE_STATE_H

#include "device/device.h"
#include "state/layout.h"

#include <stdatomic.h>

/* What a step does to a row. */
typedef enum {
  LS_STATE_STEP,    /* written in each step before it is read: gradients */
  LS_STATE_CARRIED, /* read as the step before left it: parameters, moments */
  LS_STATE_CONSTANT /* filled before the first step, written by no task: the samples on a device */
} ls_state_life_t;

/* Who holds it. */
typedef enum {
  LS_STATE_REPLICATED, /* every rank the same values */
  LS_STATE_SHARDED,    /* every rank its own ranges of one whole */
  LS_STATE_LOCAL       /* every rank values of its own: not compared, not saved */
} ls_state_owner_t;

/* Where a checkpoint keeps it. A row of the layout is saved parameter by parameter, named "weight" in the
 * model's file and "row.weight" in the optimizer's; any other row as one tensor of its own name. */
typedef enum { LS_STATE_UNSAVED, LS_STATE_MODEL, LS_STATE_OPTIMIZER } ls_state_file_t;

typedef struct {
  int64_t begin, end; /* elements, end excluded */
} ls_range_t;

typedef struct ls_state_row ls_state_row_t;
struct ls_state_row {
  const char *name; /* unique in its table: "parameters", "gradients", "momentum" */
  const char *
      part; /* of the memory report where it is counted: "parameters", "optimizer"; any other is a new line */
  bool of_layout;   /* an element for each of the layout; `shape` is then made from its dtype */
  bool trained;     /* .. for each of its head and trainable parameters alone: gradients, moments */
  ls_shape_t shape; /* of the whole */
  ls_state_life_t life;
  ls_state_owner_t owner;
  const ls_range_t *range; /* SHARDED: what this rank holds, ascending, packed in this order */
  int range_count;
  ls_state_file_t file;
  /* The first values of the whole, in host memory that is zero. NULL: zeros. */
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

/* A table with the row "parameters" of the graph; graph NULL: an empty one. */
ls_status_t ls_state_table_create(ls_ctx_t *ctx, const ls_graph_t *graph, ls_state_table_t **table);
/* A schedule keeps the table that it was made with; the last holder's release destroys it. NULL is allowed.
 */
ls_state_table_t *ls_state_table_hold(ls_state_table_t *table);
void ls_state_table_release(ls_state_table_t *table);

/* The index of the row of that name; appended when there is none. Names and ranges are copied.
 * LS_ERR_INTERNAL when a row of that name differs. Rows are declared before the state is created. */
ls_status_t ls_state_declare(ls_state_table_t *table, const ls_state_row_t *row, int *index);
int ls_state_find(const ls_state_table_t *table, const char *name); /* -1 = none */
/* On this rank. */
int64_t ls_state_row_count(const ls_state_row_t *row); /* elements */
size_t ls_state_row_bytes(const ls_state_row_t *row);

/* The memory of one rank. */
typedef struct {
  ls_state_table_t *table; /* held */
  ls_device_t *device;     /* borrowed */
  int count;
  void **data; /* per row, of the device; NULL: no bytes */
  void **host; /* per row: what pull brought; the device's own memory where that is the host's. NULL: not
                  saved */
} ls_state_t;

/* All rows, zeroed. staging: memory of the host for pull, on devices with memory of their own. */
ls_status_t ls_state_create(ls_ctx_t *ctx, ls_state_table_t *table, ls_device_t *device, bool staging,
                            ls_state_t **state);
void ls_state_destroy(ls_state_t *state); /* NULL is allowed */
/* First values of all rows. Local; pure function of table and seed. */
ls_status_t ls_state_fill(ls_state_t *state, ls_stream_t *stream, uint64_t seed, int64_t deadline_ns);
/* The same for a state that steps have worked on: what they carry on begins again, constant rows stay. */
ls_status_t ls_state_refill(ls_state_t *state, ls_stream_t *stream, uint64_t seed, int64_t deadline_ns);
/* Saved rows to host memory (state->host), and back. Local. Need staging. */
ls_status_t ls_state_pull(ls_state_t *state, ls_stream_t *stream, int64_t deadline_ns);
ls_status_t ls_state_push(ls_state_t *state, ls_stream_t *stream, int64_t deadline_ns);

#endif
