/* Every case of every differentiable op, listed and drawn: the gradient that autodiff builds against central differences of the
 * op's plain C version. The loss is a randomly weighted sum of the first output, so that every element
 * matters.
 *
 * Differences are extrapolated (Richardson) from steps h and h/2, summed in f64. Where the two disagree the
 * function bends too sharply for h (a kink nearby): h shrinks. At a kink itself, such as the two largest of a window, the
 * gradient lies between the slopes of both sides. */
#include "graph/cases.h"
#include "graph/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "run_graph.h"

enum { SAMPLES_MAX = 40 };

typedef struct {
  const ls_op_t *op;
  const op_case_t *c;
  ls_graph_t *graph;
  void **memory;
  ls_tensor_id_t in[LS_NODE_IN_MAX], out, weights, grad;
} setup_t;

/* op(in...) -> times weights -> sum; differentiated with respect to input `wrt`. */
static ls_status_t build(ls_ctx_t *ctx, setup_t *s, int wrt) {
  static const char *const names[] = {"in0", "in1", "in2", "in3", "in4", "in5", "in6", "in7"};
  assert_int_equal(ls_graph_create(ctx, &s->graph), LS_OK);
  for (int i = 0; i < s->c->in_count; i++)
    s->in[i] = ls_graph_input(s->graph, names[i], s->c->in[i].shape);
  s->out = ls_graph_op(s->graph, s->op, &s->c->attrs, s->c->in_count, s->in, NULL);
  assert_int_equal(s->graph->status, LS_OK);
  ls_shape_t shape = s->graph->tensors[s->out].shape;
  s->weights = ls_graph_input(s->graph, "weights", shape);
  ls_tensor_id_t each =
      ls_graph_op(s->graph, &ls_op_mul, NULL, 2, (ls_tensor_id_t[]){s->out, s->weights}, NULL);
  ls_attrs_t all = {.i = {shape.rank}};
  ls_tensor_id_t loss = ls_graph_op(s->graph, &ls_op_reduce, &all, 1, &each, NULL);
  return ls_graph_gradients(s->graph, loss, -1, 1, &s->in[wrt], &s->grad);
}

/* The loss by the op alone (node 0), summed in f64. */
static double loss_of(setup_t *s) {
  run_node(s->graph, 0, s->memory);
  const float *y = s->memory[s->out], *w = s->memory[s->weights];
  int64_t count = ls_shape_count(&s->graph->tensors[s->out].shape);
  double sum = 0;
  for (int64_t k = 0; k < count; k++)
    sum += (double)y[k] * w[k];
  return sum;
}

/* The slope of the loss, from *x + down to *x + up. */
static double secant(setup_t *s, float *x, float down, float up) {
  const float middle = *x, from = middle + down, to = middle + up;
  *x = to;
  double above = loss_of(s);
  *x = from;
  double below = loss_of(s);
  *x = middle;
  return (above - below) / ((double)to - (double)from);
}

/* A short step meets fewer kinks, a longer one less of f32's rounding. */
static bool is_between_sides(setup_t *s, float *x, double gradient) {
  for (float h = 0x1p-15f; h <= 0x1p-9f; h *= 4) {
    const double left = secant(s, x, -h, 0), right = secant(s, x, 0, h),
                 allowed = s->c->gradient_tolerance * (1 + fabs(gradient));
    if (gradient >= fmin(left, right) - allowed && gradient <= fmax(left, right) + allowed) return true;
  }
  return false;
}

static double slope(setup_t *s, float *x) {
  float h = 0x1p-6f;
  double coarse = 0, fine = 0;
  for (int tries = 0; tries < 4; tries++, h /= 8) {
    coarse = secant(s, x, -h, h);
    fine = secant(s, x, -h / 2, h / 2);
    if (fabs(coarse - fine) <= s->c->gradient_tolerance * (1 + fabs(fine))) break;
  }
  return (4 * fine - coarse) / 3;
}

/* True when the op has a gradient for this input. */
static bool check_input(ls_ctx_t *ctx, const ls_op_t *op, const op_case_t *c, int wrt) {
  setup_t s = {.op = op, .c = c};
  ls_status_t status = build(ctx, &s, wrt);
  if (status == LS_ERR_UNSUPPORTED) {
    ls_graph_destroy(s.graph);
    ls_ctx_clear(ctx);
    return false;
  }
  assert_int_equal(status, LS_OK);
  s.memory = graph_memory(s.graph);
  for (int i = 0; i < c->in_count; i++)
    case_fill_input(op, c, i, s.memory[s.in[i]]);
  case_fill_uniform(7, -1, 1, ls_shape_count(&s.graph->tensors[s.weights].shape), s.memory[s.weights]);
  for (int n = 0; n < s.graph->node_count; n++)
    run_node(s.graph, n, s.memory);

  assert_true(s.grad >= 0);
  assert_true(ls_shape_equal(&s.graph->tensors[s.grad].shape, &c->in[wrt].shape));
  int64_t count = ls_shape_count(&c->in[wrt].shape), stride = count / SAMPLES_MAX + 1;
  float *x = s.memory[s.in[wrt]];
  const float *analytic = s.memory[s.grad];
  for (int64_t k = 0; k < count; k += stride) {
    double numeric = slope(&s, &x[k]);
    if (!(fabs(analytic[k] - numeric) <= c->gradient_tolerance * (1 + fabs(numeric))) &&
        !is_between_sides(&s, &x[k], analytic[k]))
      fail_msg("%s, case %s: input %d, element %lld: gradient %.9g, differences give %.9g", op->name, c->name,
               wrt, (long long)k, (double)analytic[k], numeric);
  }
  graph_memory_free(s.graph, s.memory);
  ls_graph_destroy(s.graph);
  return true;
}

static int check_case(ls_ctx_t *ctx, const ls_op_t *op, const op_case_t *c) {
  int inputs = 0;
  for (int i = 0; c->gradient_tolerance > 0 && op->backward && i < c->in_count; i++)
    if (c->in[i].shape.dtype == LS_F32) inputs += check_input(ctx, op, c, i);
  return inputs;
}

static void test_gradients(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  int checked_ops = 0;
  for (int o = 0; ls_ops[o]; o++) {
    const ls_op_t *op = ls_ops[o];
    int cases = 0;
    for (int k = 0; k < cases_of(op)->count; k++)
      cases += check_case(ctx, op, &cases_of(op)->cases[k]) > 0;
    if (op->backward && cases < 2)
      fail_msg("%s is differentiable but has only %d such cases", op->name, cases);
    checked_ops += cases > 0;
  }
  assert_true(checked_ops >= 13);
  ls_ctx_destroy(ctx);
}

static void test_gradients_of_drawn_sizes(void **state) {
  enum { DRAWS = 24, ELEMENTS = 512 };
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  char name[CASE_NAME_BYTES];
  op_case_t c;
  int checked = 0;
  for (int o = 0; ls_ops[o]; o++) {
    draw_t draw = {.seed = draw_seed()};
    for (int k = draw_count(DRAWS); k > 0 && ls_ops[o]->backward; k--)
      if (case_draw(ls_ops[o], &draw, ELEMENTS, name, &c)) checked += check_case(ctx, ls_ops[o], &c) > 0;
  }
  assert_true(checked > 0);
  ls_ctx_destroy(ctx);
}

/* The check itself must be able to fail: an op whose gradient is off by a tenth. */
static ls_status_t wrong_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                  const ls_tensor_id_t *grad_out, const bool *wanted,
                                  ls_tensor_id_t *grad_in) {
  (void)wanted;
  ls_tensor_id_t in[] = {grad_out[0], node->out[0]}; /* the slope of relu, taken for tanh */
  grad_in[0] = ls_graph_op(graph, &ls_op_relu_dy, NULL, 2, in, NULL);
  return graph->status;
}

static void test_differences_see_a_wrong_gradient(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_op_t wrong = ls_op_tanh;
  wrong.backward = wrong_backward;
  const op_case_t *c = &cases_of(&wrong)->cases[1];
  setup_t s = {.op = &wrong, .c = c};
  assert_int_equal(build(ctx, &s, 0), LS_OK);
  s.memory = graph_memory(s.graph);
  case_fill_input(&wrong, c, 0, s.memory[s.in[0]]);
  case_fill_uniform(7, -1, 1, ls_shape_count(&s.graph->tensors[s.weights].shape), s.memory[s.weights]);
  for (int n = 0; n < s.graph->node_count; n++)
    run_node(s.graph, n, s.memory);
  int different = 0;
  for (int64_t k = 0; k < ls_shape_count(&c->in[0].shape); k++) {
    double numeric = slope(&s, (float *)s.memory[s.in[0]] + k);
    different += fabs(((float *)s.memory[s.grad])[k] - numeric) > c->gradient_tolerance * (1 + fabs(numeric));
  }
  assert_true(different > 10);
  graph_memory_free(s.graph, s.memory);
  ls_graph_destroy(s.graph);
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, test_gradients, test_gradients_of_drawn_sizes, test_differences_see_a_wrong_gradient)
