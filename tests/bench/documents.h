/* Synthetic measurements: variants whose step times are given. */
#ifndef LS_TESTS_BENCH_DOCUMENTS_H
#define LS_TESTS_BENCH_DOCUMENTS_H

#include "bench/bench.h"

#include <math.h>

#include "unit.h"

/* A variant "batch KEY, RANKS x STRATEGY" with one repetition per step time. */
json_t *made_variant(int key, int batch, int ranks, const char *strategy, const double *step_us, int count);
/* A document of these variants (the array's reference is taken). */
json_t *made_document(json_t *variants, json_t *control, const ls_bench_method_t *method);
extern const ls_bench_method_t plain_method;

#endif
