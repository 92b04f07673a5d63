#include "graph/cases/row.h"

#define SCALE_CASE(label, grad_tol, n, c, ...)                                                               \
  { label, 2, {CASE_F32(-1, 1, n, __VA_ARGS__, c), CASE_F32(-1, 1, n, c)}, {{0}}, 2e-7, grad_tol }
static const op_case_t scale_cases[] = {
    SCALE_CASE("one", 2e-3, 1, 1, 1),      SCALE_CASE("odd", 2e-3, 3, 5, 7),
    SCALE_CASE("image", 2e-3, 2, 3, 4, 5), SCALE_CASE("many", 0, 5, 131, 37, 9),
    SCALE_CASE("vectors", 0, 5, 40, 7, 9),
};

#define DS_CASE(label, n, c, ...)                                                                            \
  { label, 2, {CASE_F32(-1, 1, n, __VA_ARGS__, c), CASE_F32(-1, 1, n, __VA_ARGS__, c)}, {{0}}, 5e-6, 0 }
static const op_case_t ds_cases[] = {
    DS_CASE("one", 1, 1, 1),        DS_CASE("odd", 3, 5, 7),          DS_CASE("image", 2, 3, 4, 5),
    DS_CASE("many", 5, 131, 37, 9), DS_CASE("vectors", 3, 264, 7, 9),
};

const op_cases_t cases_scale[] = {
    {"scale_channels", CASES(scale_cases)},
    {"scale_channels_ds", CASES(ds_cases)},
    {0},
};
