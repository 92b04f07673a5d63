/* Saves a checkpoint so that it exists whole or not at all, even after a power cut:
 *   1. files into a temporary directory, each fsynced, by every rank that has some; the manifest last, by
 *      rank 0, when all are there; the temporary directory fsynced
 *   2. one rename into place (an exchange if that step exists already), the parent fsynced
 *   3. only then retention
 * If one of these fails, everything before it is undone. */
#include "ckpt/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef struct {
  char *path;  /* dir/step-.. */
  char *temp;  /* dir/.tmp-step-..-pid */
  char *spare; /* dir/.tmp-old-step-..-pid */
} names_t;

/* ---- into place and back ---- */

typedef enum {
  PLACED_NEW,       /* there was none of this step */
  PLACED_EXCHANGED, /* the older one of this step is now `temp` */
  PLACED_ASIDE      /* the older one is now `spare` */
} placed_t;

/* For file systems that cannot exchange two names at once. For a moment `path` does not exist. */
static int put_aside(const char *temp, const char *path, const char *spare) {
  if (rename(path, spare) != 0) return -1;
  if (rename(temp, path) == 0) return 0;
  int error = errno;
  rename(spare, path);
  errno = error;
  return -1;
}

/* Renames temp to path; an older checkpoint of the same step gives way. */
static ls_status_t place(ls_ctx_t *ctx, const names_t *n, placed_t *placed) {
  *placed = PLACED_NEW;
  if (rename(n->temp, n->path) == 0) return LS_OK;
  if (errno == EEXIST || errno == ENOTEMPTY) {
    *placed = PLACED_EXCHANGED;
    if (renameat2(AT_FDCWD, n->temp, AT_FDCWD, n->path, RENAME_EXCHANGE) == 0) return LS_OK;
  }
  if (*placed == PLACED_EXCHANGED && (errno == EINVAL || errno == ENOSYS)) {
    *placed = PLACED_ASIDE;
    if (put_aside(n->temp, n->path, n->spare) == 0) return LS_OK;
  }
  return ls_fail_errno(ctx, "%s: cannot be renamed to %s", n->temp, n->path);
}

static void unplace(const names_t *n, placed_t placed) {
  if (placed == PLACED_EXCHANGED)
    renameat2(AT_FDCWD, n->temp, AT_FDCWD, n->path, RENAME_EXCHANGE);
  else
    rename(n->path, n->temp);
  if (placed == PLACED_ASIDE) rename(n->spare, n->path);
}

/* ---- all of it ---- */

static void names_free(names_t *n) {
  ls_free(n->spare);
  ls_free(n->temp);
  ls_free(n->path);
  *n = (names_t){0};
}

/* pid: of the process that leads. */
static ls_status_t names_make(ls_ctx_t *ctx, const char *dir, int64_t step, int64_t pid, names_t *n) {
  char name[LS_STEP_NAME_BYTES], what[LS_STEP_NAME_BYTES + 8], temp[LS_TEMP_NAME_BYTES];
  ls_ckpt_step_name(step, name);
  ls_ckpt_temp_name(name, pid, temp);
  *n = (names_t){.path = ls_path_join(ctx, dir, name), .temp = ls_path_join(ctx, dir, temp)};
  snprintf(what, sizeof what, "old-%s", name);
  ls_ckpt_temp_name(what, pid, temp);
  n->spare = ls_path_join(ctx, dir, temp);
  if (n->path && n->temp && n->spare) return LS_OK;
  names_free(n);
  return LS_ERR_MEMORY;
}

static ls_status_t check_save(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save, int keep) {
  if (!dir[0]) return ls_fail(ctx, LS_ERR_ARGUMENT, "the directory of a checkpoint has no name");
  if (keep < 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "a checkpoint is saved with keep %d; it must be at least 1", keep);
  if (save->step < 0 || save->step > 999999999999999999)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "a checkpoint cannot have the step %lld", (long long)save->step);
  return LS_OK;
}

/* Element of the whole that is number `at` of those in `data`. */
static int64_t element_of(const ls_ckpt_tensor_t *t, int64_t at) {
  for (int i = 0; t->held && i < t->held_count; i++) {
    int64_t count = t->held[i].end - t->held[i].begin;
    if (at < count) return t->held[i].begin + at;
    at -= count;
  }
  return at;
}

static ls_status_t check_list(ls_ctx_t *ctx, const char *dir, int64_t step, const ls_ckpt_tensor_t *tensors,
                              int count) {
  for (int i = 0; i < count; i++) {
    const ls_ckpt_tensor_t *t = &tensors[i];
    size_t size_bytes = (size_t)ls_ckpt_held_count(t) * ls_dtype_bytes(t->shape.dtype);
    int64_t at = size_bytes ? ls_ckpt_nonfinite(t->shape.dtype, t->data, size_bytes) : -1;
    if (at >= 0)
      return ls_fail(
          ctx, LS_ERR_NONFINITE,
          "%s: step %lld is not saved: value %lld of %s is not finite. Lower train.optimizer.lr, or go "
          "back to an older checkpoint",
          dir, (long long)step, (long long)element_of(t, at), t->name);
  }
  return LS_OK;
}

static ls_status_t check_finite(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save) {
  ls_status_t status = check_list(ctx, dir, save->step, save->params, save->param_count);
  return status ? status : check_list(ctx, dir, save->step, save->optim, save->optim_count);
}

static int64_t list_bytes(const ls_ckpt_tensor_t *tensors, int count) {
  int64_t sum = 0;
  for (int i = 0; i < count; i++)
    sum += (int64_t)ls_shape_bytes(&tensors[i].shape);
  return sum;
}

/* Bytes of all ranks, because shapes are of whole tensors. Some file systems do not tell their size. */
static ls_status_t check_space(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save) {
  struct statvfs disk;
  if (statvfs(dir, &disk) != 0 || disk.f_blocks == 0) return LS_OK;
  const fsblkcnt_t blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  const double free_bytes = (double)blocks * (double)disk.f_frsize;
  const int64_t bytes =
      list_bytes(save->params, save->param_count) + list_bytes(save->optim, save->optim_count);
  if ((double)bytes <= free_bytes) return LS_OK;
  return ls_fail(ctx, LS_ERR_NO_SPACE,
                 "%s: step %lld is not saved: it needs %lld bytes and more, and %.0f are free. Make room, or "
                 "keep fewer checkpoints (train.checkpoint.keep)",
                 dir, (long long)save->step, (long long)bytes, free_bytes);
}

/* Puts the new checkpoint in place durably, or leaves nothing of it. */
static ls_status_t save_durably(ls_ctx_t *ctx, ls_ckpt_team_t *team, const char *dir, const names_t *n,
                                const ls_ckpt_save_t *save) {
  int lock_fd;
  ls_status_t status = ls_ckpt_fill(ctx, team, n->temp, save, &lock_fd);
  if (status) return status;
  placed_t placed;
  status = ls_ckpt_lock_check(ctx, save->lock);
  if (!status) status = place(ctx, n, &placed);
  if (status) goto remove_temp;
  status = ls_dir_sync(ctx, dir);
  if (status) {
    if (ls_ckpt_lock_holds(save->lock)) unplace(n, placed);
    goto remove_temp;
  }
  if (placed == PLACED_EXCHANGED) ls_dir_remove(NULL, n->temp);
  if (placed == PLACED_ASIDE) ls_dir_remove(NULL, n->spare);
  close(lock_fd);
  return LS_OK;
remove_temp:
  ls_dir_remove(NULL, n->temp);
  close(lock_fd);
  return status;
}

static ls_status_t lead(ls_ctx_t *ctx, ls_ckpt_team_t *team, const char *dir, const ls_ckpt_save_t *save,
                        int keep, char **path) {
  ls_status_t status = check_save(ctx, dir, save, keep);
  if (!status) status = check_finite(ctx, dir, save);
  if (status) return status;
  status = ls_ckpt_lock_check(ctx, save->lock);
  if (status) return status;
  names_t n;
  status = names_make(ctx, dir, save->step, getpid(), &n);
  if (status) return status;
  size_t existing_bytes;
  status = ls_ckpt_dirs_make(ctx, dir, &existing_bytes);
  if (status) goto free_names;
  ls_ckpt_sweep(dir);
  status = check_space(ctx, dir, save);
  if (status) goto remove_dirs;
  status = save_durably(ctx, team, dir, &n, save);
  if (status && status != LS_ERR_MOVED && !ls_ckpt_lock_holds(save->lock)) {
    ls_log(ctx, LS_LOG_WARN, "%s: the directory was moved, or its lock was removed, during the save", dir);
    status = LS_ERR_MOVED; /* whatever call was the first to miss it */
  }
  if (!status) status = ls_ckpt_lock_check(ctx, save->lock);
  if (status) goto remove_dirs;
  ls_ckpt_retain(ctx, dir, save, keep);
  *path = n.path;
  n.path = NULL;
  names_free(&n);
  return LS_OK;
remove_dirs:
  ls_ckpt_dirs_remove(dir, existing_bytes);
free_names:
  names_free(&n);
  return status;
}

/* A rank other than 0 writes its files into rank 0's directory. */
static ls_status_t follow(ls_ctx_t *ctx, ls_ckpt_team_t *team, const char *dir, const ls_ckpt_save_t *save) {
  int64_t leader;
  names_t n = {0};
  ls_status_t status = ls_ckpt_meet_leader(team, check_finite(ctx, dir, save), &leader);
  if (status) return status;
  status = names_make(ctx, dir, save->step, leader, &n);
  if (!status && !ls_path_exists(n.temp))
    status = ls_fail(ctx, LS_ERR_IO,
                     "%s: rank %d does not see this directory: state that is divided among ranks is saved "
                     "where all of them can write",
                     n.temp, team->comm->rank);
  status = ls_ckpt_shards_put(ctx, team, status, n.temp, save, NULL);
  names_free(&n);
  return status;
}

ls_status_t ls_ckpt_save(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save, int keep, char **path) {
  ls_ckpt_team_t team = {.comm = save->comm && save->comm->size > 1 ? save->comm : NULL,
                         .name = "saving a checkpoint",
                         .failed = save->failed,
                         .user = save->user};
  bool leads = !team.comm || team.comm->rank == 0;
  char *made = NULL;
  ls_status_t status = leads ? lead(ctx, &team, dir, save, keep, &made) : follow(ctx, &team, dir, save);
  status = ls_ckpt_meet(&team, status);
  if (status || !leads)
    ls_free(made);
  else
    *path = made;
  return status;
}
