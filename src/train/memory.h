/* Memory of one rank: what its schedules and samples will take, known before anything is opened, and what was
 * used. What the libraries take beside that is measured by probe and added by the planner. Inside of train
 * and plan. */
#ifndef LS_TRAIN_MEMORY_H
#define LS_TRAIN_MEMORY_H

#include "train/train.h"

enum { LS_LOG_CAPACITY = 1 << 20 };

typedef struct {
  int64_t samples_bytes; /* features and targets, kept in host memory */
  int64_t reading_bytes; /* held beside them while they are read: text and files, then free again */
  int64_t log_bytes;     /* times of the run's steps, of LS_LOG_CAPACITY at most */
} ls_train_data_size_t;

/* Either program may be NULL, not both. `options` are those that the device is opened with. Fills what is
 * needed; what was used stays 0. Exact but for what lies outside of our own allocations. */
void ls_train_need(const ls_backend_t *backend, const ls_device_options_t *options, const ls_program_t *train,
                   const ls_program_t *eval, const ls_train_data_size_t *data, ls_train_memory_t *need);
/* What this trainer needs; what was used stays 0. Local. */
void ls_trainer_need(const ls_trainer_t *t, ls_train_memory_t *need);
/* What this trainer needs, and what the process and the device have used, of the rank that used most.
 * Collective. */
ls_status_t ls_trainer_memory(ls_trainer_t *t, ls_train_memory_t *memory);

#endif
