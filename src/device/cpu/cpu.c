/* cpu: host memory, a pool of threads, and tuned versions of the ops that cost time. */
#include "device/host/host.h"

static ls_status_t cpu_open(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  return ls_host_device_open(ctx, &ls_backend_cpu, options, sizeof(ls_host_device_t), device);
}

static ls_kernel_fn cpu_kernel(const ls_device_t *device, const char *op) {
  (void)device;
  (void)op;
  return NULL;
}

static const ls_device_ops_t device_ops = {
    .open = cpu_open, .close = ls_host_device_close, .kernel = cpu_kernel, .count = ls_host_device_count};

const ls_backend_t ls_backend_cpu = {.name = "cpu",
                                     .host_memory = true,
                                     .device = &device_ops,
                                     .buffer = &ls_host_buffer_ops,
                                     .stream = &ls_host_stream_ops};
