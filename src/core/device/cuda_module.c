/* Loads the CUDA module at run time, so that one binary starts on machines with and without CUDA, and names what is
 * missing. */
#include "device/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEARCH_MAX = 6 };

typedef struct {
  char path[SEARCH_MAX][PATH_MAX];
  int count;
} search_t;

static void search_add(search_t *search, const char *dir, const char *below) {
  char *path = search->path[search->count];
  int len = snprintf(path, PATH_MAX, "%s%s/%s", dir, below, LS_CUDA_MODULE_FILE);
  if (len <= 0 || len >= PATH_MAX) return;
  for (int i = 0; i < search->count; i++)
    if (strcmp(search->path[i], path) == 0) return;
  search->count++;
}

/* The folder of `file` and its ../lib/lockstep. */
static void search_add_beside(search_t *search, const char *file) {
  char dir[PATH_MAX];
  const char *slash = strrchr(file, '/');
  if (!slash || (size_t)(slash - file) >= sizeof dir) return;
  memcpy(dir, file, (size_t)(slash - file));
  dir[slash - file] = '\0';
  search_add(search, dir, "");
  search_add(search, dir, "/../lib/lockstep");
}

static void search_fill(search_t *search) {
  char program[PATH_MAX];
  ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
  if (len > 0) {
    program[len] = '\0';
    search_add_beside(search, program);
  }
  Dl_info info;
  if (dladdr((const void *)&ls_backend_cpu, &info) && info.dli_fname)
    search_add_beside(search, info.dli_fname);
  search_add(search, LS_CUDA_MODULE_DIR, "");
}

static ls_status_t fail_missing(ls_ctx_t *ctx, const search_t *search) {
  char list[SEARCH_MAX * 256] = "";
  size_t used = 0;
  for (int i = 0; i < search->count && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "\n  %s", search->path[i]);
  return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                 "backend cuda: its module was not found (it is built when nvcc is there); looked for%s\n"
                 "  LOCKSTEP_CUDA_MODULE can name it",
                 list);
}

/* The module stays open until the process ends; opening it again only counts. */
static ls_status_t open_module(ls_ctx_t *ctx, const char *path, const ls_cuda_module_t **module) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "backend cuda: its module %s cannot be loaded: %s", path,
                   why ? why : "no reason given");
  }
  ls_cuda_module_fn get;
  void *symbol = dlsym(handle, LS_CUDA_MODULE_SYMBOL);
  if (!symbol) {
    dlclose(handle);
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "backend cuda: %s is not a lockstep module: it has no symbol %s",
                   path, LS_CUDA_MODULE_SYMBOL);
  }
  memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from object to function pointer */
  const ls_cuda_module_t *found = get();
  if (!found || found->abi != LS_CUDA_ABI) {
    int abi = found ? found->abi : 0;
    dlclose(handle);
    return ls_fail(
        ctx, LS_ERR_UNSUPPORTED,
        "backend cuda: the module %s speaks version %d, this program version %d; install both from one "
        "build",
        path, abi, LS_CUDA_ABI);
  }
  *module = found;
  return LS_OK;
}

ls_status_t ls_cuda_module_load(ls_ctx_t *ctx, const ls_cuda_module_t **module) {
  const char *named = getenv("LOCKSTEP_CUDA_MODULE");
  if (named && named[0]) return open_module(ctx, named, module);
  search_t *search = ls_alloc(ctx, sizeof *search);
  if (!search) return LS_ERR_MEMORY;
  search_fill(search);
  ls_status_t status = LS_ERR_NOT_FOUND;
  for (int i = 0; i < search->count && status == LS_ERR_NOT_FOUND; i++)
    if (access(search->path[i], F_OK) == 0) status = open_module(ctx, search->path[i], module);
  if (status == LS_ERR_NOT_FOUND) status = fail_missing(ctx, search);
  ls_free(search);
  return status;
}
