/* A stand-in for the CUDA module: MODULE_ABI is the version it claims, MODULE_DEVICES how many devices it
 * finds, none of which can be opened. */
#include "device/device.h"

static int count(ls_ctx_t *ctx) {
  (void)ctx;
  return MODULE_DEVICES;
}
static const ls_device_ops_t device_ops = {.count = count};
static const ls_backend_t backend = {.name = "cuda", .device = &device_ops};
static const ls_cuda_module_t module = {.abi = MODULE_ABI, .backend = &backend};

LS_API const ls_cuda_module_t *ls_cuda_module(void);
const ls_cuda_module_t *ls_cuda_module(void) {
  return &module;
}
