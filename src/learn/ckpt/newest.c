/* Finds the newest intact checkpoint. A save or a clean-up of another process may run at the same time. */
#include "ckpt/manifest.h"
#include "ckpt/store.h"

#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 16 };

/* Result of a walk over the directory. */
typedef struct {
  int bad;      /* candidates that were refused */
  int vanished; /* candidates that were removed while being looked at: the list is out of date */
} walk_t;

static ls_status_t open_of_step(ls_ctx_t *ctx, const char *path, int64_t step, ls_ckpt_t **ckpt) {
  ls_ckpt_t *made;
  ls_status_t status = ls_ckpt_open(ctx, path, &made);
  if (status) return status;
  if (ls_ckpt_step(made) == step) {
    *ckpt = made;
    return LS_OK;
  }
  status = ls_fail(ctx, LS_ERR_CORRUPT, "%s: the manifest says step %lld: the directory was renamed", path,
                   (long long)ls_ckpt_step(made));
  ls_ckpt_close(made);
  return status;
}

/* Tries one; a refusal becomes a warning. Only a lack of memory is an error of its own, because the
 * checkpoint may be good. */
static ls_status_t try_step(ls_ctx_t *ctx, const char *path, int64_t step, walk_t *walk, ls_ckpt_t **ckpt) {
  ls_ctx_t *quiet = ls_ctx_create(NULL, NULL); /* keeps the reason */
  if (!quiet) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: opening %s", path);
  ls_status_t status = open_of_step(quiet, path, step, ckpt);
  if (status == LS_ERR_MEMORY) {
    ls_fail(ctx, status, "%s", ls_ctx_error(quiet));
  } else if (status && !ls_path_exists(path)) {
    walk->vanished++;
  } else if (status) {
    walk->bad++;
    ls_log(ctx, LS_LOG_WARN, "%s: not used: %s", path, ls_ctx_error(quiet));
  }
  ls_ctx_destroy(quiet);
  return status;
}

/* Newest first until one is good. */
static ls_status_t try_all(ls_ctx_t *ctx, const char *dir, walk_t *walk, ls_ckpt_t **ckpt) {
  int64_t *steps;
  int count;
  ls_status_t status = ls_ckpt_list(ctx, dir, &steps, &count);
  if (status) return status;
  status = LS_ERR_NOT_FOUND;
  for (int i = 0; i < count && status && status != LS_ERR_MEMORY; i++) {
    char *path = ls_ckpt_step_path(ctx, dir, steps[i]);
    status = path ? try_step(ctx, path, steps[i], walk, ckpt) : LS_ERR_MEMORY;
    ls_free(path);
  }
  ls_free(steps);
  if (!status || status == LS_ERR_MEMORY || walk->vanished) return status;
  if (walk->bad == 0) return ls_fail(ctx, LS_ERR_NOT_FOUND, "%s: there is no checkpoint", dir);
  return ls_fail(ctx, LS_ERR_CORRUPT, "%s: none of the %d checkpoints is good", dir, walk->bad);
}

static ls_status_t holds(ls_ctx_t *ctx, const char *dir, const char *name, bool *there) {
  char *path = ls_path_join(ctx, dir, name);
  if (!path) return LS_ERR_MEMORY;
  *there = *there || ls_path_exists(path);
  ls_free(path);
  return LS_OK;
}

ls_status_t ls_ckpt_open_newest(ls_ctx_t *ctx, const char *dir, ls_ckpt_t **ckpt) {
  if (!dir[0]) return ls_fail(ctx, LS_ERR_ARGUMENT, "the path of a checkpoint is empty");
  if (!ls_path_exists(dir))
    return ls_fail(ctx, LS_ERR_NOT_FOUND, "%s: there is no checkpoint: no such file or directory", dir);
  bool itself = false; /* also when torn: then the refusal says what is missing */
  ls_status_t status = holds(ctx, dir, LS_MANIFEST_NAME, &itself);
  if (!status) status = holds(ctx, dir, LS_MODEL_NAME, &itself);
  if (status) return status;
  if (itself) return ls_ckpt_open(ctx, dir, ckpt);
  for (int round = 0; round < ROUNDS_MAX; round++) {
    walk_t walk = {0};
    status = try_all(ctx, dir, &walk, ckpt);
    if (!status || status == LS_ERR_MEMORY || !walk.vanished) return status;
  }
  return ls_fail(ctx, LS_ERR_NOT_FOUND, "%s: checkpoints are removed faster than they can be opened", dir);
}

ls_status_t ls_ckpt_open_best(ls_ctx_t *ctx, const char *dir, ls_ckpt_t **ckpt) {
  char target[LS_STEP_NAME_BYTES];
  int64_t step;
  char *link = ls_path_join(ctx, dir, LS_BEST_NAME);
  if (!link) return LS_ERR_MEMORY;
  ssize_t len = readlink(link, target, sizeof target - 1);
  ls_free(link);
  target[len > 0 ? len : 0] = '\0';
  if (!ls_ckpt_step_parse(target, &step)) {
    bool itself = false;
    ls_status_t looking = holds(ctx, dir, LS_MANIFEST_NAME, &itself);
    if (looking) return looking;
    if (itself)
      return ls_fail(ctx, LS_ERR_ARGUMENT,
                     "%s: is one checkpoint; the best is chosen among those of a run's directory", dir);
    return ls_fail(
        ctx, LS_ERR_NOT_FOUND,
        "%s: no checkpoint is known to be the best: none was saved right after an evaluation on the "
        "newest one's data",
        dir);
  }
  char *path = ls_ckpt_step_path(ctx, dir, step);
  ls_status_t status = path ? ls_ckpt_open(ctx, path, ckpt) : LS_ERR_MEMORY;
  ls_free(path);
  return status;
}
