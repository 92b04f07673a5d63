/* Inside view of a trainer: an engine, a run, the data, what saves it, and observers. For the files of this folder. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "train/observer.h"
#include "train/save.h"
#include "train/train.h"

#include <stdatomic.h>

/* The position of a run. Steps and samples count from the beginning of the run, whatever process did them. */
typedef struct {
  int64_t step; /* done */
  int64_t total_steps, total_samples;
  int64_t resumed_from;           /* step; -1: a new run */
  int64_t base_step, base_sample; /* first step of this process, and its position in the stream of samples */
  ls_skip_t skip[LS_SKIPS_MAX];   /* samples that were left out */
  int skips;
  ls_eval_report_t val; /* newest evaluation; numbers are NAN while there is none */
  int64_t val_step;     /* of that evaluation */
  double val_figure;    /* its train.best; less is better */
  double best_figure;   /* early stopping: lowest figure of the evaluations between epochs; NAN = none */
  int64_t no_better;    /* evaluations since then */
  ls_best_t best;       /* of all evaluations since this process or the one that it resumes began */
} ls_position_t;

typedef struct ls_train_run ls_train_run_t;

struct ls_trainer {
  ls_ctx_t *ctx;
  ls_config_t own_config; /* the caller's, with the number of ranks of the world and their strategy */
  const ls_config_t *config;
  ls_world_t *world;
  bool training; /* false: evaluation and prediction only */
  int stages;    /* of create.c, made so far */

  ls_engine_t engine;
  ls_input_times_t input; /* of its loader */
  ls_int8_t int8;         /* of a file of 8-bit integers */
  float *range;           /* its ranges */

  ls_use_t use;    /* of the checkpoint */
  bool other_data; /* may continue with other data than the checkpoint's */
  ls_dataset_t *dataset;
  int sharing;     /* ranks of this node that have one copy of it, this one included */
  bool unmeasured; /* data.normalize, but neither data nor checkpoint tell mean and deviation */
  bool new_data;   /* not those that the checkpoint was trained on; they are not split */
  bool classes;
  int64_t inputs, outputs;

  ls_position_t run;
  ls_train_run_t *newest; /* loop_run.c; NULL: there was none */
  ls_saver_t saver;
  ls_doing_t doing;
  _Atomic uint64_t beat;         /* ls_beat, for other threads; a change is progress */
  const _Atomic uint64_t *stops; /* ls_stops_ns; written by an observer's thread. NULL: nobody looks */
  ls_observers_t observers;
};

/* Enters an activity. Returns the one before. */
static inline ls_doing_t ls_trainer_do(ls_trainer_t *t, ls_doing_t doing) {
  const ls_doing_t before = t->doing;
  t->doing = doing;
  atomic_store_explicit(&t->beat, ls_beat(t->run.step, doing), memory_order_relaxed);
  LS_OBSERVERS(o, t, doing) o->row->doing(o->own, doing);
  return before;
}

/* begin.c: position in the stream of samples before step `step` of this run; number of trained samples. */
int64_t ls_trainer_position(const ls_trainer_t *t, int64_t step);
int64_t ls_trainer_samples(const ls_trainer_t *t);

/* read.c: the data that a trainer is to have. What it points to lives during the call. */
typedef struct {
  const ls_data_config_t *config;
  const ls_data_memory_t *memory;
  ls_data_want_t want;
  uint64_t seed;
  const ls_norm_t *norm;
} ls_train_source_t;
/* Sets t->dataset and t->sharing. One rank of a node reads; its faults are reported once, and all ranks return
 * them. Where processes cannot share memory every rank reads, and says so. status: this rank's so far.
 * Collective; ls_dataset_open's errors. */
ls_status_t ls_trainer_read(ls_trainer_t *t, const ls_train_source_t *source, ls_status_t status);

/* Decides for all ranks alike whether the samples stay on the device: sets engine.data_rows. Collective. */
ls_status_t ls_trainer_choose_data(ls_trainer_t *t);

/* prune.c: weights are pruned after `step`; every rank alike. Local. */
ls_status_t ls_trainer_prune(ls_trainer_t *t, int64_t step);

/* weights.c: loads the tensors of model.weights that fit into a trainer that is initialised; rank 0 says which.
 * LS_ERR_MISMATCH: none fits. Collective. */
ls_status_t ls_trainer_take_weights(ls_trainer_t *t);

/* The tensor of a file of 8-bit integers that holds the ranges, (products, 2) f32; safetensors has no signed bytes here, so
 * a weight is stored with this added. */
#define LS_INT8_RANGES "int8.ranges"
enum { LS_INT8_OFFSET = 128 };
/* int8.c: opens a file of 8-bit integers for this model, before the program is made (*file is to be closed in any case);
 * takes its weights. One process. LS_ERR_MISMATCH: no such file, or of another model. */
ls_status_t ls_trainer_open_int8(ls_trainer_t *t, const char *path, ls_ckpt_t **file);
ls_status_t ls_trainer_take_int8(ls_trainer_t *t, const ls_ckpt_t *file);

/* evaluate.c */
double ls_trainer_perplexity(const ls_trainer_t *t, double loss); /* NAN unless positions have classes */
/* loss (mean) and correct count over a part. Collective. */
ls_status_t ls_trainer_evaluate_part(ls_trainer_t *t, ls_part_t part, ls_eval_report_t *report);

#endif
