#include "graph/cases/row.h"

static const op_case_t cases[] = {
    {.name = "one", .in_count = 2, .in = {CASE_WHOLE(LS_U8, 256, 1), CASE_STEP(0)}},
    {.name = "odd image", .in_count = 2, .in = {CASE_WHOLE(LS_U8, 256, 3, 1, 5, 13), CASE_STEP(0)}},
    {.name = "beyond a vector", .in_count = 2, .in = {CASE_WHOLE(LS_U8, 256, 67, 65), CASE_STEP(0)}},
    {.name = "colours",
     .in_count = 2,
     .in = {CASE_WHOLE(LS_U8, 256, 5, 7, 9, 3), CASE_STEP(0)},
     .attrs = {.i = {3}}},
    {.name = "colours and one more",
     .in_count = 2,
     .in = {CASE_WHOLE(LS_U8, 256, 3, 65, 4), CASE_STEP(0)},
     .attrs = {.i = {4}}},
    {.name = "two channels",
     .in_count = 2,
     .in = {CASE_WHOLE(LS_U8, 256, 31, 11, 2), CASE_STEP(0)},
     .attrs = {.i = {2}}},
    {.name = "many", .in_count = 2, .in = {CASE_WHOLE(LS_U8, 256, 257, 784), CASE_STEP(0)}},
    {.name = "tokens of 16 bits", .in_count = 2, .in = {CASE_WHOLE(LS_U16, 65536, 7, 33), CASE_STEP(0)}},
    {.name = "tokens of 32 bits", .in_count = 2, .in = {CASE_WHOLE(LS_I32, 100000, 5, 129), CASE_STEP(0)}},
};

const op_cases_t cases_normalize[] = {
    {"normalize", CASES(cases)},
    {0},
};
