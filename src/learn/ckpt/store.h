/* The directory of checkpoints: their names, the list of them, and removal. Inside view, shared by saving,
 * opening and retention. */
#ifndef LS_CKPT_STORE_H
#define LS_CKPT_STORE_H

#include "ckpt/ckpt.h"

enum { LS_STEP_NAME_BYTES = 32, LS_TEMP_NAME_BYTES = 64 };

/* "step-000000000123"; at least 12 digits. */
void ls_ckpt_step_name(int64_t step, char name[LS_STEP_NAME_BYTES]);
bool ls_ckpt_step_parse(const char *name, int64_t *step); /* exactly what step_name writes */
/* ".tmp-WHAT-PID": hidden, and removed by a later save when its process is dead. */
void ls_ckpt_temp_name(const char *what, int64_t pid, char name[LS_TEMP_NAME_BYTES]);

/* Steps of the checkpoints below `dir`, newest first (ls_free). Nothing is opened. */
ls_status_t ls_ckpt_list(ls_ctx_t *ctx, const char *dir, int64_t **steps, int *count);
/* "dir/step-.." (ls_free). */
char *ls_ckpt_step_path(ls_ctx_t *ctx, const char *dir, int64_t step);

/* Creates `dir` with its parents, durably. *existing_bytes: length of the part of the name that existed
 * before. A failure leaves no new directory behind. */
ls_status_t ls_ckpt_dirs_make(ls_ctx_t *ctx, const char *dir, size_t *existing_bytes);
/* Removes the directories that the call above created, as far as they are empty. */
void ls_ckpt_dirs_remove(const char *dir, size_t existing_bytes);

/* Ranks that save together. Each waits at the next meeting, so that a rank that fails can tell the others. */
typedef struct {
  ls_comm_t *comm;                             /* NULL: alone */
  const char *name;                            /* of what they do */
  bool parted;                                 /* a meeting has failed: there is none after it */
  void (*failed)(void *user, ls_status_t own); /* as ls_ckpt_save_t's */
  void *user;
} ls_ckpt_team_t;
/* Collective: this rank's status, or the failure of another rank. A rank that has failed need not come
 * again. */
ls_status_t ls_ckpt_meet(ls_ckpt_team_t *team, ls_status_t own);
/* The same, and tells every rank the process of rank 0, whose number is in the temporary names. */
ls_status_t ls_ckpt_meet_leader(ls_ckpt_team_t *team, ls_status_t own, int64_t *pid);

/* The following calls, up to the last meeting, are collective over the team; `temp`, `manifest` and `lock_fd`
 * are rank 0's. Creates `temp` and writes a whole checkpoint into it, durably. *lock_fd keeps clean-ups away
 * until it is closed. After a failure nothing of it is left. */
ls_status_t ls_ckpt_fill(ls_ctx_t *ctx, ls_ckpt_team_t *team, const char *temp, const ls_ckpt_save_t *save,
                         int *lock_fd);
/* One safetensors file in `dir`, durably. *entry is what the manifest says of it. Local. */
struct ls_manifest_file;
ls_status_t ls_ckpt_put_tensors(ls_ctx_t *ctx, const char *dir, const char *name,
                                const ls_ckpt_tensor_t *tensors, int count, struct ls_manifest_file *entry);

/* shards.c. Writes this rank's parts of the tensors with `held` into files of its own, durably, unless it has failed
 * before (`own`). Rank 0 adds all ranks' files, and the tensors that they make up, to `manifest`.
 * LS_ERR_INTERNAL if ranks hold an element twice or not at all. */
struct ls_manifest;
ls_status_t ls_ckpt_shards_put(ls_ctx_t *ctx, ls_ckpt_team_t *team, ls_status_t own, const char *temp,
                               const ls_ckpt_save_t *save, struct ls_manifest *manifest);

/* Elements of it in `data`. */
int64_t ls_ckpt_held_count(const ls_ckpt_tensor_t *tensor);
/* Bytes of every rank, as long as they are on it. blob[rank * stride], bytes[rank]; in the arena. Collective.
 */
typedef struct {
  char *blob;
  int64_t *size_bytes, stride;
} ls_ckpt_gathered_t;
ls_status_t ls_ckpt_gather(ls_ctx_t *ctx, ls_arena_t *arena, ls_ckpt_team_t *team, const void *own,
                           int64_t size_bytes, ls_ckpt_gathered_t *all);

/* Removes temporary directories of dead processes. Failures are silent: the next save tries again. */
void ls_ckpt_sweep(const char *dir);
/* Keeps the newest `keep`, the best by metric, and `save`, the newest. A checkpoint without a
 * readable manifest counts for neither. Removal renames first, so that readers see a checkpoint whole or not
 * at all. Failures are warnings. */
void ls_ckpt_retain(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save, int keep);
/* Whether this is the first call under this lock, and thus in this run. NULL: always. */
bool ls_ckpt_lock_first_complaint(ls_ckpt_lock_t *lock);

/* Index of the first number that is not finite; -1 = none, which is always so for types with only finite
 * ones. */
int64_t ls_ckpt_nonfinite(ls_dtype_t dtype, const void *bytes, size_t size_bytes);

/* Whether parsing a JSON text failed because memory was short (jansson mostly does not say). */
bool ls_ckpt_json_short_of_memory(const json_error_t *error);

#endif
