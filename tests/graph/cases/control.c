#include "graph/cases/row.h"
#include "optim/optim.h"

static const op_case_t sumsq_cases[] = {
    {"one", 1, {CASE_F32(-1, 1, 1)}, {{0}}, 1e-6, 0},
    {"odd", 1, {CASE_F32(-1, 1, 37)}, {{0}}, 1e-6, 0},
    {"a bucket", 1, {CASE_F32(-1, 1, 65552)}, {{0}}, 1e-6, 0},
    {"far beyond f32's integers", 1, {CASE_F32(900, 1000, 300017)}, {{0}}, 1e-6, 0},
    {"overflow", 1, {CASE_F32(1e20f, 2e20f, 33)}, {{0}}, 1e-6, 0},
    {"not a number", 1, {CASE_F32(NAN, NAN, 33)}, {{0}}, 1e-6, 0},
};

#define SCALED_CASE(label, loss, lo, hi, parts, clip, growth)                                                \
  {                                                                                                          \
    label, 3, {CASE_F32(loss, loss, 16), CASE_F32(lo, hi, parts), CASE_STEP(9)},                             \
        {.i = {growth}, .f = {clip, 0.9, 0.999}}, 1e-6, 0                                                    \
  }
#define CONTROL_CASE(label, loss, lo, hi, parts, clip) SCALED_CASE(label, loss, lo, hi, parts, clip, 0)
static const op_case_t control_cases[] = {
    CONTROL_CASE("one part", 2.5f, 0, 4, 1, 0),
    CONTROL_CASE("clipped", 0.5f, 4, 9, 5, 0.25),
    CONTROL_CASE("below the clip", 0.5f, 0, 1, 37, 1e3),
    CONTROL_CASE("many parts", 0.5f, 0, 1, 300, 1),
    CONTROL_CASE("loss is NaN", NAN, 0, 1, 5, 1),
    CONTROL_CASE("loss is infinite", INFINITY, 0, 1, 5, 0),
    CONTROL_CASE("gradient is NaN", 0.5f, NAN, NAN, 5, 1),
    CONTROL_CASE("gradient is infinite", 0.5f, INFINITY, INFINITY, 5, 1),
    SCALED_CASE("scaled", 0.5f, 0, 1e12f, 5, 0, 2000),
    SCALED_CASE("scaled and clipped", 0.5f, 0, 1e12f, 5, 0.25, 2000),
    SCALED_CASE("the scale is doubled", 0.5f, 0, 1e12f, 5, 0, 2),
    SCALED_CASE("the scale is halved", 0.5f, INFINITY, INFINITY, 5, 1, 2000),
};

const op_cases_t cases_control[] = {
    {"sumsq", CASES(sumsq_cases)},
    {"step_control", CASES(control_cases)},
    {0},
};
