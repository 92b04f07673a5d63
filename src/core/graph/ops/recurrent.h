/* Shared by the chains of LSTM and GRU: their order in time, checks, costs, and the gradient of w_hh. For lstm.c
 * and gru.c alone. Samples are independent. i[0] = 1: from the last position to the first. Gates keep their values
 * after their functions, because the gradients need nothing else. */
#ifndef LS_GRAPH_OPS_RECURRENT_H
#define LS_GRAPH_OPS_RECURRENT_H

#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

/* Sizes of a chain, and its order in time. */
typedef struct {
  int64_t n, t, h;
  bool back;
} ls_chain_t;

/* Reads a (n, t, h) tensor. */
static inline ls_chain_t ls_chain_of(const ls_shape_t *y, const ls_attrs_t *attrs) {
  return (ls_chain_t){y->dim[0], y->dim[1], y->dim[2], attrs->i[0] == 1};
}

/* The s-th position in the chain's order, and the one before it; -1: there is none. */
static inline int64_t ls_chain_position(const ls_chain_t *c, int64_t s) {
  return s < 0 ? -1 : c->back ? c->t - 1 - s : s;
}

static inline double ls_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static inline double ls_chain_dot(int64_t count, const float *a, const float *b) {
  double sum = 0;
  for (int64_t k = 0; k < count; k++)
    sum += (double)a[k] * b[k];
  return sum;
}

/* The row of position t of sample r, of `width` numbers; NULL when t is -1. */
static inline const float *ls_chain_at(const float *x, const ls_chain_t *c, int64_t r, int64_t t,
                                       int64_t width) {
  return t < 0 ? NULL : x + (r * c->t + t) * width;
}

static inline ls_shape_t ls_chain_states(const ls_shape_t *gates, const ls_shape_t *w) {
  return LS_SHAPE(LS_F32, gates->dim[0], gates->dim[1], w->dim[1]);
}

/* gates (n, t, count h), w (count h, h), and a direction. */
ls_status_t ls_chain_check(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs, const ls_shape_t *gates,
                           const ls_shape_t *w, int count);
/* Appends the gradient of w_hh: one product over all positions, of the gates' gradients and the outputs of the
 * previous position. *db, unless db is NULL: the gradient of the bias. */
ls_tensor_id_t ls_chain_dw(ls_graph_t *graph, const ls_graph_node_t *node, ls_tensor_id_t dgates,
                           ls_tensor_id_t *db);

/* The products of all positions, and about 4 for each function of a gate. Forward: (gates, w_hh, ..); gradient: (dy, ..,
 * gates, ..). */
int64_t ls_chain_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out);
int64_t ls_chain_dx_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out);
/* Packed weights, and in the gradient the carried floats (device/chain.h). */
size_t ls_chain_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out);
size_t ls_chain_dx_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out);

#endif
