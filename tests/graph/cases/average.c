#include "graph/cases/row.h"
#include "optim/optim.h"

static const op_case_t rate_cases[] = {
    {"another rate", 1, {CASE_F32(0.5f, 1, 16)}, {.f = {0.1}}, 0, 0},
    {"none", 1, {CASE_F32(0.5f, 1, 16)}, {.f = {0}}, 0, 0},
    {"twice", 1, {CASE_F32(-1, 1, 16)}, {.f = {2}}, 0, 0},
};

#define EMA_CASE(label, p, lo, hi, step, keep)                                                               \
  { label, 3, {CASE_F32(-1, 1, p), CASE_F32(lo, hi, 16), CASE_F32(step, step, 16)}, {.f = {keep}}, 1e-6, 0 }
static const op_case_t ema_cases[] = {
    EMA_CASE("one", 1, 1, 1, 1, 0.999),          EMA_CASE("odd, early", 37, 1, 1, 20, 0.999),
    EMA_CASE("late", 1030, 1, 1, 100000, 0.999), EMA_CASE("short", 37, 1, 1, 5, 0.1),
    EMA_CASE("not applied", 37, 0, 0, 5, 0.9),   EMA_CASE("many", 100003, 1, 1, 50, 0.9),
};

const op_cases_t cases_average[] = {
    {"rate_scale", CASES(rate_cases)},
    {"ema", CASES(ema_cases)},
    {0},
};
