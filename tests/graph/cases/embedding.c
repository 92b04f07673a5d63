#include "graph/cases/row.h"

#define EMBEDDING_CASE(label, dtype, v, d, tol_grad, ...)                                                    \
  { label, 2, {CASE_WHOLE(dtype, v, __VA_ARGS__), CASE_F32(-1, 1, v, d)}, {{0}}, 0, tol_grad }
static const op_case_t embedding_cases[] = {
    EMBEDDING_CASE("one", LS_U8, 1, 1, 2e-3, 1),
    EMBEDDING_CASE("odd", LS_U16, 5, 7, 2e-3, 3, 4),
    EMBEDDING_CASE("one row of many", LS_I32, 300, 3, 2e-3, 2),
    EMBEDDING_CASE("as floats", LS_F32, 3, 9, 2e-3, 3, 5),
    EMBEDDING_CASE("beyond a vector", LS_U16, 67, 65, 0, 9, 33),
    EMBEDDING_CASE("many", LS_U16, 1003, 130, 0, 12, 64),
};

#define EMBEDDING_DW_CASE(label, dtype, v, d, tol, ...)                                                      \
  { label, 2, {CASE_F32(-1, 1, __VA_ARGS__, d), CASE_WHOLE(dtype, v, __VA_ARGS__)}, {.i = {v}}, tol, 0 }
static const op_case_t embedding_dw_cases[] = {
    EMBEDDING_DW_CASE("one", LS_U8, 1, 1, 2e-7, 1),
    EMBEDDING_DW_CASE("odd", LS_U16, 5, 7, 2e-6, 3, 4),
    EMBEDDING_DW_CASE("one row of many", LS_I32, 300, 3, 2e-7, 2),
    EMBEDDING_DW_CASE("all in one row", LS_I32, 1, 33, 1e-5, 5, 67),
    EMBEDDING_DW_CASE("beyond a vector", LS_U16, 67, 65, 3e-6, 9, 33),
    EMBEDDING_DW_CASE("many", LS_U16, 1003, 130, 3e-6, 12, 64),
    EMBEDDING_DW_CASE("two rows", LS_U16, 2, 33, 1e-5, 9, 64),
    EMBEDDING_DW_CASE("two rows in vectors", LS_I32, 2, 328, 1e-5, 9, 64),
    EMBEDDING_DW_CASE("more rows than ids", LS_U16, 1003, 136, 3e-6, 7, 64),
    EMBEDDING_DW_CASE("more rows than ids, wide", LS_I32, 300, 1032, 3e-6, 3, 70),
    {"the same ids again and again",
     2,
     {CASE_F32(-1, 1, 9, 67, 40), CASE_WHOLE(LS_U16, 3, 9, 67)},
     {.i = {700}},
     2e-5,
     0},
    EMBEDDING_DW_CASE("wide rows", LS_U16, 9, 777, 3e-6, 5, 30),
};

const op_cases_t cases_embedding[] = {
    {"embedding", CASES(embedding_cases)},
    {"embedding_dw", CASES(embedding_dw_cases)},
    {0},
};
