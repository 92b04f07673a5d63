/* Finds columns for which 32-bit floats are too coarse, such as times in seconds since 1970, before their
 * digits are lost, and names them with two values that become equal. */
#include "data/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMED_MAX = 10, FLOAT_DIGITS = 24, STEPS_PER_DEVIATION = 1000 };

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Whether the float's step is coarse compared with the column's variation. */
static bool is_coarse(const double *x, int64_t rows) {
  double sum = 0.0, square = 0.0, largest = 0.0;
  for (int64_t i = 0; i < rows; i++) {
    double from_first = x[i] - x[0];
    sum += from_first;
    square += from_first * from_first;
    largest = fmax(largest, fabs(x[i]));
  }
  double n = (double)rows, variance = square / n - (sum / n) * (sum / n);
  double step = largest > 0.0 ? ldexp(1.0, ilogb(largest) + 1 - FLOAT_DIGITS) : 0.0;
  return step * STEPS_PER_DEVIATION > sqrt(fmax(variance, 0.0));
}

/* Two different values of the sorted column that become the same float; false if there are none. */
static bool find_pair(const double *x, int64_t rows, double pair[2]) {
  for (int64_t i = 1; i < rows; i++) {
    if (x[i - 1] == x[i] || (float)x[i - 1] != (float)x[i]) continue;
    pair[0] = x[i - 1];
    pair[1] = x[i];
    return true;
  }
  return false;
}

static void warn(ls_ctx_t *ctx, const char *source, const char *what, const ls_matrix_t *m, int64_t c,
                 const double pair[2]) {
  char name[256];
  if (m->names)
    snprintf(name, sizeof name, "'%s'", LS_SHOWN(m->names[c]));
  else
    snprintf(name, sizeof name, "%" PRId64 " (from 0)", c);
  ls_log(ctx, LS_LOG_WARN,
         "%s: %s column %s: 32-bit floats do not tell its values apart: %.17g and %.17g both become %.17g; "
         "use data.normalize: true, which subtracts the mean first",
         source, what, name, pair[0], pair[1], (double)(float)pair[0]);
}

ls_status_t ls_collapse_warn(ls_ctx_t *ctx, const char *source, const char *what, const ls_matrix_t *m) {
  if (!ls_matrix_is_wide(m)) return LS_OK;
  double *column = ls_alloc_array(ctx, (size_t)m->rows, sizeof *column), pair[2];
  if (!column) return LS_ERR_MEMORY;
  int64_t found = 0;
  for (int64_t c = 0; c < m->cols; c++) {
    for (int64_t i = 0; i < m->rows; i++)
      column[i] = ls_matrix_at(m, i * m->cols + c);
    if (!is_coarse(column, m->rows)) continue;
    qsort(column, (size_t)m->rows, sizeof *column, by_value);
    if (find_pair(column, m->rows, pair) && found++ < NAMED_MAX) warn(ctx, source, what, m, c, pair);
  }
  if (found > NAMED_MAX)
    ls_log(ctx, LS_LOG_WARN, "%s: and %" PRId64 " more %s columns", source, found - NAMED_MAX, what);
  ls_free(column);
  return LS_OK;
}
