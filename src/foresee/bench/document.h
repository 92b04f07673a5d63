/* Inside the making of a document: what its parts share. */
#ifndef LS_BENCH_DOCUMENT_H
#define LS_BENCH_DOCUMENT_H

#include "bench/bench.h"

typedef struct {
  ls_ctx_t *ctx;
  const ls_bench_method_t *method;
  json_t *variants; /* of the document */
  uint64_t seed;    /* of bootstraps */
} ls_bench_build_t;

static inline bool ls_bench_failed(const json_t *variant) {
  return json_object_get(variant, "failed") != NULL;
}

/* document_variant.c: adds all that follows from the variant's own repetitions. */
ls_status_t ls_bench_describe_variant(ls_bench_build_t *b, json_t *variant);

/* document_scaling.c */
/* The variant of the same key, model and precision with the fewest ranks; the first of them. */
const json_t *ls_bench_reference(const ls_bench_build_t *b, const json_t *variant);
/* Speed-up and tests on step times. With weak scaling the batches differ: then the variant's times are those
 * of as many samples as the reference's step has. */
ls_status_t ls_bench_against_reference(ls_bench_build_t *b, json_t *variant, const json_t *reference);

#endif
