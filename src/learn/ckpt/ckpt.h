/* Checkpoints: a directory "step-000000000123" with model.safetensors (parameters), optim.safetensors
 * (optimizer state) and manifest.json (versioned; size and XXH3-128 of each file, training position). If
 * ranks share a tensor, every rank writes its part into files of its own, and the manifest joins them. A
 * checkpoint is saved into a temporary directory, every file and directory is fsynced, then it is renamed: it
 * exists whole or not at all. Any world size reads the checkpoints of any other. Formats: safetensors (public
 * specification), data begins at a multiple of 4096. */
#ifndef LS_CKPT_CKPT_H
#define LS_CKPT_CKPT_H

#include "comm/comm.h"
#include "state/state.h"
#include <jansson.h>

typedef struct {
  const char *name;
  ls_shape_t shape; /* of the whole */
  void *data;       /* host memory: the whole, or what this rank holds of it, packed */
  /* The elements that this rank holds, ascending, as ranges of the flattened whole. NULL: the whole, which
   * every rank has. */
  const ls_range_t *held;
  int held_count;
} ls_ckpt_tensor_t;

typedef struct {
  int64_t step;  /* steps done */
  double metric; /* lower is better (validation loss); NAN = unknown */
  const ls_ckpt_tensor_t *params;
  int param_count;
  const ls_ckpt_tensor_t *optim;
  int optim_count;
  const json_t *meta; /* stored as manifest "meta"; borrowed */
  /* Whether metrics saved with these meta data are comparable with this one; NULL: all are. */
  bool (*comparable)(const json_t *a, const json_t *b);
  /* Lock on the directory, borrowed: once it is lost, nothing is put in place or removed there. NULL: the
   * caller vouches for the directory. */
  struct ls_ckpt_lock *lock;
  /* The ranks that save this checkpoint together: rank 0 writes whole tensors, manifest and names, every rank
   * its parts of the others. Metric, meta, comparable and lock are rank 0's; step, names, dtypes and shapes
   * are the same on all ranks. NULL: this process alone, which holds every tensor completely. */
  ls_comm_t *comm;
  /* With comm: told this rank's own failure before the other ranks hear of it. NULL: nobody is told. */
  void (*failed)(void *user, ls_status_t own);
  void *user;
} ls_ckpt_save_t;

/* Link in the directory to the checkpoint with the lowest metric. */
#define LS_BEST_NAME "best"

/* Retention: the newest `keep` (>= 1) checkpoints stay, and the best by metric among those comparable with
 * this one; others are removed after the new one is safe. Stale temporary directories are removed. *path
 * (ls_free) is the new directory. After a failure nothing of the new checkpoint is left, and older ones are
 * untouched. Errors: LS_ERR_MOVED (the lock is lost), LS_ERR_IO, LS_ERR_NO_SPACE, LS_ERR_NONFINITE (a number
 * is not finite; the tensor is named), LS_ERR_INTERNAL (ranks hold an element twice, or not at all).
 * Collective over save->comm: all ranks fail if one does; *path is rank 0's. All ranks must then share the
 * directory. */
ls_status_t ls_ckpt_save(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save, int keep, char **path);

/* One run, one directory: keeps every other run out of `dir` until the lock is released or its process ends.
 * The lock is flock(2) on dir/.lock, which names the holder; `dir` is created if it is missing. LS_ERR_BUSY
 * names the holder's process, host and start. A file system without locks: a warning, and LS_OK. Local. */
typedef struct ls_ckpt_lock ls_ckpt_lock_t;
/* Whether `dir`, not "", can be a run's directory, found out without writing. Its name must leave room for
 * the names below it; its deepest existing part must be a writable directory; the missing parts must have
 * valid names. `place`: of the option, for messages. LS_ERR_IO. Only a write can discover a full disk, or a
 * file system without folders (/proc). Local. */
ls_status_t ls_ckpt_dir_check(ls_ctx_t *ctx, const ls_place_t *place, const char *dir);
/* Warns if another run holds the lock of `dir`. Local; writes nothing, and holds the lock itself, shared,
 * only while it looks. */
void ls_ckpt_lock_look(ls_ctx_t *ctx, const char *dir);
ls_status_t ls_ckpt_lock(ls_ctx_t *ctx, const char *dir, ls_ckpt_lock_t **lock);
bool ls_ckpt_lock_made_dir(const ls_ckpt_lock_t *lock); /* it was not there before */
/* Whether `dir` is still the directory that was locked. LS_ERR_MOVED if it was moved or its lock removed,
 * because another run may be there now. NULL: true, LS_OK. */
bool ls_ckpt_lock_holds(const ls_ckpt_lock_t *lock);
ls_status_t ls_ckpt_lock_check(ls_ctx_t *ctx, const ls_ckpt_lock_t *lock);
/* Releases the lock; touches nothing that belongs to another run by now. Also removes directories that the
 * lock created, if they are empty. NULL is allowed. */
void ls_ckpt_unlock(ls_ckpt_lock_t *lock);

typedef struct ls_ckpt ls_ckpt_t;

/* Opens one checkpoint directory, verifying everything (sizes, checksums, formats, that numbers are finite).
 * Refusals name file and reason: LS_ERR_CORRUPT, LS_ERR_NOT_FOUND. */
ls_status_t ls_ckpt_open(ls_ctx_t *ctx, const char *path, ls_ckpt_t **ckpt);
/* The newest intact checkpoint below `dir` (or `dir` itself if it is one). Each bad one is reported as a
 * warning with its name and reason, and the next older is tried. LS_ERR_NOT_FOUND if there is none at all,
 * LS_ERR_CORRUPT if all are bad. */
ls_status_t ls_ckpt_open_newest(ls_ctx_t *ctx, const char *dir, ls_ckpt_t **ckpt);
/* The checkpoint to which the link `best` in `dir` points. LS_ERR_NOT_FOUND: there is no link. */
ls_status_t ls_ckpt_open_best(ls_ctx_t *ctx, const char *dir, ls_ckpt_t **ckpt);
/* Weights alone: from the newest intact checkpoint as above, or from a .safetensors file, which has no meta
 * data (NULL), no optimizer state and step 0. A file of ls_ckpt_write_file is verified by the hash in its header. */
ls_status_t ls_ckpt_open_weights(ls_ctx_t *ctx, const char *path, ls_ckpt_t **ckpt);
/* Whether there is any, good or bad, below `dir`, which must exist. */
ls_status_t ls_ckpt_any(ls_ctx_t *ctx, const char *dir, bool *any);
void ls_ckpt_close(ls_ckpt_t *ckpt);

const char *ls_ckpt_path(const ls_ckpt_t *ckpt);
bool ls_ckpt_sealed(const ls_ckpt_t *ckpt); /* a .safetensors file with its hash in the header */
int64_t ls_ckpt_step(const ls_ckpt_t *ckpt);
const json_t *ls_ckpt_meta(const ls_ckpt_t *ckpt); /* borrowed */

/* Copies tensors by name into `data`, only the `held` ranges if a tensor has some. If `data` is NULL, the tensor is
 * only compared. Reads no other bytes. A file that is read as a whole is hashed again on the way. The names, dtypes
 * and shapes must match exactly: LS_ERR_MISMATCH names the first differences. optim NULL: the optimizer state is
 * neither compared nor read. Local. */
ls_status_t ls_ckpt_read(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const ls_ckpt_tensor_t *params,
                         int param_count, const ls_ckpt_tensor_t *optim, int optim_count);

/* Lists the tensors that a row of the optimizer's state has ("row.NAME"), in their place; *found: how many. Local. */
ls_status_t ls_ckpt_read_row(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const char *row,
                             const ls_ckpt_tensor_t *tensors, int count, int *found);

/* Tensors of its model one by one. Index of a name: -1 = there is none. */
int ls_ckpt_count(const ls_ckpt_t *ckpt);
const char *ls_ckpt_name(const ls_ckpt_t *ckpt, int tensor);
int ls_ckpt_find(const ls_ckpt_t *ckpt, const char *name);
const ls_shape_t *ls_ckpt_shape(const ls_ckpt_t *ckpt, int tensor);
/* The whole of it as f32, from any dtype of floats. Local. */
ls_status_t ls_ckpt_read_f32(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, int tensor, float *to);
/* Its bytes as they are. Local. */
ls_status_t ls_ckpt_read_bytes(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, int tensor, void *to);
/* A .safetensors file of tensors that are whole, sealed: durable, and there as a whole or not at all. Local. */
ls_status_t ls_ckpt_write_file(ls_ctx_t *ctx, const char *path, const ls_ckpt_tensor_t *tensors, int count);

/* ---- a state's rows ---- */

/* The saved rows of a table as tensors, [0] for the model's file, [1] for the optimizer's. Sharded rows have
 * `held`, even if this rank holds nothing. [1] is NULL if there are none: a checkpoint's optimizer state is
 * then ignored. */
typedef struct {
  ls_arena_t arena; /* names and ranges; release it */
  ls_ckpt_tensor_t *tensor[2];
  int count[2];
} ls_ckpt_rows_t;
/* host: per row of the table, its memory on this rank; NULL: names and shapes alone. Local. */
ls_status_t ls_ckpt_rows(ls_ctx_t *ctx, const ls_state_table_t *table, void *const *host,
                         ls_ckpt_rows_t *rows);
/* Whether any saved row is sharded; every rank then takes part in a save. */
bool ls_ckpt_sharded(const ls_state_table_t *table);
/* Fills the saved rows of all ranks (weights: only the model's) from the checkpoint that rank 0 has opened
 * (NULL on other ranks). Rank 0 reads replicated rows and broadcasts them: shared storage is then read once,
 * and the bytes are hashed again. Every rank reads its own ranges. Collective. */
ls_status_t ls_ckpt_load(ls_ctx_t *ctx, ls_comm_t *comm, const ls_ckpt_t *ckpt, const ls_state_table_t *table,
                         void *const *host, bool weights);
/* XXH3-128 over the model's whole tensors in the order of their names, as 32 hex digits and NUL. Collective
 * if rows are sharded, else local. */
ls_status_t ls_ckpt_hash(ls_ctx_t *ctx, ls_comm_t *comm, const ls_state_table_t *table, void *const *host,
                         char hex[33]);

#endif
