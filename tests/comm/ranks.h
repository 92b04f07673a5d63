/* N threads, each with its rank of a sim communicator. */
#ifndef LS_TESTS_COMM_RANKS_H
#define LS_TESTS_COMM_RANKS_H

#include "cases.h"

typedef struct ranks ranks_t;
typedef struct {
  ls_comm_t *comm; /* destroyed by ranks_release; set to NULL when done before */
  ranks_t *ranks;
  ls_status_t status;          /* for the function to fill */
  char text[CASES_TEXT_BYTES]; /* "" = fine */
} rank_t;
typedef void (*rank_fn)(rank_t *rank);

enum { RANKS_MAX = 16, RANKS_LOG_BYTES = 8192 };
struct ranks {
  ls_ctx_t *ctx;
  rank_t rank[RANKS_MAX];
  char log[RANKS_LOG_BYTES]; /* every message, one per line */
};

/* Creates the communicator, runs fn in `size` threads and waits for them. Asserts that all
 * could be started. */
void ranks_run(ranks_t *ranks, int size, int64_t deadline_ns, rank_fn fn);
void ranks_release(ranks_t *ranks);

#endif
