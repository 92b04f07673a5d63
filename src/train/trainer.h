/* Inside view of a trainer: everything one rank owns while it trains. The files of this folder each do one
 * thing with it: create, data, share, loop, evaluate, save, claim, trace, report. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "ckpt/ckpt.h"
#include "schedule/run.h"
#include "strategy/strategy.h"
#include "train/compare.h"
#include "train/watchdog.h"
#include <lockstep/train.h>

struct ls_world {
  ls_comm_t *comm;
  bool launched; /* by mpirun or srun: several processes */
};

enum { LS_TRAIN_SLOTS = 3 }; /* input slots: one computed, one on its way, one being filled */

/* A lowered graph with the memory it runs in. */
typedef struct {
  ls_graph_t *graph;
  ls_schedule_t *schedule;
  ls_run_t *run;
  int64_t rows; /* of one micro-batch */
} ls_engine_t;

/* share.c: a rank's part of each global batch: `count` rows from `first`, as `accumulate` micro-batches of
 * `rows` (the rest is padding). Reproducible: micro-batches are shards, and late ones may have no row at all;
 * `first` then lies beyond the batch. */
typedef struct {
  int64_t first, count, rows;
  int accumulate;
} ls_train_share_t;
/* Ranks that cannot share (below) have no share. */
void ls_train_share(const ls_config_t *config, int rank, int world_size, ls_train_share_t *share);
/* Rows that each rank evaluates at once. The last bits of a loss depend on it, so a reproducible one does not
 * depend on the ranks. */
int64_t ls_train_share_eval_rows(const ls_config_t *config, const ls_train_share_t *share, int64_t samples,
                                 int world_size);
/* A global batch holds no sample twice: LS_ERR_DATA when `samples` of training are fewer than train.batch. */
ls_status_t ls_train_batch_check(ls_ctx_t *ctx, const ls_config_t *config, const char *source,
                                 int64_t samples);
/* What training with this data refuses before its first step: the batch as above, and LS_ERR_CONFIG for
 * train.patience without a validation part. */
ls_status_t ls_train_data_check(ls_ctx_t *ctx, const ls_config_t *config, const ls_dataset_t *data);
/* claim.c: whether train.checkpoint.dir can be a run's directory; nothing is written. LS_ERR_IO at
 * the option's place. */
ls_status_t ls_train_dir_check(ls_ctx_t *ctx, const ls_config_t *config);
/* Whether so many ranks can share a step; check: LS_ERR_CONFIG says why not. */
bool ls_train_can_share(const ls_config_t *config, int world_size);
ls_status_t ls_train_check_share(ls_ctx_t *ctx, const ls_config_t *config, int world_size);

struct ls_trainer {
  ls_ctx_t *ctx;
  ls_config_t own_config; /* the caller's; as many ranks as the world has, and their strategy */
  const ls_config_t *config;
  ls_world_t *world;
  bool training; /* false: evaluation and prediction only */

  const ls_backend_t *backend;
  ls_device_t *device;
  int threads;
  ls_comm_t *data_comm; /* carries tensors: the world's, or NCCL's */
  bool own_data_comm;

  ls_use_t use;    /* of the checkpoint */
  bool other_data; /* may go on with other data than the checkpoint's */
  ls_dataset_t *dataset;
  bool new_data;     /* not those that the checkpoint was trained on; they are not split */
  int64_t data_rows; /* samples on the device, which gathers them itself; 0: the host does */
  bool classes;
  int64_t inputs, outputs;

  const ls_strategy_t *strategy;
  ls_optim_rule_t optim;
  ls_state_table_t *table;
  ls_state_t *state;
  ls_stream_t *stream; /* for copies between steps */

  void *transient; /* device: what dies within a step or an evaluation, of which one runs at a time */
  size_t transient_bytes;
  ls_engine_t train, eval;
  ls_engine_t predict;    /* takes samples from the host where eval does not; made when first needed */
  ls_train_share_t share; /* of each global batch */
  int64_t total_steps, total_samples;
  int64_t step;                   /* steps done */
  int64_t base_step, base_sample; /* where this run began, and the position in the stream there */
  int64_t resumed_from;
  double val_loss, val_accuracy; /* newest; NAN = none */
  int64_t val_step;              /* when they were measured */
  double best_loss;              /* early stopping: lowest of the evaluations between epochs; NAN = none */
  int64_t no_better;             /* evaluations since then */
  char checkpoint[4096];         /* newest saved */
  ls_watchdog_t *watchdog;       /* NULL while the trainer is made */
  ls_ckpt_lock_t *lock;          /* on the run's checkpoint directory; rank 0, NULL = saves nothing */
};

/* The schedule that a configuration means for one rank, without opening anything. data_rows: samples on the
 * device, as ls_train_resident says. kernels: the backend that passes may count on, NULL: no passes. *table:
 * NULL to have it made. */
ls_status_t ls_trainer_lower(ls_ctx_t *ctx, const ls_config_t *config, int rank, int world_size, bool copies,
                             const ls_backend_t *kernels, bool training, int64_t rows, int64_t data_rows,
                             ls_graph_t **graph, ls_state_table_t **table, ls_optim_rule_t *optim,
                             ls_schedule_t **schedule);
/* A lowered and proven engine without its run. */
ls_status_t ls_trainer_engine(ls_trainer_t *t, bool training, int64_t rows, int64_t data_rows,
                              ls_engine_t *engine);

/* create.c: a trainer that was neither resumed nor given weights goes back to where it began: initial values,
 * step 0. Device, connections, memory and captured code stay. Local. */
ls_status_t ls_trainer_restart(ls_trainer_t *t);
/* create.c: position in the stream of samples before step `step` of this run; how many samples are trained.
 */
int64_t ls_trainer_position(const ls_trainer_t *t, int64_t step);
int64_t ls_trainer_samples(const ls_trainer_t *t);

/* data.c. What is known of data and device where it is decided whether the data stay there. */
typedef struct {
  bool copies;        /* the device has memory of its own */
  int64_t rows;       /* of the data, both parts; 0 = not known */
  int64_t free_bytes; /* of the device's memory; 0 = not known */
} ls_data_room_t;

/* How many samples each of world_size ranks has on its device for training: all, or 0 = none, then the host
 * gathers every batch. One rule for training and for plans. With data.resident
 *   auto   all, on a device with memory of its own, if they take at most a quarter of the free bytes and a
 *          step still fits beside them, an eighth left over. Not known counts as no.
 *   true   all, on any backend. LS_ERR_MEMORY where it is known that they do not fit, LS_ERR_CONFIG where there
 *          are too many to count in 32 bits.
 *   false  none.
 * Local; pure. */
ls_status_t ls_train_resident(ls_ctx_t *ctx, const ls_config_t *config, int world_size,
                              const ls_data_room_t *room, int64_t *data_rows);
/* The same for this run, all ranks alike: sets t->data_rows. Collective. */
ls_status_t ls_trainer_choose_data(ls_trainer_t *t);
/* Brings the samples to the state's tables; nothing to do without them. Local. */
ls_status_t ls_trainer_upload(ls_trainer_t *t);
/* Threads that fill a batch of `rows` rows of `row_bytes`, of the rank's own: one where they compute too, none for
 * batches so small that meeting a thread takes longer than filling; where a device computes, as many as help. */
int ls_train_loader_threads(const ls_backend_t *backend, int threads, int64_t rows, int64_t row_bytes,
                            bool resident);
/* Where a slot's numbers go. */
ls_batch_t ls_train_batch(ls_run_t *run, int slot);

/* save.c. Collective; rank 0 writes or reads, the others receive. `ckpt` is NULL on other ranks. */
ls_status_t ls_trainer_save(ls_trainer_t *t);
ls_status_t ls_trainer_load(ls_trainer_t *t, ls_ckpt_t *ckpt);
/* The parameters alone, into a trainer that is initialised. Collective, as above. */
ls_status_t ls_trainer_load_weights(ls_trainer_t *t, ls_ckpt_t *ckpt);
/* The parameters (layout) in host memory, until the next step. Local. */
ls_status_t ls_trainer_parameters(ls_trainer_t *t, const float **flat);
/* Whether the checkpoint goes with the configuration and holds exactly this trainer's tensors:
 * LS_ERR_MISMATCH. Local. */
ls_status_t ls_trainer_match(ls_trainer_t *t, const ls_ckpt_t *ckpt);
/* The normalisation kept in a checkpoint's meta, in `arena`; *norm NULL when it has none.
 * Widths must match. */
ls_status_t ls_trainer_norm(ls_ctx_t *ctx, ls_arena_t *arena, const json_t *meta, int64_t inputs,
                            int64_t outputs, ls_norm_t **norm);

ls_status_t ls_trainer_match_weights(ls_trainer_t *t, const ls_ckpt_t *ckpt); /* the parameters alone */

/* claim.c. Locks the checkpoint directory of a run that trains, for the life of the trainer. Collective. */
ls_status_t ls_trainer_lock(ls_trainer_t *t);
/* First use of the locked directory: unless resumed, an earlier run there is moved aside; the resolved
 * configuration is written. Collective. */
ls_status_t ls_trainer_claim(ls_trainer_t *t);
/* A run that could not save anything leaves nothing in a directory that it has made. Rank 0. */
void ls_trainer_unclaim(ls_trainer_t *t);

/* evaluate.c: loss (mean) and correct count over a part. Collective. */
ls_status_t ls_trainer_evaluate_part(ls_trainer_t *t, ls_part_t part, ls_eval_report_t *report);

/* report.c: statistics over the steps of one run. */
typedef struct {
  double *step_ns; /* one per step */
  int64_t count, capacity;
  double *loss; /* ring of the newest applied losses */
  int64_t loss_count;
  double parts_ns[2][LS_PHASE_STEP_COUNT]; /* sums: of the warm-up steps, of the later ones up to capacity */
  bool parts;                              /* they were measured */
} ls_step_log_t;
enum { LS_LOSS_RING = 100, LS_LOG_CAPACITY = 1 << 20 };
ls_status_t ls_step_log_create(ls_ctx_t *ctx, int64_t capacity, ls_step_log_t *log);
void ls_step_log_release(ls_step_log_t *log);
/* parts_ns: of this step, NULL = not measured. What they leave of step_ns becomes part of the rest, so that
 * the parts add up to the step; *parts gets them. */
void ls_step_log_add(ls_step_log_t *log, int64_t step_ns, const int64_t parts_ns[LS_PHASE_STEP_COUNT],
                     double loss, bool applied, ls_step_parts_t *parts);
/* Times and parts are of the same steps: those after the warm-up. */
void ls_step_log_report(ls_step_log_t *log, ls_train_report_t *report);

/* trace.c: tasks of the last steps of every rank, written by rank 0. */
typedef struct ls_trace ls_trace_t;
enum { LS_TRACE_STEPS = 20 };
ls_status_t ls_trace_create(ls_ctx_t *ctx, ls_trace_t **trace);
void ls_trace_destroy(ls_trace_t *trace);
ls_status_t ls_trace_add(ls_trace_t *trace, const ls_schedule_t *s, const ls_task_time_t *times, int64_t step,
                         int64_t start_ns);
ls_status_t ls_trace_write(ls_ctx_t *ctx, ls_trace_t *trace, ls_comm_t *comm,
                           const char *path); /* collective */

#endif
