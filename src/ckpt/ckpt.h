/* Checkpoints: a directory "step-000000000123" with model.safetensors (parameters), optim.safetensors
 * (optimizer state) and manifest.json (versioned; size and XXH3-128 of each file, training position). Tensors
 * of which every rank holds a part are written by every rank into files of its own; the manifest joins them.
 * Saved into a temporary directory, every file and directory fsynced, then renamed: a checkpoint exists whole
 * or not at all. Any world size reads what any other has saved. Formats: safetensors (public specification),
 * data begins at a multiple of 4096. */
#ifndef LS_CKPT_CKPT_H
#define LS_CKPT_CKPT_H

#include "comm/comm.h"
#include "state/state.h"
#include <jansson.h>

typedef struct {
  const char *name;
  ls_shape_t shape; /* of the whole */
  void *data;       /* host memory: the whole, or what this rank holds of it, packed */
  /* What this rank holds, ascending, in elements of the flattened whole. NULL: the whole, which every rank
   * has. */
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
  /* Whether metrics compare that were saved with these meta data; NULL: all do. */
  bool (*comparable)(const json_t *a, const json_t *b);
  /* On the directory, borrowed: nothing is put in place or removed there once it does not hold any more.
   * NULL: whoever saves answers for the directory. */
  struct ls_ckpt_lock *lock;
  /* All ranks of which save this checkpoint together: rank 0 writes whole tensors, manifest and names, every
   * rank what it holds of the others. Step, metric, meta, comparable and lock are rank 0's; names, dtypes and
   * shapes are everybody's. NULL: this process alone, which holds every tensor completely. */
  ls_comm_t *comm;
} ls_ckpt_save_t;

/* Link in the directory to the checkpoint with the lowest metric. */
#define LS_BEST_NAME "best"

/* Retention: the newest `keep` (>= 1) and the best by metric, of those that compare with this one, stay;
 * others are removed after the new one is safe. Stale temporary directories are removed. *path (ls_free) is
 * the new directory. On failure nothing is left behind and older checkpoints are untouched. Errors:
 * LS_ERR_BUSY (the lock is lost), LS_ERR_IO, LS_ERR_NO_SPACE, LS_ERR_NONFINITE (a number is not finite; the
 * tensor is named), LS_ERR_INTERNAL (ranks hold an element twice, or not at all). Collective over save->comm:
 * all ranks fail if one does; *path is rank 0's. The directory must then be one that all ranks share. */
ls_status_t ls_ckpt_save(ls_ctx_t *ctx, const char *dir, const ls_ckpt_save_t *save, int keep, char **path);

/* One run, one directory: keeps every other run out of `dir` until it is given back or its process ends. The
 * lock is flock(2) on dir/.lock, which names the holder; `dir` is made where it is missing. LS_ERR_BUSY names
 * the holder's process, host and start. A file system without locks: a warning, and LS_OK. Local. */
typedef struct ls_ckpt_lock ls_ckpt_lock_t;
/* Whether `dir`, not "", can be a run's directory, found without writing: it leaves room for the names below
 * it; the deepest part of it that is there is a directory that may be written to; what is missing has names
 * that fit there. `place`: of the option, for messages. LS_ERR_IO. Only a write shows a full disk, or a file
 * system that takes no folders (/proc). Local. */
ls_status_t ls_ckpt_dir_check(ls_ctx_t *ctx, const ls_place_t *place, const char *dir);
/* Warns where another run holds the lock of `dir`. Local; writes nothing, and holds the lock itself, shared,
 * only while it looks. */
void ls_ckpt_lock_look(ls_ctx_t *ctx, const char *dir);
ls_status_t ls_ckpt_lock(ls_ctx_t *ctx, const char *dir, ls_ckpt_lock_t **lock);
bool ls_ckpt_lock_made_dir(const ls_ckpt_lock_t *lock); /* it was not there before */
/* Whether `dir` is still the directory that was locked. LS_ERR_BUSY when it was moved or its lock removed,
 * for another run may be there now. NULL: true, LS_OK. */
bool ls_ckpt_lock_holds(const ls_ckpt_lock_t *lock);
ls_status_t ls_ckpt_lock_check(ls_ctx_t *ctx, const ls_ckpt_lock_t *lock);
/* Leaves alone what belongs to another run by now. Also removes directories that the lock has made, when they
 * are empty. NULL is allowed. */
void ls_ckpt_unlock(ls_ckpt_lock_t *lock);

typedef struct ls_ckpt ls_ckpt_t;

/* Opens one checkpoint directory, verifying everything (sizes, checksums, formats, that numbers are finite).
 * Refusals name file and reason: LS_ERR_CORRUPT, LS_ERR_NOT_FOUND. */
ls_status_t ls_ckpt_open(ls_ctx_t *ctx, const char *path, ls_ckpt_t **ckpt);
/* The newest good checkpoint below `dir` (or `dir` itself when it is one). Each bad one is reported as a
 * warning with its name and reason, then the next older is tried. LS_ERR_NOT_FOUND when there is none at all,
 * LS_ERR_CORRUPT when there are only bad ones. */
ls_status_t ls_ckpt_open_newest(ls_ctx_t *ctx, const char *dir, ls_ckpt_t **ckpt);
/* The one that the link `best` in `dir` leads to. LS_ERR_NOT_FOUND: there is no link. */
ls_status_t ls_ckpt_open_best(ls_ctx_t *ctx, const char *dir, ls_ckpt_t **ckpt);
/* Weights alone: the newest good checkpoint as above, or a .safetensors file, which has no meta data (NULL),
 * no optimizer state and step 0. */
ls_status_t ls_ckpt_open_weights(ls_ctx_t *ctx, const char *path, ls_ckpt_t **ckpt);
/* Whether there is any, good or bad, below `dir`, which must exist. */
ls_status_t ls_ckpt_any(ls_ctx_t *ctx, const char *dir, bool *any);
void ls_ckpt_close(ls_ckpt_t *ckpt);

const char *ls_ckpt_path(const ls_ckpt_t *ckpt);
int64_t ls_ckpt_step(const ls_ckpt_t *ckpt);
const json_t *ls_ckpt_meta(const ls_ckpt_t *ckpt); /* borrowed */

/* Compares names, dtypes and shapes as ls_ckpt_read does, without reading: LS_ERR_MISMATCH. */
ls_status_t ls_ckpt_check(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const ls_ckpt_tensor_t *params,
                          int param_count, const ls_ckpt_tensor_t *optim, int optim_count);

/* Copies tensors by name into `data`, held ranges alone where a tensor has some; data NULL: the tensor is
 * only compared. Reads no other bytes. A file that is read as a whole is hashed again on the way. Every name
 * must be there with the same dtype and shape, and no others: LS_ERR_MISMATCH names the first differences.
 * optim NULL: the optimizer state is neither compared nor read. Local. */
ls_status_t ls_ckpt_read(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const ls_ckpt_tensor_t *params,
                         int param_count, const ls_ckpt_tensor_t *optim, int optim_count);

/* ---- a state's rows ---- */

/* The saved rows of a table as tensors, [0] of the model's file, [1] of the optimizer's. Sharded rows have
 * `held`, also where this rank holds nothing. [1] is NULL when there are none: a checkpoint's optimizer state
 * is then not looked at. */
typedef struct {
  ls_arena_t arena; /* names and ranges; release it */
  ls_ckpt_tensor_t *tensor[2];
  int count[2];
} ls_ckpt_rows_t;
/* host: per row of the table, its memory on this rank; NULL: names and shapes alone. Local. */
ls_status_t ls_ckpt_rows(ls_ctx_t *ctx, const ls_state_table_t *table, void *const *host,
                         ls_ckpt_rows_t *rows);
/* Whether any saved row is sharded: then every rank takes part in a save. */
bool ls_ckpt_sharded(const ls_state_table_t *table);
/* Fills the saved rows of all ranks, weights: those of the model alone, from the checkpoint that rank 0 has
 * opened (NULL elsewhere). Rank 0 reads what is replicated and broadcasts it: shared storage is then read
 * once, and the bytes are hashed again. Every rank reads its own ranges. Collective. */
ls_status_t ls_ckpt_load(ls_ctx_t *ctx, ls_comm_t *comm, const ls_ckpt_t *ckpt, const ls_state_table_t *table,
                         void *const *host, bool weights);
/* XXH3-128 over the model's tensors, whole, in the order of their names, as 32 hex digits and NUL.
 * Collective where rows are sharded, else local. */
ls_status_t ls_ckpt_hash(ls_ctx_t *ctx, ls_comm_t *comm, const ls_state_table_t *table, void *const *host,
                         char hex[33]);

#endif
