/* finish: the memory layout and the waits. */

#include "base/context.h"
#include "build.h"
#include "graph/cases.h"
#include "schedule/access.h"

#include "unit.h"
#include <string.h>

static void finish(ls_schedule_t *s) {
  ls_status_t status = ls_schedule_finish(s);
  if (!status) status = ls_schedule_check(s);
  assert_string_equal(ls_ctx_error(ctx), "");
  assert_int_equal(status, LS_OK);
}

static size_t place(const ls_schedule_t *s, int tensor) {
  return s->tensors[tensor].offset_bytes;
}

/* A chain of n tensors needs room for two at a time. */
static void test_dead_bytes_are_reused(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int t[10];
  for (int i = 0; i < 10; i++)
    t[i] = build_transient(s, "t", 100);
  build_source(s, "source", t[0]);
  for (int i = 1; i < 10; i++)
    build_op1(s, &op_double, "double", t[i - 1], t[i]);
  finish(s);
  assert_int_equal(s->run_bytes[LS_REGION_TRANSIENT], 448 + 400);
  for (int i = 0; i < 10; i++)
    assert_int_equal(place(s, t[i]) % 64, 0);
  ls_fit_t fit;
  ls_program_fit(PROGRAM(s), &fit);
  assert_int_equal(fit.transient_unshared_bytes, 10 * 448);
  assert_int_equal(ls_fit_bytes(&fit, "activations"), 848);
  ls_schedule_destroy(s);
}

static void test_in_place(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 100), b = build_transient(s, "b", 100), c = build_transient(s, "c", 100);
  int d = build_transient(s, "d", 100);
  build_source(s, "source", a);
  build_op1(s, &op_inplace, "b", a, b); /* a dies: b takes its bytes */
  build_op1(s, &op_inplace, "c", b, c); /* b is read again: it may not */
  build_op2(s, &op_sum, "d", b, c, d);  /* both die */
  finish(s);
  assert_int_equal(place(s, a), place(s, b));
  assert_int_not_equal(place(s, b), place(s, c));
  assert_true(place(s, d) == place(s, b) || place(s, d) == place(s, c));
  assert_int_equal(s->run_bytes[LS_REGION_TRANSIENT], 448 + 400);
  ls_schedule_destroy(s);
}

/* Named twice by the task: taking over the bytes of one would destroy the other. */
static void test_not_in_place_of_itself(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 16), b = build_transient(s, "b", 16);
  build_source(s, "source", a);
  build_op2(s, &op_sum, "b", a, a, b);
  finish(s);
  assert_int_not_equal(place(s, a), place(s, b));
  ls_schedule_destroy(s);
}

static void test_views_keep_their_tensor_alive(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 64), b = build_transient(s, "b", 64), c = build_transient(s, "c", 64);
  int view = ls_schedule_view(s, "view", LS_SHAPE(LS_F32, 8, 8), a);
  int again = ls_schedule_view(s, "view of view", LS_SHAPE(LS_F32, 64), view);
  build_source(s, "source", a);
  build_source(s, "other", b);
  build_op2(s, &op_sum, "sum", b, again, c);
  finish(s);
  assert_int_equal(place(s, a), place(s, view));
  assert_int_equal(place(s, a), place(s, again));
  assert_int_not_equal(place(s, a), place(s, b));
  ls_schedule_destroy(s);
}

static void test_scratch_lives_for_its_task(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 16), b = build_transient(s, "b", 16), c = build_transient(s, "c", 16);
  build_source(s, "source", a);
  build_op1(s, &op_scratch, "one", a, b);
  build_op1(s, &op_scratch, "two", b, c);
  finish(s);
  const ls_task_t *one = &s->tasks[1], *two = &s->tasks[2];
  assert_true(one->scratch >= 0 && two->scratch >= 0);
  assert_int_equal(s->tensors[one->scratch].size_bytes, 64);
  assert_int_equal(s->run_bytes[LS_REGION_TRANSIENT], 3 * 64); /* in, out and scratch of one task at a time */
  ls_schedule_destroy(s);
}

/* A smaller tensor goes into the smallest gap that holds it. */
static void test_best_fit(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int big = build_transient(s, "big", 256), middle = build_transient(s, "middle", 128);
  int keep1 = build_transient(s, "keep1", 512), keep2 = build_transient(s, "keep2", 400);
  int late = build_transient(s, "late", 112), sum = build_transient(s, "sum", 512);
  build_source(s, "keep1", keep1);
  build_source(s, "big", big);
  build_source(s, "keep2", keep2);
  build_source(s, "middle", middle);
  build_source(s, "late", late);
  build_op1(s, &op_double, "end1", keep1, sum);
  build_op1(s, &op_double, "end2", keep2, build_transient(s, "end2", 400));
  finish(s);
  assert_int_equal(place(s, late) % 64, 0);
  assert_true(s->run_bytes[LS_REGION_TRANSIENT] < 4 * (256 + 128 + 512 + 400 + 112 + 512 + 400));
  ls_schedule_destroy(s);
}

static void expect_waits(const ls_schedule_t *s, int task, int count, const int *waits) {
  assert_int_equal(s->tasks[task].wait_count, count);
  for (int i = 0; i < count; i++)
    assert_int_equal(s->tasks[task].wait[i], waits[i]);
}

/* write, all-reduce, read: two waits; more readers wait for nothing more. */
static void test_waits_follow_the_bytes(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
  int a = build_at(s, "a", BUILD_GRAD, 0, 16), b = build_at(s, "b", BUILD_GRAD, 16, 32);
  int all = build_at(s, "all", BUILD_GRAD, 0, 32);
  int sum_a = build_transient(s, "sum a", 16), sum = build_transient(s, "sum", 32),
      rest = build_transient(s, "r", 16);
  int t0 = build_source(s, "a", a);
  int c0 = ls_schedule_collective(s, "reduce a", LS_GROUP_WORLD, LS_ALL_REDUCE, a, a);
  int t1 = build_source(s, "b", b); /* other bytes: does not wait */
  int c1 = ls_schedule_collective(s, "reduce b", LS_GROUP_WORLD, LS_ALL_REDUCE, b, b);
  int t2 = build_op1(s, &op_double, "read a", a, sum_a);
  int t3 = build_op1(s, &op_double, "read all", all, sum); /* newest of the lane is enough */
  int t4 = build_op1(s, &op_double, "read b", b, rest);    /* known to be over */
  int t5 = build_source(s, "a again", a);                  /* write after read by the other lane: known too */
  finish(s);
  expect_waits(s, t0, 0, NULL);
  expect_waits(s, c0, 1, (int[]){t0});
  expect_waits(s, t1, 0, NULL);
  expect_waits(s, c1, 1, (int[]){t1});
  expect_waits(s, t2, 1, (int[]){c0});
  expect_waits(s, t3, 1, (int[]){c1});
  expect_waits(s, t4, 0, NULL);
  expect_waits(s, t5, 0, NULL);
  ls_schedule_destroy(s);
}

/* A task does not wait again for what another lane's wait has brought along. */
static void test_waits_are_reduced_across_lanes(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 2);
  int stat = build_at(s, "stat", LS_REGION_STAT, 0, 16),
      host = build_at(s, "host", LS_REGION_HOST_STAT, 0, 16);
  int grad = build_at(s, "grad", BUILD_GRAD, 0, 16);
  int t0 = build_source(s, "grad", grad);
  int c0 = ls_schedule_collective(s, "reduce", LS_GROUP_WORLD, LS_ALL_REDUCE, grad, grad);
  int t1 = build_op1(s, &op_double, "stat", grad, stat);
  int o0 = ls_schedule_copy(s, LS_LANE_COPY_OUT, LS_PHASE_STEP_REST, "out", stat, host);
  int t2 = build_source(s, "stat again", stat); /* write after the copy's read */
  int c1 = ls_schedule_collective(s, "reduce again", LS_GROUP_WORLD, LS_ALL_REDUCE, grad,
                                  grad); /* after t1 read it */
  int t3 = build_op1(s, &op_double, "read", grad, build_transient(s, "r", 16));
  finish(s);
  expect_waits(s, c0, 1, (int[]){t0});
  expect_waits(s, t1, 1, (int[]){c0});
  expect_waits(s, o0, 1, (int[]){t1});
  expect_waits(s, t2, 1, (int[]){o0});
  expect_waits(s, c1, 1, (int[]){t1});
  expect_waits(s, t3, 1, (int[]){c1});
  ls_schedule_destroy(s);
}

/* Bytes that another lane touches are given to others once that lane is known to be done with them, and not before. */
static void test_lanes_share_what_is_ordered(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
  int a = build_transient(s, "a", 64), b = build_transient(s, "b", 64), sum = build_transient(s, "sum", 64);
  int c = build_transient(s, "c", 64), end = build_transient(s, "end", 64);
  build_source(s, "a", a);
  ls_schedule_collective(s, "reduce a", LS_GROUP_WORLD, LS_ALL_REDUCE, a, a);
  build_source(s, "b", b); /* during the reduction */
  int waits = build_op2(s, &op_sum, "sum", a, b, sum);
  build_source(s, "c", c); /* behind it */
  build_op2(s, &op_sum, "end", sum, c, end);
  finish(s);
  assert_int_not_equal(place(s, a), place(s, b));
  assert_true(place(s, sum) == place(s, a) || place(s, sum) == place(s, b));
  assert_true(place(s, c) == place(s, a) || place(s, c) == place(s, b));
  assert_int_equal(s->run_bytes[LS_REGION_TRANSIENT], 2 * 256);
  for (int t = 0; t < s->task_count; t++)
    assert_int_equal(s->tasks[t].wait_count, t == waits || t == 1);
  ls_schedule_destroy(s);
}

/* Parameters of each layer are gathered on their lane while the layer before is computed: of twelve layers no
 * more than two are there at once. Without the asked waits all are. */
static void test_gathered_layers_hold_two(void **state) {
  enum { LAYERS = 12, COUNT = 1000, PAD = 64 };
  size_t bytes[2];
  for (int asked = 0; asked < 2; asked++) {
    ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
    int use[LAYERS], x = build_transient(s, "x", COUNT);
    build_source(s, "x", x);
    for (int l = 0; l < LAYERS; l++) {
      int gathered = build_transient(s, "gathered", COUNT), y = build_transient(s, "y", COUNT);
      int shard = build_at(s, "shard", BUILD_PARAM, 0, COUNT / 2);
      int gather = ls_schedule_collective(s, "gather", LS_GROUP_WORLD, LS_ALL_GATHER, shard, gathered);
      if (asked && l >= 2) ls_schedule_after(s, gather, use[l - 2]);
      use[l] = build_op2(s, &op_sum, "use", x, gathered, y);
      x = y;
    }
    finish(s);
    bytes[asked] = s->run_bytes[LS_REGION_TRANSIENT];
    ls_schedule_destroy(s);
  }
  size_t layer = (COUNT * sizeof(float) + PAD - 1) / PAD * PAD;
  assert_true(bytes[0] >= LAYERS * layer);
  assert_true(bytes[1] <= (2 + 2) * layer); /* and the activations that a layer reads and writes */
}

static void test_a_wait_asked_for_looks_back(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
  int a = build_transient(s, "a", 16), b = build_transient(s, "b", 16);
  int t0 = build_source(s, "a", a);
  build_source(s, "b", b);
  int c0 = ls_schedule_collective(s, "reduce b", LS_GROUP_WORLD, LS_ALL_REDUCE, b, b);
  build_op2(s, &op_sum, "sum", a, b, build_transient(s, "sum", 16));
  ls_schedule_after(s, c0, t0); /* known already */
  finish(s);
  expect_waits(s, c0, 1, (int[]){1});
  ls_schedule_after(s, t0, c0);
  assert_int_equal(s->status, LS_ERR_INTERNAL);
  ls_schedule_destroy(s);
}

static uint64_t seed;
static int draw(int below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)below);
}

/* Tasks on four lanes that read what was written before, at random. */
static ls_schedule_t *draw_schedule(void) {
  ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
  bool reduced[64];
  int tensor[64], count = 0, tasks = 8 + draw(40);
  for (int t = 0; t < tasks; t++) {
    int kind = count ? draw(5) : 0, size = 16 * (1 + draw(3));
    int from = count ? tensor[draw(count)] : 0;
    int to = build_transient(s, "t", kind ? (int)ls_shape_count(&s->tensors[from].shape) : size);
    if (kind == 0) build_source(s, "source", to);
    if (kind == 1) build_op1(s, &op_inplace, "inplace", from, to);
    if (kind == 2) build_op1(s, &op_scratch, "scratch", from, to);
    if (kind < 3 && draw(3) == 0) s->tasks[s->task_count - 1].lane = LS_LANE_SIDE;
    if (kind == 3) ls_schedule_copy(s, LS_LANE_COPY_OUT, LS_PHASE_STEP_REST, "copy", from, to);
    if (kind == 4) {
      build_op1(s, &op_double, "double", from, to);
      ls_schedule_collective(s, "reduce", LS_GROUP_WORLD, LS_ALL_REDUCE, to, to);
    }
    if (draw(4) == 0 && s->task_count > 3) ls_schedule_after(s, s->task_count - 1, draw(s->task_count - 1));
    reduced[count] = kind == 4;
    tensor[count++] = to;
  }
  for (int i = 0; i < count;
       i++) { /* what is read at the end lives to the end: some of it, and every sum over ranks */
    const ls_shape_t *shape = &s->tensors[tensor[i]].shape;
    if (reduced[i] || draw(3) == 0)
      build_op1(s, &op_double, "last", tensor[i], build_transient(s, "last", ls_shape_count(shape)));
  }
  return s;
}

/* Drawn schedules: proven, no larger than without sharing, and not one wait more than the values themselves
 * need. */
static void test_sharing_adds_no_wait(void **state) {
  int smaller = 0;
  for (uint64_t n = 1; n <= 300; n++) {
    seed = n;
    ls_schedule_t *s = draw_schedule();
    finish(s);
    ls_fit_t fit;
    ls_program_fit(PROGRAM(s), &fit);
    int64_t shared = ls_fit_bytes(&fit, "activations"), each = 0;
    assert_true(shared <= fit.transient_unshared_bytes);
    smaller += shared < fit.transient_unshared_bytes;
    int waits = 0, again = 0;
    for (int t = 0; t < s->task_count; t++)
      waits += s->tasks[t].wait_count;
    for (int i = 0; i < s->tensor_count; i++) { /* each in bytes of its own */
      ls_sched_tensor_t *t = &s->tensors[i];
      if (t->region != LS_REGION_TRANSIENT) continue;
      t->offset_bytes = (size_t)each;
      each += (int64_t)(t->size_bytes + 63) / 64 * 64;
    }
    ls_lane_clock_t clock[512];
    assert_int_equal(ls_schedule_order(s, clock), LS_OK);
    for (int t = 0; t < s->task_count; t++)
      again += s->tasks[t].wait_count;
    assert_int_equal(waits, again);
    ls_schedule_destroy(s);
  }
  assert_true(smaller > 250);
}

static void test_builder_keeps_the_first_failure(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 4);
  assert_int_equal(ls_schedule_view(s, "larger", LS_SHAPE(LS_F32, 5), a), -1);
  assert_int_equal(s->status, LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "larger"));
  assert_int_equal(build_transient(s, "b", 4), -1);
  assert_int_equal(build_source(s, "source", a), -1);
  assert_int_equal(ls_schedule_collective(s, "reduce", LS_GROUP_WORLD, LS_ALL_REDUCE, a, a), -1);
  assert_int_equal(ls_schedule_copy(s, LS_LANE_COPY_IN, LS_PHASE_STEP_INPUT, "copy", a, a), -1);
  assert_int_equal(ls_schedule_finish(s), LS_ERR_INTERNAL);
  assert_int_equal(ls_ctx_error_count(ctx), 1);
  ls_schedule_destroy(s);

  ls_ctx_clear(ctx);
  s = build_begin(ctx, 0, 1, 1);
  build_op1(s, &op_double, "of nothing", 7, 7);
  assert_int_equal(s->status, LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "of nothing"));
  ls_schedule_destroy(s);

  ls_ctx_clear(ctx);
  s = build_begin(ctx, 0, 1, 1);
  a = build_transient(s, "a", 4);
  build_op1(s, &op_sum, "half a sum", a, a);
  assert_int_equal(s->status, LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "half a sum"));
  ls_schedule_destroy(s);

  s = build_begin(ctx, 0, 1, 1); /* a place where the plan decides, none where it does not */
  ls_schedule_tensor(s, "t", LS_SHAPE(LS_F32, 4), LS_REGION_TRANSIENT, 64);
  assert_int_equal(s->status, LS_ERR_INTERNAL);
  ls_schedule_destroy(s);
  assert_null(build_begin(ctx, 2, 2, 1));
  assert_null(build_begin(ctx, 0, 1, 0));
  assert_null(build_begin(ctx, 0, 1, LS_SLOT_MAX + 1));
}

static void test_next_input_needs_a_second_slot(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int from = build_at(s, "host", LS_REGION_HOST_NEXT, 0, 4),
      to = build_at(s, "next", LS_REGION_INPUT_NEXT, 0, 4);
  ls_schedule_copy(s, LS_LANE_COPY_IN, LS_PHASE_STEP_INPUT, "copy", from, to);
  assert_int_equal(ls_schedule_finish(s), LS_ERR_ARGUMENT);
  ls_schedule_destroy(s);
}

static ls_status_t make_everything(void) {
  ls_schedule_t *s = NULL;
  ls_status_t status = ls_schedule_create(ctx, NULL, 0, 2, 1, &s);
  if (status) return status;
  int last = build_transient(s, "t", 100);
  build_source(s, "source", last);
  for (int i = 0; i < 200; i++) { /* the arrays grow */
    int next = build_transient(s, "t", 100);
    build_op1(s, i % 3 ? &op_scratch : &op_inplace, "op", last, next);
    if (i % 50 == 0) ls_schedule_collective(s, "reduce", LS_GROUP_WORLD, LS_ALL_REDUCE, next, next);
    last = next;
  }
  status = ls_schedule_finish(s);
  if (!status) status = ls_schedule_check(s);
  ls_schedule_destroy(s);
  return status;
}

static void test_every_allocation_fails_once(void **state) {
  ls_status_t status = LS_ERR_MEMORY;
  for (int n = 1; status; n++) {
    ls_ctx_fail_alloc(ctx, n);
    status = make_everything();
    ls_ctx_fail_alloc(ctx, 0);
    assert_true(status == LS_OK || status == LS_ERR_MEMORY);
    assert_true(n > 8 || status == LS_ERR_MEMORY);
  }
}

/* One task for every row, with the first case's inputs and outputs. */
static void test_every_op_of_a_graph_may_be_a_task(void **state) {
  for (int n = 0; ls_ops[n]; n++) {
    const ls_op_t *op = ls_ops[n];
    const op_case_t *c = &cases_of(op)->cases[0];
    ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
    ls_shape_t in_shape[LS_NODE_IN_MAX], out_shape[LS_NODE_OUT_MAX];
    int in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
    for (int i = 0; i < op->in_count; i++) {
      in_shape[i] = c->in[i].shape;
      in[i] = ls_schedule_tensor(s, "in", in_shape[i], LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
    }
    assert_int_equal(op->shape(ctx, &c->attrs, in_shape, out_shape), LS_OK);
    for (int i = 0; i < op->out_count; i++)
      out[i] = ls_schedule_tensor(s, "out", out_shape[i], LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
    int task = ls_schedule_op(s, LS_LANE_COMPUTE, LS_PHASE_STEP_FORWARD, op->name, op, &c->attrs,
                              op->in_count, in, op->out_count, out);
    assert_string_equal(ls_ctx_error(ctx), "");
    assert_int_equal(task, 0);
    ls_schedule_destroy(s);
  }
}

TESTS(context_setup, context_teardown, test_dead_bytes_are_reused, test_in_place, test_not_in_place_of_itself,
      test_views_keep_their_tensor_alive, test_scratch_lives_for_its_task, test_best_fit,
      test_waits_follow_the_bytes, test_waits_are_reduced_across_lanes, test_lanes_share_what_is_ordered,
      test_gathered_layers_hold_two, test_a_wait_asked_for_looks_back, test_sharing_adds_no_wait,
      test_builder_keeps_the_first_failure, test_next_input_needs_a_second_slot,
      test_every_op_of_a_graph_may_be_a_task, test_every_allocation_fails_once)
