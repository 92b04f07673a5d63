/* Opening cuDNN. */
#include "device/cuda/dnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBRARY    "libcudnn.so." TEXT(CUDNN_MAJOR)

/* NULL, or the name of a function that it lacks. */
static const char *find_functions(ls_dnn_t *dnn) {
#define FIND(name)                                                                                           \
  {                                                                                                          \
    void *symbol = dlsym(dnn->library, #name);                                                               \
    if (!symbol) return #name;                                                                               \
    memcpy(&dnn->name, &symbol, sizeof symbol);                                                              \
  }
  LS_DNN_FUNCTIONS(FIND)
#undef FIND
  return NULL;
}

void ls_dnn_open(ls_ctx_t *ctx, ls_dnn_t *dnn) {
  if (dnn->tried) return;
  *dnn = (ls_dnn_t){.tried = true, .library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
  char text[256] = "";
  const char *why = text, *missing = NULL;
  if (!dnn->library) {
    why = dlerror();
  } else if ((missing = find_functions(dnn))) {
    snprintf(text, sizeof text, "it has no %s", missing);
  } else {
    cudnnStatus_t result = dnn->cudnnCreate(&dnn->handle);
    if (result == CUDNN_STATUS_SUCCESS) return;
    snprintf(text, sizeof text, "%s", dnn->cudnnGetErrorString(result));
    dnn->handle = NULL;
  }
  ls_log(ctx, LS_LOG_WARN,
         "backend cuda: convolutions use lockstep's own kernels, which are slower than cuDNN's: " LIBRARY
         " cannot be used: %s",
         why ? why : "no reason given");
}

void ls_dnn_handle(const ls_dnn_t *dnn, void **handle) {
  cudnnHandle_t made = NULL;
  if (!*handle && dnn->handle && dnn->cudnnCreate(&made) == CUDNN_STATUS_SUCCESS) *handle = made;
}

void ls_dnn_handle_close(const ls_dnn_t *dnn, void *handle) {
  if (handle) (void)dnn->cudnnDestroy(handle);
}

/* The library stays open, as cuBLASLt does. */
void ls_dnn_close(ls_dnn_t *dnn) {
  if (dnn->handle) (void)dnn->cudnnDestroy(dnn->handle);
  dnn->handle = NULL;
}
