#include "graph/cases/row.h"

#define CASE(label, rate, tol, d, ...)                                                                       \
  {                                                                                                          \
    label, 5,                                                                                                \
        {CASE_F32(-2, 2, __VA_ARGS__, d), CASE_F32(-2, 2, __VA_ARGS__, d), CASE_F32(0.5, 1.5, d),            \
         CASE_F32(-1, 1, d), CASE_STEP(7)},                                                                  \
        {.i = {3}, .f = {1e-5, rate}}, tol, 0                                                                \
  }
static const op_case_t norm_cases[] = {
    CASE("one", 0, 2e-6, 1, 1),
    CASE("odd, dropout", 0.3, 3e-6, 7, 3),
    CASE("three dimensions, dropout", 0.3, 3e-6, 5, 4, 3),
    CASE("beyond a vector", 0, 3e-6, 65, 37),
    CASE("vectors, dropout", 0.2, 3e-6, 384, 3, 5),
    CASE("vectors", 0, 3e-6, 328, 37),
    CASE("many, dropout", 0.1, 5e-6, 1027, 30),
    CASE("wide, dropout", 0.1, 5e-6, 4352, 3),
};

#define DX_CASE(label, n, d, tol)                                                                            \
  {                                                                                                          \
    label, 6, {CASE_F32(-1, 1, n, d),    CASE_F32(-2, 2, n, d), CASE_F32(0.5, 1.5, d),                       \
               CASE_F32(-0.1f, 0.1f, n), CASE_F32(0.5, 1, n),   CASE_F32(-1, 1, n, d)},                      \
        {.f = {1e-5}}, tol, 0                                                                                \
  }
static const op_case_t dx_cases[] = {
    DX_CASE("one", 1, 1, 3e-6),
    DX_CASE("odd", 3, 7, 3e-6),
    DX_CASE("beyond a vector", 37, 65, 5e-6),
    DX_CASE("vectors", 37, 328, 5e-6),
    DX_CASE("many", 30, 1027, 5e-6),
    DX_CASE("wide", 3, 4352, 5e-6),
};

#define BACK_CASE(label, adds, rate, tol, d, ...)                                                            \
  {                                                                                                          \
    label, 7,                                                                                                \
        {CASE_F32(-1, 1, __VA_ARGS__, d),                                                                    \
         CASE_F32(-2, 2, __VA_ARGS__, d),                                                                    \
         CASE_F32(0.5, 1.5, d),                                                                              \
         CASE_F32(-0.1f, 0.1f, __VA_ARGS__),                                                                 \
         CASE_F32(0.5, 1, __VA_ARGS__),                                                                      \
         CASE_F32(-1, 1, __VA_ARGS__, d),                                                                    \
         CASE_STEP(7)},                                                                                      \
        {.i = {3, adds}, .f = {1e-5, rate}}, tol, 0                                                          \
  }
/* A block of a GPU has 8 rows at a time, and a few hundred blocks have all: with 2,200 some have two. */
#define BACK_CASES(rate)                                                                                     \
  BACK_CASE("one", 0, rate, 3e-6, 1, 1), BACK_CASE("odd, added", 1, rate, 3e-6, 7, 3),                       \
      BACK_CASE("beyond a vector", 1, rate, 5e-6, 65, 37),                                                   \
      BACK_CASE("three dimensions", 0, rate, 5e-6, 72, 3, 5),                                                \
      BACK_CASE("vectors, added", 1, rate, 1e-5, 328, 37),                                                   \
      BACK_CASE("three vectors", 0, rate, 1e-5, 768, 9),                                                     \
      BACK_CASE("four vectors, added", 1, rate, 1e-5, 1000, 5),                                              \
      BACK_CASE("many rows", 0, rate, 2e-4, 40, 550, 4), BACK_CASE("many, added", 1, rate, 1e-5, 1027, 30),  \
      BACK_CASE("wide", 0, rate, 1e-5, 4352, 3)
static const op_case_t back_cases[] = {BACK_CASES(0)};
static const op_case_t back_drop_cases[] = {BACK_CASES(0.3)};

const op_cases_t cases_residual[] = {
    {"residual_norm", CASES(norm_cases)},
    {"layer_norm_dx_add", CASES(dx_cases)},
    {"layer_norm_back", CASES(back_cases)},
    {"layer_norm_back_drop", CASES(back_drop_cases)},
    {0},
};
