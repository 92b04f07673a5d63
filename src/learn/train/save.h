/* Saving a run, and the directory that it saves to. */
#ifndef LS_TRAIN_SAVE_H
#define LS_TRAIN_SAVE_H

#include "ckpt/ckpt.h"
#include "train/observer.h"
#include "train/saved.h"

typedef struct ls_beside ls_beside_t;

/* A failure that the next save is to have, as in ls_ctx_fail_io. */
typedef struct {
  ls_io_t io; /* LS_IO_NONE: none */
  int error;
} ls_save_fault_t;

/* A trainer's saves. */
typedef struct {
  ls_ckpt_lock_t *lock;  /* on the run's checkpoint directory; rank 0, NULL = saves nothing */
  bool claimed;          /* the directory, if there is one, is this run's; alike on all ranks */
  char checkpoint[4096]; /* newest saved, or resumed; "" = none */
  int64_t saves;         /* by this process */
  int64_t took_ns;       /* of the newest save that has ended, writing and waiting for the disk included */
  ls_beside_t *beside;   /* NULL: no save was written by a thread yet */
  ls_save_fault_t fault; /* of the next one */
} ls_saver_t;

/* save.c. Collective; rank 0 writes or reads, the others receive. `ckpt` is NULL on other ranks. */
ls_status_t ls_trainer_save(ls_trainer_t *t, ls_save_when_t when);
ls_status_t ls_trainer_saved(ls_trainer_t *t);
/* ls_state_pull, after the thread that writes from the same memory. Local. */
ls_status_t ls_trainer_pull(ls_trainer_t *t);
ls_status_t ls_trainer_load(ls_trainer_t *t, ls_ckpt_t *ckpt);
/* The parameters alone, into a trainer that is initialised. Collective, as above. */
ls_status_t ls_trainer_load_weights(ls_trainer_t *t, ls_ckpt_t *ckpt);
/* Whether the checkpoint belongs to the configuration and holds exactly this trainer's tensors, or its parameters:
 * LS_ERR_MISMATCH. Local. */
ls_status_t ls_trainer_match(ls_trainer_t *t, const ls_ckpt_t *ckpt);
ls_status_t ls_trainer_match_weights(ls_trainer_t *t, const ls_ckpt_t *ckpt);
/* The normalisation in a checkpoint's meta data, in `arena`; *norm NULL if it has none. Widths must match. */
ls_status_t ls_trainer_norm(ls_ctx_t *ctx, ls_arena_t *arena, const json_t *meta, int64_t inputs,
                            int64_t outputs, ls_norm_t **norm);
/* A list of names (new reference); NULL: one is not UTF-8. */
json_t *ls_train_names_json(int64_t count, const char *const *name);

/* One save on its way from the trainer to the disk. */
typedef struct {
  const char *dir; /* NULL: none */
  int keep;
  ls_ckpt_rows_t rows;
  json_t *meta; /* of rank 0 */
  ls_ckpt_save_t what;
  ls_save_fault_t fault;
} ls_save_t;
ls_status_t ls_save_write(ls_ctx_t *ctx, ls_save_t *save, char **path);
/* Takes note of its end and releases all of it, path included. */
void ls_save_done(ls_trainer_t *t, ls_save_t *save, char *path, ls_status_t status, int64_t took_ns);

/* beside.c: the thread that writes. All but destroy on rank 0 alone; local. */
/* Host memory of every saved row with its values now, for a thread to read. NULL: *status says why. */
void *const *ls_beside_copy(ls_trainer_t *t, ls_status_t *status);
/* Takes `save` over. may_wait: it may wait until the disk has done nothing for nine times as long as the last write took. */
enum { LS_WRITES_APART = 10 };
void ls_beside_start(ls_trainer_t *t, ls_save_t *save, bool may_wait);
void ls_beside_wait(ls_trainer_t *t); /* for the thread; nothing to do without one */
/* Waits, writes what waits for its turn, reports. Without a save under way: how the last one ended. */
ls_status_t ls_beside_end(ls_trainer_t *t);
/* The same, but a save that waits for its turn is dropped for a better one. */
ls_status_t ls_beside_give_way(ls_trainer_t *t);
/* Whether one has failed. Begins with the save that waits if its turn has come; does not wait itself. */
bool ls_beside_failed(ls_trainer_t *t);
void ls_beside_destroy(ls_trainer_t *t);

/* claim.c. Locks the checkpoint directory of a run that trains, for the life of the trainer. Collective. */
ls_status_t ls_trainer_lock(ls_trainer_t *t);
/* The locked directory becomes this run's, once: unless the run is resumed, an earlier run there is moved aside; then the
 * resolved configuration is written. After the first step that counts, or before the first save: a run that fails
 * earlier leaves an earlier one where it is. Collective. */
ls_status_t ls_trainer_claim(ls_trainer_t *t);
/* If a run could not save anything, removes the directory that it created. Rank 0. */
void ls_trainer_unclaim(ls_trainer_t *t);

/* Lines of evaluations in the run's directory. A resumed run goes on after the line of its checkpoint's step. */
#define LS_HISTORY_NAME "history.jsonl"

#endif
