/* Finds a backend by name, and names its arithmetic. */
#include "device/device.h"

#include <stdio.h>
#include <string.h>

const char *const ls_math_names[] = {"fp32", "tf32", "bf16", "fp16", NULL};

ls_dtype_t ls_math_low(ls_math_t math) {
  return math == LS_MATH_BF16 ? LS_BF16 : math == LS_MATH_FP16 ? LS_F16 : LS_F32;
}

const char *const ls_backend_names[] = {"auto", "cpu", "cuda", "ref", "null", NULL};
static const ls_backend_t *const host_backends[] = {&ls_backend_cpu, &ls_backend_ref, &ls_backend_null};

/* A module that loads but finds no device counts as missing; its own report says why. */
static ls_status_t find_cuda(ls_ctx_t *ctx, const ls_backend_t **backend) {
  const ls_cuda_module_t *module;
  ls_status_t status = ls_cuda_module_load(ctx, &module);
  if (status) return status;
  int reported = ctx ? ls_ctx_error_count(ctx) : 0;
  if (module->backend->device->count(ctx) < 1) {
    if (ctx && ls_ctx_error_count(ctx) > reported) return LS_ERR_UNSUPPORTED;
    return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                   "backend cuda: the module was loaded, but no CUDA device answers");
  }
  *backend = module->backend;
  return LS_OK;
}

const ls_backend_t *ls_backend_host(const char *name) {
  for (int i = 0; i < LS_COUNT(host_backends); i++)
    if (strcmp(name, host_backends[i]->name) == 0) return host_backends[i];
  return NULL;
}

ls_status_t ls_backend_find(ls_ctx_t *ctx, const char *name, const ls_backend_t **backend) {
  const ls_backend_t *host = ls_backend_host(name);
  if (host) {
    *backend = host;
    return LS_OK;
  }
  if (strcmp(name, "cuda") == 0) return find_cuda(ctx, backend);
  if (strcmp(name, "auto") == 0) {
    if (find_cuda(NULL, backend)) *backend = &ls_backend_cpu; /* its absence is not worth a message here */
    return LS_OK;
  }
  return ls_fail(ctx, LS_ERR_ARGUMENT, "unknown backend \"%s\": expected auto, cpu, cuda, ref or null", name);
}

ls_status_t ls_backend_check_math(ls_ctx_t *ctx, const ls_backend_t *backend, ls_math_t math) {
  if (math != LS_MATH_TF32 || backend->tf32) return LS_OK;
  return ls_fail(ctx, LS_ERR_CONFIG,
                 "train.precision is %s, which backend %s does not have: use parallel.backend: cuda, or "
                 "train.precision: fp32",
                 ls_math_names[math], backend->name);
}

const char *ls_backend_key(const ls_backend_t *backend, ls_math_t math, char buf[LS_BACKEND_KEY_BYTES]) {
  bool plain =
      math == LS_MATH_FP32; /* empty for fp32, so that times measured before there was a choice stay valid */
  snprintf(buf, LS_BACKEND_KEY_BYTES, "%s%s%s", backend->name, plain ? "" : " ",
           plain ? "" : ls_math_names[math]);
  return buf;
}
