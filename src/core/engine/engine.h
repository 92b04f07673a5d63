/* The engine: one rank's opened device, state and programs. Training, evaluation, the planner's
 * timing and the benchmark open the same engine, so what is timed is what trains: the same initial values,
 * shapes of data and waits.
 *
 * It has a program for each kind of step, over one state and one block of transient memory; only one program
 * runs at a time. A step of training runs its program's members in turn, one for each micro-batch. To use an
 * engine, follow this list:
 *
 *   ls_engine_open       device, streams, all rows of the state that are saved
 *   ls_engine_connect    the communicator that carries tensors between the ranks
 *   ls_engine_lower      a kind of step: its program, proven. Once for each kind that is needed
 *   ls_engine_allocate   the state and the transient block
 *   ls_engine_bind       a run for each of them
 *   ls_engine_fill       initial values (or those of a checkpoint)
 *   ls_engine_start      the source of samples; then ls_engine_launch and ls_engine_wait for each step; ls_engine_stop
 *
 * An engine is used from one thread. Calls are local unless they say otherwise; a caller with several ranks
 * lets them agree (ls_comm_agree). After a failure the caller closes the engine. */
#ifndef LS_ENGINE_ENGINE_H
#define LS_ENGINE_ENGINE_H

#include "schedule/run.h"
#include "strategy/strategy.h"

/* Input slots of training steps, one micro-batch each: one computed, one in transfer, one being
 * filled. */
enum { LS_ENGINE_SLOTS = 3 };

typedef enum {
  LS_STEP_TRAIN,    /* a training step, with the collectives of the configured strategy */
  LS_STEP_EVALUATE, /* forward alone; this rank alone */
  LS_STEP_PREDICT,  /* the same with f32 samples from the host, wherever the other kinds take theirs */
  LS_STEP_KINDS
} ls_step_kind_t;

/* The cut of a global batch: into `micro_batches` micro-batches, or in a reproducible step into `shards` of
 * them (else 0). */
typedef struct {
  int64_t batch, micro_batches, shards;
} ls_batching_t;

/* An engine takes from a configuration how its steps are made (ls_config_step). Pointers are borrowed. */
typedef struct {
  /* The graph of a micro-batch of `rows` rows, whose tensors know their group of the optimizer; for training with its
   * backward pass. Called whenever a step is lowered. */
  ls_status_t (*build)(ls_ctx_t *ctx, const void *of, ls_step_kind_t kind, int64_t rows, ls_graph_t **graph);
  const void *of;
  const ls_optim_config_t *optimizer;
  double clip_norm;
  bool masks; /* parameters are pruned */
  ls_math_t math;
  bool strict_sums; /* see ls_device_options_t */
  bool fuse;
  const ls_strategy_t *strategy;
  ls_strategy_options_t options; /* as far as the backend has them (ls_strategy_settle) */
  ls_batching_t batching;
} ls_step_options_t;

typedef struct {
  int64_t rows; /* of one micro-batch */
  ls_graph_t *graph;
  ls_program_t program; /* without members: not lowered */
  ls_run_t *run;        /* NULL: not bound */
} ls_step_t;

/* A rank's part of each global batch. The batch is cut into train.accumulate micro-batches first, and all ranks share
 * each of them, so that a micro-batch has the same samples for any number of ranks. Micro-batch m of this rank is the
 * `rows` rows of the global batch from first + m * stride on; those beyond the end of the batch are padding. A rank for
 * which a micro-batch has no row computes one row of padding. Reproducible: micro-batches are whole shards, of which the
 * rank has the next `micro_batches`; `first` may be beyond the batch. */
typedef struct {
  int64_t first, rows, stride;
  int64_t count; /* of a full global batch, without padding */
  int micro_batches;
} ls_engine_share_t;
/* There is no share if the ranks cannot share a step (see below). */
void ls_engine_share(ls_batching_t cut, int rank, int world_size, ls_engine_share_t *share);
/* The cost of a cut, for a full batch of at least a row for each rank, without parallel.reproducible. */
typedef struct {
  int64_t empty;   /* micro-batches in which some rank has no row, but computes all the same */
  int64_t largest; /* rows of rank 0, which has the most */
  bool even;       /* that is at most a tenth more than in a step of one micro-batch */
} ls_engine_cut_t;
ls_engine_cut_t ls_engine_cut(int64_t batch, int64_t micro_batches, int world_size);
/* The most micro-batches, up to `micro_batches`, of which none is empty and whose shares are even; one always is so. */
int64_t ls_engine_cut_well(int64_t batch, int64_t micro_batches, int world_size);
/* Rows that a rank evaluates at once, the same on all ranks: enough to be efficient, no more than exist. The last
 * bits of a loss depend on this number, so for a reproducible run it does not depend on the ranks. */
int64_t ls_engine_eval_rows(ls_batching_t cut, int64_t samples, int world_size);
/* True if so many ranks can share a step. The check reports LS_ERR_CONFIG with the reason if they cannot. */
bool ls_engine_can_share(ls_batching_t cut, int world_size);
ls_status_t ls_engine_check_share(ls_ctx_t *ctx, ls_batching_t cut, int world_size);

/* A kind of step of one rank, without a device. */
typedef struct {
  ls_step_options_t step;
  ls_step_kind_t kind;
  int rank, world_size;
  int64_t rows;      /* of one micro-batch; 0: of this rank's share */
  int64_t data_rows; /* samples on the device */
  /* Its facts decide about lanes, its kernels about passes; without a device table it has neither. */
  const ls_backend_t *backend;
  /* Takes the rows of the state; NULL: the schedules get a table of their own. */
  ls_state_table_t *table;
} ls_step_spec_t;
/* The stages are model, optimizer, precision, passes, placement, strategy (lower.c). */
ls_status_t ls_step_lower(ls_ctx_t *ctx, const ls_step_spec_t *spec, ls_step_t *step);
/* All of them but the last: the rows of the state, in a table of their own (spec->table is NULL), without lowering. Released
 * by the caller. */
ls_status_t ls_step_declare(ls_ctx_t *ctx, const ls_step_spec_t *spec, ls_state_table_t **table);
void ls_step_release(ls_step_t *step);

typedef struct {
  ls_step_options_t step; /* what it borrows is there until close */
  const char *backend, *transport;
  int threads; /* of this rank; 0: the cores of the node / ranks on it */
  bool bind;   /* on a host, to its own share of the node's processors */
  uint64_t seed;
  ls_comm_t *comm;                /* the ranks; borrowed until close */
  ls_comm_t *exchange;            /* carries the tensors, borrowed; NULL: comm, or what connect makes */
  const ls_engine_share_t *share; /* read by ls_engine_open alone; NULL: this rank's among those of comm */
  int64_t data_rows;              /* samples on the device; may be set later, before steps are lowered */
  bool training;                  /* false: no step of training is ever lowered, there is no optimizer */
} ls_engine_options_t;

/* Times of a training step, summed over its micro-batches. */
typedef struct {
  bool timed;                 /* all of them were */
  const ls_task_time_t *task; /* of the program's tasks (ls_program_task); NULL with LS_TIMED_WAITS */
  int64_t parts_ns[LS_PHASE_STEP_COUNT];
  /* from the end of the step before on, by the device's clock (ls_run_since_ns); 0: not known */
  int64_t device_ns;
} ls_step_times_t;

/* Called when micro-batch m of a training step has been waited for; ls_run_times and their like are then its own.
 */
typedef struct {
  void (*seen)(void *user, int64_t step, int m); /* NULL: nobody */
  void *user;
} ls_engine_observer_t;

/* The training steps from first_step up to total_steps. Micro-batch `unit`, counted from the run's first step, is in slot
 * unit % LS_ENGINE_SLOTS of the training step's inputs. */
typedef struct {
  ls_status_t (*acquire)(void *source,
                         int64_t unit); /* waits until the slot is filled; of a step after the last: LS_OK */
  void (*release)(void *source, int64_t unit); /* the slot may be filled again */
  void (*close)(void *source);
  void *source;
  int64_t first_step, total_steps;
  ls_engine_observer_t observer;
} ls_engine_steps_t;

/* Callers read these fields and write none but data_rows, and that only between open and the first lowering: all else
 * belongs to the functions below. */
typedef struct {
  ls_ctx_t *ctx;
  ls_engine_options_t options;
  ls_comm_t *comm;     /* borrowed */
  ls_comm_t *exchange; /* carries tensors: comm, or a transport's, or the caller's */
  bool own_exchange;
  const ls_backend_t *backend;
  int threads;
  cpu_set_t unbound; /* the processors of the thread before it was bound; empty: it was not */
  ls_device_t *device;
  ls_stream_t *stream; /* for copies between steps */
  ls_engine_share_t share;
  int64_t data_rows; /* samples on the device, which gathers them itself; 0: the host does */
  ls_state_table_t *table;
  ls_state_t *state;
  void *transient; /* the transient memory of a program's members */
  size_t transient_bytes;
  ls_step_t step[LS_STEP_KINDS];
  ls_engine_steps_t steps; /* without a source: not started */
  /* 0 on backends that finish a micro-batch inside its launch, else 1: the micro-batches that may still be in flight
   * when the engine launches the next one. A caller may leave as many whole steps in flight before the next launch. */
  int lag;
  int64_t launched, finished;           /* steps launched and waited for */
  int64_t unit_launched, unit_finished; /* micro-batches, counted from the run's first step */
  int64_t launched_ns[LS_ENGINE_SLOTS]; /* when each slot's micro-batch was launched */
  int64_t done_ns;                      /* when the end of the newest finished step was observed */
  float stats[LS_STATS_COUNT];          /* of that step */
  int64_t waited_ns;                    /* for the newest launched micro-batch's samples */
  const ls_step_times_t *took;          /* that step; NULL: it was not timed */
  ls_step_times_t times[2];             /* of even and odd steps: micro-batches of two may end in turn */
  ls_task_time_t *sums;                 /* (2, tasks); NULL with one member */
} ls_engine_t;

/* LS_ERR_DEVICE if the node has fewer devices than ranks. */
ls_status_t ls_engine_open(ls_ctx_t *ctx, const ls_engine_options_t *options, ls_engine_t *engine);
void ls_engine_close(ls_engine_t *engine); /* also of one that is zero, or was opened in part */
/* The configured transport between the ranks of comm. Collective. */
ls_status_t ls_engine_connect(ls_engine_t *engine);

/* Lowers and proves; again: nothing to do. */
ls_status_t ls_engine_lower(ls_engine_t *engine, ls_step_kind_t kind, int64_t rows);
/* Allocates everything that the lowered kinds name. staging: saved rows can be pulled to the host. */
ls_status_t ls_engine_allocate(ls_engine_t *engine, bool staging);
/* Makes a run for each lowered kind that has none; `timed` is of training steps on a device. Collective if a program has
 * groups of ranks, and so is unbind. */
ls_status_t ls_engine_bind(ls_engine_t *engine, ls_run_timing_t timed);
void ls_engine_unbind(ls_engine_t *engine);
/* Writes the initial values of the state by the options' seed. Called again: rows that steps change begin
 * again. */
ls_status_t ls_engine_fill(ls_engine_t *engine, bool again);
/* Makes the optimizer's mean of the parameters, where there is one, begin with the parameters as they are now. Part of
 * ls_engine_fill. */
ls_status_t ls_engine_begin_mean(ls_engine_t *engine);

/* Runs a step on slot 0 as the caller has filled it (ls_run_input), and waits for its end. */
ls_status_t ls_engine_once(ls_engine_t *engine, ls_step_kind_t kind);

/* Waits for the first micro-batch. Owns the source, also after a failure. */
ls_status_t ls_engine_start(ls_engine_t *engine, const ls_engine_steps_t *steps);
void ls_engine_stop(ls_engine_t *engine); /* closes the source; nothing to do when it was not started */
/* Starts the step after the newest one: all of its micro-batches in turn. On return up to `lag` + 1 of them may still be
 * in flight. Waits for no step: the caller waits until at most `lag` steps are in flight before it launches again. */
ls_status_t ls_engine_launch(ls_engine_t *engine);
/* Waits for the oldest step in flight. *stats: LS_STATS_COUNT floats, until the next call; NULL is allowed. */
ls_status_t ls_engine_wait(ls_engine_t *engine, const float **stats);

#endif
