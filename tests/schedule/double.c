#include "double.h"

#include "device/host/host.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_MAX = 4 };
static const ls_op_t *const *const *op_lists;
static int op_list_count;

typedef struct {
  ls_host_device_t host;
  double_count_t count;
} double_device_t;

typedef struct item {
  enum { COPY, CALL, LAUNCH, RECORD, WAIT } kind;
  ls_stream_t *stream;
  void *to;
  const void *from;
  size_t size_bytes;
  ls_host_fn fn;
  ls_kernel_fn kernel;
  const ls_kernel_args_t *args;
  ls_event_t *event;
  struct item *next;
} item_t;

struct ls_exec {
  item_t *first, **end;
};

/* One capture at a time on a thread, as on CUDA in its thread-local mode. */
static _Thread_local ls_exec_t *capturing;

void double_ops(int count, const ls_op_t *const *const *lists) {
  op_list_count = count;
  op_lists = lists;
}

double_count_t *double_counts(ls_device_t *device) {
  return &((double_device_t *)device)->count;
}

static ls_status_t open_as(ls_ctx_t *ctx, const ls_backend_t *backend, const ls_device_options_t *options,
                           ls_device_t **device) {
  ls_device_options_t one = {.index = options->index, .threads = 1, .math = options->math};
  return ls_host_device_open(ctx, backend, &one, sizeof(double_device_t), device);
}

static ls_status_t open_eager(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  return open_as(ctx, &double_eager, options, device);
}

static ls_status_t open_capture(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  return open_as(ctx, &double_capture, options, device);
}

static ls_kernel_fn kernel(const ls_device_t *device, const char *op) {
  (void)device;
  for (int l = 0; l < op_list_count; l++)
    for (const ls_op_t *const *row = op_lists[l]; *row; row++)
      if (!strcmp((*row)->name, op)) return (*row)->forward;
  return NULL;
}

/* The size stands before the memory. */
enum { HEADER_BYTES = 256 };

static ls_status_t buffer_alloc(ls_device_t *device, ls_mem_t mem, size_t size_bytes, void **memory) {
  double_count_t *count = double_counts(device);
  count->allocations++;
  if (count->refuse && --count->refuse == 0) return ls_fail(device->ctx, LS_ERR_MEMORY, "double: refused");
  char *block;
  ls_status_t status = ls_host_buffer_ops.alloc(device, mem, size_bytes + HEADER_BYTES, (void **)&block);
  if (status) return status;
  memcpy(block, &size_bytes, sizeof(size_bytes));
  *(mem == LS_MEM_DEVICE ? &count->device_bytes : &count->host_bytes) += (int64_t)size_bytes;
  *memory = block + HEADER_BYTES;
  return LS_OK;
}

static void buffer_free(ls_device_t *device, ls_mem_t mem, void *memory) {
  if (!memory) return;
  size_t size_bytes;
  memcpy(&size_bytes, (char *)memory - HEADER_BYTES, sizeof(size_bytes));
  double_count_t *count = double_counts(device);
  *(mem == LS_MEM_DEVICE ? &count->device_bytes : &count->host_bytes) -= (int64_t)size_bytes;
  ls_host_buffer_ops.free(device, mem, (char *)memory - HEADER_BYTES);
}

static ls_status_t execute(const item_t *i) {
  switch (i->kind) {
  case COPY:
    return ls_host_stream_ops.copy(i->stream, i->to, i->from, i->size_bytes);
  case CALL:
    return ls_host_stream_ops.call(i->stream, i->fn, i->to);
  case LAUNCH:
    return ls_host_stream_ops.launch(i->stream, i->kernel, i->args);
  case RECORD:
    return ls_host_stream_ops.record(i->stream, i->event);
  case WAIT:
    return ls_host_stream_ops.wait(i->stream, i->event);
  }
  return LS_ERR_INTERNAL;
}

static ls_status_t put(item_t i) {
  if (!capturing) return execute(&i);
  item_t *kept = malloc(sizeof(*kept));
  if (!kept) return LS_ERR_MEMORY;
  *kept = i;
  *capturing->end = kept;
  capturing->end = &kept->next;
  return LS_OK;
}

static ls_status_t stream_create(ls_device_t *device, ls_stream_kind_t kind, ls_stream_t **stream) {
  (void)kind;
  return ls_host_stream_ops.create(device, LS_STREAM_ASYNC, stream);
}
static ls_status_t copy(ls_stream_t *stream, void *to, const void *from, size_t size_bytes) {
  return put((item_t){.kind = COPY, .stream = stream, .to = to, .from = from, .size_bytes = size_bytes});
}
static ls_status_t call(ls_stream_t *stream, ls_host_fn fn, void *arg) {
  return put((item_t){.kind = CALL, .stream = stream, .fn = fn, .to = arg});
}
static ls_status_t launch(ls_stream_t *stream, ls_kernel_fn fn, const ls_kernel_args_t *args) {
  return put((item_t){.kind = LAUNCH, .stream = stream, .kernel = fn, .args = args});
}
static ls_status_t record(ls_stream_t *stream, ls_event_t *event) {
  return put((item_t){.kind = RECORD, .stream = stream, .event = event});
}
static ls_status_t wait(ls_stream_t *stream, ls_event_t *event) {
  return put((item_t){.kind = WAIT, .stream = stream, .event = event});
}

static ls_status_t capture_begin(ls_stream_t *stream) {
  capturing = calloc(1, sizeof(*capturing));
  if (!capturing) return LS_ERR_MEMORY;
  capturing->end = &capturing->first;
  double_counts(stream->device)->captures++;
  return LS_OK;
}

static ls_status_t capture_end(ls_stream_t *stream, ls_exec_t **exec) {
  (void)stream;
  *exec = capturing;
  capturing = NULL;
  return LS_OK;
}

static ls_status_t capture_launch(ls_exec_t *exec, ls_stream_t *stream) {
  double_counts(stream->device)->launches++;
  ls_status_t status = LS_OK;
  for (const item_t *i = exec->first; i && !status; i = i->next)
    status = execute(i);
  return status;
}

static void capture_destroy(ls_exec_t *exec) {
  for (item_t *i = exec->first, *next; i; i = next) {
    next = i->next;
    free(i);
  }
  free(exec);
}

/* The host's own functions that need no change. */
static void stream_destroy(ls_stream_t *stream) {
  ls_host_stream_ops.destroy(stream);
}
static ls_status_t stream_sync(ls_stream_t *stream, int64_t deadline_ns) {
  return ls_host_stream_ops.sync(stream, deadline_ns);
}

static const ls_device_ops_t eager_device = {
    .open = open_eager, .close = ls_host_device_close, .kernel = kernel, .count = ls_host_device_count};
static const ls_device_ops_t capture_device = {
    .open = open_capture, .close = ls_host_device_close, .kernel = kernel, .count = ls_host_device_count};
static const ls_buffer_ops_t buffer = {.alloc = buffer_alloc, .free = buffer_free};
static const ls_stream_ops_t stream_ops = {.create = stream_create,
                                           .destroy = stream_destroy,
                                           .copy = copy,
                                           .call = call,
                                           .launch = launch,
                                           .event_create = ls_host_event_create,
                                           .event_destroy = ls_host_event_destroy,
                                           .record = record,
                                           .wait = wait,
                                           .sync = stream_sync,
                                           .elapsed = ls_host_event_elapsed};
static const ls_capture_ops_t capture = {
    .begin = capture_begin, .end = capture_end, .launch = capture_launch, .destroy = capture_destroy};

const ls_backend_t double_eager = {
    .name = "double", .device = &eager_device, .buffer = &buffer, .stream = &stream_ops};
const ls_backend_t double_capture = {.name = "double",
                                     .device = &capture_device,
                                     .buffer = &buffer,
                                     .stream = &stream_ops,
                                     .capture = &capture};
