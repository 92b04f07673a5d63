/* Shared by the tests of stat: comparing doubles relative to their size. */
#ifndef LS_TESTS_STAT_TEST_H
#define LS_TESTS_STAT_TEST_H

#include "stat/stat.h"

#include <math.h>

#include "unit.h"

static inline void check_near(double got, double wanted, double relative, const char *what, int index) {
  if (got == wanted || fabs(got - wanted) <= relative * fabs(wanted)) return;
  fail_msg("%s[%d]: %.17g, wanted %.17g", what, index, got, wanted);
}

#endif
