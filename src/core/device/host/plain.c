/* Backends without kernels of their own. ref: every op runs its row's plain C version, in one thread; the other backends are
 * compared with it. null: kernels do nothing, on real streams, events and memory; for dry runs, and to measure the cost of
 * everything around the kernels. */
#include "device/host/host.h"

static ls_status_t open_one(ls_ctx_t *ctx, const ls_backend_t *backend, const ls_device_options_t *options,
                            ls_device_t **device) {
  const ls_device_options_t one = {.index = options->index, .threads = 1, .math = options->math};
  return ls_host_device_open(ctx, backend, &one, sizeof(ls_host_device_t), device);
}

static ls_status_t ref_open(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  return open_one(ctx, &ls_backend_ref, options, device);
}

static ls_status_t null_open(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  return open_one(ctx, &ls_backend_null, options, device);
}

static ls_kernel_fn ref_kernel(const ls_device_t *device, const char *op) {
  (void)device, (void)op;
  return NULL;
}

static ls_status_t nothing(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream, (void)args;
  return LS_OK;
}

static ls_kernel_fn null_kernel(const ls_device_t *device, const char *op) {
  (void)device, (void)op;
  return nothing;
}

#define PLAIN(backend_name, opens, kernels)                                                                  \
  {                                                                                                          \
    .name = (backend_name), .host_memory = true, .plain_c = true, .synchronous = true,                       \
    .host_processors = true, .buffer = &ls_host_buffer_ops, .stream = &ls_host_stream_ops,                   \
    .device = &(const ls_device_ops_t) {                                                                     \
      .open = (opens), .close = ls_host_device_close, .kernel = (kernels), .count = ls_host_device_count     \
    }                                                                                                        \
  }
const ls_backend_t ls_backend_ref = PLAIN("ref", ref_open, ref_kernel);
const ls_backend_t ls_backend_null = PLAIN("null", null_open, null_kernel);
