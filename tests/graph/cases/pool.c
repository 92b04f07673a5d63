#include "graph/cases/row.h"

#define X(...) CASE_F32(-1, 1, __VA_ARGS__)
#define CASE(label, grad_tol, in, ...)                                                                       \
  { label, 1, {in}, {.i = {__VA_ARGS__}}, 2e-6, grad_tol }
#define WINDOW_CASES(grad_tol, counts)                                                                       \
  CASE("one", grad_tol, X(1, 1, 1, 1), 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, counts),                                \
      CASE("two by two", grad_tol, X(2, 6, 4, 3), 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, counts),                     \
      CASE("a row is left over", grad_tol, X(2, 7, 5, 19), 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, counts),            \
      CASE("overlapping, padded", grad_tol, X(2, 7, 8, 5), 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, counts),            \
      CASE("uneven", grad_tol, X(1, 9, 6, 33), 3, 2, 1, 2, 2, 0, 1, 1, 0, 0, counts),                        \
      CASE("vectors", 0, X(3, 9, 8, 24), 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, counts),                              \
      CASE("many", 0, X(5, 30, 28, 65), 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, counts)
static const op_case_t max_cases[] = {
    WINDOW_CASES(5e-3, 0),
    CASE("the widest window, padded behind", 0, X(2, 300, 1, 5), 256, 1, 256, 1, 0, 0, 212, 0),
};
static const op_case_t avg_cases[] = {
    WINDOW_CASES(2e-3, 0),
    CASE("padding counts", 2e-3, X(2, 7, 8, 5), 3, 3, 2, 2, 1, 1, 1, 1, 0, 0, 1),
};
static const op_case_t avg_dx_cases[] = {
    CASE("one", 0, X(1, 1, 1, 1), 1, 1, 1, 1, 0, 0, 0, 0, 1, 1),
    CASE("a row is left over", 0, X(2, 3, 2, 19), 2, 2, 2, 2, 0, 0, 0, 0, 7, 5),
    CASE("overlapping, padded", 0, X(2, 4, 4, 5), 3, 3, 2, 2, 1, 1, 1, 1, 7, 8),
    CASE("padding counts", 0, X(2, 4, 4, 33), 3, 3, 2, 2, 1, 1, 1, 1, 7, 8, 1),
    CASE("vectors", 0, X(3, 5, 4, 24), 3, 3, 2, 2, 1, 1, 1, 1, 9, 8),
    CASE("many", 0, X(5, 15, 14, 65), 2, 2, 2, 2, 0, 0, 0, 0, 30, 28),
};
#define PLACE_CASE(label, places, n, h, w, c, ...)                                                           \
  { label, 2, {X(n, h, w, c), CASE_WHOLE(LS_U8, places, n, h, w, c)}, {.i = {__VA_ARGS__}}, 2e-6, 0 }
static const op_case_t max_dx_cases[] = {
    PLACE_CASE("one", 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1),
    PLACE_CASE("a row is left over", 4, 2, 3, 2, 19, 2, 2, 2, 2, 0, 0, 0, 0, 7, 5),
    PLACE_CASE("overlapping", 9, 2, 3, 3, 5, 3, 3, 2, 2, 0, 0, 0, 0, 7, 8),
    PLACE_CASE("overlapping, padded", 9, 2, 4, 4, 5, 3, 3, 2, 2, 1, 1, 1, 1, 7, 8),
    PLACE_CASE("vectors, padded", 9, 3, 5, 4, 24, 3, 3, 2, 2, 1, 1, 1, 1, 9, 8),
    PLACE_CASE("vectors", 9, 3, 4, 3, 24, 3, 3, 2, 2, 0, 0, 0, 0, 9, 8),
    PLACE_CASE("many", 4, 5, 15, 14, 65, 2, 2, 2, 2, 0, 0, 0, 0, 30, 28),
    PLACE_CASE("the widest window", 256, 2, 2, 1, 5, 256, 1, 256, 1, 0, 0, 0, 0, 512, 1),
};
static const op_case_t mean_cases[] = {
    CASE("one", 2e-3, X(1, 1, 1), 0),
    CASE("odd", 2e-3, X(3, 7, 5), 0),
    CASE("beyond a vector", 2e-3, X(2, 9, 67), 0),
    CASE("vectors", 0, X(3, 49, 264), 0),
    CASE("many", 0, X(9, 200, 131), 0),
};
static const op_case_t mean_dx_cases[] = {
    CASE("one", 0, X(1, 1), 1),
    CASE("odd", 0, X(3, 5), 7),
    CASE("beyond a vector", 0, X(9, 131), 50),
    CASE("vectors", 0, X(5, 40), 9),
};
static const op_case_t take_cases[] = {
    CASE("one", 2e-3, X(1, 1, 1), 0),
    CASE("the last", 2e-3, X(3, 7, 5), -1),
    CASE("in between", 2e-3, X(3, 7, 35), 4),
};
static const op_case_t take_dx_cases[] = {
    CASE("one", 0, X(1, 1), 0, 1),
    CASE("the last", 0, X(3, 5), -1, 7),
    CASE("in between", 0, X(3, 35), 4, 7),
};

const op_cases_t cases_pool[] = {
    {"max_pool", CASES(max_cases), 255},
    {"max_pool_dx", CASES(max_dx_cases)},
    {"avg_pool", CASES(avg_cases), 255},
    {"avg_pool_dx", CASES(avg_dx_cases)},
    {"mean_positions", CASES(mean_cases)},
    {"mean_positions_dx", CASES(mean_dx_cases)},
    {"take_position", CASES(take_cases), 1},
    {"take_position_dx", CASES(take_dx_cases)},
    {0},
};
