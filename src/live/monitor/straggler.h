/* Finds the rank that slows the others down, and the reason. In synchronous training all steps take as long as the slowest
 * rank's, so step times tell nothing; the time that a rank computes without waiting for others does. The median of its last
 * 20 steps is compared with the median rank's (of two ranks: the other's), against the noise of both. */
#ifndef LS_MONITOR_STRAGGLER_H
#define LS_MONITOR_STRAGGLER_H

#include "monitor/page.h"

enum { LS_STRAGGLER_STEPS = 20 };

typedef enum {
  LS_STRAGGLER_INPUT,     /* it waits for its samples */
  LS_STRAGGLER_HEAT,      /* heat limits its clock */
  LS_STRAGGLER_CLOCK,     /* power or a brake limits its clock, or it is lower than the other's */
  LS_STRAGGLER_LOAD,      /* other programs take its processor */
  LS_STRAGGLER_OWN,       /* none of these: its own computation takes longer */
  LS_STRAGGLER_PROCESSOR, /* the same arithmetic takes longer on its processor */
  LS_STRAGGLER_CAUSES
} ls_straggler_cause_t;
const char *ls_straggler_cause_name(ls_straggler_cause_t cause); /* "other load" */

typedef struct {
  int rank;     /* the slowest */
  double ratio; /* its median own time to the median rank's */
  bool named; /* it holds the others up: 5 % slower, and beyond the noise; until it is less than 3 % slower */
  ls_straggler_cause_t cause; /* if named */
} ls_straggler_is_t;

typedef struct ls_straggler ls_straggler_t;
ls_status_t ls_straggler_create(ls_ctx_t *ctx, int ranks, ls_straggler_t **straggler);
void ls_straggler_destroy(ls_straggler_t *straggler); /* NULL: nothing */
/* Looks at the page as it is now. False: fewer than two ranks have done 20 steps of a known time. */
bool ls_straggler_look(ls_straggler_t *straggler, const ls_page_t *page, ls_straggler_is_t *is);

#endif
