/* The cuda backend's tables on a GPU: memory, order, errors that stick, deadlines, capture. Skips (77)
 * without one. */
#include "comm/comm.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static ls_ctx_t *ctx;
static const ls_backend_t *backend;
static ls_device_t *device;
static ls_stream_t *a, *b; /* compute, and one more */

static float *device_floats(int64_t count) {
  void *memory;
  assert_int_equal(backend->buffer->alloc(device, LS_MEM_DEVICE, (size_t)count * sizeof(float), &memory),
                   LS_OK);
  return memory;
}

static void free_device(void *memory) {
  backend->buffer->free(device, LS_MEM_DEVICE, memory);
}

static void fill(ls_stream_t *stream, float *y, int64_t count, double value) {
  ls_attrs_t attrs = {.i = {count}, .f = {value}};
  ls_tensor_t out = {y, LS_SHAPE(LS_F32, count)};
  ls_kernel_args_t args = {.attrs = &attrs, .out = &out, .out_count = 1};
  assert_int_equal(backend->stream->launch(stream, backend->device->kernel(device, "fill"), &args), LS_OK);
}

static void accumulate(ls_stream_t *stream, float *x, float *y, int64_t count) {
  static const ls_attrs_t attrs;
  ls_tensor_t in = {x, LS_SHAPE(LS_F32, count)}, out = {y, LS_SHAPE(LS_F32, count)};
  ls_kernel_args_t args = {.attrs = &attrs, .in = &in, .in_count = 1, .out = &out, .out_count = 1};
  assert_int_equal(backend->stream->launch(stream, backend->device->kernel(device, "accumulate"), &args),
                   LS_OK);
}

static void assert_all(const float *x, int64_t count, float value) {
  float host[4096];
  assert_int_equal(backend->stream->copy(a, host, x, (size_t)count * sizeof *x), LS_OK);
  assert_int_equal(backend->stream->sync(a, 0), LS_OK);
  for (int64_t k = 0; k < count; k++)
    assert_true(host[k] == value);
}

static void memory_is_aligned_and_zero(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    float *x = device_floats(1000 + i), *y = device_floats(1);
    assert_int_equal((uintptr_t)x % 256, 0);
    assert_int_equal((uintptr_t)y % 256, 0);
    assert_all(x, 1000 + i, 0);
    fill(a, x, 1000 + i, 3); /* the next round may get these bytes again */
    assert_all(x, 1000 + i, 3);
    free_device(x);
    free_device(y);
  }
  void *pinned;
  assert_int_equal(backend->buffer->alloc(device, LS_MEM_HOST, 4096, &pinned), LS_OK);
  for (int i = 0; i < 4096; i++)
    assert_int_equal(((unsigned char *)pinned)[i], 0);
  backend->buffer->free(device, LS_MEM_HOST, pinned);
}

static void too_much_memory_is_refused(void **state) {
  (void)state;
  void *memory = NULL;
  assert_int_equal(backend->buffer->alloc(device, LS_MEM_DEVICE, (size_t)1 << 46, &memory), LS_ERR_MEMORY);
  assert_null(memory);
  ls_ctx_clear(ctx);
  float *x = device_floats(8); /* the device still works */
  fill(a, x, 8, 1);
  assert_all(x, 8, 1);
  free_device(x);
}

static void copies_go_every_way(void **state) {
  (void)state;
  float *x = device_floats(1000), *y = device_floats(1000), from[1000], to[1000];
  for (int i = 0; i < 1000; i++)
    from[i] = (float)i;
  assert_int_equal(backend->stream->copy(a, x, from, sizeof from), LS_OK);
  assert_int_equal(backend->stream->copy(a, y, x, sizeof from), LS_OK);
  assert_int_equal(backend->stream->copy(a, to, y, sizeof to), LS_OK);
  assert_int_equal(backend->stream->sync(a, 0), LS_OK);
  assert_memory_equal(to, from, sizeof to);
  assert_int_equal(backend->stream->copy(a, NULL, NULL, 0), LS_OK);
  free_device(x);
  free_device(y);
}

/* Pinned memory, which kernels reach: few words, more, and what is no whole number of words or begins at none. */
static void pinned_memory_is_copied(void **state) {
  (void)state;
  enum { BYTES = 8192, AWAY = 3 };
  static const size_t sizes[] = {4, 64, 320, 1000, 1001, 4096, 4100, BYTES - AWAY};
  void *from, *to, *between;
  assert_int_equal(backend->buffer->alloc(device, LS_MEM_HOST, BYTES, &from), LS_OK);
  assert_int_equal(backend->buffer->alloc(device, LS_MEM_HOST, BYTES, &to), LS_OK);
  assert_int_equal(backend->buffer->alloc(device, LS_MEM_DEVICE, BYTES, &between), LS_OK);
  for (int i = 0; i < BYTES; i++)
    ((unsigned char *)from)[i] = (unsigned char)(i * 7 + i / 256);
  for (int k = 0; k < LS_COUNT(sizes); k++)
    for (int away = 0; away <= AWAY; away += AWAY) {
      memset(to, 0xff, BYTES);
      assert_int_equal(backend->stream->copy(a, (char *)between + away, (char *)from + away, sizes[k]),
                       LS_OK);
      assert_int_equal(backend->stream->copy(a, (char *)to + away, (char *)between + away, sizes[k]), LS_OK);
      assert_int_equal(backend->stream->sync(a, 0), LS_OK);
      assert_memory_equal((char *)to + away, (char *)from + away, sizes[k]);
      if (away + sizes[k] < BYTES) assert_int_equal(((unsigned char *)to)[away + sizes[k]], 0xff);
    }
  backend->buffer->free(device, LS_MEM_HOST, from);
  backend->buffer->free(device, LS_MEM_HOST, to);
  backend->buffer->free(device, LS_MEM_DEVICE, between);
}

/* With access to it, and again: a second time changes nothing. */
static void another_gpu_is_reached(void **state) {
  (void)state;
  enum { COUNT = 4096 };
  if (backend->device->count(ctx) < 2) skip();
  ls_device_options_t options = {.index = 1, .threads = 1};
  ls_device_t *other;
  void *memory;
  bool direct, again;
  assert_int_equal(backend->device->open(ctx, &options, &other), LS_OK);
  assert_int_equal(backend->buffer->alloc(other, LS_MEM_DEVICE, COUNT * sizeof(float), &memory), LS_OK);
  float *x = device_floats(COUNT), *y = device_floats(COUNT);
  assert_int_equal(backend->device->reach(device, 1, &direct), LS_OK);
  assert_int_equal(backend->device->reach(device, 1, &again), LS_OK);
  assert_int_equal(direct, again);
  assert_int_equal(backend->device->reach(device, 0, &again), LS_OK);
  assert_false(again); /* itself */
  fill(a, x, COUNT, 7);
  assert_int_equal(backend->stream->copy(a, memory, x, COUNT * sizeof(float)), LS_OK);
  assert_int_equal(backend->stream->copy(a, y, memory, COUNT * sizeof(float)), LS_OK);
  assert_all(y, COUNT, 7);
  free_device(x);
  free_device(y);
  backend->buffer->free(other, LS_MEM_DEVICE, memory);
  backend->device->close(other);
}

static void events_order_streams(void **state) {
  (void)state;
  enum { COUNT = 4096 };
  float *x = device_floats(COUNT), *y = device_floats(COUNT);
  ls_event_t *from, *to;
  assert_int_equal(backend->stream->event_create(device, true, &from), LS_OK);
  assert_int_equal(backend->stream->event_create(device, true, &to), LS_OK);
  for (int round = 1; round <= 50; round++) {
    assert_int_equal(backend->stream->record(a, from), LS_OK);
    fill(a, x, COUNT, round);
    assert_int_equal(backend->stream->record(a, to), LS_OK);
    assert_int_equal(backend->stream->wait(b, to), LS_OK);
    assert_int_equal(backend->stream->copy(b, y, x, COUNT * sizeof *x), LS_OK);
    assert_int_equal(backend->stream->record(b, to), LS_OK);
    assert_int_equal(backend->stream->wait(a, to), LS_OK);
    assert_all(y, COUNT, (float)round);
  }
  int64_t ns = -1;
  assert_int_equal(backend->stream->sync(b, 0), LS_OK);
  assert_int_equal(backend->stream->elapsed(from, to, &ns), LS_OK);
  assert_true(ns >= 0);
  backend->stream->event_destroy(from);
  backend->stream->event_destroy(to);
  free_device(x);
  free_device(y);
}

static ls_status_t count_up(void *arg) {
  (*(int *)arg)++;
  return LS_OK;
}
static ls_status_t refuse(void *arg) {
  (void)arg;
  return LS_ERR_DATA;
}

static void host_calls_run_in_order_and_errors_stick(void **state) {
  (void)state;
  ls_stream_t *s;
  int calls = 0;
  assert_int_equal(backend->stream->create(device, LS_STREAM_ASYNC, &s), LS_OK);
  for (int i = 0; i < 1000; i++)
    assert_int_equal(backend->stream->call(s, count_up, &calls), LS_OK);
  assert_int_equal(backend->stream->sync(s, 0), LS_OK);
  assert_int_equal(calls, 1000);
  ls_status_t refused = backend->stream->call(s, refuse, NULL); /* it may have run before the call returns */
  assert_true(refused == LS_OK || refused == LS_ERR_DATA);
  assert_int_equal(backend->stream->sync(s, 0), LS_ERR_DATA);
  assert_int_equal(backend->stream->call(s, count_up, &calls), LS_ERR_DATA);
  assert_int_equal(backend->stream->sync(s, 0), LS_ERR_DATA);
  assert_int_equal(calls, 1000);
  backend->stream->destroy(s);
}

static ls_status_t hold(void *arg) {
  atomic_bool *go = arg;
  while (!atomic_load(go))
    continue;
  return LS_OK;
}

static void a_wait_ends_at_its_deadline(void **state) {
  (void)state;
  atomic_bool go = false;
  assert_int_equal(backend->stream->call(a, hold, &go), LS_OK);
  assert_int_equal(backend->stream->sync(a, 1000000), LS_ERR_TIMEOUT);
  assert_int_equal(backend->stream->sync(a, 20000000), LS_ERR_TIMEOUT);
  atomic_store(&go, true);
  assert_int_equal(backend->stream->sync(a, INT64_C(10000000000)), LS_OK);
}

/* Fork to the other stream and join, as a step does. */
static void a_captured_step_runs_again_and_again(void **state) {
  (void)state;
  float *x = device_floats(100), *y = device_floats(100), *sum = device_floats(100);
  ls_event_t *fork, *join;
  ls_exec_t *exec = NULL;
  assert_int_equal(backend->stream->event_create(device, false, &fork), LS_OK);
  assert_int_equal(backend->stream->event_create(device, false, &join), LS_OK);
  assert_int_equal(backend->capture->begin(a), LS_OK);
  fill(a, x, 100, 2);
  backend->stream->record(a, fork);
  backend->stream->wait(b, fork);
  fill(b, y, 100, 3);
  backend->stream->record(b, join);
  accumulate(a, x, sum, 100);
  backend->stream->wait(a, join);
  accumulate(a, y, sum, 100);
  assert_int_equal(backend->capture->end(a, &exec), LS_OK);
  assert_all(sum, 100, 0); /* nothing has run yet */
  for (int i = 0; i < 7; i++)
    assert_int_equal(backend->capture->launch(exec, a), LS_OK);
  assert_all(sum, 100, 35);
  backend->capture->destroy(exec);
  backend->stream->event_destroy(fork);
  backend->stream->event_destroy(join);
  free_device(x);
  free_device(y);
  free_device(sum);
}

/* More shapes than a device remembers, at every alignment; integers, so that sums are exact. */
static void products_of_many_shapes(void **state) {
  (void)state;
  enum { ROWS = 600, IN = 3, OUT = 2 };
  static const ls_attrs_t attrs;
  float *x = device_floats(ROWS * IN + 64), *w = device_floats(OUT * IN), *bias = device_floats(OUT);
  float *y = device_floats(ROWS * OUT);
  fill(a, x, ROWS * IN + 64, 2);
  fill(a, w, OUT * IN, 3);
  fill(a, bias, OUT, 5);
  for (int64_t rows = 1; rows <= ROWS; rows++) {
    ls_tensor_t in[] = {{x + rows % 64, LS_SHAPE(LS_F32, rows, IN)},
                        {w, LS_SHAPE(LS_F32, OUT, IN)},
                        {bias, LS_SHAPE(LS_F32, OUT)}};
    ls_tensor_t out = {y, LS_SHAPE(LS_F32, rows, OUT)};
    ls_kernel_args_t args = {.attrs = &attrs, .in = in, .in_count = 3, .out = &out, .out_count = 1};
    fill(a, y, ROWS * OUT, -1);
    assert_int_equal(backend->stream->launch(a, backend->device->kernel(device, "linear"), &args), LS_OK);
    assert_all(y, rows * OUT, 23);
    if (rows < ROWS) assert_all(y + rows * OUT, (ROWS - rows) * OUT, -1);
  }
  free_device(x);
  free_device(w);
  free_device(bias);
  free_device(y);
}

/* A product on a device of its own, whose result is 23 everywhere. */
static void multiply_anew(void) {
  static const ls_attrs_t attrs;
  enum { ROWS = 40, IN = 3, OUT = 100 };
  ls_device_t *other;
  ls_stream_t *stream;
  float *x = device_floats(ROWS * IN), *w = device_floats(OUT * IN), *bias = device_floats(OUT),
        *y = device_floats(ROWS * OUT);
  fill(a, x, ROWS * IN, 2);
  fill(a, w, OUT * IN, 3);
  fill(a, bias, OUT, 5);
  assert_int_equal(backend->stream->sync(a, 0), LS_OK);
  assert_int_equal(backend->device->open(ctx, &(ls_device_options_t){.threads = 1}, &other), LS_OK);
  assert_int_equal(backend->stream->create(other, LS_STREAM_INLINE, &stream), LS_OK);
  ls_tensor_t in[] = {
      {x, LS_SHAPE(LS_F32, ROWS, IN)}, {w, LS_SHAPE(LS_F32, OUT, IN)}, {bias, LS_SHAPE(LS_F32, OUT)}};
  ls_tensor_t out = {y, LS_SHAPE(LS_F32, ROWS, OUT)};
  ls_kernel_args_t args = {.attrs = &attrs, .in = in, .in_count = 3, .out = &out, .out_count = 1};
  assert_int_equal(backend->stream->launch(stream, backend->device->kernel(other, "linear"), &args), LS_OK);
  assert_int_equal(backend->stream->sync(stream, 0), LS_OK);
  assert_all(y, ROWS * OUT, 23);
  backend->stream->destroy(stream);
  backend->device->close(other);
  free_device(x), free_device(w), free_device(bias), free_device(y);
}

static int lines_of(const char *path) {
  FILE *file = fopen(path, "r");
  int lines = 0;
  for (int c; file && (c = fgetc(file)) != EOF;)
    lines += c == '\n';
  if (file) fclose(file);
  return lines;
}

/* One device measures and writes the file, the next reads it; a name that nobody has is as good as none. */
static void the_way_of_a_product_is_kept(void **state) {
  (void)state;
  char path[] = "/tmp/ls_ways_XXXXXX", line[1024];
  int file = mkstemp(path);
  assert_true(file >= 0);
  setenv("LOCKSTEP_CUDA_WAYS", path, 1);
  multiply_anew();
  assert_int_equal(lines_of(path), 1);
  multiply_anew();
  assert_int_equal(lines_of(path), 1);
  ssize_t size = pread(file, line, sizeof line - 1, 0);
  assert_true(size > 0);
  line[size] = 0;
  char *key_end = strchr(strchr(line, '\t') + 1, '\t');
  assert_int_equal(ftruncate(file, 0), 0);
  assert_true(dprintf(file, "%.*s\tnobody\t1.00\n", (int)(key_end - line), line) > 0);
  multiply_anew();
  assert_int_equal(lines_of(path), 1);
  unsetenv("LOCKSTEP_CUDA_WAYS");
  close(file);
  unlink(path);
}

/* Products whose parts stand in the workspace, and sums that count their blocks in the scratch, on two streams at once, as
 * a step with a side lane captures them. Whole numbers, so that every sum is exact. */
static void two_streams_compute_at_once(void **state) {
  (void)state;
  enum { ROWS = 4096, IN = 64, OUT = 64, TIMES = 16 };
  static const ls_attrs_t attrs;
  ls_stream_t *side;
  ls_event_t *fork, *join;
  ls_exec_t *exec;
  assert_int_equal(backend->stream->create(device, LS_STREAM_SIDE, &side), LS_OK);
  assert_int_equal(backend->stream->event_create(device, false, &fork), LS_OK);
  assert_int_equal(backend->stream->event_create(device, false, &join), LS_OK);
  float *dy = device_floats(ROWS * OUT), *x = device_floats(ROWS * IN);
  float *dw[2] = {device_floats(OUT * IN), device_floats(OUT * IN)};
  float *db[2] = {device_floats(OUT), device_floats(OUT)};
  fill(a, dy, ROWS * OUT, 2);
  fill(a, x, ROWS * IN, 3);
  assert_int_equal(backend->capture->begin(a), LS_OK);
  backend->stream->record(a, fork);
  backend->stream->wait(side, fork);
  for (int i = 0; i < 2 * TIMES; i++) {
    ls_tensor_t in[] = {{dy, LS_SHAPE(LS_F32, ROWS, OUT)}, {x, LS_SHAPE(LS_F32, ROWS, IN)}};
    ls_tensor_t out[] = {{dw[i % 2], LS_SHAPE(LS_F32, OUT, IN)}, {db[i % 2], LS_SHAPE(LS_F32, OUT)}};
    ls_kernel_args_t args = {.attrs = &attrs, .in = in, .in_count = 2, .out = out, .out_count = 2};
    ls_kernel_fn kernel = backend->device->kernel(device, "linear_dwb");
    assert_int_equal(backend->stream->launch(i % 2 ? side : a, kernel, &args), LS_OK);
  }
  backend->stream->record(side, join);
  backend->stream->wait(a, join);
  assert_int_equal(backend->capture->end(a, &exec), LS_OK);
  for (int n = 0; n < 20; n++) {
    for (int i = 0; i < 2; i++) {
      fill(a, dw[i], OUT * IN, -1);
      fill(a, db[i], OUT, -1);
    }
    assert_int_equal(backend->capture->launch(exec, a), LS_OK);
    for (int i = 0; i < 2; i++) {
      assert_all(dw[i], OUT * IN, 6 * ROWS);
      assert_all(db[i], OUT, 2 * ROWS);
    }
  }
  backend->capture->destroy(exec);
  backend->stream->event_destroy(fork);
  backend->stream->event_destroy(join);
  backend->stream->destroy(side);
  for (int i = 0; i < 2; i++) {
    free_device(dw[i]);
    free_device(db[i]);
  }
  free_device(dy);
  free_device(x);
}

/* NCCL over one rank: every collective leaves the data as it is, put on a stream or captured. */
static void nccl_with_one_rank(void **state) {
  (void)state;
  enum { COUNT = 1000 };
  const ls_cuda_module_t *module;
  ls_comm_t *control, *comm;
  assert_int_equal(ls_cuda_module_load(ctx, &module), LS_OK);
  if (!module->nccl_create) skip();
  assert_int_equal(ls_comm_self_create(ctx, &control), LS_OK);
  assert_int_equal(module->nccl_create(ctx, device, control, INT64_C(60000000000), &comm), LS_OK);
  float *x = device_floats(COUNT), *y = device_floats(COUNT);
  ls_exec_t *exec;
  for (int kind = 0; kind < LS_COLLECTIVE_COUNT; kind++) {
    if (kind == LS_SEND || kind == LS_RECV) continue; /* of two ranks: tests/cuda/test_groups.c */
    ls_collective_t c = {
        .kind = (ls_collective_kind_t)kind, .name = "test", .send = x, .recv = y, .count = COUNT};
    fill(a, y, COUNT, -1);
    fill(a, x, COUNT, kind + 1);
    assert_int_equal(ls_comm_bind(comm, &c), LS_OK);
    assert_int_equal(ls_comm_enqueue(a, &c), LS_OK);
    assert_all(y, COUNT, kind == LS_BARRIER ? -1 : (float)(kind + 1));
    assert_int_equal(backend->capture->begin(a), LS_OK);
    fill(a, y, COUNT, -1);
    assert_int_equal(ls_comm_enqueue(a, &c), LS_OK);
    assert_int_equal(backend->capture->end(a, &exec), LS_OK);
    for (int i = 0; i < 3; i++)
      assert_int_equal(backend->capture->launch(exec, a), LS_OK);
    assert_all(y, COUNT, kind == LS_BARRIER ? -1 : (float)(kind + 1));
    backend->capture->destroy(exec);
    assert_int_equal(comm->ops->poll(comm), LS_OK);
  }
  ls_collective_t bad = {.kind = LS_ALL_REDUCE, .name = "bad", .send = x, .recv = y, .count = -1};
  assert_int_equal(ls_comm_bind(comm, &bad), LS_ERR_ARGUMENT);
  double one = 1;
  assert_int_equal(ls_comm_sum_f64(comm, "on the host", &one, 1), LS_OK);
  assert_true(one == 1);
  ls_comm_destroy(comm);
  ls_comm_destroy(control);
  ls_ctx_clear(ctx);
  free_device(x);
  free_device(y);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  ls_device_options_t options = {.index = 0, .threads = 1};
  bool failed = true;
  for (int n = 1; failed; n++) {
    ls_device_t *d = NULL;
    ls_stream_t *s = NULL;
    ls_event_t *e = NULL;
    ls_ctx_fail_alloc(ctx, n);
    ls_status_t status = backend->device->open(ctx, &options, &d);
    if (!status) status = backend->stream->create(d, LS_STREAM_INLINE, &s);
    if (!status) status = backend->stream->event_create(d, true, &e);
    ls_ctx_fail_alloc(ctx, 0);
    failed = status != LS_OK;
    if (failed) assert_int_equal(status, LS_ERR_MEMORY);
    if (e) backend->stream->event_destroy(e);
    if (s) backend->stream->destroy(s);
    if (d) backend->device->close(d);
    ls_ctx_clear(ctx);
  }
}

static void a_gpu_that_is_not_there(void **state) {
  (void)state;
  ls_device_t *d = NULL;
  ls_device_options_t options = {.index = backend->device->count(ctx), .threads = 1};
  assert_int_equal(backend->device->open(ctx, &options, &d), LS_ERR_DEVICE);
  assert_non_null(strstr(ls_ctx_error(ctx), "visible"));
  assert_null(d);
  ls_ctx_clear(ctx);
}

static void print_log(void *user, ls_log_level_t level, const char *message) {
  (void)user;
  if (level <= LS_LOG_WARN) printf("%s\n", message);
}

int main(void) {
  ctx = ls_ctx_create(print_log, NULL);
  if (!ctx) return 1;
  ls_status_t status = ls_backend_find(ctx, "cuda", &backend);
  if (status == LS_ERR_UNSUPPORTED) {
    printf("skipped: no GPU: %s\n", ls_ctx_error(ctx));
    ls_ctx_destroy(ctx);
    return 77;
  }
  ls_device_options_t options = {.index = 0, .threads = 1};
  if (status || backend->device->open(ctx, &options, &device) ||
      backend->stream->create(device, LS_STREAM_INLINE, &a) ||
      backend->stream->create(device, LS_STREAM_ASYNC, &b))
    return 1;
  printf("%s\n", device->name);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_aligned_and_zero),
      cmocka_unit_test(too_much_memory_is_refused),
      cmocka_unit_test(copies_go_every_way),
      cmocka_unit_test(pinned_memory_is_copied),
      cmocka_unit_test(another_gpu_is_reached),
      cmocka_unit_test(events_order_streams),
      cmocka_unit_test(host_calls_run_in_order_and_errors_stick),
      cmocka_unit_test(a_wait_ends_at_its_deadline),
      cmocka_unit_test(a_captured_step_runs_again_and_again),
      cmocka_unit_test(products_of_many_shapes),
      cmocka_unit_test(the_way_of_a_product_is_kept),
      cmocka_unit_test(two_streams_compute_at_once),
      cmocka_unit_test(nccl_with_one_rank),
      cmocka_unit_test(every_allocation_may_fail),
      cmocka_unit_test(a_gpu_that_is_not_there),
  };
  int result = cmocka_run_group_tests(tests, NULL, NULL);
  backend->stream->destroy(b);
  backend->stream->destroy(a);
  backend->device->close(device);
  ls_ctx_destroy(ctx);
  return result;
}
