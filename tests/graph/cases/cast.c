#include "graph/cases/row.h"

/* 16 random bits are numbers of every size, infinite ones and NaN among them. */
#define CAST_CASE(label, to, ...)                                                                            \
  {                                                                                                          \
    .name = label, .in_count = 1, .in = {__VA_ARGS__}, .attrs = {.i = {to} }                                 \
  }
static const op_case_t cases[] = {
    CAST_CASE("one to bf16", LS_BF16, CASE_F32(-1, 1, 1)),
    CAST_CASE("to bf16", LS_BF16, CASE_F32(-3e38f, 3e38f, 131, 1027)),
    CAST_CASE("to bf16, odd", LS_BF16, CASE_F32(-2, 2, 3, 7)),
    CAST_CASE("to f16", LS_F16, CASE_F32(-4, 4, 131, 1027)),
    CAST_CASE("to f16, too large", LS_F16, CASE_F32(-7e4f, 7e4f, 33, 65)),
    CAST_CASE("to f16, subnormal", LS_F16, CASE_F32(-7e-5f, 7e-5f, 2, 5, 9)),
    CAST_CASE("from bf16", LS_F32, CASE_WHOLE(LS_BF16, 65536, 67, 65)),
    CAST_CASE("from f16", LS_F32, CASE_WHOLE(LS_F16, 65536, 67, 65)),
    CAST_CASE("bf16 to f16", LS_F16, CASE_WHOLE(LS_BF16, 65536, 33, 1025)),
    CAST_CASE("f16 to bf16", LS_BF16, CASE_WHOLE(LS_F16, 65536, 33, 1025)),
    /* to itself: what central differences can see */
    {"one", 1, {CASE_F32(-1, 1, 1)}, {.i = {LS_F32}}, 0, 2e-3},
    {"odd", 1, {CASE_F32(-2, 2, 3, 7)}, {.i = {LS_F32}}, 0, 2e-3},
    {"beyond a block", 1, {CASE_F32(-4, 4, 33, 65)}, {.i = {LS_F32}}, 0, 2e-3},
};

const op_cases_t cases_cast[] = {
    {"cast", CASES(cases)},
    {0},
};
