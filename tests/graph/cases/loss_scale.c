#include "graph/cases/row.h"

static const op_case_t cases[] = {
    {"the first", 1, {CASE_F32(0, 0, 16)}, {{0}}, 0, 0},
    {"doubled", 1, {CASE_F32(3, 3, 16)}, {{0}}, 0, 0},
    {"halved", 1, {CASE_F32(-9, -9, 16)}, {{0}}, 0, 0},
};

const op_cases_t cases_loss_scale[] = {
    {"loss_scale", CASES(cases)},
    {0},
};
