#include "graph/cases/row.h"

#define DROPOUT_CASE(label, position, ordinal, rate, grad_tol, ...)                                          \
  {                                                                                                          \
    label, 2, {CASE_F32(-1, 1, __VA_ARGS__), CASE_STEP(position)}, {.i = {ordinal}, .f = {rate}}, 2e-7,      \
        grad_tol                                                                                             \
  }
static const op_case_t dropout_cases[] = {
    DROPOUT_CASE("one", 0, 0, 0.5, 2e-3, 1),
    DROPOUT_CASE("one dimension", 3, 1, 0.5, 2e-3, 13),
    DROPOUT_CASE("odd", 0, 2, 0.2, 2e-3, 3, 7),
    DROPOUT_CASE("three dimensions", 1000, 3, 0.3, 2e-3, 4, 3, 5),
    DROPOUT_CASE("nothing dropped", 5, 4, 0, 2e-3, 5, 6),
    DROPOUT_CASE("nearly all dropped", 5, 5, 0.999, 0, 33, 66),
    DROPOUT_CASE("counter beyond 32 bits", 4e9f, 6, 0.1, 0, 17, 259),
    DROPOUT_CASE("many", 77, 7, 0.3, 0, 64, 1024),
};

const op_cases_t cases_dropout[] = {
    {"dropout", CASES(dropout_cases)},
    {"drop_rows", CASES(dropout_cases)},
    {0},
};
