/* The transport's row. It is part of the library, which knows about NCCL without containing it; the CUDA
 * module makes the communicator. */
#include "comm/transport.h"

#include <stdlib.h>
#include <string.h>

/* If its environment forbids peer access, NCCL takes another path and other memory. */
static const char *variant(void) {
  const char *disabled = getenv("NCCL_P2P_DISABLE");
  return disabled && *disabled && strcmp(disabled, "0") != 0 ? "-without-peer" : "";
}

static bool present(void) {
  const ls_cuda_module_t *module;
  return ls_cuda_module_load(NULL, &module) == LS_OK && module->nccl_create;
}

static ls_status_t create(ls_ctx_t *ctx, ls_device_t *device, ls_comm_t *control, int64_t deadline_ns,
                          ls_comm_t **comm) {
  const ls_cuda_module_t *module;
  ls_status_t status = ls_cuda_module_load(ctx, &module);
  if (status == LS_OK && !module->nccl_create)
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "the CUDA module was built without NCCL: use one rank");
  return status == LS_OK ? module->nccl_create(ctx, device, control, deadline_ns, comm) : status;
}

extern const ls_transport_t ls_transport_nccl;
const ls_transport_t ls_transport_nccl = {.name = "nccl",
                                          .help = "NCCL; moves GPU memory",
                                          .backend = "cuda",
                                          .variant = variant,
                                          .present = present,
                                          .create = create};
