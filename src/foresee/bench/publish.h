/* Publishing a benchmark's document: predictions of plans, the study's conclusions, files. */
#ifndef LS_BENCH_PUBLISH_H
#define LS_BENCH_PUBLISH_H

#include "bench/driver.h"

/* "FILE,FILE" of plans (lockstep plan --json): a plan covers one configuration and batch, so a sweep may need several.
 * *plans: [{path, plan}], new reference. LS_ERR_DATA names a file that is no plan. */
ls_status_t ls_bench_plans_read(ls_ctx_t *ctx, const char *list, json_t **plans);
/* The shipped definition of a study ("study", "families"); member "sweep" says what is measured. *definition: new
 * reference. */
ls_status_t ls_bench_study_read(ls_ctx_t *ctx, const char *name, json_t **definition);

typedef struct {
  const char *study;                    /* NULL: no conclusions */
  const char *output, *markdown, *html; /* files; NULL: not written */
  const json_t *plans;                  /* NULL: none */
} ls_bench_outputs_t;
/* Concludes a document and writes its files. All of them have the JSON file's numbers, digit by digit, so that a stored
 * document gives the same files again. If one cannot be written the others still are; the first failure is the result.
 * *document: the concluded one, new reference; NULL if memory is short. */
ls_status_t ls_bench_publish(ls_ctx_t *ctx, const ls_bench_outputs_t *outputs, json_t *measured,
                             json_t **document);

#endif
