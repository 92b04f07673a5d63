/* The time of one op on any backend: shared by the programs that measure ops. They exit where something fails. */
#ifndef LS_BENCH_OP_TIME_H
#define LS_BENCH_OP_TIME_H

#include "base/clock.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPEATS = 10, TIMINGS = 7 };

typedef struct {
  ls_ctx_t *ctx;
  const ls_backend_t *backend;
  ls_device_t *device;
  ls_stream_t *stream;
} bench_t;

static void must(ls_status_t status, const char *what) {
  if (status == LS_OK) return;
  fprintf(stderr, "%s: %s\n", what, ls_status_text(status));
  exit(1);
}

static void *take(bench_t *b, size_t size_bytes, const void *data) {
  void *memory;
  must(b->backend->buffer->alloc(b->device, LS_MEM_DEVICE, size_bytes, &memory), "memory");
  if (data) must(b->backend->stream->copy(b->stream, memory, data, size_bytes), "copy");
  must(b->backend->stream->sync(b->stream, 0), "copy");
  return memory;
}

static ls_status_t repeat(bench_t *b, ls_kernel_fn kernel, const ls_kernel_args_t *args) {
  ls_status_t status = LS_OK;
  for (int k = 0; k < REPEATS && !status; k++)
    status = b->backend->stream->launch(b->stream, kernel, args);
  return status;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Of one launch; negative if it fails. */
static double median_us(bench_t *b, ls_kernel_fn kernel, const ls_kernel_args_t *args) {
  const ls_capture_ops_t *capture = b->backend->capture;
  int64_t time_ns[TIMINGS];
  ls_exec_t *exec = NULL;
  ls_status_t status = b->backend->stream->launch(b->stream, kernel, args);
  if (!status) status = b->backend->stream->sync(b->stream, 0);
  if (status) return -1;
  if (capture) {
    must(capture->begin(b->stream), "capture");
    status = repeat(b, kernel, args);
    must(capture->end(b->stream, &exec), "capture");
  }
  for (int k = 0; k < TIMINGS && !status; k++) {
    int64_t start_ns = ls_clock_ns();
    status = exec ? capture->launch(exec, b->stream) : repeat(b, kernel, args);
    if (!status) status = b->backend->stream->sync(b->stream, 0);
    time_ns[k] = ls_clock_ns() - start_ns;
  }
  if (exec) capture->destroy(exec);
  if (status) return -1;
  qsort(time_ns, TIMINGS, sizeof *time_ns, by_value);
  return (double)time_ns[TIMINGS / 2] / 1e3 / REPEATS;
}

static void print_log(void *user, ls_log_level_t level, const char *message) {
  (void)user;
  if (level <= LS_LOG_WARN) printf("%s\n", message);
}

static bench_t bench_open(const char *backend, const ls_device_options_t *options) {
  bench_t b = {.ctx = ls_ctx_create(print_log, NULL)};
  must(b.ctx ? LS_OK : LS_ERR_MEMORY, "context");
  must(ls_backend_find(b.ctx, backend, &b.backend), backend);
  must(b.backend->device->open(b.ctx, options, &b.device), "open");
  must(b.backend->stream->create(b.device, LS_STREAM_INLINE, &b.stream), "stream");
  return b;
}

static void bench_close(bench_t *b) {
  b->backend->stream->destroy(b->stream);
  b->backend->device->close(b->device);
  ls_ctx_destroy(b->ctx);
}

#endif
