/* The report of a supervised run, for people and programs. */
#ifndef LS_SUPERVISE_REPORT_H
#define LS_SUPERVISE_REPORT_H

#include "supervise/life.h"

#include <jansson.h>

typedef struct {
  const char *dir;
  int ranks;
  json_t *lives; /* array */
} ls_report_t;

/* Adds a life and what follows it; `next`: what the next life is to be. */
void ls_report_life(ls_report_t *report, const ls_life_end_t *life, const ls_decision_t *decision,
                    const ls_restarts_t *next);
/* Writes DIR/supervise.json and DIR/supervise.txt. result: "running", "finished", .. */
ls_status_t ls_report_write(ls_ctx_t *ctx, const ls_report_t *report, const char *result, int code);

#endif
