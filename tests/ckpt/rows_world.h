/* A state of every kind of row, on ranks that are threads of this process. Every value follows from the step,
 * the row and the element, so that whatever a rank has loaded can be compared exactly. */
#ifndef TESTS_CKPT_ROWS_WORLD_H
#define TESTS_CKPT_ROWS_WORLD_H

#include "support.h"
#include "support/threads.h"

#include <stdlib.h>

enum { RANKS_MAX = 4, ROWS_MAX = 8 };

extern int64_t rows_big; /* elements of the row "big" (f64); 1003 unless a test says otherwise */

/* How a sharded row is divided. */
typedef enum {
  CUT_TWICE,   /* every rank holds a range of each half, in turn and back */
  CUT_OVERLAP, /* two ranks hold an element */
  CUT_GAP,     /* no rank holds an element */
  CUT_NONE     /* there are only replicated rows */
} cut_t;

typedef struct {
  int rank, size;
  ls_ctx_t *ctx;
  ls_comm_t *comm;
  ls_state_table_t *table;
  void *host[ROWS_MAX];
  int64_t own_bytes;        /* of saved elements in sharded rows */
  int64_t replicated_bytes; /* of saved elements in the others */
  int64_t read_bytes;       /* for the test */
  ls_status_t status;       /* of what it did */
  fixture_t *f;
  void *arg;
} rank_t;

/* Runs `work` on `size` ranks, each in a thread of its own; rank[] has what became of them, without contexts.
 */
typedef void (*work_fn)(rank_t *rank);
void world_run(int size, cut_t cut, work_fn work, void *arg, rank_t rank[RANKS_MAX]);

void rows_fill(rank_t *rank, int64_t step);
void rows_poison(rank_t *rank);
/* Every saved element is that of `step`; everything else is poison. Ends the program otherwise. */
void rows_check(const rank_t *rank, int64_t step);

/* The request to save these rows of the rank. */
ls_ckpt_save_t rows_request(const rank_t *rank, const ls_ckpt_rows_t *rows, int64_t step, double metric);
/* ls_ckpt_save of what rows_fill has put there. */
ls_status_t rows_save(rank_t *rank, const char *dir, int64_t step, double metric, int keep);
/* Rank 0 opens the newest below `dir`, all ranks load it, and compare it with its step, which is returned;
 * -1: rank 0 could not open it, or a rank could not load it. `opened` is called before they load; NULL is
 * allowed. */
int64_t rows_load(rank_t *rank, const char *dir, void (*opened)(void));
/* The same on a world of `size` that is made for it. */
int64_t world_newest(int size);

#endif
