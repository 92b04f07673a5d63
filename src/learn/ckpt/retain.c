/* Removes leftovers of dead processes, and checkpoints that retention does not keep. All of this runs on
 * behalf of a save, whose own result does not depend on it. */
#include "base/process.h"
#include "ckpt/manifest.h"
#include "ckpt/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* The process in a name ".tmp-..-PID"; 0 if there is none. */
static long temp_owner(const char *name) {
  static const char prefix[] = ".tmp-";
  const char *dash = strrchr(name, '-');
  if (strncmp(name, prefix, sizeof prefix - 1) != 0 || !dash || dash < name + sizeof prefix - 2) return 0;
  char *end;
  errno = 0;
  long pid = strtol(dash + 1, &end, 10);
  return dash[1] >= '1' && dash[1] <= '9' && *end == '\0' && errno == 0 && pid == (long)(pid_t)pid ? pid : 0;
}

/* A process holds a lock on the directory while it works in it. This tells processes of other containers and
 * of other nodes, where process ids mean nothing, that the directory is in use. */
static bool is_locked(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return locked;
}

void ls_ckpt_sweep(const char *dir) {
  char **names;
  int count;
  if (ls_dir_list(NULL, dir, &names, &count)) return;
  for (int i = 0; i < count; i++) {
    long pid = temp_owner(names[i]);
    if (pid == 0) continue;
    bool dead = pid == (long)getpid() || ls_process_ended((pid_t)pid);
    char *path = dead ? ls_path_join(NULL, dir, names[i]) : NULL;
    if (path && !is_locked(path)) ls_dir_remove(NULL, path);
    ls_free(path);
  }
  ls_free(names);
}

typedef struct {
  int64_t step;
  bool good;     /* its manifest could be read */
  double metric; /* NAN = unknown, or of other data */
  bool keep;
} candidate_t;

static candidate_t look_at(const char *dir, int64_t step, const ls_ckpt_save_t *save) {
  candidate_t c = {.step = step, .metric = NAN};
  char *path = ls_ckpt_step_path(NULL, dir, step);
  char *file = path ? ls_path_join(NULL, path, LS_MANIFEST_NAME) : NULL;
  char *text = NULL;
  size_t size;
  ls_manifest_t manifest;
  if (file && !ls_file_read(NULL, file, LS_MANIFEST_LIMIT_BYTES, &text, &size) &&
      !ls_manifest_read(NULL, file, text, size, &manifest)) {
    c.good = true;
    if (!save->comparable || save->comparable(manifest.meta, save->meta)) c.metric = manifest.metric;
    ls_manifest_release(&manifest);
  }
  ls_free(text);
  ls_free(file);
  ls_free(path);
  return c;
}

/* Marks the checkpoints that stay; candidates come newest first. */
static int choose(candidate_t *c, int count, int64_t step, int keep) {
  int best = -1, kept = 0;
  for (int i = 0; i < count; i++) {
    c[i].keep = kept < keep || c[i].step == step; /* a bad one among the newest stays as evidence */
    kept += c[i].good && kept < keep;
    /* Written so that a NaN is never better, and the older one wins a tie, as it does where evaluations are counted. */
    if (c[i].good && !isnan(c[i].metric) && (best < 0 || c[i].metric <= c[best].metric)) best = i;
  }
  if (best >= 0) c[best].keep = true;
  return best;
}

/* The link to the best checkpoint, switched by one rename. It is a convenience: if it cannot be made, a run
 * warns once. */
static void link_best(ls_ctx_t *ctx, const char *dir, ls_ckpt_lock_t *lock, int64_t step) {
  char name[LS_STEP_NAME_BYTES], temp_name[LS_TEMP_NAME_BYTES];
  ls_ckpt_step_name(step, name);
  ls_ckpt_temp_name(LS_BEST_NAME, getpid(), temp_name);
  char *temp = ls_path_join(NULL, dir, temp_name), *path = ls_path_join(NULL, dir, LS_BEST_NAME);
  if (temp && path) unlink(temp);
  if (!temp || !path || symlink(name, temp) != 0 || rename(temp, path) != 0) {
    int error = errno;
    if (temp) unlink(temp);
    if (ls_ckpt_lock_first_complaint(lock))
      ls_log(ctx, LS_LOG_WARN, "%s/%s: cannot be linked to %s: %s", dir, LS_BEST_NAME, name, strerror(error));
  }
  ls_free(path);
  ls_free(temp);
}

/* No comparable checkpoint has a metric: the link would name one of other data. */
static void unlink_best(ls_ctx_t *ctx, const char *dir) {
  char *path = ls_path_join(NULL, dir, LS_BEST_NAME), unread;
  if (path && readlink(path, &unread, 1) > 0 && unlink(path) != 0)
    ls_log(ctx, LS_LOG_WARN, "%s: the link cannot be removed: %s", path, strerror(errno));
  ls_free(path);
}

static void remove_step(ls_ctx_t *ctx, const char *dir, int64_t step) {
  char name[LS_STEP_NAME_BYTES], temp_name[LS_TEMP_NAME_BYTES];
  ls_ckpt_step_name(step, name);
  ls_ckpt_temp_name(name, getpid(), temp_name);
  char *from = ls_path_join(NULL, dir, name), *to = ls_path_join(NULL, dir, temp_name);
  ls_ctx_t *quiet = ls_ctx_create(NULL, NULL); /* keeps the reason */
  ls_status_t status = from && to ? LS_OK : LS_ERR_MEMORY;
  if (!status && rename(from, to) != 0) status = ls_fail_errno(quiet, "rename to %s", to);
  if (!status) status = ls_dir_remove(quiet, to);
  if (status)
    ls_log(ctx, LS_LOG_WARN, "%s/%s: an old checkpoint could not be removed: %s", dir, name,
           quiet ? ls_ctx_error(quiet) : ls_status_text(status));
  ls_ctx_destroy(quiet);
  ls_free(to);
  ls_free(from);
}

void ls_ckpt_retain(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save, int keep) {
  int64_t *steps = NULL;
  int count = 0;
  candidate_t *c = NULL;
  ls_status_t status = ls_ckpt_list(NULL, dir, &steps, &count);
  if (!status && !(c = ls_alloc_array(NULL, (size_t)count, sizeof *c))) status = LS_ERR_MEMORY;
  if (status) {
    ls_log(ctx, LS_LOG_WARN, "%s: old checkpoints were not looked at: %s", dir, ls_status_text(status));
    goto free_steps;
  }
  for (int i = 0; i < count; i++)
    c[i] = look_at(dir, steps[i], save);
  int best = choose(c, count, save->step, keep);
  if (best >= 0 && ls_ckpt_lock_holds(save->lock))
    link_best(ctx, dir, save->lock, c[best].step);
  else if (ls_ckpt_lock_holds(save->lock))
    unlink_best(ctx, dir);
  for (int i = count - 1; i >= 0; i--) /* oldest first: a kill in between leaves the newest */
    if (!c[i].keep && ls_ckpt_lock_holds(save->lock)) remove_step(ctx, dir, c[i].step);
free_steps:
  ls_free(c);
  ls_free(steps);
}
