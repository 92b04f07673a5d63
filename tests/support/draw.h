/* What tests draw beside the cases that they list: numbers that a seed decides. A test prints its seed, so that a failure
 * can be repeated. LOCKSTEP_DRAW_SEED=N chooses another one, `today` that of the date (UTC, YYYYMMDD);
 * LOCKSTEP_DRAWS=N how many are drawn. */
#ifndef LS_TESTS_SUPPORT_DRAW_H
#define LS_TESTS_SUPPORT_DRAW_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  uint64_t seed, next;
} draw_t;

static inline uint64_t draw_seed(void) {
  const char *text = getenv("LOCKSTEP_DRAW_SEED");
  const time_t now = time(NULL);
  struct tm day;
  if (!text) return 6; /* finds the gradient of strided 1 x 1 filters that was wrong in 7012fa9 and before */
  if (strcmp(text, "today") != 0 || !gmtime_r(&now, &day)) return strtoull(text, NULL, 10);
  return (uint64_t)((day.tm_year + 1900) * 10000 + (day.tm_mon + 1) * 100 + day.tm_mday);
}

static inline int draw_count(int usual) {
  const char *text = getenv("LOCKSTEP_DRAWS");
  return text ? atoi(text) : usual;
}

/* In [0, below). */
static inline int64_t draw_below(draw_t *d, int64_t below) {
  return (int64_t)(ls_rng(d->seed, 0, d->next++).v[0] % (uint64_t)below);
}

static inline bool draw_one_in(draw_t *d, int64_t of) {
  return draw_below(d, of) == 0;
}

static inline float draw_unit(draw_t *d) {
  return ls_rng_unit(ls_rng(d->seed, 0, d->next++).v[0]);
}

#endif
