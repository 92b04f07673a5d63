/* Feeds an engine with the samples of a dataset. */
#ifndef LS_TRAIN_FEED_H
#define LS_TRAIN_FEED_H

#include "data/data.h"
#include "engine/engine.h"

/* The samples of the training steps from first_step up to total_steps. */
typedef struct {
  const ls_dataset_t *dataset; /* borrowed until ls_engine_stop */
  uint64_t seed;
  int64_t first_step, total_steps, total_samples;
  int64_t origin;                        /* position of step 0 in the stream of samples */
  float (*lr)(void *user, int64_t step); /* NULL: 0. May be called from a thread of the loader */
  void *lr_user;
  ls_engine_observer_t observer;
  ls_input_times_t *times; /* what the loader has done; written by ls_engine_stop; NULL is allowed */
} ls_feed_t;
/* Starts the engine with a loader, which ls_engine_stop destroys. */
ls_status_t ls_feed_start(ls_engine_t *engine, const ls_feed_t *feed);
/* The destination of a slot's numbers. */
ls_batch_t ls_feed_batch(const ls_engine_t *engine, ls_step_kind_t kind, int slot);
/* Copies the samples to the state's tables; nothing to do without tables. */
ls_status_t ls_feed_upload(ls_engine_t *engine, const ls_dataset_t *dataset);
/* The number of threads that fill a batch of `rows` rows of `row_bytes`, from the rank's own threads: one if
 * the rank's threads also compute, none for batches so small that meeting a thread takes longer than filling;
 * if a device computes, as many as help. */
int ls_feed_threads(const ls_backend_t *backend, int threads, int64_t rows, int64_t row_bytes, bool resident);
/* The threads that samples of `dataset` take to be made: all of the rank's if each sample is decoded, which takes longer
 * than most networks need for it, else none: the threads above, or the caller's, suffice. */
int ls_feed_decoders(const ls_engine_t *engine, const ls_dataset_t *dataset);

#endif
