/* The directory that checkpoints stand in: their names, which are there, and what leaves it again. Inside
 * view, shared by saving, opening and retention. */
#ifndef LS_CKPT_STORE_H
#define LS_CKPT_STORE_H

#include "ckpt/ckpt.h"

enum { LS_STEP_NAME_BYTES = 32, LS_TEMP_NAME_BYTES = 64 };

/* "step-000000000123"; at least 12 digits. */
void ls_ckpt_step_name(int64_t step, char name[LS_STEP_NAME_BYTES]);
bool ls_ckpt_step_parse(const char *name, int64_t *step); /* exactly what step_name writes */
/* ".tmp-WHAT-PID": hidden, and removed by a later save when its process is dead. */
void ls_ckpt_temp_name(const char *what, char name[LS_TEMP_NAME_BYTES]);

/* Steps of the checkpoints below `dir`, newest first (ls_free). Nothing is opened. */
ls_status_t ls_ckpt_list(ls_ctx_t *ctx, const char *dir, int64_t **steps, int *count);
/* "dir/step-.." (ls_free). */
char *ls_ckpt_step_path(ls_ctx_t *ctx, const char *dir, int64_t step);

/* Creates `dir` with its parents, durably. *existing_bytes: how much of the name was there before. A failure
 * leaves no new directory behind. */
ls_status_t ls_ckpt_dirs_make(ls_ctx_t *ctx, const char *dir, size_t *existing_bytes);
/* Removes those that the call above has made, as far as they are empty. */
void ls_ckpt_dirs_remove(const char *dir, size_t existing_bytes);

/* Creates `temp` and writes a whole checkpoint into it, durably. *lock_fd keeps sweepers away until it is
 * closed. On failure nothing of it is left. */
ls_status_t ls_ckpt_fill(ls_ctx_t *ctx, const char *temp, const ls_ckpt_save_t *save, int *lock_fd);

/* Removes temporary directories of dead processes. What cannot be removed is left in silence: the next save
 * tries again. */
void ls_ckpt_sweep(const char *dir);
/* Keeps the newest `keep`, the best by metric, and `save`, the newest. A checkpoint without a
 * readable manifest counts for neither. Removal renames first, so that readers see a checkpoint whole or not
 * at all. Failures are warnings. */
void ls_ckpt_retain(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save, int keep);

/* Index of the first number that is not finite; -1 = none, also in types that have only finite ones. */
int64_t ls_ckpt_nonfinite(ls_dtype_t dtype, const void *bytes, size_t size_bytes);

/* Whether a JSON text was not parsed because memory was short (which jansson mostly leaves unexplained). */
bool ls_ckpt_json_short_of_memory(const json_error_t *error);

/* A context that keeps its first error instead of delivering it, for attempts whose failure is only a
 * warning. NULL when memory is short, which ls_fail and ls_alloc allow. */
ls_ctx_t *ls_ckpt_quiet_ctx(void);

#endif
