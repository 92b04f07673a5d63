/* Streams of the host backends. Both kinds turn a call into an item; an INLINE stream executes it on the
 * spot. */
#include "device/host/host.h"

#include "base/float_mode.h"

#include <string.h>

static ls_host_stream_t *host(ls_stream_t *stream) {
  return (ls_host_stream_t *)stream;
}

static ls_status_t status_of(const ls_host_stream_t *stream) {
  return (ls_status_t)atomic_load(&stream->status);
}

static void keep_first(_Atomic int *slot, int status) {
  int none = LS_OK;
  if (status != LS_OK) atomic_compare_exchange_strong(slot, &none, status);
}

static void pass_event(ls_host_stream_t *stream, ls_event_t *event) {
  keep_first(&event->status, status_of(stream));
  if (event->timed) atomic_store(&event->time_ns, ls_clock_ns());
  ls_signal_add(&event->passed);
}

/* The floating-point mode is the calling program's, and is restored after every kernel. */
static ls_status_t run_kernel(ls_host_stream_t *stream, ls_kernel_fn fn, const ls_kernel_args_t *args) {
  if (!((const ls_host_device_t *)stream->base.device)->flushes) return fn(&stream->base, args);
  ls_float_mode_t mode = ls_float_mode();
  ls_float_mode_set(ls_float_mode_flushing(mode));
  ls_status_t status = fn(&stream->base, args);
  ls_float_mode_set(mode);
  return status;
}

static ls_status_t work(ls_host_stream_t *stream, const ls_item_t *item) {
  switch (item->kind) {
  case LS_ITEM_KERNEL:
    return run_kernel(stream, item->u.kernel.fn, item->u.kernel.args);
  case LS_ITEM_CALL:
    return item->u.call.fn(item->u.call.arg);
  case LS_ITEM_COPY:
    memmove(item->u.copy.to, item->u.copy.from, item->u.copy.size_bytes);
    return LS_OK;
  default:
    return LS_OK;
  }
}

/* Events pass and waits end even after an error, so that one failed stream cannot hang another; the event
 * carries the error to the waiter. */
void ls_host_stream_execute(ls_host_stream_t *stream, const ls_item_t *item) {
  if (item->kind == LS_ITEM_RECORD) {
    pass_event(stream, item->u.event);
  } else if (item->kind == LS_ITEM_WAIT) {
    ls_signal_wait(&item->u.event->passed, item->target, 0);
    keep_first(&stream->status, atomic_load(&item->u.event->status));
  } else if (status_of(stream) == LS_OK) {
    keep_first(&stream->status, work(stream, item));
  }
}

/* INLINE: the stream's state after the item. ASYNC: the item is queued, which cannot fail. */
static ls_status_t put(ls_stream_t *stream, const ls_item_t *item) {
  ls_host_stream_t *s = host(stream);
  if (s->queue) {
    ls_queue_put(s->queue, item);
    return LS_OK;
  }
  ls_host_stream_execute(s, item);
  return status_of(s);
}

static ls_status_t create(ls_device_t *device, ls_stream_kind_t kind, ls_stream_t **stream) {
  ls_host_stream_t *s = ls_alloc(device->ctx, sizeof *s);
  if (!s) return LS_ERR_MEMORY;
  s->base.device = device;
  if (kind == LS_STREAM_INLINE) {
    s->pool = ((ls_host_device_t *)device)->pool;
  } else {
    ls_status_t status = ls_queue_create(device->ctx, s, &s->queue);
    if (status) {
      ls_free(s);
      return status;
    }
  }
  *stream = &s->base;
  return LS_OK;
}

static void destroy(ls_stream_t *stream) {
  if (!stream) return;
  ls_queue_destroy(host(stream)->queue);
  ls_free(stream);
}

static ls_status_t copy(ls_stream_t *stream, void *to, const void *from, size_t size_bytes) {
  return put(stream, &(ls_item_t){.kind = LS_ITEM_COPY, .u.copy = {to, from, size_bytes}});
}

static ls_status_t call(ls_stream_t *stream, ls_host_fn fn, void *arg) {
  return put(stream, &(ls_item_t){.kind = LS_ITEM_CALL, .u.call = {fn, arg}});
}

static ls_status_t launch(ls_stream_t *stream, ls_kernel_fn kernel, const ls_kernel_args_t *args) {
  return put(stream, &(ls_item_t){.kind = LS_ITEM_KERNEL, .u.kernel = {kernel, args}});
}

static ls_status_t record(ls_stream_t *stream, ls_event_t *event) {
  event->recorded++;
  return put(stream, &(ls_item_t){.kind = LS_ITEM_RECORD, .u.event = event});
}

static ls_status_t wait(ls_stream_t *stream, ls_event_t *event) {
  return put(stream, &(ls_item_t){.kind = LS_ITEM_WAIT, .target = event->recorded, .u.event = event});
}

static ls_status_t sync(ls_stream_t *stream, int64_t deadline_ns) {
  ls_host_stream_t *s = host(stream);
  if (s->queue && !ls_queue_drain(s->queue, deadline_ns)) return LS_ERR_TIMEOUT;
  return status_of(s);
}

const ls_stream_ops_t ls_host_stream_ops = {
    .create = create,
    .destroy = destroy,
    .copy = copy,
    .call = call,
    .launch = launch,
    .event_create = ls_host_event_create,
    .event_destroy = ls_host_event_destroy,
    .record = record,
    .wait = wait,
    .sync = sync,
    .elapsed = ls_host_event_elapsed,
};
