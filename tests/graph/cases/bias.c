#include "graph/cases/row.h"

#define X(...) CASE_F32(-1, 1, __VA_ARGS__)
static const op_case_t bias_cases[] = {
    {"one", 2, {X(1, 1), X(1)}, {{0}}, 2e-7, 2e-3},
    {"channels of images", 2, {X(2, 3, 5, 7), X(7)}, {{0}}, 2e-7, 2e-3},
    {"positions", 2, {X(3, 5, 7), X(5, 7)}, {{0}}, 2e-7, 2e-3},
    {"many", 2, {X(9, 20, 33), X(33)}, {{0}}, 2e-7, 0},
    {"vectors", 2, {X(9, 20, 40), X(40)}, {{0}}, 2e-7, 0},
};
static const op_case_t sum_cases[] = {
    {"one", 1, {X(1, 1)}, {.i = {1}}, 2e-6, 0},
    {"channels of images", 1, {X(2, 3, 5, 7)}, {.i = {1}}, 2e-6, 0},
    {"positions", 1, {X(3, 5, 7)}, {.i = {2}}, 2e-6, 0},
    {"beyond a vector", 1, {X(70, 35)}, {.i = {1}}, 5e-6, 0},
    {"many", 1, {X(50, 30, 97)}, {.i = {1}}, 2e-5, 0},
    {"vectors", 1, {X(50, 5, 328)}, {.i = {1}}, 2e-5, 0},
};

const op_cases_t cases_bias[] = {
    {"bias", CASES(bias_cases)},
    {"sum_leading", CASES(sum_cases), 1},
    {0},
};
