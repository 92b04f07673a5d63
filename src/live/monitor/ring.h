/* The last collectives of every rank of a supervised run: a mapped file, `collectives.ring` in the run's monitor directory.
 * The supervisor makes it; where there is one, each rank writes what it enters and leaves, and the supervisor reads it
 * when a rank hangs. Times are of CLOCK_MONOTONIC of the ranks' host. */
#ifndef LS_MONITOR_RING_H
#define LS_MONITOR_RING_H

#include "base/ctx.h"

#include <stdatomic.h>

#define LS_RING_NAME "collectives.ring"

/* Lines of collectives: within one, all ranks have the same order. Each group of ranks has lines of its own. */
typedef enum {
  LS_RING_CONTROL, /* of the host, between steps */
  LS_RING_DATA,    /* of the host, in steps */
  LS_RING_DEVICE,  /* of devices: seen when the host waits for them, the last one and the next one */
  LS_RING_LINES
} ls_ring_line_t;

enum { LS_RING_ENTRIES = 64, LS_RING_TEXT_BYTES = 32 };
typedef struct {
  uint64_t number;                  /* its place in its line, from 1; 0: there is none */
  _Atomic int64_t begin_ns, end_ns; /* end 0: under way */
  int64_t bytes;                    /* that this rank gives */
  ls_ring_line_t line;
  char kind[20];                            /* "all-reduce" */
  char name[40], group[LS_RING_TEXT_BYTES]; /* what they are called, shortened; group "": all ranks */
  char unused[8];
} ls_ring_entry_t;
_Static_assert(sizeof(ls_ring_entry_t) % 8 == 0, "entries follow each other");

typedef struct {
  _Alignas(64) _Atomic uint64_t count; /* entries that were written; the newest 64 are there */
  _Atomic bool device;                 /* its devices exchange data among themselves */
  _Atomic bool give_up;                /* the supervisor's: end what the device waits for */
  ls_ring_entry_t entry[LS_RING_ENTRIES];
} ls_ring_t;

typedef struct ls_rings ls_rings_t;
/* Creates DIR/collectives.ring; ranks of an earlier life keep their own file. A run does not need it, so a failure is a
 * warning. */
ls_status_t ls_rings_create(ls_ctx_t *ctx, const char *dir, int ranks, ls_rings_t **rings);
/* The rings of a run of so many ranks; NULL: it has none. */
ls_rings_t *ls_rings_find(const char *dir, int ranks);
void ls_rings_close(ls_rings_t *rings); /* NULL is allowed */
void ls_rings_remove(const char *dir);
int ls_rings_ranks(const ls_rings_t *rings);
ls_ring_t *ls_rings_at(ls_rings_t *rings, int rank);

/* The rank's own side; any thread. Begins `what` (begin_ns and end_ns are set here) and returns a mark for leave. */
uint64_t ls_ring_enter(ls_ring_t *ring, ls_ring_line_t line, uint64_t number, const char *kind,
                       const char *name, const char *group, int64_t bytes, int64_t now_ns);
void ls_ring_leave(ls_ring_t *ring, uint64_t mark, int64_t now_ns);

/* A difference between ranks: some wait in a collective that another one has not entered. */
typedef struct {
  int waits, behind; /* the first rank of each kind */
  ls_ring_entry_t in,
      at; /* where it waits; the newest collective of the rank that has not come, number 0: none */
} ls_ring_differ_t;
bool ls_rings_differ(ls_rings_t *rings, ls_ring_differ_t *differ);
/* Whether this rank has not entered the collective in which others wait. */
bool ls_rings_behind(ls_rings_t *rings, int rank, const ls_ring_entry_t *in);
/* "all-reduce "gradients 0" #5812 (4.19 MB)". */
void ls_ring_text(const ls_ring_entry_t *entry, char *text, size_t size_bytes);

#endif
