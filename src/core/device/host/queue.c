/* The ring and the thread of an ASYNC host stream: one thread puts, one takes. The two counters alone hand
 * slots over, so nothing is locked, and an idle thread sleeps in the kernel. */
#include "device/host/host.h"

#include "base/signals.h"

#include <string.h>

enum { RING_ITEMS = 1024 }; /* a power of two: the counters wrap */
_Static_assert((RING_ITEMS & (RING_ITEMS - 1)) == 0, "index by mask");

struct ls_queue {
  ls_host_stream_t *stream;
  pthread_t thread;
  uint32_t put_count; /* of the putting thread */
  _Alignas(64) ls_signal_t put;
  _Alignas(64) ls_signal_t done;
  _Alignas(64) ls_item_t ring[RING_ITEMS];
};

static void *take_items(void *arg) {
  ls_queue_t *queue = arg;
  for (uint32_t taken = 0;; taken++) {
    ls_signal_wait(&queue->put, taken + 1, 0);
    const ls_item_t *item = &queue->ring[taken & (RING_ITEMS - 1)];
    if (item->kind == LS_ITEM_STOP) return NULL;
    ls_host_stream_execute(queue->stream, item);
    ls_signal_add(&queue->done);
  }
}

ls_status_t ls_queue_create(ls_ctx_t *ctx, ls_host_stream_t *stream, ls_queue_t **queue) {
  ls_queue_t *q = ls_alloc_aligned(ctx, 64, sizeof *q);
  if (!q) return LS_ERR_MEMORY;
  q->stream = stream;
  int error = ls_signals_thread(&q->thread, "ls lane", take_items, q);
  if (error) {
    ls_free(q);
    return ls_fail(ctx, LS_ERR_MEMORY, "the thread of a stream could not be started: %s", strerror(error));
  }
  *queue = q;
  return LS_OK;
}

void ls_queue_destroy(ls_queue_t *queue) {
  if (!queue) return;
  ls_queue_put(queue, &(ls_item_t){.kind = LS_ITEM_STOP});
  pthread_join(queue->thread, NULL);
  ls_free(queue);
}

void ls_queue_put(ls_queue_t *queue, const ls_item_t *item) {
  uint32_t index = queue->put_count++;
  ls_signal_wait(&queue->done, index + 1 - RING_ITEMS, 0);
  queue->ring[index & (RING_ITEMS - 1)] = *item;
  ls_signal_add(&queue->put);
}

bool ls_queue_drain(ls_queue_t *queue, int64_t deadline_ns) {
  return ls_signal_wait(&queue->done, queue->put_count, deadline_ns);
}
