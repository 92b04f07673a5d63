#include "graph/cases/row.h"

static const op_case_t unary_cases[] = {
    {"one", 1, {CASE_F32(-1, 1, 1)}, {{0}}, 2e-6, 2e-3},
    {"odd", 1, {CASE_F32(-2, 2, 3, 7)}, {{0}}, 2e-6, 2e-3},
    {"three dimensions", 1, {CASE_F32(-3, 3, 2, 5, 9)}, {{0}}, 2e-6, 2e-3},
    {"beyond a vector", 1, {CASE_F32(-4, 4, 33, 65)}, {{0}}, 3e-6, 2e-3},
    {"saturated", 1, {CASE_F32(-100, 100, 1000)}, {{0}}, 3e-6, 0},
    {"many", 1, {CASE_F32(-4, 4, 131, 1027)}, {{0}}, 3e-6, 0},
};

#define SLOPE_CASE(label, ...)                                                                               \
  { label, 2, {CASE_F32(-2, 2, __VA_ARGS__), CASE_F32(-2, 2, __VA_ARGS__)}, {{0}}, 5e-6, 0 }
static const op_case_t slope_cases[] = {
    SLOPE_CASE("one", 1),
    SLOPE_CASE("odd", 3, 7),
    SLOPE_CASE("three dimensions", 2, 5, 9),
    SLOPE_CASE("beyond a vector", 33, 65),
    SLOPE_CASE("many", 131, 1027),
};

const op_cases_t cases_elementwise[] = {
    {"relu", CASES(unary_cases)},
    {"relu_dy", CASES(slope_cases)},
    {"gelu", CASES(unary_cases)},
    {"gelu_dx", CASES(slope_cases)},
    {"gelu_tanh", CASES(unary_cases)},
    {"gelu_tanh_dx", CASES(slope_cases)},
    {"silu", CASES(unary_cases)},
    {"silu_dx", CASES(slope_cases)},
    {"tanh", CASES(unary_cases)},
    {"tanh_dy", CASES(slope_cases)},
    {"sigmoid", CASES(unary_cases)},
    {"sigmoid_dy", CASES(slope_cases)},
    {0},
};
