#include "graph/cases/row.h"
#include "graph/ops/ops.h"

#define X(...)   CASE_F32(-1, 1, __VA_ARGS__)
#define POS(n)   CASE_F32(0.5, 1.5, n)
#define PART(n)  CASE_F32(-1, 1, n) /* weights: about half of the samples are padding */
#define COUNT(c) CASE_F64(9, 10, 1 + 2 * (c))
#define ACT_CASE(label, which, c, ...)                                                                       \
  { label, 5, {X(__VA_ARGS__, c), X(2, c), POS(c), X(c), X(c)}, {.i = {which}}, 3e-6, 0 }
#define ADD_CASE(label, which, c, ...)                                                                       \
  { label, 6, {X(__VA_ARGS__, c), X(2, c), POS(c), X(c), X(c), X(__VA_ARGS__, c)}, {.i = {which}}, 3e-6, 0 }
#define SUMS_CASE(label, which, n, c, ...)                                                                   \
  {                                                                                                          \
    label, 7, {X(n, __VA_ARGS__, c), X(n, __VA_ARGS__, c), X(2, c), POS(c), PART(n), X(c), X(c)},            \
        {.i = {which}}, 2e-5, 0                                                                              \
  }
#define BACK_CASE(label, n, c, ...)                                                                          \
  {                                                                                                          \
    label, 7,                                                                                                \
        {X(n, __VA_ARGS__, c),                                                                               \
         X(n, __VA_ARGS__, c),                                                                               \
         X(n, __VA_ARGS__, c),                                                                               \
         X(n, __VA_ARGS__, c),                                                                               \
         X(2, c),                                                                                            \
         POS(c),                                                                                             \
         PART(n)},                                                                                           \
        {{0}}, 2e-5, 0                                                                                       \
  }
#define DX_CASE(label, which, n, c, ...)                                                                     \
  {                                                                                                          \
    label, 9, {X(n, __VA_ARGS__, c),                                                                         \
               X(n, __VA_ARGS__, c),                                                                         \
               X(c),                                                                                         \
               X(2, c),                                                                                      \
               POS(c),                                                                                       \
               PART(n),                                                                                      \
               X(2 * (c)),                                                                                   \
               COUNT(c),                                                                                     \
               X(c)},                                                                                        \
        {.i = {which}}, 3e-6, 0                                                                              \
  }
static const op_case_t act_cases[] = {
    ACT_CASE("one", LS_BEHIND_RELU, 1, 1, 1),
    ACT_CASE("odd", LS_BEHIND_RELU, 7, 5, 3),
    ACT_CASE("odd, silu", LS_BEHIND_SILU, 7, 5, 3),
    ACT_CASE("vectors", LS_BEHIND_RELU, 24, 3, 9, 11),
    ACT_CASE("vectors, silu", LS_BEHIND_SILU, 40, 3, 9, 11),
};
static const op_case_t add_cases[] = {
    ADD_CASE("one", LS_BEHIND_RELU, 1, 1, 1),
    ADD_CASE("odd", LS_BEHIND_RELU, 7, 5, 3),
    ADD_CASE("nothing behind", LS_BEHIND_NONE, 7, 5, 3),
    ADD_CASE("vectors", LS_BEHIND_RELU, 24, 3, 9, 11),
    ADD_CASE("vectors, nothing behind", LS_BEHIND_NONE, 40, 3, 9, 11),
};
static const op_case_t sums_cases[] = {
    SUMS_CASE("one", LS_BEHIND_RELU, 1, 1, 1),
    SUMS_CASE("odd", LS_BEHIND_RELU, 5, 7, 3),
    SUMS_CASE("odd, silu", LS_BEHIND_SILU, 5, 7, 3),
    SUMS_CASE("vectors", LS_BEHIND_RELU, 7, 24, 9, 11),
    SUMS_CASE("vectors, silu", LS_BEHIND_SILU, 7, 40, 9, 11),
};
static const op_case_t residual_cases[] = {
    BACK_CASE("one", 1, 1, 1),
    BACK_CASE("odd", 5, 7, 3),
    BACK_CASE("images", 5, 4, 3, 5),
    BACK_CASE("vectors", 7, 24, 9, 11),
    BACK_CASE("groups of channels", 3, 520, 5, 3),
};
static const op_case_t dx_cases[] = {
    DX_CASE("one", LS_BEHIND_RELU, 1, 1, 1),
    DX_CASE("odd", LS_BEHIND_RELU, 5, 7, 3),
    DX_CASE("odd, silu", LS_BEHIND_SILU, 5, 7, 3),
    DX_CASE("vectors", LS_BEHIND_RELU, 7, 24, 9, 11),
    DX_CASE("vectors, silu", LS_BEHIND_SILU, 7, 40, 9, 11),
};

const op_cases_t cases_batch_norm_fused[] = {
    {"bn_act", CASES(act_cases)},
    {"bn_add_act", CASES(add_cases)},
    {"bn_act_back_sums", CASES(sums_cases)},
    {"bn_add_act_back_sums", CASES(residual_cases)},
    {"bn_act_dx", CASES(dx_cases)},
    {0},
};
