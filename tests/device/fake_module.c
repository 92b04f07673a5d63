/* A stand-in for the CUDA module: MODULE_ABI is the version it claims; it never finds a device. */
#include "device/device.h"

static int none(ls_ctx_t *ctx) {
  (void)ctx;
  return 0;
}
static const ls_device_ops_t device_ops = {.count = none};
static const ls_backend_t backend = {.name = "cuda", .device = &device_ops};
static const ls_cuda_module_t module = {.abi = MODULE_ABI, .backend = &backend};

LS_API const ls_cuda_module_t *ls_cuda_module(void);
const ls_cuda_module_t *ls_cuda_module(void) {
  return &module;
}
