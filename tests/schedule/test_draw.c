/* Views of a schedule: parts, terminal bars, trace events. Times are made up, so results are exact. */

#include "base/context.h"
#include "build.h"

#include "unit.h"
#include <string.h>

enum { COPY_IN, FORWARD, BACKWARD, REDUCE, MORE, NORM, UPDATE, COPY_OUT, TASKS };

static ls_schedule_t *make(void) {
  ls_schedule_t *s = build_begin(ctx, 1, 2, 2);
  int host = build_at(s, "host", LS_REGION_HOST_NEXT, 0, 8),
      next = build_at(s, "next", LS_REGION_INPUT_NEXT, 0, 8);
  int x = build_transient(s, "x", 8), grad = build_at(s, "grad", BUILD_GRAD, 0, 8);
  int more = build_transient(s, "more", 8), stats = build_at(s, "stats", LS_REGION_STAT, 0, 8);
  int param = build_at(s, "param", BUILD_PARAM, 0, 8);
  ls_schedule_copy(s, LS_LANE_COPY_IN, LS_PHASE_STEP_INPUT, "copy in", host, next);
  build_source(s, "forward", x);
  s->tasks[build_op1(s, &op_double, "backward", x, grad)].phase = LS_PHASE_STEP_BACKWARD;
  ls_schedule_collective(s, "reduce", LS_GROUP_WORLD, LS_ALL_REDUCE, grad, grad);
  s->tasks[build_op1(s, &op_double, "more", x, more)].phase = LS_PHASE_STEP_BACKWARD;
  s->tasks[build_op1(s, &op_double, "norm", grad, stats)].phase = LS_PHASE_STEP_OPTIMIZER;
  s->tasks[build_op1(s, &op_update, "update", grad, param)].phase = LS_PHASE_STEP_OPTIMIZER;
  ls_schedule_copy(s, LS_LANE_COPY_OUT, LS_PHASE_STEP_REST, "copy out", stats,
                   build_at(s, "host stats", LS_REGION_HOST_STAT, 0, 8));
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  return s;
}

/* 100 columns of 10 us: forward 0-200, backward 200-400, more 400-500, reduce 400-700, norm 710-800, .. */
static const ls_task_time_t times[TASKS] = {
    [COPY_IN] = {50000, 150000}, [FORWARD] = {10000, 200000},    [BACKWARD] = {200000, 400000},
    [REDUCE] = {400000, 700000}, [MORE] = {400000, 500000},      [NORM] = {710000, 800000},
    [UPDATE] = {800000, 950000}, [COPY_OUT] = {960000, 1000000},
};

static void test_parts(void **state) {
  ls_schedule_t *s = make();
  int64_t parts[LS_PHASE_STEP_COUNT], sum = 0;
  ls_schedule_parts(s, times, parts);
  assert_int_equal(parts[LS_PHASE_STEP_INPUT], 0); /* hidden */
  assert_int_equal(parts[LS_PHASE_STEP_FORWARD], 190000);
  assert_int_equal(parts[LS_PHASE_STEP_BACKWARD], 300000);
  assert_int_equal(parts[LS_PHASE_STEP_COMM], 200000); /* 500 to 700 of 400 to 700 */
  assert_int_equal(parts[LS_PHASE_STEP_OPTIMIZER], 240000);
  assert_int_equal(parts[LS_PHASE_STEP_REST], 10000 + 10000 + 50000); /* gaps, and the tail: the copy out */
  for (int p = 0; p < LS_PHASE_STEP_COUNT; p++)
    sum += parts[p];
  assert_int_equal(sum, 1000000);

  ls_task_time_t late[TASKS]; /* the input arrives after everything else */
  memcpy(late, times, sizeof late);
  late[COPY_IN].end_ns = 1200000;
  ls_schedule_parts(s, late, parts);
  assert_int_equal(parts[LS_PHASE_STEP_INPUT], 250000);
  ls_schedule_destroy(s);
}

/* Compute waits for a sum over ranks, which waited for a gradient of the side lane: until 300 the backward pass is what
 * takes the time. */
static void a_wait_for_the_side_lane_is_no_communication(void **state) {
  ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
  int dy = build_transient(s, "dy", 8), dx = build_transient(s, "dx", 8);
  int dw = build_at(s, "dw", BUILD_GRAD, 0, 8), param = build_at(s, "param", BUILD_PARAM, 0, 8);
  build_source(s, "dy", dy);
  ls_schedule_op(s, LS_LANE_SIDE, LS_PHASE_STEP_BACKWARD, "dw", &op_double, NULL, 1, &dy, 1, &dw);
  s->tasks[build_op1(s, &op_double, "dx", dy, dx)].phase = LS_PHASE_STEP_BACKWARD;
  ls_schedule_collective(s, "sum", LS_GROUP_WORLD, LS_ALL_REDUCE, dw, dw);
  s->tasks[build_op1(s, &op_update, "update", dw, param)].phase = LS_PHASE_STEP_OPTIMIZER;
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  assert_string_equal(ls_lane_name(LS_LANE_SIDE), "side");
  s->tasks[0].phase = LS_PHASE_STEP_BACKWARD;
  const ls_task_time_t ran[] = {{0, 100}, {100, 300}, {100, 200}, {300, 450}, {450, 500}};
  int64_t parts[LS_PHASE_STEP_COUNT];
  ls_schedule_parts(s, ran, parts);
  assert_int_equal(parts[LS_PHASE_STEP_BACKWARD], 300);
  assert_int_equal(parts[LS_PHASE_STEP_COMM], 150);
  assert_int_equal(parts[LS_PHASE_STEP_OPTIMIZER], 50);
  assert_int_equal(parts[LS_PHASE_STEP_REST], 0);
  ls_schedule_destroy(s);
}

static int columns(const char *text, size_t len) {
  int n = 0;
  for (size_t i = 0; i < len; i++)
    n += ((unsigned char)text[i] & 0xc0) != 0x80;
  return n;
}

static void test_draw_measured(void **state) {
  ls_schedule_t *s = make();
  char *text = ls_schedule_draw(s, times, 109);
  static const char want[] =
      "rank 1 of 2: 8 tasks, step 1 ms (measured)\n"
      "compute   ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓                     "
      "████████████████████████\n"
      "comm                                             ▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞\n"
      "copy in       ▚▚▚▚▚▚▚▚▚▚\n"
      "copy out                                                                                              "
      "   ░░░░\n"
      "         "
      "├────────────────────────┬────────────────────────┬────────────────────────┬───────────────────────┤\n"
      "         0                     250 us                   500 us                   750 us               "
      "   1 ms\n"
      "▚ input 100 us (exposed 0)  ▒ forward 190 us  ▓ backward 300 us  ▞ communication 300 us (exposed 200 "
      "us)  "
      "█ optimizer 240 us  ░ rest 40 us\n";
  assert_string_equal(text, want);
  ls_free(text);
  ls_schedule_destroy(s);
}

/* No line of bars is wider than asked for; without times the title says what the widths are. */
static void test_draw_widths(void **state) {
  ls_schedule_t *s = make();
  for (int width = -5; width <= 200; width += 41)
    for (int measured = 0; measured <= 1; measured++) {
      char *text = ls_schedule_draw(s, measured ? times : NULL, width);
      assert_non_null(text);
      assert_true(measured || strstr(text, "work (FLOPs, else bytes), not time"));
      const char *line = strchr(text, '\n') + 1;
      for (int lane = 0; lane < 4; lane++, line = strchr(line, '\n') + 1)
        assert_true(columns(line, (size_t)(strchr(line, '\n') - line)) <= (width < 40 ? 40 : width));
      ls_free(text);
    }
  ls_schedule_destroy(s);
}

static void test_draw_without_memory(void **state) {
  ls_schedule_t *s = make();
  char *text = NULL;
  for (int n = 1; !text; n++) {
    ls_ctx_fail_alloc(ctx, n);
    text = ls_schedule_draw(s, times, 80);
    ls_ctx_fail_alloc(ctx, 0);
    assert_true(n > 2 || !text);
  }
  ls_free(text);
  ls_schedule_destroy(s);
}

static void test_trace(void **state) {
  ls_schedule_t *s = make();
  json_t *events = json_array();
  for (int step = 0; step < 2; step++)
    assert_int_equal(ls_schedule_trace(s, times, step, 0, step * INT64_C(2000000), events), LS_OK);
  int names = 0, tasks = 0, reductions = 0;
  size_t i;
  json_t *e;
  json_array_foreach(events, i, e) {
    const char *kind = json_string_value(json_object_get(e, "ph"));
    assert_int_equal(json_integer_value(json_object_get(e, "pid")), 1);
    names += !strcmp(kind, "M");
    tasks += !strcmp(kind, "X");
    if (strcmp(json_string_value(json_object_get(e, "name")), "reduce") != 0) continue;
    int64_t step = json_integer_value(json_object_get(json_object_get(e, "args"), "step"));
    assert_int_equal(step, reductions);
    assert_true(json_real_value(json_object_get(e, "ts")) == 400.0 + 2000.0 * (double)step);
    assert_true(json_real_value(json_object_get(e, "dur")) == 300.0);
    assert_int_equal(json_integer_value(json_object_get(e, "tid")), LS_LANE_COMM);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(e, "args"), "bytes")), 32);
    assert_string_equal(json_string_value(json_object_get(e, "cat")), "communication");
    reductions++;
  }
  assert_int_equal(names, 1 + LS_LANE_COUNT); /* once, however many steps */
  assert_int_equal(tasks, 2 * TASKS);
  assert_int_equal(reductions, 2);
  json_decref(events);
  ls_schedule_destroy(s);
}

TESTS(context_setup, context_teardown, test_parts, a_wait_for_the_side_lane_is_no_communication,
      test_draw_measured, test_draw_widths, test_draw_without_memory, test_trace)
