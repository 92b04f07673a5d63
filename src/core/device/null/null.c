/* null: real streams, events and memory, but kernels do nothing. For dry runs, and to measure the cost of
 * everything around the kernels. */
#include "device/host/host.h"

static ls_status_t null_open(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  ls_device_options_t one = {.index = options->index, .threads = 1, .math = options->math};
  return ls_host_device_open(ctx, &ls_backend_null, &one, sizeof(ls_host_device_t), device);
}

static ls_status_t nothing(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  (void)args;
  return LS_OK;
}

static ls_kernel_fn null_kernel(const ls_device_t *device, const char *op) {
  (void)device;
  (void)op;
  return nothing;
}

static const ls_device_ops_t device_ops = {
    .open = null_open, .close = ls_host_device_close, .kernel = null_kernel, .count = ls_host_device_count};

const ls_backend_t ls_backend_null = {.name = "null",
                                      .host_memory = true,
                                      .plain_c = true,
                                      .synchronous = true,
                                      .host_processors = true,
                                      .device = &device_ops,
                                      .buffer = &ls_host_buffer_ops,
                                      .stream = &ls_host_stream_ops};
