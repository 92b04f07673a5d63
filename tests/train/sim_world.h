/* Runs the same training on N ranks as threads of this process, over the sim communicator. */
#ifndef LS_TESTS_SIM_WORLD_H
#define LS_TESTS_SIM_WORLD_H

#include "train/trainer.h"

enum { SIM_RANKS_MAX = 8, SIM_STEPS_MAX = 4096 };

typedef struct {
  ls_status_t status;           /* the worst of all ranks */
  ls_train_report_t report;     /* rank 0's */
  char hash[SIM_RANKS_MAX][33]; /* every rank's parameters */
  double loss[SIM_STEPS_MAX];   /* rank 0's loss curve */
  int steps;
  float *param; /* rank 0's flat parameters, `param_count` (free with ls_free) */
  int64_t param_count;
  char error[512]; /* first message of any rank */
} sim_result_t;

typedef struct {
  const char *text;      /* configuration */
  const char *last_text; /* of the last rank; NULL: the same */
  int ranks;
  const ls_data_memory_t *memory;
  bool resume;
  int64_t kill_after; /* steps after which the process kills itself, 0 = never */
  void (*begin)(void *user, ls_trainer_t *trainer); /* of each rank, before it trains; NULL: nothing */
  void *user;
  int64_t stop_after; /* steps seen by the progress hook, 0 = never; one rank only */
} sim_run_t;

void sim_train(const sim_run_t *run, sim_result_t *result);
/* The row of each of the first `count` positions of the run's stream of samples. */
void sim_order(const char *text, const ls_data_memory_t *memory, int64_t count, int32_t *row);
/* Trains on one, two and three ranks and fails unless all of them end with the same bits. *last: the run of three. */
void sim_same_on_ranks(const char *label, const char *text, const ls_data_memory_t *memory,
                       sim_result_t *last);

#endif
