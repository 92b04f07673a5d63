/* Opening NCCL. */
#include "comm/nccl/nccl.h"

#include <dlfcn.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBRARY    "libnccl.so." TEXT(NCCL_MAJOR)

ls_status_t ls_nccl_library_open(ls_ctx_t *ctx, ls_nccl_library_t *library) {
  ls_nccl_library_t l = {.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
  if (!l.library) {
    const char *why = dlerror();
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "NCCL, which joins GPUs, cannot be loaded: %s",
                   why ? why : "no reason given");
  }
#define FIND(name)                                                                                           \
  {                                                                                                          \
    void *symbol = dlsym(l.library, #name);                                                                  \
    if (!symbol) {                                                                                           \
      dlclose(l.library);                                                                                    \
      return ls_fail(ctx, LS_ERR_UNSUPPORTED, LIBRARY " is too old: it has no " #name);                      \
    }                                                                                                        \
    memcpy(&l.name, &symbol, sizeof symbol);                                                                 \
  }
  LS_NCCL_FUNCTIONS(FIND)
#undef FIND
  *library = l;
  return LS_OK;
}
