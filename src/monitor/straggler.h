/* Which rank holds the others up. In synchronous training all steps take as long as the slowest rank's, so step times say
 * nothing; the time that a rank computes itself, without waiting for others, does. */
#ifndef LS_MONITOR_STRAGGLER_H
#define LS_MONITOR_STRAGGLER_H

#include "base/ctx.h"

typedef struct ls_straggler ls_straggler_t;

ls_status_t ls_straggler_create(ls_ctx_t *ctx, int ranks, ls_straggler_t **straggler);
void ls_straggler_destroy(ls_straggler_t *straggler); /* NULL: nothing */
/* What a rank has done since it began: steps, and its own time in them. A rank that began again begins with less. */
void ls_straggler_take(ls_straggler_t *straggler, int rank, int64_t steps, int64_t own_ns);
/* The rank with the longest own time per step, and how many times the median rank's that is; own times are smoothed over
 * about five calls of take. False: fewer than two ranks are known. */
bool ls_straggler_find(ls_straggler_t *straggler, int *rank, double *ratio);

#endif
