#include "graph/cases/row.h"

#define NORM_CASE(label, n, d, tol, grad_tol)                                                                \
  {                                                                                                          \
    label, 3, {CASE_F32(-2, 2, n, d), CASE_F32(0.5, 1.5, d), CASE_F32(-1, 1, d)}, {.f = {1e-5}}, tol,        \
        grad_tol                                                                                             \
  }
static const op_case_t norm_cases[] = {
    NORM_CASE("one", 1, 1, 2e-6, 2e-3),
    NORM_CASE("one row", 1, 33, 2e-6, 5e-3),
    NORM_CASE("odd", 3, 7, 2e-6, 5e-3),
    {"three dimensions",
     3,
     {CASE_F32(-2, 2, 2, 3, 5), CASE_F32(0.5, 1.5, 5), CASE_F32(-1, 1, 5)},
     {.f = {1e-5}},
     2e-6,
     5e-3},
    NORM_CASE("beyond a vector", 37, 65, 3e-6, 5e-3),
    NORM_CASE("vectors", 37, 328, 3e-6, 0),
    {"far from zero", /* the variance must not be computed as E[x^2] - mean^2 */
     3,
     {CASE_F32(999, 1001, 5, 129), CASE_F32(0.5, 1.5, 129), CASE_F32(-1, 1, 129)},
     {.f = {1e-5}},
     5e-4,
     0},
    NORM_CASE("many", 130, 1027, 5e-6, 0),
};

#define NORM_DX_CASE(label, n, d, tol)                                                                       \
  {                                                                                                          \
    label, 5,                                                                                                \
        {CASE_F32(-1, 1, n, d), CASE_F32(-2, 2, n, d), CASE_F32(0.5, 1.5, d), CASE_F32(-0.1f, 0.1f, n),      \
         CASE_F32(0.5, 1, n)},                                                                               \
        {.f = {1e-5}}, tol, 0                                                                                \
  }
static const op_case_t norm_dx_cases[] = {
    NORM_DX_CASE("one", 1, 1, 3e-6),       NORM_DX_CASE("one row", 1, 33, 3e-6),
    NORM_DX_CASE("odd", 3, 7, 3e-6),       NORM_DX_CASE("beyond a vector", 37, 65, 5e-6),
    NORM_DX_CASE("many", 130, 1027, 5e-6), NORM_DX_CASE("vectors", 37, 328, 5e-6),
};

#define NORM_DGB_CASE(label, n, d, tol)                                                                      \
  {                                                                                                          \
    label, 4, {CASE_F32(-1, 1, n, d), CASE_F32(-2, 2, n, d), CASE_F32(-0.1f, 0.1f, n), CASE_F32(0.5, 1, n)}, \
        {.f = {1e-5}}, tol, 0                                                                                \
  }
static const op_case_t norm_dgb_cases[] = {
    NORM_DGB_CASE("one", 1, 1, 3e-6),      NORM_DGB_CASE("one row", 1, 33, 3e-6),
    NORM_DGB_CASE("odd", 3, 7, 3e-6),      NORM_DGB_CASE("beyond a vector", 37, 65, 5e-6),
    NORM_DGB_CASE("many", 530, 131, 2e-5), NORM_DGB_CASE("vectors", 300, 328, 2e-5),
};

const op_cases_t cases_layer_norm[] = {
    {"layer_norm", CASES(norm_cases)},
    {"layer_norm_dx", CASES(norm_dx_cases)},
    {"layer_norm_dgb", CASES(norm_dgb_cases)},
    {0},
};
