/* Single measurements of one thing, and their statistics. Inside the probe module. */
#ifndef LS_PROBE_SAMPLES_H
#define LS_PROBE_SAMPLES_H

#include "machine/profile.h"

enum { LS_SAMPLES_MAX = 128 };

typedef struct {
  double ns[LS_SAMPLES_MAX]; /* the newest when there were more: a ring */
  int64_t count;
} ls_samples_t;

void ls_samples_add(ls_samples_t *samples, double ns);
/* Median of those that nothing disturbed, and 5 % and 95 % quantiles of all. False when there is none. Leaves the samples as they are. */
bool ls_samples_time(const ls_samples_t *samples, ls_time_t *time);

#endif
