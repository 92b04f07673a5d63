/* Memory of one rank: the need of its schedules and samples, known before anything is opened, and the memory
 * used. probe measures the additional memory of libraries, and the planner adds it. Inside train and plan. */
#ifndef LS_TRAIN_MEMORY_H
#define LS_TRAIN_MEMORY_H

#include "train/train.h"

enum { LS_LOG_CAPACITY = 1 << 20 };

typedef struct {
  int64_t samples_bytes;  /* features and targets, kept in host memory */
  int64_t reading_bytes;  /* additional memory while they are read: text and files, free afterwards */
  int64_t decoding_bytes; /* of the threads that decode samples for each batch */
  bool beside;            /* saved rows are copied before they are written */
  int64_t log_bytes;      /* times of the run's steps, of LS_LOG_CAPACITY at most */
} ls_train_data_size_t;

/* Either program may be NULL, not both. Fills the need, and sets the use to 0. Exact, except for memory that others
 * allocate and for the rooms of kernels. */
void ls_train_need(const ls_backend_t *backend, const ls_program_t *train, const ls_program_t *eval,
                   const ls_train_data_size_t *data, ls_train_memory_t *need);
/* True if a copy of the state is kept for saving. A run that saves as often as pays may be too short to need one. */
bool ls_train_saves_beside(const ls_config_t *config);
/* Computes the need of this trainer; the use stays 0. Local. */
void ls_trainer_need(const ls_trainer_t *t, ls_train_memory_t *need);
/* Computes the need of this trainer, and reads the memory used by process and device, of the rank that used most.
 * Collective. */
ls_status_t ls_trainer_memory(ls_trainer_t *t, ls_train_memory_t *memory);

#endif
