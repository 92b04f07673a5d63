/* Devices and memory of the host backends. */
#include "device/host/host.h"

#include <stdio.h>

enum { BUFFER_ALIGN_BYTES = 256 };

ls_status_t ls_host_device_open(ls_ctx_t *ctx, const ls_backend_t *backend,
                                const ls_device_options_t *options, size_t size_bytes, ls_device_t **device) {
  if (options->threads < 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "backend %s: %d threads were asked for, at least 1 is needed",
                   backend->name, options->threads);
  ls_status_t status = ls_backend_check_math(ctx, backend, options->math);
  if (status) return status;
  ls_host_device_t *d = ls_alloc(ctx, size_bytes);
  if (!d) return LS_ERR_MEMORY;
  d->base.backend = backend;
  d->base.ctx = ctx;
  d->base.math = options->math;
  d->reproducible = options->reproducible;
  status = ls_pool_create(ctx, options->threads, &d->pool);
  if (status) {
    ls_free(d);
    return status;
  }
  snprintf(d->base.name, sizeof d->base.name, "%s, %d thread%s", backend->name, options->threads,
           LS_PLURAL(options->threads));
  *device = &d->base;
  return LS_OK;
}

void ls_host_device_close(ls_device_t *device) {
  if (!device) return;
  ls_pool_destroy(((ls_host_device_t *)device)->pool);
  ls_free(device);
}

int ls_host_device_count(ls_ctx_t *ctx) {
  (void)ctx;
  return 1;
}

static ls_status_t buffer_alloc(ls_device_t *device, ls_mem_t mem, size_t size_bytes, void **memory) {
  (void)mem;
  void *bytes = ls_alloc_aligned(device->ctx, BUFFER_ALIGN_BYTES, size_bytes);
  if (!bytes) return LS_ERR_MEMORY;
  *memory = bytes;
  return LS_OK;
}

static void buffer_free(ls_device_t *device, ls_mem_t mem, void *memory) {
  (void)device;
  (void)mem;
  ls_free(memory);
}

const ls_buffer_ops_t ls_host_buffer_ops = {.alloc = buffer_alloc, .free = buffer_free, .page_bytes = 4096};

ls_pool_t *ls_stream_pool(ls_stream_t *stream) {
  return stream->device->backend->plain_c ? ((ls_host_stream_t *)stream)->pool : NULL;
}
