#include "graph/cases/row.h"

#define GRU_CASE(label, n, t, h, back, tol, grad_tol)                                                        \
  {                                                                                                          \
    label, 3, {CASE_F32(-2, 2, n, t, 3 * (h)), CASE_F32(-1, 1, 3 * (h), h), CASE_F32(-1, 1, h)},             \
        {.i = {back}}, tol, grad_tol                                                                         \
  }
static const op_case_t gru_cases[] = {
    GRU_CASE("one", 1, 1, 1, 0, 2e-6, 2e-3),
    GRU_CASE("odd", 3, 4, 5, 0, 5e-6, 4e-3),
    GRU_CASE("backwards in time", 2, 5, 3, 1, 5e-6, 4e-3),
    GRU_CASE("one sample", 1, 6, 7, 0, 5e-6, 4e-3),
    GRU_CASE("beyond a vector", 9, 3, 19, 1, 1e-5, 4e-3),
    /* in padding (model/layers/recurrent.c): states of 0 */
    {"shut",
     3,
     {CASE_F32(1e4f, 1e4f, 9, 3, 57), CASE_F32(-1, 1, 57, 19), CASE_F32(-1, 1, 19)},
     {.i = {1}},
     1e-7,
     0},
    {"shut, vectors",
     3,
     {CASE_F32(1e4f, 1e4f, 33, 5, 192), CASE_F32(-1, 1, 192, 64), CASE_F32(-1, 1, 64)},
     {.i = {1}},
     1e-7,
     0},
    {"medium",
     3,
     {CASE_F32(-2, 2, 33, 6, 195), CASE_F32(-0.2f, 0.2f, 195, 65), CASE_F32(-1, 1, 65)},
     {{0}},
     2e-5,
     0},
    {"many samples",
     3,
     {CASE_F32(-2, 2, 83, 3, 111), CASE_F32(-0.2f, 0.2f, 111, 37), CASE_F32(-1, 1, 37)},
     {{0}},
     2e-5,
     0},
    {"most samples",
     3,
     {CASE_F32(-2, 2, 300, 3, 495), CASE_F32(-0.1f, 0.1f, 495, 165), CASE_F32(-1, 1, 165)},
     {{0}},
     2e-5,
     0},
    {"widest at once",
     3,
     {CASE_F32(-2, 2, 3, 3, 762), CASE_F32(-0.1f, 0.1f, 762, 254), CASE_F32(-1, 1, 254)},
     {{0}},
     2e-5,
     0},
    {"wide",
     3,
     {CASE_F32(-2, 2, 3, 3, 777), CASE_F32(-0.1f, 0.1f, 777, 259), CASE_F32(-1, 1, 259)},
     {{0}},
     2e-5,
     0},
};

/* dy, y, gates, m, w_hh. */
#define GRU_DX_CASE(label, n, t, h, back, tol)                                                               \
  {                                                                                                          \
    label, 5,                                                                                                \
        {CASE_F32(-1, 1, n, t, h), CASE_F32(-1, 1, n, t, h), CASE_F32(0.1f, 0.9f, n, t, 3 * (h)),            \
         CASE_F32(-2, 2, n, t, h), CASE_F32(-0.2f, 0.2f, 3 * (h), h)},                                       \
        {.i = {back}}, tol, 0                                                                                \
  }
static const op_case_t gru_dx_cases[] = {
    GRU_DX_CASE("one", 1, 1, 1, 0, 2e-6),
    GRU_DX_CASE("odd", 3, 4, 5, 0, 5e-6),
    GRU_DX_CASE("backwards in time", 9, 5, 19, 1, 1e-5),
    GRU_DX_CASE("medium", 33, 6, 65, 0, 2e-5),
    GRU_DX_CASE("many samples", 83, 3, 37, 1, 2e-5),
    GRU_DX_CASE("most samples", 300, 3, 165, 0, 5e-5),
    GRU_DX_CASE("widest at once", 3, 3, 254, 0, 5e-5),
    GRU_DX_CASE("wide", 3, 3, 259, 0, 5e-5),
};

const op_cases_t cases_gru[] = {
    {"gru_chain", CASES(gru_cases)},
    {"gru_chain_dx", CASES(gru_dx_cases)},
    {0},
};
