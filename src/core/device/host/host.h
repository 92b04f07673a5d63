/* Shared by the host backends (ref, cpu, null): devices with a pool, plain memory, streams and events.
 *
 * An INLINE stream runs everything in the calling thread. An ASYNC stream is a ring of items and a thread that runs
 * them. Putting an item there allocates nothing, and makes no system call while the thread is awake. */
#ifndef LS_DEVICE_HOST_HOST_H
#define LS_DEVICE_HOST_HOST_H

#include "base/wait.h"
#include "device/device.h"

struct ls_event {
  ls_device_t *device;
  bool timed;
  uint32_t recorded;  /* records put on streams; of the issuing thread */
  ls_signal_t passed; /* records that have run */
  _Atomic int status; /* first error of the streams it was recorded on: an error travels with the event */
  _Atomic int64_t time_ns; /* of the newest record that has run */
};

typedef enum {
  LS_ITEM_KERNEL,
  LS_ITEM_CALL,
  LS_ITEM_COPY,
  LS_ITEM_RECORD,
  LS_ITEM_WAIT,
  LS_ITEM_STOP
} ls_item_kind_t;

/* One thing to do on a stream. Items are copied into the ring. */
typedef struct {
  ls_item_kind_t kind;
  uint32_t target; /* WAIT: the record to wait for */
  union {
    struct {
      ls_kernel_fn fn;
      const ls_kernel_args_t *args;
    } kernel;
    struct {
      ls_host_fn fn;
      void *arg;
    } call;
    struct {
      void *to;
      const void *from;
      size_t size_bytes;
    } copy;
    ls_event_t *event;
  } u;
} ls_item_t;

typedef struct ls_queue ls_queue_t;

typedef struct {
  ls_stream_t base;
  ls_pool_t *pool;    /* compute pool; NULL on ASYNC streams */
  ls_queue_t *queue;  /* NULL on INLINE streams */
  _Atomic int status; /* sticky: the first error; work after it is skipped */
} ls_host_stream_t;

typedef struct {
  ls_device_t base;
  ls_pool_t *pool;
  bool reproducible; /* see ls_device_options_t */
  bool flushes;      /* kernels take denormal numbers for zero */
} ls_host_device_t;

/* A device of `size_bytes` >= sizeof(ls_host_device_t) (backends append their own fields), named
 * "<backend>, <threads> threads". */
ls_status_t ls_host_device_open(ls_ctx_t *ctx, const ls_backend_t *backend,
                                const ls_device_options_t *options, size_t size_bytes, ls_device_t **device);
void ls_host_device_close(ls_device_t *device);
int ls_host_device_count(ls_ctx_t *ctx);

extern const ls_buffer_ops_t ls_host_buffer_ops;
extern const ls_stream_ops_t ls_host_stream_ops;

/* Runs an item in the calling thread. Nothing else executes items. */
void ls_host_stream_execute(ls_host_stream_t *stream, const ls_item_t *item);

/* The thread and ring of one ASYNC stream (borrowed). destroy runs the queued items, then joins the thread. */
ls_status_t ls_queue_create(ls_ctx_t *ctx, ls_host_stream_t *stream, ls_queue_t **queue);
void ls_queue_destroy(ls_queue_t *queue);
void ls_queue_put(ls_queue_t *queue, const ls_item_t *item); /* waits for room when the ring is full */
bool ls_queue_drain(ls_queue_t *queue, int64_t deadline_ns);

ls_status_t ls_host_event_create(ls_device_t *device, bool timed, ls_event_t **event);
void ls_host_event_destroy(ls_event_t *event);
ls_status_t ls_host_event_elapsed(ls_event_t *from, ls_event_t *to, int64_t *ns);

#endif
