/* Data for the test cases of op rows, shared by the gradient and the compare test. */
#ifndef TESTS_GRAPH_CASES_H
#define TESTS_GRAPH_CASES_H

#include "graph/cases/row.h"
#include "support/draw.h"

/* The op's cases; none: a row with a count of 0. */
const op_cases_t *cases_of(const ls_op_t *op);

/* Fills input `index` of a case. A pure function of (op name, case name, index). */
void case_fill_input(const ls_op_t *op, const op_case_t *c, int index, void *to);
/* Start values of an output that is also read: whole numbers 1..4, so that counters are whole and second
 * moments are positive. */
void case_fill_inout(const ls_op_t *op, const op_case_t *c, int index, int64_t count, float *to);
/* Uniform in [lo, hi]; lo itself when they are equal or not finite. */
void case_fill_uniform(uint64_t seed, float lo, float hi, int64_t count, float *to);
/* Shapes of inputs and outputs; the op's own rule decides the latter. */
ls_status_t case_shapes(ls_ctx_t *ctx, const ls_op_t *op, const op_case_t *c, ls_shape_t *in,
                        ls_shape_t *out);

/* A case with sizes of its own, from a listed one: sizes that are equal stay equal, most multiples stay multiples, and
 * the attributes in its row's `drawn` are drawn as well; what the op's rule refuses is drawn again. No tensor has more than
 * `elements`. `name` says what it is. False: none was found. */
enum { CASE_NAME_BYTES = 256 };
bool case_draw(const ls_op_t *op, draw_t *draw, int64_t elements, char name[CASE_NAME_BYTES], op_case_t *to);

#endif
