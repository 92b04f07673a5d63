#include "graph/cases/row.h"

#define X(...)   CASE_F32(-1, 1, __VA_ARGS__)
#define POS(n)   CASE_F32(0.5, 1.5, n)
#define PART(n)  CASE_F32(-1, 1, n) /* weights: about half of the samples are padding */
#define COUNT(c) CASE_F64(9, 10, 1 + 2 * (c))
#define NONE(c)  CASE_F64(0, 0, 1 + 2 * (c))
#define FAR(...) CASE_F32(9999, 10001, __VA_ARGS__)
static const op_case_t sums_cases[] = {
    {"one", 3, {X(1, 1), POS(1), X(1)}, {{0}}, 2e-6, 0},
    {"odd", 3, {X(5, 7), PART(5), X(7)}, {{0}}, 2e-6, 0},
    {"images", 3, {X(5, 3, 4, 5), PART(5), X(5)}, {{0}}, 5e-6, 0},
    {"beyond a vector", 3, {X(37, 67), PART(37), X(67)}, {{0}}, 5e-6, 0},
    {"vectors", 3, {X(7, 9, 11, 24), PART(7), X(24)}, {{0}}, 2e-5, 0},
    {"vectors, groups of channels", 3, {X(5, 3, 2, 520), PART(5), X(520)}, {{0}}, 5e-6, 0},
    {"far from zero", 3, {CASE_F32(999, 1001, 9, 30, 7), POS(9), CASE_F32(999, 1001, 7)}, {{0}}, 2e-5, 0},
    {"many", 3, {X(9, 15, 14, 35), PART(9), X(35)}, {{0}}, 2e-5, 0},
    {"far from the shift", 3, {FAR(9, 30, 7), PART(9), X(7)}, {{0}}, 2e-11, 0},
    {"far from the shift, vectors", 3, {FAR(7, 40, 72), PART(7), X(72)}, {{0}}, 2e-11, 0},
};
static const op_case_t ranks_cases[] = {{"one", 1, {X(1)}, {{0}}, 0, 0},
                                        {"odd", 1, {COUNT(18)}, {{0}}, 0, 0},
                                        {"many", 1, {X(4099)}, {{0}}, 0, 0}};
static const op_case_t moments_cases[] = {
    {"one", 2, {COUNT(1), X(1)}, {.f = {1e-5}}, 2e-6, 0},
    {"odd", 2, {COUNT(7), X(7)}, {.f = {1e-5}}, 2e-6, 0},
    {"beyond a vector", 2, {COUNT(67), X(67)}, {.f = {0.5}}, 2e-6, 0},
    {"far from zero", 2, {COUNT(7), FAR(7)}, {.f = {1e-5}}, 1e-7, 0},
    {"nothing counts", 2, {NONE(5), X(5)}, {.f = {1e-5}}, 2e-6, 0},
};
static const op_case_t track_cases[] = {
    {"one", 1, {COUNT(1)}, {.f = {1e-5, 0.1}}, 2e-6, 0},
    {"odd", 1, {COUNT(7)}, {.f = {1e-5, 1}}, 2e-6, 0},
    {"beyond a vector", 1, {COUNT(67)}, {.f = {0.5, 0.01}}, 2e-6, 0},
    {"nothing counts", 1, {NONE(5)}, {.f = {1e-5, 0.1}}, 2e-6, 0},
};
static const op_case_t rsqrt_cases[] = {
    {"one", 1, {POS(1)}, {.f = {1e-5}}, 2e-6, 0},
    {"odd", 1, {POS(7)}, {.f = {0}}, 2e-6, 0},
    {"beyond a vector", 1, {POS(67)}, {.f = {1e-3}}, 2e-6, 0},
};
static const op_case_t apply_cases[] = {
    {"one", 5, {X(1, 1), X(1), POS(1), X(1), X(1)}, {{0}}, 2e-6, 3e-3},
    {"odd", 5, {X(5, 7), X(7), POS(7), X(7), X(7)}, {{0}}, 2e-6, 3e-3},
    {"images", 5, {X(2, 3, 4, 5), X(5), POS(5), X(5), X(5)}, {{0}}, 2e-6, 5e-3},
    {"a mean of two numbers", 5, {X(5, 7), X(2, 7), POS(7), X(7), X(7)}, {{0}}, 2e-6, 0},
    {"a mean of two numbers, vectors", 5, {X(3, 9, 24), X(2, 24), POS(24), X(24), X(24)}, {{0}}, 3e-6, 0},
    {"vectors", 5, {X(3, 9, 11, 24), X(24), POS(24), X(24), X(24)}, {{0}}, 3e-6, 0},
    {"many", 5, {X(9, 15, 14, 35), X(35), POS(35), X(35), X(35)}, {{0}}, 3e-6, 0},
};
static const op_case_t back_cases[] = {
    {"one", 5, {X(1, 1), X(1, 1), X(1), POS(1), POS(1)}, {{0}}, 2e-6, 0},
    {"odd", 5, {X(5, 7), X(5, 7), X(7), POS(7), PART(5)}, {{0}}, 2e-6, 0},
    {"images", 5, {X(5, 3, 4, 5), X(5, 3, 4, 5), X(5), POS(5), PART(5)}, {{0}}, 5e-6, 0},
    {"vectors", 5, {X(7, 9, 11, 24), X(7, 9, 11, 24), X(24), POS(24), PART(7)}, {{0}}, 2e-5, 0},
    {"a mean of two numbers", 5, {X(5, 7), X(5, 7), X(2, 7), POS(7), PART(5)}, {{0}}, 2e-6, 0},
    {"a mean of two numbers, vectors",
     5,
     {X(7, 99, 24), X(7, 99, 24), X(2, 24), POS(24), PART(7)},
     {{0}},
     2e-5,
     0},
    {"many", 5, {X(9, 15, 14, 35), X(9, 15, 14, 35), X(35), POS(35), PART(9)}, {{0}}, 2e-5, 0},
};
static const op_case_t dx_cases[] = {
    {"one", 8, {X(1, 1), X(1, 1), X(1), X(1), POS(1), POS(1), X(2), COUNT(1)}, {{0}}, 2e-6, 0},
    {"odd", 8, {X(5, 7), X(5, 7), X(7), X(7), POS(7), PART(5), X(14), COUNT(7)}, {{0}}, 2e-6, 0},
    {"a mean of two numbers",
     8,
     {X(5, 7), X(5, 7), X(7), X(2, 7), POS(7), PART(5), X(14), COUNT(7)},
     {{0}},
     2e-6,
     0},
    {"images",
     8,
     {X(5, 3, 4, 5), X(5, 3, 4, 5), X(5), X(5), POS(5), PART(5), X(10), COUNT(5)},
     {{0}},
     2e-6,
     0},
    {"vectors",
     8,
     {X(7, 9, 11, 24), X(7, 9, 11, 24), X(24), X(24), POS(24), PART(7), X(48), COUNT(24)},
     {{0}},
     3e-6,
     0},
    {"many",
     8,
     {X(9, 15, 14, 35), X(9, 15, 14, 35), X(35), X(35), POS(35), PART(9), X(70), COUNT(35)},
     {{0}},
     3e-6,
     0},
};

const op_cases_t cases_batch_norm[] = {
    {"bn_sums", CASES(sums_cases)},
    {"sum_ranks", CASES(ranks_cases)},
    {"bn_moments", CASES(moments_cases)},
    {"bn_track", CASES(track_cases)},
    {"rsqrt_eps", CASES(rsqrt_cases)},
    {"bn_apply", CASES(apply_cases)},
    {"bn_back_sums", CASES(back_cases)},
    {"bn_dx", CASES(dx_cases)},
    {0},
};
