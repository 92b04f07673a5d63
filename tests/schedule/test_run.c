/* The runner: what it allocates is what fit says; slots, copies, capture and times; every refusal and every
 * failed allocation. */

#include "base/context.h"
#include "build.h"
#include "device/host/host.h"
#include "double.h"
#include "schedule/run_internal.h"

#include "unit.h"
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static const ls_op_t *const rows[] = {&op_source, &op_double,  &op_inplace, &op_sum,
                                      &op_update, &op_scratch, NULL};
static const ls_op_t *const *const lists[] = {rows};

static int setup(void **state) {
  double_ops(1, lists);
  return context_setup(state);
}

enum { WIDTH = 16, BYTES = WIDTH * sizeof(float) };

/* stats = 3 * (2 x); param += stats. With copies: the next x comes in, the stats go out. */
static ls_schedule_t *make(bool copies, int slots) {
  ls_schedule_t *s = build_begin(ctx, 0, 1, slots);
  int x = build_at(s, "x", LS_REGION_INPUT, 0, WIDTH);
  if (copies) {
    int host = build_at(s, "host x", LS_REGION_HOST_NEXT, 0, WIDTH);
    int next = build_at(s, "next x", LS_REGION_INPUT_NEXT, 0, WIDTH);
    ls_schedule_copy(s, LS_LANE_COPY_IN, LS_PHASE_STEP_INPUT, "next x", host, next);
  }
  int twice = build_transient(s, "twice", WIDTH), param = build_at(s, "param", BUILD_PARAM, 0, WIDTH);
  int stats = build_at(s, "stats", LS_REGION_STAT, 0, WIDTH);
  build_op1(s, &op_double, "twice", x, twice);
  build_op1(s, &op_scratch, "stats", twice, stats);
  if (copies)
    ls_schedule_copy(s, LS_LANE_COPY_OUT, LS_PHASE_STEP_REST, "stats", stats,
                     build_at(s, "host stats", LS_REGION_HOST_STAT, 0, WIDTH));
  build_op1(s, &op_update, "update", stats, param);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  assert_int_equal(ls_schedule_check(s), LS_OK);
  return s;
}

static ls_device_t *open_device(const ls_backend_t *backend) {
  ls_device_t *device;
  assert_int_equal(backend->device->open(ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  return device;
}

static ls_state_t *memory_of(const ls_schedule_t *s, ls_device_t *device) {
  ls_state_t *memory;
  assert_int_equal(ls_state_create(ctx, s->state, device, false, &memory), LS_OK);
  return memory;
}

static float *row_of(const ls_state_t *memory, ls_region_t region) {
  return memory->data[region - LS_REGION_STATE];
}

static void fill(ls_run_t *run, int slot, int step) {
  float *x = ls_run_input(run, "x", slot);
  for (int k = 0; k < WIDTH; k++)
    x[k] = (float)(step * 100 + k);
}

static void expect_stats(const float *stats, int step) {
  assert_non_null(stats);
  for (int k = 0; k < WIDTH; k++)
    assert_true(stats[k] == (float)(6 * (step * 100 + k)));
}

/* Launches one ahead of the wait, as a loop that hides the host does. */
static void run_steps(const ls_backend_t *backend, bool copies, int slots, ls_run_timing_t timed) {
  enum { STEPS = 9 };
  ls_schedule_t *s = make(copies, slots);
  ls_device_t *device = open_device(backend);
  ls_state_t *memory = memory_of(s, device);
  float *param = row_of(memory, BUILD_PARAM), sum[WIDTH] = {0};
  ls_run_t *run;
  ls_run_options_t options = {.timed = timed};
  assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, memory, &options, &run), LS_OK);
  fill(run, 0, 0);
  assert_int_equal(ls_run_prime(run, 0), LS_OK);
  for (int step = 0; step < STEPS; step++) {
    const float *stats = NULL;
    if (slots > 1) fill(run, (step + 1) % slots, step + 1);
    if (slots == 1 && step) fill(run, 0, step);
    assert_int_equal(ls_run_launch(run, step % slots, 0), LS_OK);
    int wait_for = slots > 2 ? step - 1 : step; /* with three slots one step stays in flight */
    if (wait_for < 0) continue;
    assert_int_equal(ls_run_wait(run, wait_for % slots, &stats), LS_OK);
    expect_stats(stats, wait_for);
  }
  const float *stats;
  assert_int_equal(ls_run_wait(run, (STEPS - 1) % slots, &stats), LS_OK);
  expect_stats(stats, STEPS - 1);
  for (int step = 0; step < STEPS; step++)
    for (int k = 0; k < WIDTH; k++)
      sum[k] += (float)(6 * (step * 100 + k));
  assert_memory_equal(param, sum, sizeof sum);

  const ls_task_time_t *times = ls_run_times(run);
  bool all = timed == LS_TIMED_TASKS || backend->synchronous;
  assert_true(all == (times != NULL));
  for (int t = 0; all && t < s->task_count; t++)
    assert_true(times[t].start_ns >= 0 && times[t].end_ns >= times[t].start_ns);
  int64_t parts[LS_PHASE_STEP_COUNT], total = 0;
  ls_run_parts(run, parts);
  for (int p = 0; p < LS_PHASE_STEP_COUNT; p++)
    total += parts[p];
  assert_true(all ? total > 0 : total == 0);
  ls_run_destroy(run);
  ls_state_destroy(memory);
  backend->device->close(device);
  ls_schedule_destroy(s);
}

static void test_steps(void **state) {
  for (ls_run_timing_t timed = LS_TIMED_NOTHING; timed <= LS_TIMED_TASKS; timed++) {
    for (int slots = 1; slots <= 4; slots++)
      run_steps(&ls_backend_ref, false, slots, timed);
    for (int slots = 2; slots <= 4; slots++) {
      run_steps(&ls_backend_ref, true, slots, timed);
      run_steps(&double_eager, true, slots, timed);
      run_steps(&double_capture, true, slots, timed);
    }
  }
}

/* Captured once per slot, then one launch a step; with its events where tasks are timed. */
static void test_capture(void **state) {
  for (ls_run_timing_t timed = LS_TIMED_NOTHING; timed <= LS_TIMED_TASKS; timed++) {
    ls_schedule_t *s = make(true, 3);
    ls_device_t *device = open_device(&double_capture);
    ls_state_t *memory = memory_of(s, device);
    ls_run_t *run;
    ls_run_options_t options = {.timed = timed};
    assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, memory, &options, &run), LS_OK);
    assert_int_equal(double_counts(device)->captures, 3);
    assert_true(row_of(memory, BUILD_PARAM)[5] == 0); /* capturing runs nothing */
    for (int step = 0; step < 7; step++) {
      assert_int_equal(ls_run_launch(run, step % 3, 0), LS_OK);
      assert_int_equal(ls_run_wait(run, step % 3, NULL), LS_OK);
    }
    assert_int_equal(double_counts(device)->launches, 7);
    ls_run_destroy(run);
    ls_state_destroy(memory);
    device->backend->device->close(device);
    ls_schedule_destroy(s);
  }
}

static void test_fit_is_what_is_allocated(void **state) {
  for (int slots = 2; slots <= 4; slots++)
    for (int capture = 0; capture <= 1; capture++) {
      const ls_backend_t *backend = capture ? &double_capture : &double_eager;
      ls_schedule_t *s = make(true, slots);
      ls_device_t *device = open_device(backend);
      ls_fit_t fit;
      ls_program_fit(PROGRAM(s), &fit);
      ls_state_t *memory = memory_of(s, device);
      ls_run_t *run;
      assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, memory, NULL, &run), LS_OK);
      const int64_t not_named = (BUILD_GRAD_COUNT + BUILD_DATA_COUNT) * (int64_t)sizeof(float);
      assert_int_equal(double_counts(device)->device_bytes, fit.device_total_bytes + not_named);
      assert_int_equal(double_counts(device)->host_bytes, fit.host_pinned_bytes);
      assert_int_equal(ls_fit_bytes(&fit, "parameters"), BUILD_PARAM_COUNT * sizeof(float));
      assert_int_equal(ls_fit_bytes(&fit, "inputs"), slots * BYTES);
      assert_int_equal(fit.host_pinned_bytes, slots * 2 * BYTES);
      int64_t before = double_counts(device)->allocations;
      assert_int_equal(ls_run_launch(run, 0, 0), LS_OK); /* a step allocates nothing */
      assert_int_equal(ls_run_wait(run, 0, NULL), LS_OK);
      assert_int_equal(double_counts(device)->allocations, before);
      ls_run_destroy(run);
      ls_state_destroy(memory);
      assert_int_equal(double_counts(device)->device_bytes, 0);
      assert_int_equal(double_counts(device)->host_bytes, 0);
      backend->device->close(device);
      ls_schedule_destroy(s);
    }
}

/* Two runs in one block, in turn; a block that is too small is not used. */
static void test_runs_share_transient_memory(void **state) {
  const ls_backend_t *backend = &double_eager;
  ls_schedule_t *s = make(true, 2);
  ls_device_t *device = open_device(backend);
  ls_state_t *memory = memory_of(s, device);
  ls_run_options_t options = {.transient_bytes = s->run_bytes[LS_REGION_TRANSIENT]};
  ls_run_t *run[3];
  int64_t before[4];
  assert_int_equal(backend->buffer->alloc(device, LS_MEM_DEVICE, options.transient_bytes, &options.transient),
                   LS_OK);
  for (int i = 0; i < 3; i++) {
    before[i] = double_counts(device)->device_bytes;
    if (i == 2) options.transient_bytes--;
    assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, memory, &options, &run[i]), LS_OK);
  }
  before[3] = double_counts(device)->device_bytes;
  assert_int_equal(before[2] - before[1], before[1] - before[0]);
  assert_int_equal(before[3] - before[2], before[1] - before[0] + (int64_t)s->run_bytes[LS_REGION_TRANSIENT]);
  for (int step = 0; step < 6; step++) {
    const float *stats;
    ls_run_t *now = run[step % 3];
    fill(now, 0, step);
    assert_int_equal(ls_run_prime(now, 0), LS_OK);
    assert_int_equal(ls_run_launch(now, 0, 0), LS_OK);
    assert_int_equal(ls_run_wait(now, 0, &stats), LS_OK);
    expect_stats(stats, step);
  }
  for (int i = 0; i < 3; i++)
    ls_run_destroy(run[i]);
  backend->buffer->free(device, LS_MEM_DEVICE, options.transient); /* still the lender's */
  ls_state_destroy(memory);
  assert_int_equal(double_counts(device)->device_bytes, 0);
  device->backend->device->close(device);
  ls_schedule_destroy(s);
}

static void expect_refused(ls_schedule_t *s, ls_device_t *device, ls_comm_t *comm, const ls_state_t *state,
                           ls_status_t want, const char *word) {
  ls_run_t *run = NULL;
  assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, comm, state, NULL, &run), want);
  assert_null(run);
  if (!strstr(ls_ctx_error(ctx), word)) fail_msg("'%s' is not in: %s", word, ls_ctx_error(ctx));
  ls_ctx_clear(ctx);
}

static void test_refusals(void **state) {
  ls_device_t *host = open_device(&ls_backend_ref), *device = open_device(&double_eager);
  ls_schedule_t *s = make(false, 2), *other = make(false, 2);
  ls_state_t *memory = memory_of(s, device), *foreign = memory_of(other, host);
  expect_refused(s, host, NULL, NULL, LS_ERR_ARGUMENT, "no memory for 'param'");
  expect_refused(s, host, NULL, foreign, LS_ERR_ARGUMENT, "no memory for 'param'");
  expect_refused(s, device, NULL, memory, LS_ERR_ARGUMENT, "must copy its input");
  ls_state_destroy(foreign);
  ls_state_destroy(memory);
  ls_schedule_destroy(other);
  ls_schedule_destroy(s);

  s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 4), b = build_transient(s, "b", 4);
  expect_refused(s, host, NULL, NULL, LS_ERR_ARGUMENT, "not finished");
  build_source(s, "a", a);
  build_op1(s, &op_device_only, "here", a, b);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  expect_refused(s, host, NULL, NULL, LS_ERR_UNSUPPORTED,
                 "ref has no kernel for op 'device_only' (task 'here')");
  expect_refused(s, device, NULL, NULL, LS_ERR_UNSUPPORTED, "double has no kernel");
  ls_schedule_destroy(s);

  s = build_begin(ctx, 0, 2, 1);
  a = build_transient(s, "a", 4);
  build_source(s, "a", a);
  ls_schedule_collective(s, "reduce", LS_GROUP_WORLD, LS_ALL_REDUCE, a, a);
  build_op1(s, &op_double, "b", a, build_transient(s, "b", 4));
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  expect_refused(s, host, NULL, NULL, LS_ERR_ARGUMENT, "without a communicator");
  ls_comm_t *self;
  assert_int_equal(ls_comm_self_create(ctx, &self), LS_OK);
  expect_refused(s, host, self, NULL, LS_ERR_ARGUMENT, "rank 0 of 2");
  ls_comm_destroy(self);
  ls_schedule_destroy(s);
  host->backend->device->close(host);
  device->backend->device->close(device);
}

static void test_reads_and_names(void **state) {
  ls_schedule_t *s = make(false, 2);
  ls_device_t *device = open_device(&ls_backend_ref);
  ls_state_t *memory = memory_of(s, device);
  float out[WIDTH];
  ls_run_t *run;
  assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, memory, NULL, &run), LS_OK);
  assert_null(ls_run_input(run, "no such tensor", 0));
  assert_null(ls_run_input(run, "stats", 0)); /* not an input */
  assert_null(ls_run_input(run, "x", 2));
  assert_null(ls_run_input(run, "x", -1));
  assert_ptr_not_equal(ls_run_input(run, "x", 0), ls_run_input(run, "x", 1));
  fill(run, 1, 3);
  assert_int_equal(ls_run_launch(run, 2, 0), LS_ERR_ARGUMENT);
  assert_int_equal(ls_run_wait(run, -1, NULL), LS_ERR_ARGUMENT);
  assert_int_equal(ls_run_launch(run, 1, 0), LS_OK);
  assert_int_equal(ls_run_read(run, "stats", 1, out, sizeof out), LS_OK);
  expect_stats(out, 3);
  assert_int_equal(ls_run_read(run, "x", 1, out, sizeof out), LS_OK);
  assert_true(out[2] == 302);
  assert_int_equal(ls_run_read(run, "stats", 1, out, sizeof out - 4), LS_ERR_ARGUMENT);
  assert_int_equal(ls_run_read(run, "nothing", 1, out, sizeof out), LS_ERR_NOT_FOUND);
  ls_run_destroy(run);
  ls_run_destroy(NULL);
  ls_state_destroy(memory);
  device->backend->device->close(device);
  ls_schedule_destroy(s);
}

/* The last collective goes where compute would only wait for it; those before it keep their lane and their
 * order. The schedule says so: what runs is what is priced, drawn and checked. */
static void test_last_collective_stays_here(void **state) {
  ls_comm_t *self;
  assert_int_equal(ls_comm_self_create(ctx, &self), LS_OK);
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  enum { LONG = 1 << 16 };
  int a = build_at(s, "a", BUILD_GRAD, 0, LONG), b = build_at(s, "b", BUILD_GRAD, LONG, LONG + 16);
  int twice_a = build_at(s, "twice a", LS_REGION_STAT, 16, 16 + LONG),
      twice_b = build_at(s, "2b", LS_REGION_STAT, 0, 16);
  build_source(s, "a", a);
  int first = ls_schedule_collective(s, "reduce a", LS_GROUP_WORLD, LS_ALL_REDUCE, a, a);
  build_source(s, "b", b);
  int last = ls_schedule_collective(s, "reduce b", LS_GROUP_WORLD, LS_ALL_REDUCE, b, b);
  int next = build_op1(s, &op_double, "2b", b, twice_b);
  build_op1(s, &op_double, "2a", a, twice_a);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  assert_int_equal(s->tasks[last].lane, LS_LANE_COMM);
  s->lanes_are_threads = true;
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  assert_int_equal(s->tasks[first].lane, LS_LANE_COMM);
  assert_int_equal(s->tasks[last].lane, LS_LANE_COMPUTE);
  assert_int_equal(s->tasks[last].wait_count, 1);
  assert_int_equal(s->tasks[last].wait[0], first); /* nothing but the order of collectives asks for it */
  assert_int_equal(ls_schedule_check(s), LS_OK);
  ls_device_t *device = open_device(&ls_backend_ref);
  ls_state_t *memory = memory_of(s, device);
  float *grad = row_of(memory, BUILD_GRAD);
  ls_run_t *run;
  assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, self, memory, NULL, &run), LS_OK);
  for (int step = 0; step < 50; step++) {
    const float *stats;
    memset(grad, 0xff, (LONG + 16) * sizeof(float));
    assert_int_equal(ls_run_launch(run, 0, 0), LS_OK);
    assert_int_equal(ls_run_wait(run, 0, &stats), LS_OK);
    for (int k = 0; k < 16; k++)
      assert_true(stats[k] == (float)(2 * k + 2));
    const ls_task_time_t *times = ls_run_times(run);
    assert_true(times[last].start_ns >= times[first].end_ns);
    assert_true(times[next].start_ns >= times[last].end_ns);
  }
  ls_run_destroy(run);
  s->tasks[last].wait_count = 0;
  assert_int_equal(ls_schedule_check(s), LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "'reduce b' may run before, without waiting, task 1 'reduce a'"));
  ls_ctx_clear(ctx);
  ls_state_destroy(memory);
  device->backend->device->close(device);
  ls_schedule_destroy(s);
  ls_comm_destroy(self);
}

enum { OTHERS_NS = 2000000 };
static const ls_run_t *watched_run;
static int watched_task;

/* Another rank that is late: it comes when this one has begun to wait for it, and OTHERS_NS later. */
static ls_status_t late(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_event_t *from = watched_run->member[0].slot[0].from[watched_task];
  ls_signal_wait(&from->passed, 1, 0);
  nanosleep(&(struct timespec){.tv_nsec = OTHERS_NS}, NULL);
  return op_double.forward(stream, args);
}

/* A device's captured step tells how long compute waits for others, and nothing else. */
static void test_waits_for_others_are_timed(void **state) {
  ls_op_t op_late = op_double;
  op_late.name = "late";
  op_late.forward = late;
  const ls_op_t *const with_late[] = {&op_source, &op_double, &op_sum, &op_late, NULL};
  const ls_op_t *const *const all[] = {with_late};
  double_ops(1, all);
  const ls_backend_t *const backends[] = {&double_eager, &double_capture};
  for (int i = 0; i < LS_COUNT(backends); i++) {
    ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
    int a = build_transient(s, "a", WIDTH), b = build_transient(s, "b", WIDTH);
    int own = build_transient(s, "own", WIDTH), theirs = build_transient(s, "theirs", WIDTH);
    build_source(s, "a", a);
    ls_schedule_op(s, LS_LANE_COMM, LS_PHASE_STEP_COMM, "late", &op_late, NULL, 1, &a, 1, &theirs);
    build_op1(s, &op_double, "own", a, own);
    watched_task = build_op2(s, &op_sum, "sum", own, theirs, b);
    int stats_at = build_at(s, "stats", LS_REGION_STAT, 0, WIDTH);
    build_op1(s, &op_double, "stats", b, stats_at);
    ls_schedule_copy(s, LS_LANE_COPY_OUT, LS_PHASE_STEP_REST, "stats", stats_at,
                     build_at(s, "host stats", LS_REGION_HOST_STAT, 0, WIDTH));
    assert_int_equal(ls_schedule_finish(s), LS_OK);
    ls_device_t *device = open_device(backends[i]);
    ls_run_t *run;
    ls_run_options_t options = {.timed = LS_TIMED_WAITS};
    assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, NULL, &options, &run), LS_OK);
    watched_run = run;
    assert_int_equal(ls_run_launch(run, 0, 0), LS_OK);
    const float *stats;
    assert_int_equal(ls_run_wait(run, 0, &stats), LS_OK);
    for (int k = 0; k < WIDTH; k++)
      assert_true(stats[k] == (float)(8 * (k + 1)));
    int64_t parts[LS_PHASE_STEP_COUNT];
    ls_run_parts(run, parts);
    assert_null(ls_run_times(run));
    for (int p = 0; p < LS_PHASE_STEP_COUNT; p++)
      assert_true(p == LS_PHASE_STEP_COMM ? parts[p] >= OTHERS_NS : parts[p] == 0);
    for (int unit = 1; unit <= 4; unit++) { /* not timed again before it is due */
      run->watch_next_ns = unit < 4 ? INT64_MAX : 0;
      assert_int_equal(ls_run_launch(run, 0, unit), LS_OK);
      assert_int_equal(ls_run_wait(run, 0, &stats), LS_OK);
      ls_run_parts(run, parts);
      assert_true(ls_signal_reached(&run->member[0].slot[0].from[watched_task]->passed, 2) == (unit == 4));
      assert_true(ls_run_timed(run) == (unit == 4) && (parts[LS_PHASE_STEP_COMM] > 0) == (unit == 4));
      assert_true(stats[WIDTH - 1] == 8 * WIDTH);
    }
    ls_run_destroy(run);
    device->backend->device->close(device);
    ls_schedule_destroy(s);
  }
}

static ls_status_t add_one(void *arg) {
  ++*(int *)arg;
  return LS_OK;
}

/* A call comes after the launches before it and before the next. */
static void test_calls_have_their_place(void **state) {
  ls_schedule_t *s = make(true, 2);
  ls_device_t *device = open_device(&double_capture);
  ls_state_t *memory = memory_of(s, device);
  ls_run_t *run;
  assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, memory, NULL, &run), LS_OK);
  fill(run, 0, 0);
  assert_int_equal(ls_run_prime(run, 0), LS_OK);
  int calls = 0;
  for (int step = 0; step < 5; step++) {
    fill(run, (step + 1) % 2, step + 1);
    assert_int_equal(ls_run_call(run, add_one, &calls), LS_OK);
    assert_int_equal(ls_run_launch(run, step % 2, 0), LS_OK);
    const float *stats;
    assert_int_equal(ls_run_wait(run, step % 2, &stats), LS_OK);
    assert_int_equal(calls, step + 1);
  }
  ls_run_destroy(run);
  ls_state_destroy(memory);
  device->backend->device->close(device);
  ls_schedule_destroy(s);
}

/* However late the host looks, a launch took what it took: here less than from the beginning until all was over. */
static void the_device_tells_how_long_a_launch_took(void **state) {
  enum { SLOTS = 2 };
  const ls_backend_t *const backends[] = {&double_eager, &double_capture};
  for (int i = 0; i < LS_COUNT(backends); i++)
    for (int timed = 0; timed < 2; timed++) {
      ls_schedule_t *s = make(true, SLOTS);
      ls_device_t *device = open_device(backends[i]);
      ls_state_t *memory = memory_of(s, device);
      ls_run_t *run;
      float unused[WIDTH];
      const float *stats;
      ls_run_options_t options = {.timed = timed ? LS_TIMED_WAITS : LS_TIMED_NOTHING};
      assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, memory, &options, &run), LS_OK);
      for (int pair = 0; pair < 5; pair++) {
        const int64_t begin_ns = ls_clock_ns();
        for (int slot = 0; slot < SLOTS; slot++)
          assert_int_equal(ls_run_launch(run, slot, 2 * pair + slot), LS_OK);
        assert_int_equal(ls_run_read(run, "stats", 0, unused, sizeof unused), LS_OK); /* both are over */
        const int64_t over_ns = ls_clock_ns();
        assert_int_equal(ls_run_wait(run, 0, &stats), LS_OK);
        assert_true((ls_run_since_ns(run) > 0) == (timed && pair > 0));
        while (ls_clock_ns() - over_ns <= over_ns - begin_ns) { /* the host is late */
        }
        assert_int_equal(ls_run_wait(run, 1, &stats), LS_OK);
        const int64_t since_ns = ls_run_since_ns(run);
        assert_true(timed ? since_ns > 0 && since_ns <= over_ns - begin_ns : since_ns == 0);
      }
      ls_run_destroy(run);
      ls_state_destroy(memory);
      device->backend->device->close(device);
      ls_schedule_destroy(s);
    }
}

static atomic_bool released;

/* A kernel that does not come back before it is told to. */
static ls_status_t stuck(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  (void)args;
  while (!atomic_load(&released)) {
  }
  return LS_OK;
}

static ls_status_t stuck_shape(ls_ctx_t *c, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)c;
  (void)attrs;
  out[0] = in[0];
  return LS_OK;
}

/* A device that hangs: the wait ends at its deadline, and names rank, step and what may be pending. */
static void test_wait_has_a_deadline(void **state) {
  static const ls_op_t op_stuck = {
      .name = "stuck", .in_count = 1, .out_count = 1, .shape = stuck_shape, .forward = stuck};
  static const ls_op_t *const with_stuck[] = {&op_source, &op_double, &op_stuck, NULL};
  static const ls_op_t *const *const all[] = {with_stuck};
  double_ops(1, all);
  ls_comm_t *self;
  assert_int_equal(ls_comm_self_create(ctx, &self), LS_OK);
  ls_comm_set_step(self, 77);
  ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
  int a = build_transient(s, "a", 4), b = build_transient(s, "b", 4), c = build_transient(s, "c", 4);
  build_source(s, "a", a);
  build_op1(s, &op_stuck, "hang", a, b);
  ls_schedule_collective(s, "gradients 0", LS_GROUP_WORLD, LS_ALL_REDUCE, b, b);
  build_op1(s, &op_double, "c", b, c);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  ls_device_t *device = open_device(&double_eager);
  ls_run_t *run;
  ls_run_options_t options = {.deadline_ns = 1000000};
  atomic_store(&released, false);
  assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, self, NULL, &options, &run), LS_OK);
  assert_int_equal(ls_run_launch(run, 0, 0), LS_OK);
  assert_int_equal(ls_run_wait(run, 0, NULL), LS_ERR_TIMEOUT);
  assert_non_null(strstr(ls_ctx_error(ctx), "rank 0"));
  assert_non_null(strstr(ls_ctx_error(ctx), "step 77"));
  assert_non_null(strstr(ls_ctx_error(ctx), "'gradients 0'"));
  assert_int_equal(ls_run_launch(run, 0, 0), LS_ERR_TIMEOUT); /* it stays broken */
  assert_int_equal(ls_run_wait(run, 0, NULL), LS_ERR_TIMEOUT);
  assert_int_equal(ls_ctx_error_count(ctx), 1);
  atomic_store(&released, true);
  ls_run_destroy(run);
  device->backend->device->close(device);
  ls_schedule_destroy(s);
  ls_comm_destroy(self);
}

static void test_every_allocation_fails_once(void **state) {
  ls_schedule_t *s = make(true, 2);
  ls_device_t *device = open_device(&double_capture);
  ls_state_t *memory = memory_of(s, device);
  const double_count_t before = *double_counts(device);
  for (int kind = 0; kind < 2; kind++) { /* of the host, then of the device */
    ls_status_t status = LS_ERR_MEMORY;
    for (int n = 1; status; n++) {
      ls_run_t *run = NULL;
      if (kind == 0) ls_ctx_fail_alloc(ctx, n);
      if (kind == 1) double_counts(device)->refuse = n;
      ls_run_options_t options = {.timed = (ls_run_timing_t)(n % 3)};
      status = ls_run_create(ctx, PROGRAM(s), device, NULL, memory, &options, &run);
      ls_ctx_fail_alloc(ctx, 0);
      double_counts(device)->refuse = 0;
      assert_true(status == LS_OK || status == LS_ERR_MEMORY);
      assert_true((status == LS_OK) == (run != NULL));
      assert_true(n > 6 || status);
      ls_run_destroy(run);
      assert_int_equal(double_counts(device)->device_bytes, before.device_bytes);
      assert_int_equal(double_counts(device)->host_bytes, before.host_bytes);
    }
  }
  ls_state_destroy(memory);
  device->backend->device->close(device);
  ls_schedule_destroy(s);
}

/* Kernels may keep what they made of rows that nothing writes, until something does. */
static void rows_that_nothing_writes_last(void **state) {
  for (int writes = 0; writes <= 1; writes++) {
    ls_schedule_t *s = build_begin(ctx, 0, 1, 1);
    int param = build_at(s, "param", BUILD_PARAM, 0, WIDTH), twice = build_transient(s, "twice", WIDTH);
    build_op1(s, &op_double, "twice", param, twice);
    build_op1(s, &op_double, "four", twice, build_at(s, "stats", LS_REGION_STAT, 0, WIDTH));
    if (writes) build_op1(s, &op_update, "update", twice, param);
    assert_int_equal(ls_schedule_finish(s), LS_OK);
    ls_device_t *device = open_device(&ls_backend_ref);
    ls_state_t *memory = memory_of(s, device);
    ls_run_t *run;
    assert_int_equal(ls_run_create(ctx, PROGRAM(s), device, NULL, memory, NULL, &run), LS_OK);
    const ls_bound_task_t *bound = run->member[0].slot[0].bound;
    assert_int_equal(bound[0].args.stable, writes ? 0 : 1);
    assert_int_equal(bound[1].args.stable, 0);
    const uint64_t epoch = device->epoch;
    assert_int_equal(ls_run_launch(run, 0, 0), LS_OK);
    assert_int_equal(device->epoch - epoch, writes);
    ls_run_destroy(run);
    ls_state_destroy(memory);
    device->backend->device->close(device);
    ls_schedule_destroy(s);
  }
}

TESTS(setup, context_teardown, test_steps, test_capture, test_waits_for_others_are_timed,
      the_device_tells_how_long_a_launch_took, test_calls_have_their_place, rows_that_nothing_writes_last,
      test_fit_is_what_is_allocated, test_runs_share_transient_memory, test_refusals, test_reads_and_names,
      test_last_collective_stays_here, test_wait_has_a_deadline, test_every_allocation_fails_once)
