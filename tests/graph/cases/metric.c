#include "graph/cases/row.h"

#define CLASS_CASE(label, k, n, c, lo, hi)                                                                   \
  { label, 3, {CASE_F32(lo, hi, n, c), CASE_CLASS(n, c), CASE_WEIGHT(n)}, {.i = {k}}, 0, 0 }
#define UNSEEN_CASE(label, n, c)                                                                             \
  { label, 3, {CASE_F32(0, 1, n, c), CASE_CLASS(n, c), CASE_F32(0, 0, n)}, {.i = {1}}, 0, 0 }
static const op_case_t class_cases[] = {
    CLASS_CASE("one", 1, 1, 1, 0, 1),       CLASS_CASE("odd", 2, 3, 7, 0, 1),
    CLASS_CASE("equal", 3, 37, 5, 1, 1),    UNSEEN_CASE("padding", 5, 3),
    CLASS_CASE("digits", 5, 133, 10, 0, 1), CLASS_CASE("more than there are", 5, 9, 3, 0, 1),
    CLASS_CASE("many", 5, 67, 1003, 0, 1),  CLASS_CASE("not a number", 1, 3, 4, NAN, NAN),
};
#define VALUE_CASE(label, n, o, tol)                                                                         \
  { label, 3, {CASE_F32(-1, 1, n, o), CASE_F32(-1, 1, n, o), CASE_WEIGHT(n)}, {{0}}, tol, 0 }
static const op_case_t value_cases[] = {
    VALUE_CASE("one", 1, 1, 1e-7),
    VALUE_CASE("odd", 3, 7, 1e-7),
    VALUE_CASE("one output", 533, 1, 1e-7),
    VALUE_CASE("many", 517, 192, 1e-7),
    {"padding", 3, {CASE_F32(0, 1, 5, 3), CASE_F32(0, 1, 5, 3), CASE_F32(0, 0, 5)}, {{0}}, 0, 0},
};

const op_cases_t cases_metric[] = {
    {"top_hits", CASES(class_cases)},
    {"class_counts", CASES(class_cases)},
    {"label_counts", CASES(value_cases)},
    {"value_sums", CASES(value_cases)},
    {0},
};
