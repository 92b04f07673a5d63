#include "graph/cases/row.h"

#define LOSS_CASE(label, delta, p_lo, p_hi, t_lo, t_hi, n, o, tol, grad_tol)                                 \
  {                                                                                                          \
    label, 3, {CASE_F32(p_lo, p_hi, n, o), CASE_F32(t_lo, t_hi, n, o), CASE_WEIGHT(n)}, {.f = {delta}}, tol, \
        grad_tol                                                                                             \
  }
#define SLOPE_CASE(label, delta, p_lo, p_hi, t_lo, t_hi, n, o)                                               \
  {                                                                                                          \
    label, 4, {CASE_F32(0.5, 1, 1), CASE_F32(p_lo, p_hi, n, o), CASE_F32(t_lo, t_hi, n, o), CASE_WEIGHT(n)}, \
        {.f = {delta}}, 5e-7, 0                                                                              \
  }

static const op_case_t mse_cases[] = {
    LOSS_CASE("one", 0, -1, 1, -1, 1, 1, 1, 2e-6, 2e-3),
    LOSS_CASE("odd", 0, -1, 1, -1, 1, 3, 7, 2e-6, 2e-3),
    LOSS_CASE("one output", 0, -1, 1, -1, 1, 33, 1, 3e-6, 2e-3),
    LOSS_CASE("beyond a vector", 0, -1, 1, -1, 1, 37, 65, 5e-6, 2e-3),
    LOSS_CASE("many", 0, -1, 1, -1, 1, 517, 192, 1e-5, 0),
};
static const op_case_t slope_cases[] = {
    SLOPE_CASE("one", 0.3, -1, 1, -1, 1, 1, 1),
    SLOPE_CASE("odd", 0.3, -1, 1, -1, 1, 3, 7),
    SLOPE_CASE("one output", 0.3, -1, 1, -1, 1, 33, 1),
    SLOPE_CASE("equal", 0.3, 1, 1, 1, 1, 5, 3),
    SLOPE_CASE("not a number", 0.3, NAN, NAN, 0, 1, 2, 3),
    SLOPE_CASE("many", 0.3, -1, 1, -1, 1, 517, 192),
};
/* No kink lies within a step of the differences: d is at least 0.1 from 0, and from delta. */
static const op_case_t l1_cases[] = {
    LOSS_CASE("one", 0, 0.1, 1, -1, 0, 1, 1, 2e-6, 2e-3),
    LOSS_CASE("above", 0, 0.1, 1, -1, 0, 3, 7, 2e-6, 2e-3),
    LOSS_CASE("below", 0, -1, -0.1, 0, 1, 33, 1, 3e-6, 2e-3),
    LOSS_CASE("not a number", 0, NAN, NAN, 0, 1, 2, 3, 1e-6, 0),
    LOSS_CASE("both", 0, -1, 1, -1, 1, 517, 192, 1e-5, 0),
};
static const op_case_t huber_cases[] = {
    LOSS_CASE("one", 1, 0.1, 1, 0, 0, 1, 1, 2e-6, 2e-3),
    LOSS_CASE("within delta", 3, -1, 1, -1, 1, 3, 7, 2e-6, 2e-3),
    LOSS_CASE("above it", 0.5, 1, 2, -1, 0.4f, 33, 1, 3e-6, 2e-3),
    LOSS_CASE("below it", 0.5, -2, -1, -0.4f, 1, 3, 5, 3e-6, 2e-3),
    LOSS_CASE("not a number", 1, NAN, NAN, 0, 1, 2, 3, 1e-6, 0),
    LOSS_CASE("both", 0.3, -1, 1, -1, 1, 517, 192, 1e-5, 0),
};
static const op_case_t bce_cases[] = {
    LOSS_CASE("one", 0, -2, 2, 0, 1, 1, 1, 3e-6, 2e-3),
    LOSS_CASE("odd", 0, -2, 2, 0, 1, 3, 7, 3e-6, 2e-3),
    LOSS_CASE("all are", 0, -2, 2, 1, 1, 33, 1, 5e-6, 2e-3),
    LOSS_CASE("none is", 0, -2, 2, 0, 0, 5, 65, 5e-6, 2e-3),
    LOSS_CASE("would overflow exp", 0, -300, 300, 0, 1, 4, 9, 5e-6, 0),
    LOSS_CASE("not a number", 0, NAN, NAN, 0, 1, 2, 3, 1e-6, 0),
    LOSS_CASE("many", 0, -3, 3, 0, 1, 517, 192, 1e-5, 0),
};

const op_cases_t cases_value_loss[] = {
    {"mse", CASES(mse_cases)},     {"mse_dx", CASES(slope_cases)}, {"l1", CASES(l1_cases)},
    {"l1_dx", CASES(slope_cases)}, {"huber", CASES(huber_cases)},  {"huber_dx", CASES(slope_cases)},
    {"bce", CASES(bce_cases)},     {"bce_dx", CASES(slope_cases)}, {0},
};
