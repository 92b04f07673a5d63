/* The meta data of a checkpoint: what it says of its run, its data and their names. */
#ifndef LS_TRAIN_SAVED_H
#define LS_TRAIN_SAVED_H

#include "config/compare.h"

/* Samples that were left out: those before position `to` of the stream and from `from` on, for train.past_step. */
enum { LS_SKIPS_MAX = 16 };
typedef struct {
  int64_t past_step, from, to;
} ls_skip_t;

/* The best evaluation by train.best so far: its figure, of which less is better. */
typedef struct {
  double figure; /* NAN: there was none */
  int64_t step, epoch;
} ls_best_t;

/* A checkpoint's record of its run, from its meta data. A member that an older version did not write is -1 in the first group, else 0,
 * "" or NAN. */
typedef struct {
  int64_t samples, total_steps; /* that were trained; of the whole run */
  int world_size;
  bool known;   /* there is a checkpoint */
  bool held;    /* its run had validation files */
  int64_t seed; /* of the split */
  int64_t global_batch, train_count;
  double best_figure; /* early stopping: NAN = none */
  int64_t no_better;
  ls_best_t best;
  ls_skip_t skip[LS_SKIPS_MAX];
  int skips;
  json_t *norm;      /* borrowed from the meta data */
  double validation; /* part held out */
  int64_t rows, inputs, outputs;
  char hash[LS_DATASET_HASH_BYTES]; /* of all samples but those of validation files */
  int64_t held_rows;                /* samples of validation files */
  char held_hash[LS_DATASET_HASH_BYTES];
} ls_saved_t;
/* Reads and checks everything that anybody reads of the meta data: LS_ERR_CORRUPT names the member. `name` is the
 * checkpoint's; meta NULL: nothing is known. Local. */
ls_status_t ls_train_saved(ls_ctx_t *ctx, const char *name, const json_t *meta, ls_saved_t *saved);
/* The meta data but columns and configuration (new reference, NULL: memory). */
json_t *ls_train_saved_json(const ls_saved_t *saved);
/* Fills in what is said about the data. */
void ls_train_describe_data(const ls_dataset_t *dataset, ls_saved_t *saved);
/* Whether `dataset` holds the samples on which the checkpoint was trained, however they are split and
 * whatever validation files there are. Older checkpoints record only the number of training samples. */
bool ls_train_same_data(const ls_saved_t *saved, const ls_dataset_t *dataset);
/* Whether the validation files hold the same samples as the checkpoint's; true if neither has any. */
bool ls_train_same_held(const ls_saved_t *saved, const ls_dataset_t *dataset);

/* The names that the data gave. Feature columns: if `data` names none, those of the checkpoint are used, so the order of a
 * file's columns does not matter. Text: the characters, in the order of their numbers. The list is in `arena`; its names
 * are borrowed from `meta`. */
ls_status_t ls_train_take_names(ls_arena_t *arena, const json_t *meta, ls_data_config_t *data);
/* Compares the columns that were read with the checkpoint's: LS_ERR_MISMATCH names the first difference. */
/* Weights of a run with other characters of a text or other classes of a csv file are refused: LS_ERR_MISMATCH. `meta` may
 * be NULL: of a file that says nothing of its run. Local. */
ls_status_t ls_train_compare_names(ls_ctx_t *ctx, const char *file, const json_t *meta,
                                   const ls_dataset_t *dataset);
ls_status_t ls_train_compare_columns(ls_ctx_t *ctx, const json_t *meta, const ls_dataset_t *dataset);

#endif
