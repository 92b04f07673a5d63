/* The run's checkpoint directory: locks it for the life of the run, moves an earlier run aside, and writes
 * the resolved configuration into it. */
#include "train/trainer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

ls_status_t ls_train_dir_check(ls_ctx_t *ctx, const ls_config_t *config) {
  const ls_checkpoint_config_t *checkpoint = &config->checkpoint;
  return checkpoint->dir ? ls_ckpt_dir_check(ctx, &checkpoint->dir_place, checkpoint->dir) : LS_OK;
}

ls_status_t ls_trainer_lock(ls_trainer_t *t) {
  const char *dir = t->config->checkpoint.dir;
  bool own = dir && t->training && t->world->comm->rank == 0;
  ls_status_t status = own ? ls_train_dir_check(t->ctx, t->config) : LS_OK;
  if (own && status == LS_OK) status = ls_ckpt_lock(t->ctx, dir, &t->saver.lock);
  return ls_comm_agree(t->world->comm, "locking the checkpoint directory", status);
}

void ls_trainer_unclaim(ls_trainer_t *t) {
  static const char *const names[] = {LS_CONFIG_NAME, LS_HISTORY_NAME};
  if (!t->saver.lock || !ls_ckpt_lock_made_dir(t->saver.lock) || t->saver.checkpoint[0]) return;
  for (int i = 0; i < LS_COUNT(names); i++) {
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/%s", t->config->checkpoint.dir, names[i]);
    if (len > 0 && len < (int)sizeof path) unlink(path);
  }
}

static bool is_checkpoint(const char *name) {
  return strncmp(name, "step-", 5) == 0;
}

/* The names that an earlier run may have left in its directory. */
static bool belongs_to_run(const char *name) {
  return is_checkpoint(name) || strcmp(name, LS_CONFIG_NAME) == 0 || strcmp(name, LS_BEST_NAME) == 0 ||
         strcmp(name, LS_HISTORY_NAME) == 0;
}

/* The first "dir/previous-N" that does not exist. */
static ls_status_t free_name(ls_ctx_t *ctx, const char *dir, char aside[PATH_MAX]) {
  for (int n = 1;; n++) {
    int len = snprintf(aside, PATH_MAX, "%s/previous-%d", dir, n);
    if (len >= PATH_MAX) return ls_fail(ctx, LS_ERR_IO, "%s: the name of the directory is too long", dir);
    if (!ls_path_exists(aside)) return LS_OK;
  }
}

static ls_status_t move(ls_ctx_t *ctx, const char *dir, const char *name, const char *aside) {
  char *from = ls_path_join(ctx, dir, name), *to = ls_path_join(ctx, aside, name);
  ls_status_t status = from && to ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK && rename(from, to) != 0) status = ls_fail_errno(ctx, "cannot move %s to %s", from, to);
  ls_free(to);
  ls_free(from);
  return status;
}

/* Moves an earlier run with checkpoints into previous-N as a whole, so that it is neither lost nor mixed with
 * this one. */
static ls_status_t move_aside(ls_ctx_t *ctx, const char *dir) {
  char **names, aside[PATH_MAX];
  int count, checkpoints = 0;
  ls_status_t status = ls_dir_list(ctx, dir, &names, &count);
  if (status != LS_OK) return status;
  for (int i = 0; i < count; i++)
    checkpoints += is_checkpoint(names[i]);
  if (checkpoints == 0) goto names;
  status = free_name(ctx, dir, aside);
  if (status == LS_OK) status = ls_dir_make(ctx, aside);
  for (int i = 0; i < count && status == LS_OK; i++)
    if (belongs_to_run(names[i])) status = move(ctx, dir, names[i], aside);
  if (status == LS_OK)
    ls_log(
        ctx, LS_LOG_INFO,
        "%s: an earlier run (%d checkpoint%s, %s) moved to %s; it stays there until you remove that folder. "
        "(--resume goes on with a run instead)",
        dir, checkpoints, LS_PLURAL(checkpoints), LS_CONFIG_NAME, aside);
names:
  ls_free(names);
  return status;
}

static ls_status_t claim_rank0(ls_trainer_t *t) {
  const char *dir = t->config->checkpoint.dir;
  ls_status_t status = t->run.resumed_from < 0 ? move_aside(t->ctx, dir) : LS_OK;
  if (status != LS_OK) return status;
  char *text = ls_config_text(t->ctx, t->config);
  char *path = ls_path_join(t->ctx, dir, LS_CONFIG_NAME),
       *history = ls_path_join(t->ctx, dir, LS_HISTORY_NAME);
  status = text && path && history ? ls_file_expect(t->ctx, path) : LS_ERR_MEMORY;
  if (status == LS_OK) status = ls_file_expect(t->ctx, history);
  if (status == LS_OK) status = ls_file_replace(t->ctx, path, text, strlen(text));
  if (status == LS_OK) {
    LS_OBSERVERS(o, t, claimed) o->row->claimed(o->own);
  } else {
    ls_trainer_unclaim(t);
  }
  ls_free(text);
  ls_free(path);
  ls_free(history);
  return status;
}

ls_status_t ls_trainer_claim(ls_trainer_t *t) {
  if (t->saver.claimed) return LS_OK;
  t->saver.claimed = true;
  if (!t->config->checkpoint.dir) return LS_OK;
  ls_status_t status = t->saver.lock ? claim_rank0(t) : LS_OK;
  return ls_comm_agree(t->world->comm, "preparing the checkpoint directory", status);
}
