#include "graph/cases/row.h"

#define TREE_CASE(label, parts, count)                                                                       \
  { label, 1, {CASE_F32(-1, 1, parts, count)}, {{0}}, 0, 0 }
static const op_case_t tree_sum_cases[] = {
    TREE_CASE("one part", 1, 37),         TREE_CASE("two parts", 2, 65552),
    TREE_CASE("one element", 8, 1),       TREE_CASE("three parts", 3, 1027),
    TREE_CASE("four parts", 4, 4099),     TREE_CASE("eleven parts", 11, 515),
    TREE_CASE("sixty-four parts", 64, 33)};

const op_cases_t cases_tree_sum[] = {
    {"tree_sum", CASES(tree_sum_cases)},
    {0},
};
