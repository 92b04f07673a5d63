/* Events of host streams: a count of records put on streams and a count of those that have run. */
#include "device/host/host.h"

ls_status_t ls_host_event_create(ls_device_t *device, bool timed, ls_event_t **event) {
  ls_event_t *e = ls_alloc(device->ctx, sizeof *e);
  if (!e) return LS_ERR_MEMORY;
  e->device = device;
  e->timed = timed;
  *event = e;
  return LS_OK;
}

void ls_host_event_destroy(ls_event_t *event) {
  ls_free(event);
}

ls_status_t ls_host_event_elapsed(ls_event_t *from, ls_event_t *to, int64_t *ns) {
  ls_ctx_t *ctx = from->device->ctx;
  if (!from->timed || !to->timed)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "elapsed time was asked of an event that is not timed");
  if (!from->recorded || !to->recorded || !ls_signal_reached(&from->passed, from->recorded) ||
      !ls_signal_reached(&to->passed, to->recorded))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "elapsed time was asked of an event that has not passed");
  *ns = atomic_load(&to->time_ns) - atomic_load(&from->time_ns);
  return LS_OK;
}
