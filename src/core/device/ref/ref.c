/* ref: host memory and no kernels of its own, so every op runs its row's plain C version, in one thread. The
 * other backends are compared with it. */
#include "device/host/host.h"

static ls_status_t ref_open(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  ls_device_options_t one = {.index = options->index, .threads = 1, .math = options->math};
  return ls_host_device_open(ctx, &ls_backend_ref, &one, sizeof(ls_host_device_t), device);
}

static ls_kernel_fn ref_kernel(const ls_device_t *device, const char *op) {
  (void)device;
  (void)op;
  return NULL;
}

static const ls_device_ops_t device_ops = {
    .open = ref_open, .close = ls_host_device_close, .kernel = ref_kernel, .count = ls_host_device_count};

const ls_backend_t ls_backend_ref = {.name = "ref",
                                     .host_memory = true,
                                     .plain_c = true,
                                     .synchronous = true,
                                     .host_processors = true,
                                     .device = &device_ops,
                                     .buffer = &ls_host_buffer_ops,
                                     .stream = &ls_host_stream_ops};
