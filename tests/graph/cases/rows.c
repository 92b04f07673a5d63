#include "graph/cases/row.h"

#define RESIZE_CASE(label, to, grad_tol, ...)                                                                \
  { label, 1, {CASE_F32(-1, 1, __VA_ARGS__)}, {.i = {to}}, 0, grad_tol }
static const op_case_t resize_cases[] = {
    RESIZE_CASE("one", 1, 2e-3, 1, 1),       RESIZE_CASE("more", 8, 2e-3, 5, 7),
    RESIZE_CASE("less", 3, 2e-3, 7, 5, 2),   RESIZE_CASE("a vector", 72, 2e-3, 65),
    RESIZE_CASE("many", 1088, 0, 1027, 131),
};

const op_cases_t cases_rows[] = {
    {"resize_rows", CASES(resize_cases), 1},
    {0},
};
