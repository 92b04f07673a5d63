#include "graph/cases/row.h"

#define CONCAT_CASE(label, grad_tol, n, i, j)                                                                \
  { label, 2, {CASE_F32(-1, 1, n, i), CASE_F32(-1, 1, n, j)}, {{0}}, 0, grad_tol }
static const op_case_t concat_cases[] = {
    CONCAT_CASE("one", 2e-3, 1, 1, 1),
    CONCAT_CASE("odd", 2e-3, 5, 7, 3),
    CONCAT_CASE("beyond a vector", 2e-3, 9, 33, 65),
    CONCAT_CASE("many", 0, 131, 1027, 512),
};

#define COLUMNS_CASE(label, grad_tol, n, k, ...)                                                             \
  { label, 1, {CASE_F32(-1, 1, n, k)}, {.i = {__VA_ARGS__}}, 0, grad_tol }
static const op_case_t columns_cases[] = {
    COLUMNS_CASE("one", 2e-3, 1, 1, 0, 1),         COLUMNS_CASE("the first", 2e-3, 3, 7, 0, 4),
    COLUMNS_CASE("between", 2e-3, 3, 9, 2, 4),     COLUMNS_CASE("the last", 2e-3, 5, 67, 34, 33),
    COLUMNS_CASE("many", 0, 131, 1539, 1027, 512),
};

const op_cases_t cases_concat[] = {
    {"concat", CASES(concat_cases)},
    {"columns", CASES(columns_cases), 3},
    {0},
};
