/* Streams and events of the host backends: order, waiting, errors that stick and travel, deadlines. */
#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "unit.h"

static const ls_stream_ops_t *ops;

typedef struct {
  ls_ctx_t *ctx;
  ls_device_t *device;
  ls_stream_t *compute, *side, *third;
} bed_t;

static int bed_open(void **state) {
  static bed_t bed;
  memset(&bed, 0, sizeof bed);
  bed.ctx = ls_ctx_create(NULL, NULL);
  ops = ls_backend_cpu.stream;
  if (ls_backend_cpu.device->open(bed.ctx, &(ls_device_options_t){.threads = 1}, &bed.device)) return 1;
  if (ops->create(bed.device, LS_STREAM_INLINE, &bed.compute)) return 1;
  if (ops->create(bed.device, LS_STREAM_ASYNC, &bed.side)) return 1;
  if (ops->create(bed.device, LS_STREAM_ASYNC, &bed.third)) return 1;
  *state = &bed;
  return 0;
}

static int bed_close(void **state) {
  bed_t *bed = *state;
  ops->destroy(bed->third);
  ops->destroy(bed->side);
  ops->destroy(bed->compute);
  ls_backend_cpu.device->close(bed->device);
  ls_ctx_destroy(bed->ctx);
  return 0;
}

/* A gate holds a stream until the test opens it. */
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool open;
} gate_t;
#define GATE_CLOSED                                                                                          \
  { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }

static ls_status_t gate_pass(void *arg) {
  gate_t *gate = arg;
  pthread_mutex_lock(&gate->lock);
  while (!gate->open)
    pthread_cond_wait(&gate->changed, &gate->lock);
  pthread_mutex_unlock(&gate->lock);
  return LS_OK;
}

static void gate_open(gate_t *gate) {
  pthread_mutex_lock(&gate->lock);
  gate->open = true;
  pthread_cond_broadcast(&gate->changed);
  pthread_mutex_unlock(&gate->lock);
}

typedef struct {
  int *next; /* position in the log */
  int *log;
  int id;
} entry_t;

static ls_status_t write_entry(void *arg) {
  entry_t *e = arg;
  e->log[(*e->next)++] = e->id;
  return LS_OK;
}

static ls_status_t fail_comm(void *arg) {
  (void)arg;
  return LS_ERR_COMM;
}
static ls_status_t fail_shape(void *arg) {
  (void)arg;
  return LS_ERR_SHAPE;
}

/* More items than the ring holds, so that the putting side has to wait for room. */
static void order_through_a_full_ring(void **state) {
  bed_t *bed = *state;
  enum { COUNT = 5000 };
  static int log[COUNT];
  static entry_t entry[COUNT];
  int next = 0;
  gate_t gate = GATE_CLOSED;
  assert_int_equal(ops->call(bed->side, gate_pass, &gate), LS_OK);
  for (int i = 0; i < COUNT; i++) {
    entry[i] = (entry_t){&next, log, i};
    if (i == 900) gate_open(&gate);
    assert_int_equal(ops->call(bed->side, write_entry, &entry[i]), LS_OK);
  }
  assert_int_equal(ops->sync(bed->side, 0), LS_OK);
  assert_int_equal(next, COUNT);
  for (int i = 0; i < COUNT; i++)
    assert_int_equal(log[i], i);
}

static ls_status_t add_kernel(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  float *y = args->out[0].data;
  const float *x = args->in[0].data;
  y[0] += x[0];
  return LS_OK;
}

static void copies_and_kernels_in_order(void **state) {
  bed_t *bed = *state;
  ls_stream_t *const streams[] = {bed->compute, bed->side};
  for (int s = 0; s < 2; s++) {
    float x = 1, y = 0, seen[3] = {0};
    ls_tensor_t in = {&x, LS_SHAPE(LS_F32, 1)}, out = {&y, LS_SHAPE(LS_F32, 1)};
    ls_kernel_args_t args = {.in = &in, .in_count = 1, .out = &out, .out_count = 1};
    for (int i = 0; i < 3; i++) {
      assert_int_equal(ops->launch(streams[s], add_kernel, &args), LS_OK);
      assert_int_equal(ops->copy(streams[s], &seen[i], &y, sizeof y), LS_OK);
    }
    assert_int_equal(ops->sync(streams[s], 0), LS_OK);
    for (int i = 0; i < 3; i++)
      assert_true(seen[i] == (float)(i + 1));
  }
}

/* What the waiting stream reads must be what the recording stream wrote before. */
static void events_order_streams(void **state) {
  bed_t *bed = *state;
  ls_event_t *done, *read;
  assert_int_equal(ops->event_create(bed->device, false, &done), LS_OK);
  assert_int_equal(ops->event_create(bed->device, false, &read), LS_OK);
  static float source[512], between[512], target[512];
  for (int round = 0; round < 300; round++) {
    source[0] = source[511] = (float)round;
    assert_int_equal(ops->copy(bed->side, between, source, sizeof source), LS_OK);
    assert_int_equal(ops->record(bed->side, done), LS_OK);
    assert_int_equal(ops->wait(bed->third, done), LS_OK);
    assert_int_equal(ops->copy(bed->third, target, between, sizeof target), LS_OK);
    assert_int_equal(ops->record(bed->third, read), LS_OK);
    assert_int_equal(ops->wait(bed->compute, read), LS_OK); /* blocks: target is ready after it */
    assert_true(target[0] == (float)round && target[511] == (float)round);
  }
  ops->event_destroy(read);
  ops->event_destroy(done);
}

static void an_event_never_recorded_has_passed(void **state) {
  bed_t *bed = *state;
  ls_event_t *event;
  assert_int_equal(ops->event_create(bed->device, false, &event), LS_OK);
  assert_int_equal(ops->wait(bed->compute, event), LS_OK);
  ops->event_destroy(event);
}

static void sync_keeps_its_deadline(void **state) {
  bed_t *bed = *state;
  gate_t gate = GATE_CLOSED;
  assert_int_equal(ops->call(bed->side, gate_pass, &gate), LS_OK);
  assert_int_equal(ops->sync(bed->side, 1000000), LS_ERR_TIMEOUT);
  assert_int_equal(ls_ctx_error_count(bed->ctx), 0); /* the caller reports it */
  gate_open(&gate);
  assert_int_equal(ops->sync(bed->side, 0), LS_OK);
}

static void first_error_sticks_and_work_is_skipped(void **state) {
  bed_t *bed = *state;
  ls_stream_t *const streams[] = {bed->compute, bed->side};
  for (int s = 0; s < 2; s++) {
    int next = 0, log[2];
    entry_t before = {&next, log, 1}, after = {&next, log, 2};
    ops->call(streams[s], write_entry, &before);
    ops->call(streams[s], fail_comm, NULL);
    ops->call(streams[s], write_entry, &after);
    ops->call(streams[s], fail_shape, NULL);
    assert_int_equal(ops->sync(streams[s], 0), LS_ERR_COMM);
    assert_int_equal(ops->sync(streams[s], 0), LS_ERR_COMM);
    assert_int_equal(next, 1);
  }
}

/* A failed stream must not hang its waiters, and they must not go on as if nothing had happened. */
static void an_error_travels_with_the_event(void **state) {
  bed_t *bed = *state;
  int next = 0, log[1];
  entry_t after = {&next, log, 1};
  ls_event_t *event;
  assert_int_equal(ops->event_create(bed->device, false, &event), LS_OK);
  ops->call(bed->side, fail_comm, NULL);
  ops->record(bed->side, event);
  assert_int_equal(ops->wait(bed->compute, event), LS_ERR_COMM);
  assert_int_equal(ops->call(bed->compute, write_entry, &after), LS_ERR_COMM);
  assert_int_equal(ops->sync(bed->compute, 0), LS_ERR_COMM);
  assert_int_equal(next, 0);
  ops->event_destroy(event);
}

static void timed_events(void **state) {
  bed_t *bed = *state;
  ls_event_t *from, *to, *plain;
  int64_t ns = -1;
  assert_int_equal(ops->event_create(bed->device, true, &from), LS_OK);
  assert_int_equal(ops->event_create(bed->device, true, &to), LS_OK);
  assert_int_equal(ops->event_create(bed->device, false, &plain), LS_OK);
  assert_int_equal(ops->elapsed(from, to, &ns), LS_ERR_ARGUMENT); /* nothing recorded yet */
  ops->record(bed->compute, from);
  ops->record(bed->compute, plain);
  gate_t gate = GATE_CLOSED;
  ops->call(bed->side, gate_pass, &gate);
  ops->record(bed->side, to);
  assert_int_equal(ops->elapsed(from, to, &ns), LS_ERR_ARGUMENT); /* recorded, not passed */
  gate_open(&gate);
  assert_int_equal(ops->sync(bed->side, 0), LS_OK);
  assert_int_equal(ops->elapsed(plain, to, &ns), LS_ERR_ARGUMENT);
  assert_int_equal(ns, -1);
  assert_int_equal(ops->elapsed(from, to, &ns), LS_OK);
  assert_true(ns >= 0);
  ops->event_destroy(plain);
  ops->event_destroy(to);
  ops->event_destroy(from);
}

static void destroy_runs_what_is_queued(void **state) {
  bed_t *bed = *state;
  ls_stream_t *stream;
  int next = 0, log[64];
  entry_t entry[64];
  assert_int_equal(ops->create(bed->device, LS_STREAM_ASYNC, &stream), LS_OK);
  for (int i = 0; i < 64; i++) {
    entry[i] = (entry_t){&next, log, i};
    ops->call(stream, write_entry, &entry[i]);
  }
  ops->destroy(stream);
  assert_int_equal(next, 64);
}

static void pool_only_behind_compute(void **state) {
  bed_t *bed = *state;
  assert_non_null(ls_stream_pool(bed->compute));
  assert_null(ls_stream_pool(bed->side));
}

TESTS(bed_open, bed_close, order_through_a_full_ring, copies_and_kernels_in_order, events_order_streams,
      an_event_never_recorded_has_passed, sync_keeps_its_deadline, first_error_sticks_and_work_is_skipped,
      an_error_travels_with_the_event, timed_events, destroy_runs_what_is_queued, pool_only_behind_compute)
