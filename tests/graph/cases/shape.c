#include "graph/cases/row.h"

#define PAIR_CASE(label, grad_tol, ...)                                                                      \
  { label, 2, {CASE_F32(-1, 1, __VA_ARGS__), CASE_F32(-1, 1, __VA_ARGS__)}, {{0}}, 2e-7, grad_tol }
static const op_case_t pair_cases[] = {
    PAIR_CASE("one", 2e-3, 1),
    PAIR_CASE("odd", 2e-3, 3, 7),
    PAIR_CASE("three dimensions", 2e-3, 2, 5, 9),
    PAIR_CASE("beyond a vector", 2e-3, 33, 65),
    PAIR_CASE("many", 0, 131, 1027),
};

static const op_case_t reshape_cases[] = {
    {"one", 1, {CASE_F32(-1, 1, 1)}, {.i = {2, 1, 1}}, 0, 2e-3},
    {"flatten", 1, {CASE_F32(-1, 1, 3, 7)}, {.i = {1, 21}}, 0, 2e-3},
    {"flatten images", 1, {CASE_F32(-1, 1, 2, 3, 5, 4)}, {.i = {2, 2, 60}}, 0, 2e-3},
    {"flatten classes", 1, {CASE_WHOLE(LS_I32, 9, 4, 6)}, {.i = {1, 24}}, 0, 0},
    {"split", 1, {CASE_F32(-1, 1, 6, 10)}, {.i = {3, 2, 15, 2}}, 0, 2e-3},
};

static const op_case_t fill_cases[] = {
    {"one", 0, {{.lo = 0}}, {.i = {1}, .f = {1}}, 0, 0},
    {"odd", 0, {{.lo = 0}}, {.i = {37}, .f = {-0.1}}, 0, 0},
    {"many", 0, {{.lo = 0}}, {.i = {100003}, .f = {2.5}}, 0, 0},
};

#define ONE_CASE(label, grad_tol, ...)                                                                       \
  { label, 1, {CASE_F32(-1, 1, __VA_ARGS__)}, {{0}}, 2e-7, grad_tol }
static const op_case_t accumulate_cases[] = {
    ONE_CASE("one", 0, 1),
    ONE_CASE("odd", 0, 3, 7),
    ONE_CASE("beyond a vector", 0, 33, 65),
    ONE_CASE("many", 0, 131, 1027),
};

static const op_case_t copy_cases[] = {
    ONE_CASE("one", 2e-3, 1),
    ONE_CASE("odd", 2e-3, 3, 7),
    ONE_CASE("many", 0, 131, 1027),
};

const op_cases_t cases_shape[] = {
    {"add", CASES(pair_cases)},
    {"mul", CASES(pair_cases)},
    {"reshape", CASES(reshape_cases)},
    {"fill", CASES(fill_cases)},
    {"accumulate", CASES(accumulate_cases)},
    {"copy", CASES(copy_cases)},
    {0},
};
