#include "graph/cases/row.h"

#define CASE(label, n, c, ...)                                                                               \
  {                                                                                                          \
    label, 3, {CASE_F32(-1, 1, n, __VA_ARGS__, c), CASE_F32(-1, 1, n, c), CASE_F32(-9, 9, n, c)}, {{0}},     \
        1e-6, 0                                                                                              \
  }
static const op_case_t cases[] = {
    CASE("one", 1, 1, 1),         CASE("odd", 3, 5, 7),        CASE("image", 2, 3, 4, 5),
    CASE("vectors", 5, 40, 7, 9), CASE("many", 5, 131, 37, 9),
};

const op_cases_t cases_scale_fused[] = {
    {"scale_add_mean", CASES(cases)},
    {0},
};
