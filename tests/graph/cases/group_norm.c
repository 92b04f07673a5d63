#include "graph/cases/row.h"

#define NORM_CASE(label, groups, c, tol, grad, ...)                                                          \
  {                                                                                                          \
    label, 3, {CASE_F32(-2, 2, __VA_ARGS__, c), CASE_F32(0.5, 1.5, c), CASE_F32(-1, 1, c)},                  \
        {.i = {groups}, .f = {1e-5}}, tol, grad                                                              \
  }
static const op_case_t norm_cases[] = {
    NORM_CASE("one", 1, 1, 2e-6, 2e-3, 1),
    NORM_CASE("rows", 2, 6, 2e-6, 5e-3, 3),
    NORM_CASE("a channel each", 3, 3, 3e-6, 5e-3, 2, 5),
    NORM_CASE("images", 2, 4, 3e-6, 5e-3, 2, 3, 3),
    NORM_CASE("many", 8, 64, 5e-6, 0, 5, 7, 9),
};
#define DX_CASE(label, n, p, c, groups)                                                                      \
  {                                                                                                          \
    label, 5,                                                                                                \
        {CASE_F32(-1, 1, n, p, c), CASE_F32(-2, 2, n, p, c), CASE_F32(0.5, 1.5, c),                          \
         CASE_F32(-0.1f, 0.1f, n, groups), CASE_F32(0.5, 1, n, groups)},                                     \
        {.i = {groups}}, 5e-6, 0                                                                             \
  }
static const op_case_t dx_cases[] = {DX_CASE("one", 1, 1, 1, 1), DX_CASE("odd", 3, 5, 6, 3),
                                     DX_CASE("many", 5, 63, 64, 8)};
#define DGB_CASE(label, n, p, c, groups)                                                                     \
  {                                                                                                          \
    label, 4,                                                                                                \
        {CASE_F32(-1, 1, n, p, c), CASE_F32(-2, 2, n, p, c), CASE_F32(-0.1f, 0.1f, n, groups),               \
         CASE_F32(0.5, 1, n, groups)},                                                                       \
        {.i = {groups}}, 2e-5, 0                                                                             \
  }
static const op_case_t dgb_cases[] = {DGB_CASE("one", 1, 1, 1, 1), DGB_CASE("odd", 3, 5, 6, 3),
                                      DGB_CASE("many", 5, 63, 64, 8)};

const op_cases_t cases_group_norm[] = {
    {"group_norm", CASES(norm_cases), 1},
    {"group_norm_dx", CASES(dx_cases), 1},
    {"group_norm_dgb", CASES(dgb_cases), 1},
    {0},
};
