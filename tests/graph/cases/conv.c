#include "graph/cases/row.h"

#define ONES          1, 1, 0, 0, 0, 0, 1, 1, 1
#define SAME          1, 1, 1, 1, 1, 1, 1, 1, 1
#define X(n, h, w, c) CASE_F32(-1, 1, n, h, w, c)
#define CASE(label, a, b, tol, grad_tol, ...)                                                                \
  { label, 2, {a, b}, {.i = {__VA_ARGS__}}, tol, grad_tol }
#define DEPTHWISE(channels, stride, padding)                                                                 \
  stride, stride, padding, padding, padding, padding, 1, 1, channels
#define HALVED(padding) 2, 2, padding, padding, padding, padding, 1, 1, 1 /* 16 bits may take other ways */
static const op_case_t conv_cases[] = {
    CASE("one", X(1, 1, 1, 1), X(1, 1, 1, 1), 2e-6, 2e-3, ONES),
    CASE("three by three", X(2, 5, 4, 3), X(7, 3, 3, 3), 5e-6, 5e-3, SAME),
    CASE("one channel", X(3, 9, 7, 1), X(5, 3, 3, 1), 5e-6, 5e-3, SAME),
    CASE("positions alone", X(3, 5, 7, 19), X(33, 1, 1, 19), 5e-6, 5e-3, ONES),
    CASE("stride, uneven padding", X(2, 7, 9, 4), X(6, 3, 2, 4), 5e-6, 5e-3, 2, 3, 1, 0, 2, 1, 1, 1, 1),
    CASE("stride beyond the window", X(2, 7, 9, 3), X(4, 1, 1, 3), 5e-6, 5e-3, 2, 2, 0, 0, 0, 0, 1, 1, 1),
    CASE("dilation", X(1, 9, 8, 2), X(3, 3, 2, 2), 5e-6, 5e-3, 1, 2, 2, 1, 2, 1, 2, 3, 1),
    CASE("groups", X(2, 5, 5, 6), X(9, 3, 3, 2), 5e-6, 5e-3, 1, 1, 1, 1, 1, 1, 1, 1, 3),
    CASE("depthwise", X(2, 6, 5, 19), X(19, 3, 3, 1), 5e-6, 5e-3, 2, 1, 1, 1, 1, 1, 1, 1, 19),
    CASE("depthwise, five by five", X(2, 9, 8, 35), X(35, 5, 5, 1), 5e-6, 5e-3, 1, 2, 2, 2, 2, 2, 1, 1, 35),
    CASE("depthwise, two outputs each", X(2, 4, 4, 5), X(10, 3, 3, 1), 5e-6, 5e-3, 1, 1, 1, 1, 1, 1, 1, 1, 5),
    CASE("depthwise, vectors", X(2, 7, 9, 24), X(24, 3, 3, 1), 5e-6, 0, DEPTHWISE(24, 1, 1)),
    CASE("depthwise, vectors, stride", X(2, 9, 21, 104), X(104, 3, 3, 1), 5e-6, 0, DEPTHWISE(104, 2, 1)),
    CASE("depthwise, vectors, five by five", X(1, 19, 7, 16), X(16, 5, 5, 1), 5e-6, 0, DEPTHWISE(16, 1, 2)),
    CASE("depthwise, vectors, five by five, stride", X(2, 8, 11, 8), X(8, 5, 5, 1), 5e-6, 0,
         DEPTHWISE(8, 2, 1)),
    CASE("padding wider than the image", X(1, 2, 2, 2), X(3, 5, 5, 2), 5e-6, 5e-3, 1, 1, 4, 4, 4, 4, 1, 1, 1),
    CASE("positions with a stride", X(3, 9, 14, 24), X(40, 1, 1, 24), 5e-6, 0, 2, 3, 0, 0, 0, 0, 1, 1, 1),
    CASE("three channels", X(2, 9, 32, 3), X(64, 7, 7, 3), 5e-6, 0, HALVED(3)),
    CASE("three channels, small windows", X(3, 10, 32, 3), X(32, 3, 3, 3), 5e-6, 0, HALVED(1)),
    CASE("three channels, even padding", X(1, 6, 64, 3), X(32, 7, 7, 3), 5e-6, 0, 2, 2, 4, 2, 2, 4, 1, 1, 1),
    CASE("beyond a block", X(3, 23, 21, 33), X(65, 3, 3, 33), 2e-5, 0, SAME),
    CASE("deep", X(2, 5, 5, 160), X(96, 3, 3, 160), 3e-5, 0, SAME),
};

static const op_case_t dx_cases[] = {
    CASE("one", X(1, 1, 1, 1), X(1, 1, 1, 1), 2e-6, 0, ONES, 1, 1),
    CASE("three by three", X(2, 5, 4, 7), X(7, 3, 3, 3), 5e-6, 0, SAME, 5, 4),
    CASE("positions alone", X(3, 5, 7, 33), X(33, 1, 1, 19), 5e-6, 0, ONES, 5, 7),
    CASE("rows that no window reaches", X(2, 2, 2, 5), X(5, 2, 2, 3), 5e-6, 0, 3, 3, 0, 0, 0, 0, 1, 1, 1, 7,
         6),
    CASE("stride beyond the window", X(2, 4, 5, 4), X(4, 1, 1, 3), 5e-6, 0, 2, 2, 0, 0, 0, 0, 1, 1, 1, 7, 9),
    CASE("groups, dilation", X(2, 5, 5, 9), X(9, 3, 3, 2), 5e-6, 0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 5, 5),
    CASE("depthwise", X(2, 3, 5, 19), X(19, 3, 3, 1), 5e-6, 0, 2, 1, 1, 1, 1, 1, 1, 1, 19, 6, 5),
    CASE("depthwise, two outputs each", X(2, 4, 4, 10), X(10, 3, 3, 1), 5e-6, 0, 1, 1, 1, 1, 1, 1, 1, 1, 5, 4,
         4),
    CASE("depthwise, vectors", X(2, 7, 9, 24), X(24, 3, 3, 1), 5e-6, 0, DEPTHWISE(24, 1, 1), 7, 9),
    CASE("depthwise, vectors, stride", X(2, 5, 11, 104), X(104, 3, 3, 1), 5e-6, 0, DEPTHWISE(104, 2, 1), 9,
         21),
    CASE("depthwise, vectors, uneven width", X(1, 5, 8, 8), X(8, 3, 3, 1), 5e-6, 0, DEPTHWISE(8, 2, 0), 11,
         17),
    CASE("depthwise, vectors, five by five", X(1, 19, 7, 16), X(16, 5, 5, 1), 5e-6, 0, DEPTHWISE(16, 1, 2),
         19, 7),
    CASE("depthwise, vectors, five by five, stride", X(2, 3, 5, 8), X(8, 5, 5, 1), 5e-6, 0,
         DEPTHWISE(8, 2, 1), 8, 11),
    CASE("depthwise, vectors, five by five, stride, wide padding", X(2, 5, 6, 8), X(8, 5, 5, 1), 5e-6, 0,
         DEPTHWISE(8, 2, 2), 9, 11),
    CASE("beyond a block", X(3, 23, 21, 65), X(65, 3, 3, 33), 3e-5, 0, SAME, 23, 21),
};

static const op_case_t dw_cases[] = {
    CASE("one", X(1, 1, 1, 1), X(1, 1, 1, 1), 2e-6, 0, ONES, 1, 1),
    CASE("three by three", X(2, 5, 4, 7), X(2, 5, 4, 3), 5e-6, 0, SAME, 3, 3),
    CASE("one channel", X(3, 9, 7, 5), X(3, 9, 7, 1), 1e-5, 0, SAME, 3, 3),
    CASE("positions alone", X(3, 5, 7, 33), X(3, 5, 7, 19), 1e-5, 0, ONES, 1, 1),
    CASE("stride, uneven padding", X(2, 4, 3, 6), X(2, 7, 9, 4), 5e-6, 0, 2, 3, 1, 0, 2, 1, 1, 1, 1, 3, 2),
    CASE("positions with a stride, few channels", X(3, 3, 3, 5), X(3, 6, 6, 3), 5e-6, 0, 2, 2, 0, 0, 0, 0, 1,
         1, 1, 1, 1),
    CASE("groups, dilation", X(2, 5, 5, 9), X(2, 5, 5, 6), 5e-6, 0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3),
    CASE("depthwise", X(2, 3, 5, 19), X(2, 6, 5, 19), 5e-6, 0, 2, 1, 1, 1, 1, 1, 1, 1, 19, 3, 3),
    CASE("depthwise, five by five", X(2, 9, 4, 35), X(2, 9, 8, 35), 1e-5, 0, 1, 2, 2, 2, 2, 2, 1, 1, 35, 5,
         5),
    CASE("depthwise, vectors", X(2, 7, 9, 24), X(2, 7, 9, 24), 1e-5, 0, DEPTHWISE(24, 1, 1), 3, 3),
    CASE("depthwise, vectors, stride", X(2, 5, 11, 104), X(2, 9, 21, 104), 1e-5, 0, DEPTHWISE(104, 2, 1), 3,
         3),
    CASE("depthwise, vectors, five by five", X(3, 19, 7, 16), X(3, 19, 7, 16), 1e-5, 0, DEPTHWISE(16, 1, 2),
         5, 5),
    CASE("depthwise, vectors, five by five, stride", X(2, 3, 5, 8), X(2, 8, 11, 8), 1e-5, 0,
         DEPTHWISE(8, 2, 1), 5, 5),
    CASE("three channels", X(2, 5, 16, 64), X(2, 9, 32, 3), 1e-5, 0, HALVED(3), 7, 7),
    CASE("three channels, small windows", X(3, 5, 16, 32), X(3, 10, 32, 3), 1e-5, 0, HALVED(1), 3, 3),
    CASE("three channels, even padding", X(1, 3, 32, 32), X(1, 6, 64, 3), 1e-5, 0, 2, 2, 4, 2, 2, 4, 1, 1, 1,
         7, 7),
    CASE("beyond a block", X(3, 23, 21, 65), X(3, 23, 21, 33), 5e-5, 0, SAME, 3, 3),
};

const op_cases_t cases_conv[] = {
    {"conv2d", CASES(conv_cases), 511},
    {"conv2d_dx", CASES(dx_cases)},
    {"conv2d_dw", CASES(dw_cases)},
    {0},
};
