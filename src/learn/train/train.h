/* Training, for the modules above: its refusals, and the calls of a trainer that are not public. */
#ifndef LS_TRAIN_TRAIN_H
#define LS_TRAIN_TRAIN_H

#include "config/config.h"
#include "data/read.h"
#include "train/feed.h"
#include <lockstep/train.h>

struct ls_world {
  ls_comm_t *comm;
};

/* The facts about data and device that decide whether the data stay on the device. */
typedef struct {
  const ls_backend_t *backend;
  int64_t rows;       /* of the data, both parts; 0 = not known */
  int64_t free_bytes; /* of the device's memory; 0 = not known */
} ls_train_room_t;
/* The number of samples that each of world_size ranks keeps on its device for training: all, or 0 = none (the
 * host then gathers every batch). Training and plans share this rule. With data.resident
 *   auto   all, on a device with memory of its own, if they take at most a quarter of the free bytes and a
 *          step still fits beside them, with an eighth left over. Unknown facts count as no.
 *   true   all, on any backend. LS_ERR_MEMORY if it is known that they do not fit, LS_ERR_CONFIG if there
 *          are too many to count in 32 bits.
 *   false  none.
 * Pure. */
ls_status_t ls_train_resident(ls_ctx_t *ctx, const ls_config_t *config, int world_size,
                              const ls_train_room_t *room, int64_t *data_rows);

/* The needs of the model from its data. */
ls_data_want_t ls_train_want(const ls_model_config_t *model);
/* The seed of the split into training and validation part. */
uint64_t ls_train_split_seed(const ls_config_t *config);
/* A global batch holds no sample twice: LS_ERR_DATA if there are fewer training `samples` than
 * train.batch. */
ls_status_t ls_train_batch_check(ls_ctx_t *ctx, const ls_config_t *config, const char *source,
                                 int64_t samples);
/* Refusals of training with this data before its first step: the batch as above, and LS_ERR_CONFIG for
 * train.patience without a validation part. */
ls_status_t ls_train_data_check(ls_ctx_t *ctx, const ls_config_t *config, const ls_dataset_t *data);
/* A place in a run: steps done, and samples of its stream that they have taken. */
typedef struct {
  int64_t steps, samples;
} ls_train_place_t;
/* The end of a run over so many training `samples` that goes on at `from` (zeros: a new run). A run that is given in steps ends
 * after train.steps, one in epochs after train.epochs of the stream; one that is already longer has no steps left.
 * LS_ERR_CONFIG: more samples than can be counted. Local. */
ls_status_t ls_train_end(ls_ctx_t *ctx, const ls_train_config_t *train, int64_t samples,
                         ls_train_place_t from, ls_train_place_t *end);
/* Warns of settings that are allowed but hardly meant: a pruning that a run of so many steps does not reach, groups of the
 * optimizer without a parameter, data from which nothing can be learned. */
void ls_train_hints(ls_ctx_t *ctx, const ls_config_t *config, const ls_dataset_t *data, int64_t steps);
/* Whether train.checkpoint.dir can be a run's directory; nothing is written. LS_ERR_IO at the option's place.
 */
ls_status_t ls_train_dir_check(ls_ctx_t *ctx, const ls_config_t *config);
/* Returns a trainer that was neither resumed nor given weights to its beginning: initial values, step 0.
 * Device, connections, memory and captured code stay. Local. */
ls_status_t ls_trainer_restart(ls_trainer_t *t);
/* The parameters (layout) in host memory, until the next step. Local. */
ls_status_t ls_trainer_parameters(ls_trainer_t *t, const float **flat);
/* The engine that it trains with, until it is destroyed: schedules and the times of their tasks. */
const ls_engine_t *ls_trainer_engine(const ls_trainer_t *t);
/* The times of reading its samples, once it has run. */
const ls_input_times_t *ls_trainer_input(const ls_trainer_t *t);
const ls_dataset_t *ls_trainer_data(const ls_trainer_t *t);
/* The checkpoint that it was loaded from or has saved last, "" = none; steps done. */
const char *ls_trainer_checkpoint(const ls_trainer_t *t, int64_t *step);

#endif
