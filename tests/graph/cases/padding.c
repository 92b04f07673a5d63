#include "graph/cases/row.h"

#define LENGTHS_CASE(label, dtype, ids, n, t)                                                                \
  { label, 1, {CASE_WHOLE(dtype, ids, n, t)}, {.i = {0}}, 0, 0 }
static const op_case_t lengths_cases[] = {
    LENGTHS_CASE("one", LS_I32, 2, 1, 1),    LENGTHS_CASE("bytes", LS_U8, 2, 37, 5),
    LENGTHS_CASE("words", LS_U16, 2, 9, 7),  LENGTHS_CASE("all padding", LS_I32, 1, 5, 3),
    LENGTHS_CASE("many", LS_I32, 2, 300, 6), {"floats", 1, {CASE_F32(0, 0, 3, 4)}, {.i = {0}}, 0, 0},
};
#define SEGMENTS_CASE(label, dtype, ids, n, t, last)                                                         \
  { label, 1, {CASE_WHOLE(dtype, ids, n, t)}, {.i = {1, 0, last}}, 0, 0 }
static const op_case_t segments_cases[] = {
    SEGMENTS_CASE("one", LS_I32, 2, 1, 1, 1),   SEGMENTS_CASE("two texts", LS_U8, 9, 37, 65, 1),
    SEGMENTS_CASE("words", LS_U16, 5, 9, 7, 3), SEGMENTS_CASE("many", LS_I32, 3, 300, 131, 1000),
    SEGMENTS_CASE("none", LS_I32, 1, 5, 3, 1),  {"floats", 1, {CASE_F32(0, 0, 3, 4)}, {.i = {0, 2, 5}}, 0, 0},
};
#define MASK_CASE(label, n, t)                                                                               \
  { label, 2, {CASE_WHOLE(LS_I32, 9, n, t), CASE_CLASS(n, (t) + 1)}, {.i = {-1}}, 0, 0 }
static const op_case_t mask_cases[] = {MASK_CASE("one", 1, 1), MASK_CASE("odd", 7, 5),
                                       MASK_CASE("many", 67, 131)};
#define PLACES_CASE(label, value, n, t, c, grad)                                                             \
  { label, 2, {CASE_F32(-1, 1, n, t, c), CASE_CLASS(n, (t) + 1)}, {.f = {value}}, 0, grad }
static const op_case_t places_cases[] = {
    PLACES_CASE("one", 3, 1, 1, 1, 2e-3),           PLACES_CASE("odd", -1e4, 5, 4, 3, 2e-3),
    PLACES_CASE("zeros", 0, 3, 7, 33, 2e-3),        PLACES_CASE("vectors", 1e4, 5, 9, 40, 0),
    PLACES_CASE("infinite", -INFINITY, 9, 5, 8, 0), PLACES_CASE("many", 0.5, 37, 65, 131, 0)};
#define POOL_CASE(label, kind, n, t, c, grad)                                                                \
  { label, 2, {CASE_F32(-1, 1, n, t, c), CASE_CLASS(n, (t) + 1)}, {.i = {kind}}, 2e-6, grad }
static const op_case_t pool_cases[] = {
    POOL_CASE("mean of one", 0, 1, 1, 1, 2e-3), POOL_CASE("mean", 0, 5, 4, 3, 2e-3),
    POOL_CASE("last", 1, 5, 4, 3, 2e-3), POOL_CASE("mean of many", 0, 37, 65, 33, 0),
    POOL_CASE("last of many", 1, 37, 65, 33, 0)};
#define POOL_DX_CASE(label, kind, n, t, c)                                                                   \
  { label, 2, {CASE_F32(-1, 1, n, c), CASE_CLASS(n, (t) + 1)}, {.i = {kind, t}}, 5e-7, 0 }
static const op_case_t pool_dx_cases[] = {POOL_DX_CASE("mean of one", 0, 1, 1, 1),
                                          POOL_DX_CASE("mean", 0, 5, 4, 3), POOL_DX_CASE("last", 1, 5, 4, 3),
                                          POOL_DX_CASE("many", 0, 37, 65, 33)};

const op_cases_t cases_padding[] = {
    {"lengths", CASES(lengths_cases)},
    {"segments", CASES(segments_cases)},
    {"mask_targets", CASES(mask_cases)},
    {"mask_places", CASES(places_cases)},
    {"pool_valid", CASES(pool_cases)},
    {"pool_valid_dx", CASES(pool_dx_cases), 2},
    {0},
};
