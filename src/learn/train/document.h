/* A training's report as a document, the one of lockstep train --json. */
#ifndef LS_TRAIN_DOCUMENT_H
#define LS_TRAIN_DOCUMENT_H

#include "base/field.h"
#include "train/train.h"

#include <jansson.h>

/* `predicted_us`: step time that a plan predicted; 0 = none. New reference; NULL when memory is short. */
json_t *ls_train_report_json(const ls_train_report_t *report, ls_status_t status, double predicted_us);
/* Figures of an evaluation, {name: value}: new reference. */
json_t *ls_train_metrics_json(const ls_eval_metrics_t *metrics);
/* Adds {name: {target: value}} as the member `name` of the document, if every target has some figure. */
void ls_train_metrics_each_put(json_t *document, const char *name, const ls_eval_metrics_t *metrics);

/* Rows of a double[LS_PHASE_STEP_COUNT]. Documents show only the exposed part of communication, "exposed_comm". */
extern const ls_record_t ls_train_parts_record;

#endif
