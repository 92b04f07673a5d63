/* Two documents of bench, or two variants of one, against each other: lockstep compare. */
#ifndef LS_BENCH_PAIRS_H
#define LS_BENCH_PAIRS_H

#include "bench/bench.h"

/* One comparison: names borrowed from the documents. */
typedef struct {
  const char *a, *b;
  double a_us, b_us;
  ls_bench_comparison_t all, kept;
} ls_bench_pair_t;
typedef struct {
  int count;
  ls_bench_pair_t *pair;
} ls_bench_pairs_t;

/* Compares the variants `name_a` of `a` and `name_b` of `b`; both NULL: every variant that both have. `margin`: percent below
 * which a difference counts as equivalent. Warns of what makes a comparison doubtful. LS_ERR_NOT_FOUND: no such variant.
 * The caller frees pairs->pair (ls_free), also after a failure. */
ls_status_t ls_bench_compare_documents(ls_ctx_t *ctx, const json_t *a, const json_t *b, const char *name_a,
                                       const char *name_b, double margin, ls_bench_pairs_t *pairs);
/* The document of lockstep compare. New reference; NULL when memory is short. */
json_t *ls_bench_pairs_json(const ls_bench_pairs_t *pairs);

#endif
