/* See ranks.h. */

#include "ranks.h"

#include "support/threads.h"
#include "unit.h"
#include <string.h>

static void keep(void *user, ls_log_level_t level, const char *message) {
  ranks_t *ranks = user;
  (void)level;
  strncat(ranks->log, message, sizeof ranks->log - strlen(ranks->log) - 2);
  strcat(ranks->log, "\n");
}

typedef struct {
  rank_t *rank;
  rank_fn fn;
} start_t;

static void *run(void *arg) {
  start_t *start = arg;
  start->fn(start->rank);
  return NULL;
}

void ranks_run(ranks_t *ranks, int size, int64_t deadline_ns, rank_fn fn) {
  ls_comm_t *comm[RANKS_MAX] = {NULL};
  start_t start[RANKS_MAX];
  memset(ranks, 0, sizeof *ranks);
  ranks->ctx = ls_ctx_create(keep, ranks);
  assert_non_null(ranks->ctx);
  assert_int_equal(ls_comm_sim_create(ranks->ctx, size, deadline_ns, comm), LS_OK);
  for (int r = 0; r < size; r++) {
    ranks->rank[r].comm = comm[r];
    ranks->rank[r].ranks = ranks;
    start[r] = (start_t){&ranks->rank[r], fn};
  }
  threads_run(size, run, start, sizeof *start);
}

void ranks_release(ranks_t *ranks) {
  for (int r = 0; r < RANKS_MAX; r++)
    ls_comm_destroy(ranks->rank[r].comm);
  ls_ctx_destroy(ranks->ctx);
}
