/* Use lists, the index of names, replacing and removing nodes, and the proof of a graph. */
#include "graph/ops/ops.h"
#include "graph/rewrite.h"

#include <string.h>

#include "unit.h"

#include "fixture.h"

static const ls_init_t zeros = {.kind = LS_INIT_ZEROS};

static ls_tensor_id_t param(ls_graph_t *g, const char *name) {
  return ls_graph_param(g, name, LS_SHAPE(LS_F32, 4), zeros);
}

static ls_tensor_id_t one(ls_graph_t *g, const ls_op_t *op, ls_tensor_id_t a) {
  return ls_graph_op(g, op, NULL, 1, &a, NULL);
}

static ls_tensor_id_t two(ls_graph_t *g, const ls_op_t *op, ls_tensor_id_t a, ls_tensor_id_t b) {
  return ls_graph_op(g, op, NULL, 2, (ls_tensor_id_t[]){a, b}, NULL);
}

static void expect_uses(const ls_graph_t *g, ls_tensor_id_t id, int count, const int *uses) {
  assert_int_equal(g->tensors[id].use_count, count);
  for (int i = 0; i < count; i++)
    assert_int_equal(g->tensors[id].uses[i], uses[i]);
}

/* The graph that passes leave. */
static void expect_whole(ls_graph_t *g) {
  ls_graph_sweep(g);
  if (ls_graph_check(g)) fail_msg("%s", ls_ctx_error(g->ctx));
}

static void expect_fault(const ls_graph_t *g, const char *part) {
  ls_ctx_clear(g->ctx);
  assert_int_equal(ls_graph_check(g), LS_ERR_INTERNAL);
  if (!strstr(ls_ctx_error(g->ctx), part)) fail_msg("\"%s\" lacks \"%s\"", ls_ctx_error(g->ctx), part);
}

static void test_uses_are_nodes_in_order(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), q = param(g, "q");
  ls_tensor_id_t a = two(g, &ls_op_mul, p, q), b = two(g, &ls_op_add, a, a);
  for (int k = 0; k < 20; k++)
    one(g, &ls_op_relu, p);
  int uses[21] = {0};
  for (int k = 1; k < 21; k++)
    uses[k] = k + 1;
  expect_uses(g, p, 21, uses);
  expect_uses(g, q, 1, (int[]){0});
  expect_uses(g, a, 2, (int[]){1, 1});
  expect_uses(g, b, 0, NULL);
  expect_whole(g);
}

static void test_names_are_found_after_renaming(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), id[200];
  for (int k = 0; k < 200; k++)
    id[k] = one(g, &ls_op_relu, p);
  assert_int_equal(ls_graph_find(g, "relu"), id[0]);
  ls_graph_rename(g, id[0], "first");
  assert_int_equal(ls_graph_find(g, "relu"), id[1]); /* the next one of that name */
  ls_graph_rename(g, id[7], "late");
  ls_graph_rename(g, id[3], "late");
  assert_int_equal(ls_graph_find(g, "late"), id[3]); /* the first of two */
  assert_int_equal(ls_graph_find(g, "first"), id[0]);
  assert_int_equal(ls_graph_find(g, "p"), p);
  ls_graph_rename(g, id[0], "other");
  assert_int_equal(ls_graph_find(g, "first"), -1);
}

static void test_replaced_nodes_become_one(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), q = param(g, "q");
  ls_graph_scope(g, "block");
  ls_tensor_id_t a = two(g, &ls_op_add, p, q);
  one(g, &ls_op_tanh, q);
  ls_tensor_id_t b = one(g, &ls_op_relu, a), c = one(g, &ls_op_copy, b);
  ls_graph_scope(g, "%s", "");
  assert_true(ls_graph_replace(g, 2, (int[]){0, 2}, &ls_op_mul, NULL, 2, (ls_tensor_id_t[]){q, p}, &b));
  expect_whole(g);
  assert_int_equal(g->node_count, 3);
  assert_string_equal(g->nodes[1].name, "block mul");
  assert_string_equal(g->scope, "");
  assert_int_equal(g->tensors[a].producer, -1);
  assert_int_equal(g->tensors[b].producer, 1);
  assert_int_equal(g->tensors[c].producer, 2);
  expect_uses(g, a, 0, NULL);
  expect_uses(g, p, 1, (int[]){1});
  expect_uses(g, q, 2, (int[]){0, 1});
  expect_uses(g, b, 1, (int[]){2});
}

static void test_two_results_stay(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 3, 4)),
                 rows = ls_graph_input(g, "rows", LS_SHAPE(LS_I32, 3));
  ls_tensor_id_t a = one(g, &ls_op_relu, x), b = one(g, &ls_op_relu, a);
  two(g, &ls_op_add, a, b);
  const ls_tensor_id_t in[] = {rows, x, x}, out[] = {b, a};
  assert_true(ls_graph_replace(g, 2, (int[]){0, 1}, &ls_op_gather_rows, NULL, 3, in, out));
  expect_whole(g);
  assert_int_equal(g->node_count, 2);
  assert_int_equal(g->tensors[a].producer, 0);
  expect_uses(g, x, 2, (int[]){0, 0});
}

static void expect_refused(ls_graph_t *g, int count, const int *old, ls_tensor_id_t in, ls_tensor_id_t out) {
  int nodes = g->node_count;
  assert_false(ls_graph_replace(g, count, old, &ls_op_relu, NULL, 1, &in, &out));
  expect_whole(g);
  assert_int_equal(g->node_count, nodes);
}

static void test_replacing_refuses_what_would_break_the_graph(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), a = one(g, &ls_op_tanh, p), b = one(g, &ls_op_tanh, a);
  ls_tensor_id_t c = two(g, &ls_op_add, a, b);
  int pair[] = {0, 1};
  expect_refused(g, 2, pair, p, b); /* node 2 reads a as well */
  expect_refused(g, 1, pair, p, b); /* no result of node 0 */
  assert_false(ls_graph_remove(g, 1));
  ls_attrs_t flat = {.i = {1, 4}};
  ls_tensor_id_t view = ls_graph_op(g, &ls_op_reshape, &flat, 1, &c, NULL);
  ls_tensor_id_t d = one(g, &ls_op_relu, view);
  expect_refused(g, 2, (int[]){3, 4}, c, d); /* a view */
  ls_graph_rename(g, d, "looked up");
  assert_false(ls_graph_remove(g, 4));
  ls_tensor_id_t loss = ls_graph_op(g, &ls_op_reduce, &(ls_attrs_t){.i = {1}}, 1, &d, NULL);
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
  assert_false(ls_graph_remove(g, g->tensors[g->tensors[p].grad].producer));
  expect_refused(g, 2, (int[]){5, 6}, d, g->nodes[6].out[0]); /* forward and backward */
  assert_int_equal(g->status, LS_OK);
}

static void test_results_read_before_the_new_place(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), a = one(g, &ls_op_tanh, p);
  one(g, &ls_op_tanh, a);
  one(g, &ls_op_relu, p);
  assert_false(ls_graph_replace(g, 2, (int[]){0, 2}, &ls_op_relu, NULL, 1, &p, &a));
  expect_whole(g);
}

static void test_replacing_by_another_shape(void **state) {
  fixture_t *f = *state;
  ls_tensor_id_t p = param(f->graph, "p"), a = one(f->graph, &ls_op_relu, p);
  ls_attrs_t sum = {.i = {1}};
  assert_false(ls_graph_replace(f->graph, 1, (int[]){0}, &ls_op_reduce, &sum, 1, &p, &a));
  assert_int_equal(f->graph->status, LS_ERR_SHAPE);
  assert_non_null(strstr(ls_ctx_error(f->ctx), "reduce: its output 0 has not the shape of relu"));
}

/* p += x, then a value of the old or the new p: neither node may move over the other, nor go. */
static void test_states_are_read_and_changed_in_order(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4));
  ls_tensor_id_t p = ls_graph_state(g, "p", LS_SHAPE(LS_F32, 4), zeros), a = one(g, &ls_op_tanh, p);
  ls_tensor_id_t updated = one(g, &ls_op_accumulate, x);
  ls_graph_update(g, updated, p);
  ls_tensor_id_t b = one(g, &ls_op_relu, a);
  expect_refused(g, 2, (int[]){0, 2}, p, b);
  assert_false(ls_graph_remove(g, 1));
  assert_false(ls_graph_replace(g, 1, (int[]){1}, &ls_op_relu, NULL, 1, &x, &updated));
  expect_whole(g);
  g->tensors[updated].alias_of = x;
  expect_fault(g, "is no view that makes 'accumulate'");
}

static void test_removing_from_the_end(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), a = one(g, &ls_op_relu, p);
  two(g, &ls_op_mul, a, p);
  assert_false(ls_graph_remove(g, 0));
  assert_true(ls_graph_remove(g, 1));
  assert_true(ls_graph_remove(g, 0));
  expect_whole(g);
  assert_int_equal(g->node_count, 0);
  expect_uses(g, p, 0, NULL);
}

static void test_the_proof_finds_what_is_broken(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), a = one(g, &ls_op_relu, p), b = two(g, &ls_op_add, a, p);
  ls_attrs_t flat = {.i = {2, 2, 2}};
  ls_tensor_id_t view = ls_graph_op(g, &ls_op_reshape, &flat, 1, &b, NULL);
  expect_whole(g);
#define BREAK(place, value, words)                                                                           \
  {                                                                                                          \
    __typeof__(place) was = place;                                                                           \
    place = value;                                                                                           \
    expect_fault(g, words);                                                                                  \
    place = was;                                                                                             \
  }
  BREAK(g->nodes[0].op, NULL, "node 0 is no whole node")
  BREAK(g->nodes[0].in_count, 2, "node 0 is no whole node")
  BREAK(g->nodes[0].in[0], b, "node 0 'relu' reads before it is made 'add'")
  BREAK(g->nodes[1].in[0], p, "node 1 'add' is not where it should be among the uses of 'p'")
  BREAK(g->tensors[p].uses[0], 1, "node 0 'relu' is not where it should be among the uses of 'p'")
  BREAK(g->tensors[p].use_count, 1, "node 1 'add' is not where it should be among the uses of 'p'")
  BREAK(g->tensors[a].producer, 1, "node 0 'relu' is not the producer of 'relu'")
  BREAK(g->tensors[a].producer, -1, "node 0 'relu' is not the producer of 'relu'")
  BREAK(g->tensors[b].shape.dim[0], 5, "node 1 'add' gives another shape than that of 'add'")
  BREAK(g->tensors[view].alias_of, view, "is no view that makes 'reshape'")
  BREAK(g->nodes[2].out[0], a, "node 2 'reshape' is not the producer of 'relu'")
#undef BREAK
  g->tensors[a].use_count++;
  g->tensors[a].uses[1] = 1;
  expect_fault(g, "node 1 'add' does not read, but is a use of 'relu'");
}

TESTS(set_up, tear_down, test_uses_are_nodes_in_order, test_names_are_found_after_renaming,
      test_replaced_nodes_become_one, test_two_results_stay,
      test_replacing_refuses_what_would_break_the_graph, test_results_read_before_the_new_place,
      test_replacing_by_another_shape, test_states_are_read_and_changed_in_order, test_removing_from_the_end,
      test_the_proof_finds_what_is_broken)
