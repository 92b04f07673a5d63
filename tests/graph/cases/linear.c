#include "graph/cases/row.h"

/* Rows, inputs, outputs: one of everything; odd; three dimensions; beyond any register block; a long sum. */
#define LINEAR_CASE(label, n, i, o, tol, grad_tol)                                                           \
  { label, 3, {CASE_F32(-1, 1, n, i), CASE_F32(-1, 1, o, i), CASE_F32(-1, 1, o)}, {{0}}, tol, grad_tol }
static const op_case_t linear_cases[] = {
    LINEAR_CASE("one", 1, 1, 1, 2e-6, 2e-3),
    LINEAR_CASE("odd", 3, 7, 5, 2e-6, 2e-3),
    LINEAR_CASE("one row", 1, 37, 19, 5e-6, 2e-3),
    {"three dimensions",
     3,
     {CASE_F32(-1, 1, 2, 3, 5), CASE_F32(-1, 1, 4, 5), CASE_F32(-1, 1, 4)},
     {{0}},
     2e-6,
     2e-3},
    LINEAR_CASE("one output", 33, 65, 1, 5e-6, 5e-3),
    LINEAR_CASE("few outputs", 70, 133, 16, 1e-5, 5e-3),
    LINEAR_CASE("blocks and tails", 67, 131, 97, 1e-5, 5e-3),
    LINEAR_CASE("medium", 16, 799, 256, 2e-5, 0),
};

/* The same shapes, and relu of a NaN, which the step's guard must see. */
static const op_case_t linear_relu_cases[] = {
    LINEAR_CASE("one", 1, 1, 1, 2e-6, 2e-3),
    LINEAR_CASE("odd", 3, 7, 5, 2e-6, 2e-3),
    {"three dimensions",
     3,
     {CASE_F32(-1, 1, 2, 3, 5), CASE_F32(-1, 1, 4, 5), CASE_F32(-1, 1, 4)},
     {{0}},
     2e-6,
     2e-3},
    LINEAR_CASE("blocks and tails", 67, 131, 97, 1e-5, 5e-3),
    LINEAR_CASE("medium", 16, 799, 256, 2e-5, 0),
    {"not a number",
     3,
     {CASE_F32(NAN, NAN, 3, 7), CASE_F32(-1, 1, 5, 7), CASE_F32(-1, 1, 5)},
     {{0}},
     2e-6,
     0},
};

#define DX_CASE(label, n, i, o, tol)                                                                         \
  { label, 2, {CASE_F32(-1, 1, n, o), CASE_F32(-1, 1, o, i)}, {{0}}, tol, 0 }
static const op_case_t dx_cases[] = {
    DX_CASE("one", 1, 1, 1, 2e-6),
    DX_CASE("odd", 3, 7, 5, 2e-6),
    DX_CASE("one row", 1, 37, 19, 5e-6),
    {"three dimensions", 2, {CASE_F32(-1, 1, 2, 3, 4), CASE_F32(-1, 1, 4, 5)}, {{0}}, 2e-6, 0},
    DX_CASE("one output", 33, 65, 1, 5e-6),
    DX_CASE("few outputs", 70, 133, 16, 1e-5),
    DX_CASE("blocks and tails", 67, 131, 97, 1e-5),
    DX_CASE("medium", 16, 799, 256, 2e-5),
};

#define DX_ADD_CASE(label, n, i, o, tol)                                                                     \
  { label, 3, {CASE_F32(-1, 1, n, o), CASE_F32(-1, 1, o, i), CASE_F32(-1, 1, n, i)}, {{0}}, tol, 0 }
static const op_case_t dx_add_cases[] = {
    DX_ADD_CASE("one", 1, 1, 1, 2e-6),
    DX_ADD_CASE("odd", 3, 7, 5, 2e-6),
    DX_ADD_CASE("few outputs", 70, 133, 16, 1e-5),
    DX_ADD_CASE("blocks and tails", 67, 131, 97, 1e-5),
    DX_ADD_CASE("medium", 16, 799, 256, 2e-5),
};

#define DWB_CASE(label, n, i, o, tol)                                                                        \
  { label, 2, {CASE_F32(-1, 1, n, o), CASE_F32(-1, 1, n, i)}, {{0}}, tol, 0 }
static const op_case_t dwb_cases[] = {
    DWB_CASE("one", 1, 1, 1, 2e-6),
    DWB_CASE("odd", 3, 7, 5, 2e-6),
    DWB_CASE("one row", 1, 37, 19, 5e-6),
    {"three dimensions", 2, {CASE_F32(-1, 1, 2, 3, 4), CASE_F32(-1, 1, 2, 3, 5)}, {{0}}, 2e-6, 0},
    DWB_CASE("one output", 33, 65, 1, 5e-6),
    DWB_CASE("few outputs", 70, 133, 16, 1e-5),
    DWB_CASE("blocks and tails", 67, 131, 97, 1e-5),
    DWB_CASE("many rows", 517, 33, 17, 2e-5),
    DWB_CASE("many rows and outputs", 260, 3, 4168, 2e-5),
    DWB_CASE("medium", 16, 799, 256, 1e-5),
};

const op_cases_t cases_linear[] = {
    {"linear", CASES(linear_cases)},
    {"linear_dx", CASES(dx_cases)},
    {"linear_dx_add", CASES(dx_add_cases)},
    {"linear_dwb", CASES(dwb_cases)},
    {"linear_dw", CASES(dwb_cases)},
    {"linear_relu", CASES(linear_relu_cases)},
    {0},
};
