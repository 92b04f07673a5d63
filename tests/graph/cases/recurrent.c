#include "graph/cases/row.h"

#define SHIFT_CASE(label, by, n, t, h)                                                                       \
  { label, 1, {CASE_F32(-1, 1, n, t, h)}, {.i = {by}}, 0, 2e-3 }
static const op_case_t shift_cases[] = {
    SHIFT_CASE("one", 1, 1, 1, 1),
    SHIFT_CASE("later", 1, 3, 5, 7),
    SHIFT_CASE("earlier", -1, 2, 4, 33),
    SHIFT_CASE("vectors", 1, 3, 5, 40),
};

const op_cases_t cases_recurrent[] = {
    {"shift_positions", CASES(shift_cases)},
    {0},
};
