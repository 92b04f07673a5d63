#include "graph/cases/row.h"

static const op_case_t cases[] = {
    {.name = "one row of one",
     .in_count = 3,
     .in = {CASE_CLASS(1, 1), CASE_F32(-1, 1, 1, 1), CASE_F32(-1, 1, 1, 1)}},
    {.name = "odd width", /* no row but the first begins at a vector boundary */
     .in_count = 3,
     .in = {CASE_CLASS(37, 13), CASE_F32(-1, 1, 13, 799), CASE_F32(-1, 1, 13, 3)}},
    {.name = "whole vectors, classes",
     .in_count = 3,
     .in = {CASE_CLASS(300, 50), CASE_F32(-1, 1, 50, 64), CASE_CLASS(50, 10)}},
    {.name = "images, wide targets",
     .in_count = 3,
     .in = {CASE_CLASS(9, 5), CASE_F32(-1, 1, 5, 3, 28, 28), CASE_F32(-1, 1, 5, 1100)}},
    {.name = "bytes of images, an odd number", /* no row but the first begins at a word */
     .in_count = 3,
     .in = {CASE_CLASS(67, 29), CASE_WHOLE(LS_U8, 256, 29, 3, 9, 11), CASE_CLASS(29, 10)}},
    {.name = "bytes of images, whole vectors",
     .in_count = 3,
     .in = {CASE_CLASS(67, 29), CASE_WHOLE(LS_U8, 256, 29, 28, 28), CASE_CLASS(29, 10)}},
    {.name = "tokens, a target for each",
     .in_count = 3,
     .in = {CASE_CLASS(31, 40), CASE_WHOLE(LS_U16, 65536, 40, 33), CASE_WHOLE(LS_I32, 65536, 40, 33)}},
    {.name = "tokens, a target of bytes for each",
     .in_count = 3,
     .in = {CASE_CLASS(31, 40), CASE_WHOLE(LS_I32, 100000, 40, 12), CASE_WHOLE(LS_U8, 256, 40, 5)}},
    {.name = "a table of one column",
     .in_count = 3,
     .in = {CASE_CLASS(1000, 70), CASE_F32(-1, 1, 70), CASE_CLASS(70, 2)}},
};

const op_cases_t cases_gather[] = {
    {"gather_rows", CASES(cases)},
    {0},
};
