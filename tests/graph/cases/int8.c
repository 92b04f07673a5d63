#include "graph/cases/row.h"

#define WINDOW(...) .i = {__VA_ARGS__}, .f = {2.0 / 255, 128}
#define VECTOR(n)   CASE_F32(-1, 1, n)
#define X(...)      CASE_F32(-1, 1, __VA_ARGS__)
#define CASE(label, x, w, b, ...)                                                                            \
  { label, 3, {x, w, b}, {__VA_ARGS__}, 1e-5, 0 }
static const op_case_t range_cases[] = {{"one", 1, {X(1)}, {.i = {0}}, 0, 0},
                                        {"a vector's rest", 1, {X(5, 37)}, {.i = {0}}, 0, 0},
                                        {"parts", 1, {X(300, 1001)}, {.i = {0}}, 0, 0}};
static const op_case_t linear_cases[] = {
    CASE("one", X(1, 1), X(1, 1), VECTOR(1), WINDOW(0)),
    CASE("odd", X(3, 5), X(7, 5), VECTOR(7), WINDOW(0)),
    CASE("positions", X(2, 9, 70), X(33, 70), VECTOR(33), WINDOW(0)),
    CASE("many", X(130, 257), X(65, 257), VECTOR(65), WINDOW(0)),
    CASE("a row, many outputs", X(1, 301), X(205, 301), VECTOR(205), WINDOW(0)),
    CASE("few rows", X(7, 64), X(96, 64), VECTOR(96), WINDOW(0)),
    CASE("clipped", CASE_F32(-3, 3, 9, 64), X(16, 64), VECTOR(16), .f = {1.0 / 255, 0}),
};
static const op_case_t conv_cases[] = {
    CASE("one", X(1, 1, 1, 1), X(1, 1, 1, 1), VECTOR(1), WINDOW(1, 1, 0, 0, 0, 0, 1, 1, 1)),
    CASE("three by three", X(2, 5, 4, 3), X(7, 3, 3, 3), VECTOR(7), WINDOW(1, 1, 1, 1, 1, 1, 1, 1, 1)),
    CASE("stride, uneven padding", X(2, 7, 9, 4), X(6, 3, 2, 4), VECTOR(6),
         WINDOW(2, 3, 1, 0, 2, 1, 1, 1, 1)),
    CASE("dilation", X(1, 9, 8, 2), X(3, 3, 2, 2), VECTOR(3), WINDOW(1, 2, 2, 1, 2, 1, 2, 3, 1)),
    CASE("positions alone", X(3, 5, 7, 19), X(33, 1, 1, 19), VECTOR(33), WINDOW(1, 1, 0, 0, 0, 0, 1, 1, 1)),
    CASE("beyond a block", X(3, 23, 21, 33), X(65, 3, 3, 33), VECTOR(65), WINDOW(1, 1, 1, 1, 1, 1, 1, 1, 1)),
};
#define NORM(n) CASE_F32(-1, 1, n), CASE_F32(0.5, 2, n), CASE_F32(-1, 1, n), CASE_F32(-1, 1, n)
static const op_case_t norm_cases[] = {
    {"one", 6, {X(1, 1, 1, 1), X(1, 1, 1, 1), NORM(1)}, {WINDOW(1, 1, 0, 0, 0, 0, 1, 1, 1)}, 1e-5, 0},
    {"three by three",
     6,
     {X(2, 5, 4, 3), X(7, 3, 3, 3), NORM(7)},
     {WINDOW(1, 1, 1, 1, 1, 1, 1, 1, 1)},
     1e-5,
     0},
    {"stride", 6, {X(2, 7, 9, 19), X(33, 3, 3, 19), NORM(33)}, {WINDOW(2, 2, 1, 1, 1, 1, 1, 1, 1)}, 1e-5, 0},
};

const op_cases_t cases_int8[] = {
    {"value_range", CASES(range_cases)},
    {"linear_int8", CASES(linear_cases)},
    {"conv2d_int8", CASES(conv_cases), 511},
    {"conv2d_int8_norm", CASES(norm_cases), 511},
    {0},
};
