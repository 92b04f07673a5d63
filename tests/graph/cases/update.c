#include "graph/cases/row.h"
#include "optim/optim.h"

/* All of ctrl is in [0.5, 1]: apply is not 0, and scale, rate and bias terms have plausible values. */
#define UPDATE_CASE(label, p, lo, hi, ...)                                                                   \
  { label, 2, {CASE_F32(-1, 1, p), CASE_F32(lo, hi, 16)}, {__VA_ARGS__}, 2e-6, 0 }
static const op_case_t sgd_cases[] = {
    UPDATE_CASE("one", 1, 0.5f, 1, .f = {0, 0}),
    UPDATE_CASE("odd, decay", 37, 0.5f, 1, .f = {0, 0.1}),
    UPDATE_CASE("many", 100003, 0.5f, 1, .f = {0, 0.1}),
    UPDATE_CASE("not applied", 37, 0, 0, .f = {0, 0.1}),
};

static const op_case_t momentum_cases[] = {
    UPDATE_CASE("one", 1, 0.5f, 1, .f = {0.9, 0}),
    UPDATE_CASE("odd, decay", 37, 0.5f, 1, .f = {0.9, 0.1}),
    UPDATE_CASE("nesterov", 1030, 0.5f, 1, .i = {1}, .f = {0.9, 0.1}),
    UPDATE_CASE("many", 100003, 0.5f, 1, .f = {0.9, 0.1}),
    UPDATE_CASE("not applied", 37, 0, 0, .f = {0.9, 0.1}),
};

static const op_case_t adam_cases[] = {
    UPDATE_CASE("one", 1, 0.5f, 1, .f = {0.9, 0.999, 1e-8, 0}),
    UPDATE_CASE("odd, decay", 37, 0.5f, 1, .f = {0.9, 0.999, 1e-8, 0.1}),
    UPDATE_CASE("large eps", 1030, 0.5f, 1, .f = {0.5, 0.9, 0.1, 0.1}),
    UPDATE_CASE("many", 100003, 0.5f, 1, .f = {0.9, 0.999, 1e-8, 0.1}),
    UPDATE_CASE("not applied", 37, 0, 0, .f = {0.9, 0.999, 1e-8, 0.1}),
};

const op_cases_t cases_update[] = {
    {"sgd", CASES(sgd_cases)},
    {"sgd_momentum", CASES(momentum_cases)},
    {"adam", CASES(adam_cases)},
    {"adamw", CASES(adam_cases)},
    {0},
};
