#include "graph/cases/row.h"

#define ATTENTION_CASE(label, n, t, d, heads, causal, rate, tol, grad_tol)                                   \
  {                                                                                                          \
    label, 2, {CASE_F32(-1, 1, n, t, 3 * (d)), CASE_STEP(7)}, {.i = {heads, causal, 3}, .f = {rate}}, tol,   \
        grad_tol                                                                                             \
  }
static const op_case_t attention_cases[] = {
    ATTENTION_CASE("one", 1, 1, 1, 1, 0, 0, 2e-6, 2e-3),
    ATTENTION_CASE("odd", 2, 5, 9, 3, 0, 0, 3e-6, 2e-3),
    ATTENTION_CASE("causal", 2, 7, 10, 2, 1, 0, 3e-6, 2e-3),
    ATTENTION_CASE("dropout", 2, 5, 6, 2, 0, 0.3, 3e-6, 2e-3),
    ATTENTION_CASE("causal, dropout", 1, 9, 8, 1, 1, 0.5, 3e-6, 2e-3),
    {"large scores", 2, {CASE_F32(-20, 20, 1, 6, 24), CASE_STEP(0)}, {.i = {2, 1, 0}}, 1e-4, 0},
    ATTENTION_CASE("beyond a block", 1, 67, 66, 2, 1, 0, 5e-6, 0),
    ATTENTION_CASE("beyond a block, dropout", 2, 131, 64, 2, 0, 0.1, 5e-6, 0),
    ATTENTION_CASE("keys in fours, dropout", 2, 72, 64, 2, 1, 0.2, 5e-6, 0),
    ATTENTION_CASE("heads of 100", 1, 70, 200, 2, 0, 0, 1e-5, 0),
    ATTENTION_CASE("a wide head", 1, 65, 160, 1, 1, 0.2, 1e-5, 0),
    ATTENTION_CASE("gpt", 3, 64, 128, 4, 1, 0, 5e-6, 0),
};

/* The lse of the case's scores is not that of qkv, so that probabilities need not sum to 1; the formula holds all the
 * same. */
#define ATTENTION_DX_CASE(label, n, t, d, heads, causal, rate, tol)                                          \
  {                                                                                                          \
    label, 5,                                                                                                \
        {CASE_F32(-1, 1, n, t, d), CASE_F32(-1, 1, n, t, 3 * (d)), CASE_F32(-1, 1, n, t, d),                 \
         CASE_F32(3, 4, n, heads, t), CASE_STEP(7)},                                                         \
        {.i = {heads, causal, 3}, .f = {rate}}, tol, 0                                                       \
  }
static const op_case_t attention_dx_cases[] = {
    ATTENTION_DX_CASE("one", 1, 1, 1, 1, 0, 0, 2e-6),
    ATTENTION_DX_CASE("odd", 2, 5, 9, 3, 0, 0, 3e-6),
    ATTENTION_DX_CASE("causal", 2, 7, 10, 2, 1, 0, 3e-6),
    ATTENTION_DX_CASE("causal, dropout", 1, 9, 8, 1, 1, 0.5, 3e-6),
    ATTENTION_DX_CASE("beyond a block", 1, 67, 66, 2, 1, 0, 1e-5),
    ATTENTION_DX_CASE("beyond a block, dropout", 2, 131, 64, 2, 0, 0.1, 1e-5),
    ATTENTION_DX_CASE("keys in fours, dropout", 2, 72, 64, 2, 1, 0.2, 1e-5),
    ATTENTION_DX_CASE("heads of 100", 1, 70, 200, 2, 0, 0, 3e-5),
    ATTENTION_DX_CASE("a wide head", 1, 65, 160, 1, 1, 0.2, 3e-5),
    ATTENTION_DX_CASE("gpt", 3, 64, 128, 4, 1, 0, 1e-5),
};

#define PADDED_CASE(label, n, t, d, heads, causal, rate, tol, grad_tol)                                      \
  {                                                                                                          \
    label, 3, {CASE_F32(-1, 1, n, t, 3 * (d)), CASE_STEP(7), CASE_CLASS(n, (t) + 1)},                        \
        {.i = {heads, causal, 3}, .f = {rate}}, tol, grad_tol                                                \
  }
static const op_case_t padded_cases[] = {
    PADDED_CASE("one", 1, 1, 1, 1, 0, 0, 2e-6, 2e-3),
    PADDED_CASE("odd", 5, 5, 9, 3, 0, 0, 3e-6, 2e-3),
    PADDED_CASE("causal", 4, 7, 10, 2, 1, 0, 3e-6, 2e-3),
    PADDED_CASE("dropout", 3, 5, 6, 2, 0, 0.3, 3e-6, 2e-3),
    PADDED_CASE("beyond a block", 3, 67, 66, 2, 1, 0.2, 5e-6, 0),
    PADDED_CASE("bert", 3, 64, 128, 4, 0, 0, 5e-6, 0),
};

#define PADDED_DX_CASE(label, n, t, d, heads, causal, rate, tol)                                             \
  {                                                                                                          \
    label, 6,                                                                                                \
        {CASE_F32(-1, 1, n, t, d),                                                                           \
         CASE_F32(-1, 1, n, t, 3 * (d)),                                                                     \
         CASE_F32(-1, 1, n, t, d),                                                                           \
         CASE_F32(3, 4, n, heads, t),                                                                        \
         CASE_STEP(7),                                                                                       \
         CASE_CLASS(n, (t) + 1)},                                                                            \
        {.i = {heads, causal, 3}, .f = {rate}}, tol, 0                                                       \
  }
static const op_case_t padded_dx_cases[] = {
    PADDED_DX_CASE("one", 1, 1, 1, 1, 0, 0, 2e-6),
    PADDED_DX_CASE("odd", 5, 5, 9, 3, 0, 0, 3e-6),
    PADDED_DX_CASE("causal, dropout", 4, 9, 8, 1, 1, 0.5, 3e-6),
    PADDED_DX_CASE("beyond a block", 3, 67, 66, 2, 1, 0.2, 1e-5),
    PADDED_DX_CASE("bert", 3, 64, 128, 4, 0, 0, 1e-5),
};

const op_cases_t cases_attention[] = {
    {"attention", CASES(attention_cases), 1},
    {"attention_dx", CASES(attention_dx_cases)},
    {"attention_padded", CASES(padded_cases), 1},
    {"attention_padded_dx", CASES(padded_dx_cases), 1},
    {0},
};
