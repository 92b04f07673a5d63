#include "graph/cases/row.h"

#define LSTM_CASE(label, n, t, h, back, tol, grad_tol)                                                       \
  { label, 2, {CASE_F32(-2, 2, n, t, 4 * (h)), CASE_F32(-1, 1, 4 * (h), h)}, {.i = {back}}, tol, grad_tol }
static const op_case_t lstm_cases[] = {
    LSTM_CASE("one", 1, 1, 1, 0, 2e-6, 2e-3),
    LSTM_CASE("odd", 3, 4, 5, 0, 5e-6, 4e-3),
    LSTM_CASE("backwards in time", 2, 5, 3, 1, 5e-6, 4e-3),
    LSTM_CASE("one sample", 1, 6, 7, 0, 5e-6, 4e-3),
    LSTM_CASE("beyond a vector", 9, 3, 19, 1, 1e-5, 4e-3),
    /* in padding (model/layers/recurrent.c): states of 0 */
    {"shut", 2, {CASE_F32(-1e4f, -1e4f, 9, 3, 76), CASE_F32(-1, 1, 76, 19)}, {.i = {1}}, 1e-7, 0},
    {"shut, vectors", 2, {CASE_F32(-1e4f, -1e4f, 33, 5, 256), CASE_F32(-1, 1, 256, 64)}, {.i = {1}}, 1e-7, 0},
    {"medium", 2, {CASE_F32(-2, 2, 33, 6, 260), CASE_F32(-0.2f, 0.2f, 260, 65)}, {{0}}, 2e-5, 0},
    {"many samples", 2, {CASE_F32(-2, 2, 83, 3, 148), CASE_F32(-0.2f, 0.2f, 148, 37)}, {{0}}, 2e-5, 0},
    {"most samples", 2, {CASE_F32(-2, 2, 300, 3, 660), CASE_F32(-0.1f, 0.1f, 660, 165)}, {{0}}, 2e-5, 0},
    {"widest at once", 2, {CASE_F32(-2, 2, 3, 3, 1016), CASE_F32(-0.1f, 0.1f, 1016, 254)}, {{0}}, 2e-5, 0},
    {"wide", 2, {CASE_F32(-2, 2, 3, 3, 1036), CASE_F32(-0.1f, 0.1f, 1036, 259)}, {{0}}, 2e-5, 0},
};

/* dy, c, gates, w_hh: any numbers in the ranges of their functions. */
#define LSTM_DX_CASE(label, n, t, h, back, tol)                                                              \
  {                                                                                                          \
    label, 4,                                                                                                \
        {CASE_F32(-1, 1, n, t, h), CASE_F32(-2, 2, n, t, h), CASE_F32(0.1f, 0.9f, n, t, 4 * (h)),            \
         CASE_F32(-0.2f, 0.2f, 4 * (h), h)},                                                                 \
        {.i = {back}}, tol, 0                                                                                \
  }
static const op_case_t lstm_dx_cases[] = {
    LSTM_DX_CASE("one", 1, 1, 1, 0, 2e-6),
    LSTM_DX_CASE("odd", 3, 4, 5, 0, 5e-6),
    LSTM_DX_CASE("backwards in time", 9, 5, 19, 1, 1e-5),
    LSTM_DX_CASE("medium", 33, 6, 65, 0, 2e-5),
    LSTM_DX_CASE("many samples", 83, 3, 37, 1, 2e-5),
    LSTM_DX_CASE("most samples", 300, 3, 165, 0, 5e-5),
    LSTM_DX_CASE("widest at once", 3, 3, 254, 0, 5e-5),
    LSTM_DX_CASE("wide", 3, 3, 259, 0, 5e-5),
};

const op_cases_t cases_lstm[] = {
    {"lstm_chain", CASES(lstm_cases)},
    {"lstm_chain_dx", CASES(lstm_dx_cases)},
    {0},
};
