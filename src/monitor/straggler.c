/* Own times per step of all ranks, smoothed, and the slowest beside the median. */
#include "monitor/straggler.h"

#include "stat/stat.h"

static const double share_of_new = 0.2;

struct ls_straggler {
  int ranks;
  struct {
    int64_t steps, own_ns;
    double mean_ns; /* of a step, smoothed; 0 = not known */
  } * rank;
  double *sorted;
};

ls_status_t ls_straggler_create(ls_ctx_t *ctx, int ranks, ls_straggler_t **straggler) {
  ls_straggler_t *s = ls_alloc(ctx, sizeof *s);
  if (!s) return LS_ERR_MEMORY;
  s->ranks = ranks;
  s->rank = ls_alloc_array(ctx, (size_t)ranks, sizeof *s->rank);
  s->sorted = ls_alloc_array(ctx, (size_t)ranks, sizeof *s->sorted);
  if (s->rank && s->sorted) {
    *straggler = s;
    return LS_OK;
  }
  ls_straggler_destroy(s);
  return LS_ERR_MEMORY;
}

void ls_straggler_destroy(ls_straggler_t *s) {
  if (!s) return;
  ls_free(s->sorted);
  ls_free(s->rank);
  ls_free(s);
}

void ls_straggler_take(ls_straggler_t *s, int rank, int64_t steps, int64_t own_ns) {
  const int64_t done = steps - s->rank[rank].steps, took_ns = own_ns - s->rank[rank].own_ns;
  double *mean_ns = &s->rank[rank].mean_ns;
  s->rank[rank].steps = steps;
  s->rank[rank].own_ns = own_ns;
  if (done < 0 || took_ns < 0) *mean_ns = 0;
  if (done <= 0 || took_ns <= 0) return;
  const double now_ns = (double)took_ns / (double)done;
  *mean_ns = *mean_ns > 0 ? *mean_ns + share_of_new * (now_ns - *mean_ns) : now_ns;
}

bool ls_straggler_find(ls_straggler_t *s, int *rank, double *ratio) {
  int known = 0, slowest = 0;
  for (int i = 0; i < s->ranks; i++) {
    if (s->rank[i].mean_ns > 0) s->sorted[known++] = s->rank[i].mean_ns;
    if (s->rank[i].mean_ns > s->rank[slowest].mean_ns) slowest = i;
  }
  if (known < 2) return false;
  ls_stat_sort(s->sorted, known);
  *rank = slowest;
  *ratio = s->rank[slowest].mean_ns / s->sorted[(known - 1) / 2]; /* of two ranks: beside the other one */
  return true;
}
