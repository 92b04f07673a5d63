#include "graph/cases/row.h"

#define REDUCE_CASE(label, dims, mean, tol, grad_tol, ...)                                                   \
  { label, 1, {CASE_F32(-1, 1, __VA_ARGS__)}, {.i = {dims, mean}}, tol, grad_tol }
static const op_case_t reduce_cases[] = {
    REDUCE_CASE("one", 1, 0, 2e-6, 2e-3, 1),
    REDUCE_CASE("all, sum", 2, 0, 2e-6, 2e-3, 3, 7),
    REDUCE_CASE("all, mean", 3, 1, 2e-6, 2e-3, 3, 5, 7),
    REDUCE_CASE("rows, sum", 1, 0, 5e-6, 2e-3, 9, 33),
    REDUCE_CASE("two of three, mean", 2, 1, 2e-6, 2e-3, 5, 3, 11),
    REDUCE_CASE("many rows", 1, 0, 1e-5, 0, 1030, 67),
    REDUCE_CASE("long", 1, 1, 1e-5, 0, 100003),
};

#define REDUCE_DX_CASE(label, dims, mean, dy, ...)                                                           \
  { label, 2, {dy, CASE_F32(-1, 1, __VA_ARGS__)}, {.i = {dims, mean}}, 2e-7, 0 }
static const op_case_t reduce_dx_cases[] = {
    REDUCE_DX_CASE("one", 1, 0, CASE_F32(-1, 1, 1), 1),
    REDUCE_DX_CASE("all, sum", 2, 0, CASE_F32(-1, 1, 1), 3, 7),
    REDUCE_DX_CASE("two of three, mean", 2, 1, CASE_F32(-1, 1, 5), 5, 3, 11),
    REDUCE_DX_CASE("rows, mean", 1, 1, CASE_F32(-1, 1, 9), 9, 33),
    REDUCE_DX_CASE("many rows", 1, 0, CASE_F32(-1, 1, 1030), 1030, 67),
};

const op_cases_t cases_reduce[] = {
    {"reduce", CASES(reduce_cases), 1},
    {"reduce_dx", CASES(reduce_dx_cases)},
    {0},
};
