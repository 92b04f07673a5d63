#include "graph/cases/row.h"

#define XENT_CASE(label, n, c, spread, tol, grad_tol)                                                        \
  { label, 3, {CASE_F32(-(spread), spread, n, c), CASE_CLASS(n, c), CASE_WEIGHT(n)}, {{0}}, tol, grad_tol }
static const op_case_t xent_cases[] = {
    XENT_CASE("one", 1, 1, 2, 2e-6, 2e-3),
    XENT_CASE("two classes", 5, 2, 2, 3e-6, 2e-3),
    XENT_CASE("odd", 3, 7, 3, 3e-6, 2e-3),
    XENT_CASE("digits", 33, 10, 3, 5e-6, 2e-3),
    {"smoothing", 3, {CASE_F32(-3, 3, 5, 7), CASE_CLASS(5, 7), CASE_WEIGHT(5)}, {.f = {0.1}}, 5e-6, 2e-3},
    {"columns that are no classes",
     3,
     {CASE_F32(-3, 3, 5, 72), CASE_CLASS(5, 65), CASE_WEIGHT(5)},
     {.i = {65}, .f = {0.1}},
     5e-6,
     2e-3},
    {"many columns that are no classes",
     3,
     {CASE_F32(-3, 3, 9, 1088), CASE_CLASS(9, 1027), CASE_WEIGHT(9)},
     {.i = {1027}},
     1e-5,
     0},
    XENT_CASE("would overflow exp", 4, 9, 300, 5e-6, 0),
    XENT_CASE("many rows", 1025, 10, 4, 1e-5, 0),
    XENT_CASE("many classes", 17, 1003, 4, 1e-5, 0),
    XENT_CASE("many classes in vectors", 3, 4168, 20, 1e-5, 0),
};

#define XENT_DX_CASE(label, n, c)                                                                            \
  { label, 4, {CASE_F32(0.5, 1, 1), CASE_F32(0, 1, n, c), CASE_CLASS(n, c), CASE_WEIGHT(n)}, {{0}}, 5e-7, 0 }
static const op_case_t xent_dx_cases[] = {
    XENT_DX_CASE("one", 1, 1),
    XENT_DX_CASE("odd", 3, 7),
    XENT_DX_CASE("digits", 33, 10),
    XENT_DX_CASE("many", 517, 131),
    {"smoothing",
     4,
     {CASE_F32(0.5, 1, 1), CASE_F32(0, 1, 5, 37), CASE_CLASS(5, 37), CASE_WEIGHT(5)},
     {.f = {0.1}},
     5e-7,
     0},
    {"columns that are no classes",
     4,
     {CASE_F32(0.5, 1, 1), CASE_F32(0, 1, 9, 1088), CASE_CLASS(9, 1027), CASE_WEIGHT(9)},
     {.i = {1027}, .f = {0.1}},
     5e-7,
     0},
};

#define POSITIONS_CASE(label, ignored, n, t)                                                                 \
  { label, 2, {CASE_WHOLE(LS_I32, 4, n, t), CASE_WEIGHT(n)}, {.i = {ignored}}, 0, 0 }
static const op_case_t positions_cases[] = {
    POSITIONS_CASE("one", -1, 1, 1),
    POSITIONS_CASE("nothing is ignored", -1, 3, 7),
    POSITIONS_CASE("ignored", 2, 9, 5),
    {"all is ignored", 2, {CASE_WHOLE(LS_I32, 1, 2, 3), CASE_WEIGHT(2)}, {.i = {0}}, 0, 0},
    POSITIONS_CASE("many", 0, 67, 131),
};

const op_cases_t cases_loss[] = {
    {"position_weights", CASES(positions_cases)},
    {"softmax_xent", CASES(xent_cases)},
    {"softmax_xent_dx", CASES(xent_dx_cases)},
    {0},
};
