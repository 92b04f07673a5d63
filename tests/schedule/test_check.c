/* The proof: a good schedule passes; each planted fault is found, and the message names the tasks. */

#include "base/context.h"
#include "build.h"

#include "unit.h"
#include <stdio.h>
#include <string.h>

/* A step in small: two gradients, each reduced on its lane while compute goes on, then state is updated and
 * copied out. Tasks by name below. */
enum { INPUT, HIDDEN, GRAD_A, REDUCE_A, GRAD_B, REDUCE_B, NORM_A, NORM_B, STATS, COPY, UPDATE, TASKS };
typedef struct {
  ls_schedule_t *s;
  int x, hidden, loss, a, b, all, norm_a, norm_b, stats, host, param;
} step_t;

static void declare(step_t *step) {
  ls_schedule_t *s = step->s;
  step->x = build_transient(s, "x", 64);
  step->hidden = build_transient(s, "hidden", 64);
  step->a = build_at(s, "a", BUILD_GRAD, 0, 64);
  step->b = build_at(s, "b", BUILD_GRAD, 64, 128);
  step->norm_a = build_transient(s, "norm a", 64);
  step->norm_b = build_transient(s, "norm b", 64);
  step->stats = build_at(s, "stats", LS_REGION_STAT, 0, 64);
  step->host = build_at(s, "host", LS_REGION_HOST_STAT, 0, 64);
  step->all = build_at(s, "all", BUILD_GRAD, 0, 128);
  step->param = build_at(s, "param", BUILD_PARAM, 0, 128);
}

/* Appends the tasks in the given order. */
static void emit(step_t *step, const int *order, int count) {
  ls_schedule_t *s = step->s;
  for (int i = 0; i < count; i++)
    switch (order[i]) {
    case INPUT:
      build_source(s, "input", step->x);
      break;
    case HIDDEN:
      build_op1(s, &op_double, "hidden", step->x, step->hidden);
      break;
    case GRAD_A:
      build_op1(s, &op_double, "grad a", step->hidden, step->a);
      break;
    case REDUCE_A:
      ls_schedule_collective(s, "reduce a", LS_GROUP_WORLD, LS_ALL_REDUCE, step->a, step->a);
      break;
    case GRAD_B:
      build_op1(s, &op_double, "grad b", step->x, step->b);
      break;
    case REDUCE_B:
      ls_schedule_collective(s, "reduce b", LS_GROUP_WORLD, LS_ALL_REDUCE, step->b, step->b);
      break;
    case NORM_A:
      build_op1(s, &op_double, "norm a", step->a, step->norm_a);
      break;
    case NORM_B:
      build_op1(s, &op_double, "norm b", step->b, step->norm_b);
      break;
    case STATS:
      build_op2(s, &op_sum, "stats", step->norm_a, step->norm_b, step->stats);
      break;
    case COPY:
      ls_schedule_copy(s, LS_LANE_COPY_OUT, LS_PHASE_STEP_REST, "copy", step->stats, step->host);
      break;
    case UPDATE:
      build_op1(s, &op_update, "update", step->all, step->param);
      break;
    }
}

static const int in_order[TASKS] = {INPUT,  HIDDEN, GRAD_A, REDUCE_A, GRAD_B, REDUCE_B,
                                    NORM_A, NORM_B, STATS,  COPY,     UPDATE};

static step_t make(int rank, int world_size) {
  step_t step = {.s = build_begin(ctx, rank, world_size, 1)};
  declare(&step);
  emit(&step, in_order, TASKS);
  assert_int_equal(ls_schedule_finish(step.s), LS_OK);
  return step;
}

static void expect_fault(const ls_schedule_t *s, const char *const *words) {
  assert_int_equal(ls_schedule_check(s), LS_ERR_INTERNAL);
  for (int i = 0; words[i]; i++)
    if (!strstr(ls_ctx_error(ctx), words[i])) fail_msg("'%s' is not in: %s", words[i], ls_ctx_error(ctx));
  ls_ctx_clear(ctx);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_good(void **state) {
  step_t step = make(0, 2);
  assert_int_equal(ls_schedule_check(step.s), LS_OK);
  assert_string_equal(ls_ctx_error(ctx), "");
  ls_schedule_destroy(step.s);
}

static void test_not_finished(void **state) {
  step_t step = {.s = build_begin(ctx, 0, 1, 1)};
  declare(&step);
  emit(&step, in_order, TASKS);
  expect_fault(step.s, WORDS("finished"));
  ls_schedule_destroy(step.s);
}

/* Each wait that finish derived is needed: without it the proof fails. */
static void test_every_wait_is_needed(void **state) {
  int removed = 0;
  step_t step = make(0, 2);
  for (int t = 0; t < step.s->task_count; t++) {
    ls_task_t *task = &step.s->tasks[t];
    for (int w = 0; w < task->wait_count; w++) {
      int keep = task->wait[w], last = task->wait[--task->wait_count];
      task->wait[w] = last;
      char awaited[64];
      snprintf(awaited, sizeof awaited, "'%s'", step.s->tasks[keep].name);
      expect_fault(step.s, WORDS("without waiting", task->name, awaited));
      task->wait[w] = keep;
      task->wait[task->wait_count++] = last;
      if (w == task->wait_count - 1) task->wait[w] = keep;
      removed++;
    }
  }
  assert_int_equal(removed, 5); /* reduce a, reduce b, norm a, norm b, copy */
  assert_int_equal(ls_schedule_check(step.s), LS_OK);
  ls_schedule_destroy(step.s);
}

/* The side lane makes a gradient from a value that compute goes on with: a task that reads or overwrites it has to
 * wait. */
static void the_side_lane_needs_its_waits(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
  int dy = build_transient(s, "dy", 64), dx = build_transient(s, "dx", 64),
      end = build_transient(s, "end", 64);
  int dw = build_at(s, "dw", BUILD_GRAD, 0, 64), param = build_at(s, "param", BUILD_PARAM, 0, 64);
  build_source(s, "make dy", dy);
  ls_schedule_op(s, LS_LANE_SIDE, LS_PHASE_STEP_BACKWARD, "make dw", &op_double, NULL, 1, &dy, 1, &dw);
  build_op1(s, &op_inplace, "make dx", dy, dx); /* not in place: dy may still be read */
  build_op1(s, &op_double, "go on", dx, end);
  ls_schedule_collective(s, "reduce", LS_GROUP_WORLD, LS_ALL_REDUCE, dw, dw);
  build_op1(s, &op_update, "update", dw, param);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  assert_int_equal(ls_schedule_check(s), LS_OK);
  assert_int_not_equal(s->tensors[dx].offset_bytes, s->tensors[dy].offset_bytes);
  assert_int_equal(s->tasks[2].wait_count + s->tasks[3].wait_count, 0);
  static const struct {
    int task;
    const char *words[4];
  } rows[] = {{1, {"without waiting", "make dw", "make dy"}},
              {4, {"without waiting", "reduce", "make dw"}},
              {5, {"without waiting", "update", "reduce"}}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_task_t *task = &s->tasks[rows[i].task];
    assert_int_equal(task->wait_count, 1);
    task->wait_count = 0;
    expect_fault(s, rows[i].words);
    task->wait_count = 1;
  }
  s->tensors[dx].offset_bytes = s->tensors[dy].offset_bytes; /* as if the side lane were not there */
  expect_fault(s, WORDS("make dx", "without waiting", "read by", "make dw"));
  ls_schedule_destroy(s);
}

static void test_wait_for_the_future(void **state) {
  step_t step = make(0, 2);
  step.s->tasks[REDUCE_A].wait[0] = NORM_A;
  expect_fault(step.s, WORDS("reduce a", "waits for task", "not before it"));
  ls_schedule_destroy(step.s);
}

/* x is live until grad b: hidden must not lie on it, not even in part. */
static void test_overlap_of_live_tensors(void **state) {
  for (int part = 0; part < 2; part++) {
    step_t step = make(0, 2);
    ls_sched_tensor_t *hidden = &step.s->tensors[step.hidden];
    hidden->offset_bytes = step.s->tensors[step.x].offset_bytes + (part ? 64 : 0);
    if (hidden->offset_bytes + hidden->size_bytes > step.s->run_bytes[LS_REGION_TRANSIENT])
      step.s->run_bytes[LS_REGION_TRANSIENT] = hidden->offset_bytes + hidden->size_bytes;
    expect_fault(step.s, WORDS("hidden"));
    ls_schedule_destroy(step.s);
  }
}

/* Overwritten between its write and its read, by a task that touches neither. */
static void test_overwritten_before_its_read(void **state) {
  step_t step = {.s = build_begin(ctx, 0, 1, 1)};
  ls_schedule_t *s = step.s;
  int a = build_transient(s, "kept", 64), b = build_transient(s, "other", 64),
      c = build_transient(s, "end", 64);
  build_source(s, "make kept", a);
  build_source(s, "make other", b);
  build_op2(s, &op_sum, "end", a, b, c);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  s->tensors[b].offset_bytes = s->tensors[a].offset_bytes;
  s->tensors[c].offset_bytes = s->tensors[a].offset_bytes;
  expect_fault(s, WORDS("end", "overwritten by", "make other", "kept"));
  ls_schedule_destroy(s);
}

static void test_data_are_only_read(void **state) {
  for (int written = 0; written < 2; written++) {
    ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
    int table = build_at(s, "table", BUILD_DATA, 0, 64), y = build_transient(s, "y", 64);
    if (written) build_source(s, "write", table);
    build_op1(s, &op_double, "read", table, y);
    assert_int_equal(ls_schedule_finish(s), LS_OK);
    if (written)
      expect_fault(s, WORDS("write", "over constant data", "table"));
    else
      assert_int_equal(ls_schedule_check(s), LS_OK);
    ls_schedule_destroy(s);
  }
}

static void test_output_over_an_input(void **state) {
  step_t step = make(0, 2);
  ls_sched_tensor_t *t = step.s->tensors;
  t[step.hidden].offset_bytes = t[step.x].offset_bytes; /* the op cannot work in place */
  expect_fault(step.s, WORDS("hidden", "of the same"));
  ls_schedule_destroy(step.s);
}

static void test_outside_of_its_region(void **state) {
  step_t step = make(0, 2);
  ls_schedule_t *s = step.s;
  s->tensors[step.b].offset_bytes += sizeof(float) * BUILD_GRAD_COUNT - 64;
  expect_fault(s, WORDS("outside of its region"));
  s->tensors[step.b].offset_bytes -= sizeof(float) * BUILD_GRAD_COUNT - 64;
  s->tensors[step.host].offset_bytes = SIZE_MAX - 8; /* begin + size wraps */
  expect_fault(s, WORDS("'host'", "outside of its region"));
  s->tensors[step.host].offset_bytes = 0;
  s->tensors[step.x].offset_bytes += 4;
  s->run_bytes[LS_REGION_TRANSIENT] += 4;
  expect_fault(s, WORDS("'x'", "not aligned"));
  s->tensors[step.x].offset_bytes -= 4;
  s->tensors[step.x].shape.dim[0] = 65;
  expect_fault(s, WORDS("'x'", "size"));
  ls_schedule_destroy(s);
}

static void test_wrong_order(void **state) {
  static const struct {
    int order[TASKS];
    const char *words[4];
  } cases[] = {
      {{INPUT, GRAD_A, HIDDEN, REDUCE_A, GRAD_B, REDUCE_B, NORM_A, NORM_B, STATS, COPY, UPDATE},
       {"grad a", "before anything wrote it", "hidden"}},
      {{INPUT, HIDDEN, REDUCE_A, GRAD_A, GRAD_B, REDUCE_B, NORM_A, NORM_B, STATS, COPY, UPDATE},
       {"reduce a", "only later by", "grad a"}},
      {{INPUT, HIDDEN, GRAD_A, REDUCE_A, NORM_B, GRAD_B, REDUCE_B, NORM_A, STATS, COPY, UPDATE},
       {"norm b", "only later by", "grad b"}},
      {{INPUT, HIDDEN, GRAD_A, REDUCE_A, GRAD_B, REDUCE_B, NORM_A, NORM_B, COPY, STATS, UPDATE},
       {"copy", "only later by", "stats"}},
      /* read before the sum over ranks: the sum is then read by nobody */
      {{INPUT, HIDDEN, GRAD_A, REDUCE_A, GRAD_B, NORM_A, NORM_B, STATS, COPY, UPDATE, REDUCE_B},
       {"nothing reads the result", "reduce b"}},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    step_t step = {.s = build_begin(ctx, 0, 2, 1)};
    declare(&step);
    emit(&step, cases[i].order, TASKS);
    assert_int_equal(ls_schedule_finish(step.s), LS_OK);
    expect_fault(step.s, cases[i].words);
    ls_schedule_destroy(step.s);
  }
}

/* A gather in place reads this rank's part of its output and writes the other parts: a task that reads those before
 * it finds last step's. */
static void test_a_gather_in_place_is_where_the_other_parts_come_from(void **state) {
  for (int early = 0; early < 2; early++) {
    ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
    int all = build_at(s, "all", BUILD_GRAD, 0, 32),
        own = ls_schedule_part(s, "own", LS_SHAPE(LS_F32, 16), all, 0);
    build_source(s, "make own", own);
    if (early) build_op1(s, &op_double, "early", all, build_transient(s, "a", 32));
    ls_schedule_collective(s, "gather", LS_GROUP_WORLD, LS_ALL_GATHER, own, all);
    build_op1(s, &op_double, "late", all, build_transient(s, "b", 32));
    assert_int_equal(ls_schedule_finish(s), LS_OK);
    if (early)
      expect_fault(s, WORDS("early", "only later by", "gather"));
    else
      assert_int_equal(ls_schedule_check(s), LS_OK);
    ls_schedule_destroy(s);
  }
}

static void test_shapes_fit_the_op(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 16), b = build_transient(s, "b", 15);
  build_source(s, "a", a);
  build_op1(s, &op_double, "b", a, b);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  expect_fault(s, WORDS("f32 (16)", "f32 (15)", "'b'"));
  ls_schedule_destroy(s);

  s = build_begin(ctx, 0, 1, 1);
  a = build_transient(s, "a", 16);
  b = build_transient(s, "b", 16);
  build_source(s, "a", a);
  int half = build_op2(s, &op_sum, "half a sum", a, a, b);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  s->tasks[half].in_count = 1;
  expect_fault(s, WORDS("half a sum", "inputs and outputs"));
  ls_schedule_destroy(s);
}

static void expect_world(ls_schedule_t *a, ls_schedule_t *b, const char *const *words) {
  const ls_schedule_t *world[] = {a, b};
  assert_int_equal(ls_schedule_check_world(world, 2), words ? LS_ERR_INTERNAL : LS_OK);
  for (int i = 0; words && words[i]; i++)
    if (!strstr(ls_ctx_error(ctx), words[i])) fail_msg("'%s' is not in: %s", words[i], ls_ctx_error(ctx));
  ls_ctx_clear(ctx);
}

static void test_worlds(void **state) {
  step_t a = make(0, 2), b = make(1, 2);
  expect_world(a.s, b.s, NULL);
  expect_world(b.s, a.s, WORDS("rank 1 of 2", "place 0"));
  b.s->tasks[REDUCE_B].collective = LS_BROADCAST;
  expect_world(a.s, b.s, WORDS("collective 1 differs", "rank 1", "reduce b"));
  ls_schedule_destroy(b.s);

  static const int swapped[TASKS] = {INPUT,  HIDDEN, GRAD_A, GRAD_B, REDUCE_B, REDUCE_A,
                                     NORM_A, NORM_B, STATS,  COPY,   UPDATE};
  b = (step_t){
      .s = build_begin(ctx, 1, 2, 1)}; /* same sizes: only the order differs, which sums wrong numbers */
  declare(&b);
  emit(&b, swapped, TASKS);
  assert_int_equal(ls_schedule_finish(b.s), LS_OK);
  expect_world(a.s, b.s, WORDS("collective 0 differs", "reduce a", "reduce b"));
  ls_schedule_destroy(b.s);

  static const int fewer[] = {INPUT, HIDDEN, GRAD_A, REDUCE_A, GRAD_B, NORM_A, NORM_B, STATS, COPY, UPDATE};
  b = (step_t){.s = build_begin(ctx, 1, 2, 1)};
  declare(&b);
  emit(&b, fewer, LS_COUNT(fewer));
  assert_int_equal(ls_schedule_finish(b.s), LS_OK);
  expect_world(a.s, b.s, WORDS("collective 1 differs", "reduce b", "nothing"));
  ls_schedule_destroy(b.s);
  ls_schedule_destroy(a.s);
}

/* The messages of a rank of three: pairs by name in this order, each to (s) or from (r) the other. */
static ls_schedule_t *make_pairs(int rank, const char *plan, int64_t count, bool swapped) {
  static const int pairs[][2] = {{0, 1}, {1, 2}, {0, 2}};
  ls_schedule_t *s = build_begin(ctx, rank, 3, 1);
  int group[3], a = build_transient(s, "a", count);
  for (int i = 0; i < 3; i++) {
    int p = swapped ? 2 - i : i;
    char name[8];
    snprintf(name, sizeof name, "%d-%d", pairs[p][0], pairs[p][1]);
    group[p] = ls_schedule_group(s, name, pairs[p], 2);
  }
  build_source(s, "a", a);
  for (; *plan; plan += 2) {
    int g = group[plan[0] - 'A'];
    int b = build_transient(s, "b", count);
    if (plan[1] == 's') ls_schedule_message(s, s->groups[g].name, g, LS_SEND, a);
    if (plan[1] != 'r') continue;
    ls_schedule_message(s, s->groups[g].name, g, LS_RECV, b);
    build_op1(s, &op_double, "read", b, build_transient(s, "read", count));
  }
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  return s;
}

/* A: ranks 0 and 1, B: 1 and 2, C: 0 and 2. */
static void test_worlds_with_groups(void **state) {
  static const struct {
    const char *plan[3];
    int64_t count; /* of rank 2 */
    bool swapped;
    const char *words[4];
  } cases[] = {
      {{"AsCr", "ArBs", "BrCs"}, 16, false, {NULL}}, /* around once */
      {{"CrAs", "BsAr", "CsBr"}, 16, false, {NULL}},
      {{"AsCr", "BsAr", "CsBr"},
       16,
       false,
       {"collective 0 differs", "rank 0 issues '0-1'", "rank 1 '1-2'"}}, /* a circle */
      {{"As", "As", ""}, 16, false, {"collective 0 differs", "rank 0 issues '0-1'", "rank 1 '0-1'"}},
      {{"As", "", ""}, 16, false, {"rank 0 issues '0-1'", "rank 1 'nothing'"}},
      {{"", "Ar", ""}, 16, false, {"rank 1 issues '0-1'", "rank 0 'nothing'"}},
      {{"AsCr", "ArBs", "BrCs"}, 17, false, {"collective 1 differs", "rank 1 issues '1-2'", "rank 2 '1-2'"}},
      {{"As", "Ar", ""}, 16, true, {"ranks 0 and 2 do not declare the same groups"}},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_schedule_t *s[3];
    for (int r = 0; r < 3; r++)
      s[r] = make_pairs(r, cases[i].plan[r], r == 2 ? cases[i].count : 16, r == 2 && cases[i].swapped);
    bool good = !cases[i].words[0];
    assert_int_equal(ls_schedule_check_world((const ls_schedule_t *const *)s, 3),
                     good ? LS_OK : LS_ERR_INTERNAL);
    for (int w = 0; w < 4 && cases[i].words[w]; w++)
      if (!strstr(ls_ctx_error(ctx), cases[i].words[w]))
        fail_msg("case %d: '%s' is not in: %s", i, cases[i].words[w], ls_ctx_error(ctx));
    ls_ctx_clear(ctx);
    for (int r = 0; r < 3; r++)
      ls_schedule_destroy(s[r]);
  }
}

TESTS(context_setup, context_teardown, test_good, test_not_finished, test_every_wait_is_needed,
      the_side_lane_needs_its_waits, test_wait_for_the_future, test_overlap_of_live_tensors,
      test_overwritten_before_its_read, test_data_are_only_read, test_output_over_an_input,
      test_outside_of_its_region, test_wrong_order, test_a_gather_in_place_is_where_the_other_parts_come_from,
      test_shapes_fit_the_op, test_worlds, test_worlds_with_groups)
