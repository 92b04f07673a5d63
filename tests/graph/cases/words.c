#include "graph/cases/row.h"

#define TURN_CASE(label, count, first, sweep, check)                                                         \
  { label, 0, {{{0}}}, {.i = {count, first, sweep, check}}, 0, 0 }
static const op_case_t turn_cases[] = {
    TURN_CASE("one", 1, 0, 1, 1),
    TURN_CASE("odd, behind 2^32", 37, INT64_C(5000000001), 2, 1),
    TURN_CASE("not checked", 1030, 7, 0, 0),
    TURN_CASE("many", 300007, INT64_C(4294967290), 3, 1),
};

#define DIFFER_CASE(label, n, values)                                                                        \
  { label, 2, {CASE_CLASS(n, values), CASE_CLASS(n, values)}, {{0}}, 0, 0 }
static const op_case_t differ_cases[] = {
    DIFFER_CASE("one", 1, 2),        DIFFER_CASE("equal", 131, 1),   DIFFER_CASE("odd", 37, 3),
    DIFFER_CASE("vectors", 1024, 3), DIFFER_CASE("many", 300007, 5),
};

const op_cases_t cases_words[] = {
    {"turn_words", CASES(turn_cases)},
    {"differing_words", CASES(differ_cases)},
    {0},
};
