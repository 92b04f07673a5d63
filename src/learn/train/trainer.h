/* Inside view of a trainer: an engine, and the data of a run. Each file of this folder does one thing with
 * it: create, data, loop, evaluate, history, save, claim, trace, report. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include "ckpt/ckpt.h"
#include "monitor/page.h"
#include "monitor/ring.h"
#include "supervise/inject.h"
#include "train/saved.h"
#include "train/train.h"
#include "train/watchdog.h"

typedef struct ls_beside ls_beside_t;

struct ls_trainer {
  ls_ctx_t *ctx;
  ls_config_t own_config; /* the caller's, with the number of ranks of the world and their strategy */
  const ls_config_t *config;
  ls_world_t *world;
  bool training; /* false: evaluation and prediction only */
  int stages;    /* of create.c, made so far */

  ls_engine_t engine;
  ls_input_times_t input; /* of its loader */
  ls_int8_t int8; /* of a file of 8-bit integers */
  float *range;   /* its ranges */

  ls_use_t use;    /* of the checkpoint */
  bool other_data; /* may continue with other data than the checkpoint's */
  ls_dataset_t *dataset;
  int sharing;     /* ranks of this node that have one copy of it, this one included */
  bool unmeasured; /* data.normalize, but neither data nor a checkpoint that tell by what */
  bool new_data;   /* not those that the checkpoint was trained on; they are not split */
  bool classes;
  int64_t inputs, outputs;

  int64_t total_steps, total_samples;
  int64_t step;                 /* steps done */
  ls_skip_t skip[LS_SKIPS_MAX]; /* samples that were left out */
  int skips;
  int64_t base_step, base_sample; /* first step of this run, and its position in the stream */
  int64_t resumed_from;
  double val_loss, val_accuracy; /* newest; NAN = none */
  double val_figure;             /* the same of train.best; less is better */
  ls_eval_metrics_t val_metrics;
  int64_t val_step;               /* when they were measured */
  double best_figure;             /* early stopping: lowest of the evaluations between epochs; NAN = none */
  int64_t no_better;              /* evaluations since then */
  ls_best_t best;                 /* of all evaluations but those before this run and the ones it resumed */
  json_t *history;                /* lines of evaluations that are not in the run's directory yet */
  bool history_failed;            /* it was said */
  char checkpoint[4096];          /* newest saved */
  int64_t saves;                  /* by this process */
  ls_watchdog_t *watchdog;
  ls_monitor_t *monitor;          /* during a run; NULL: nobody watches */
  ls_page_t *page;                /* NULL: the run shows nothing */
  ls_page_line_t *line, own_line; /* where this rank shows what it does: on the page, else its own */
  ls_rings_t *rings;              /* of a supervised run, else NULL, as */
  ls_ring_t *ring;                /* this rank's */
  ls_comm_watch_t watch;          /* of the communicators */
  ls_beside_t *beside;            /* NULL: nothing was saved beside the training yet */
  int64_t save_took_ns; /* of the newest save that has ended, writing and waiting for the disk included */
  struct {
    ls_safety_t ladder; /* of the monitor's thread */
    _Atomic int act, share;
    atomic_bool smaller;
  } safety;
  ls_inject_t inject;                 /* the fault that is planted in this rank */
  bool slow;                          /* it has struck: steps are slow from here on, */
  int64_t slow_ns[2];                 /* even and odd ones by so much: two may be in flight */
  const ls_inject_kind_t *save_fault; /* it strikes in the next save; NULL: none does */
  ls_ckpt_lock_t *lock;               /* on the run's checkpoint directory; rank 0, NULL = saves nothing */
  bool claimed;                       /* the directory, if there is one, is this run's; alike on all ranks */
};

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

/* Where the samples of this run stay, all ranks alike: sets engine.data_rows. Collective. */
ls_status_t ls_trainer_choose_data(ls_trainer_t *t);

/* prune.c: weights are pruned after `step`; every rank alike. Local. */
ls_status_t ls_trainer_prune(ls_trainer_t *t, int64_t step);

/* replicas.c. LS_ERR_DEVICE on the ranks whose parameters differ from those of most (reported by them), LS_ERR_COMM on
 * the others; LS_ERR_DIFFER on all (reported) where no majority agrees. Nothing to do where ranks share the parameters. Collective. */
ls_status_t ls_trainer_compare_replicas(ls_trainer_t *t);

/* save.c. Collective; rank 0 writes or reads, the others receive. `ckpt` is NULL on other ranks. */
typedef enum {
  LS_SAVE_NOW, /* it is written when the call returns */
  LS_SAVE_BESIDE, /* returns when the state is copied, and a thread writes it, where checkpoint.beside allows it and rank 0
                   * has all of the state; how that went is known after ls_trainer_saved, or the next save */
  LS_SAVE_BEST /* the same, of a better evaluation: where saves come too often, the copy waits, and the next better one
                   * takes its place. Every other save, ls_trainer_pull and ls_trainer_saved write it first */
} ls_save_when_t;
ls_status_t ls_trainer_save(ls_trainer_t *t, ls_save_when_t when);
ls_status_t ls_trainer_saved(ls_trainer_t *t);
/* ls_state_pull, after the thread that writes from the same memory. Local. */
ls_status_t ls_trainer_pull(ls_trainer_t *t);
ls_status_t ls_trainer_load(ls_trainer_t *t, ls_ckpt_t *ckpt);
/* The parameters alone, into a trainer that is initialised. Collective, as above. */
ls_status_t ls_trainer_load_weights(ls_trainer_t *t, ls_ckpt_t *ckpt);
/* Whether the checkpoint belongs to the configuration and holds exactly this trainer's tensors:
 * LS_ERR_MISMATCH. Local. */
ls_status_t ls_trainer_match(ls_trainer_t *t, const ls_ckpt_t *ckpt);
/* The normalisation in a checkpoint's meta data, in `arena`; *norm NULL if it has none. Widths must match. */
ls_status_t ls_trainer_norm(ls_ctx_t *ctx, ls_arena_t *arena, const json_t *meta, int64_t inputs,
                            int64_t outputs, ls_norm_t **norm);

ls_status_t ls_trainer_match_weights(ls_trainer_t *t, const ls_ckpt_t *ckpt); /* the parameters alone */

/* A list of names (new reference); NULL: one is not UTF-8. */
json_t *ls_train_names_json(int64_t count, const char *const *name);

/* One save between its parts: what save.c describes, whoever writes it. */
typedef struct {
  const char *dir; /* NULL: none */
  int keep;
  ls_ckpt_rows_t rows;
  json_t *meta; /* of rank 0 */
  ls_ckpt_save_t what;
  const ls_inject_kind_t *fault; /* planted; NULL: none */
} ls_save_t;
ls_status_t ls_save_write(ls_ctx_t *ctx, ls_save_t *save, char **path);
/* Takes note of its end and releases all of it, path included. */
void ls_save_done(ls_trainer_t *t, ls_save_t *save, char *path, ls_status_t status, int64_t took_ns);

/* inject.c: before step `step` is launched: lets a planted fault happen. agree_step: behind
 * which the ranks agree next on what is asked. own_ns: what this rank took for the newest step that has ended, without
 * waiting for others. */
ls_status_t ls_trainer_inject(ls_trainer_t *t, const ls_train_hooks_t *hooks, int64_t step,
                              int64_t agree_step, int64_t own_ns);

/* collectives.c: from here on, and no longer, the run's communicators show their collectives in the
 * rings of `dir`, where there are some. Local. */
void ls_trainer_show_collectives(ls_trainer_t *t, const char *dir);
void ls_trainer_hide_collectives(ls_trainer_t *t);

/* safety.c. Where the ladder of section safety stands on this rank. */
void ls_trainer_safety_begin(ls_trainer_t *t);
void ls_trainer_safety_record(void *trainer, const ls_monitor_sample_t *sample); /* in the monitor's thread */
ls_safety_act_t ls_trainer_safety(const ls_trainer_t *t);
bool ls_trainer_safety_smaller(const ls_trainer_t *t); /* half the micro-batch is wanted */
int64_t ls_trainer_safety_resized(const ls_trainer_t *t, bool smaller);
/* How long to rest after a step that took own_ns. */
int64_t ls_trainer_safety_rest_ns(const ls_trainer_t *t, int64_t own_ns);
void ls_trainer_wait(int64_t ns);

/* The run has saved what it has, and goes on when it is asked to. */
static inline bool ls_trainer_goes_on(ls_status_t status) {
  return status == LS_ERR_INTERRUPTED || status == LS_ERR_AGAIN;
}

/* beside.c: the thread that writes. All but destroy on rank 0 alone; local. */
/* Host memory of every saved row with its values now, for a thread to read. NULL: *status says why. */
void *const *ls_beside_copy(ls_trainer_t *t, ls_status_t *status);
/* Takes it over. may_wait: for its turn, until the disk has done nothing for nine times as long as the last write took. */
enum { LS_WRITES_APART = 10 };
void ls_beside_start(ls_trainer_t *t, ls_save_t *save, bool may_wait);
void ls_beside_wait(ls_trainer_t *t); /* for the thread */
/* Waits, writes what waits for its turn, reports; without one to wait for: how the last one ended. */
ls_status_t ls_beside_end(ls_trainer_t *t);
/* The same, but what waits for its turn is dropped for a better one. */
ls_status_t ls_beside_give_way(ls_trainer_t *t);
/* Whether one has failed. Begins with what waits, if its turn has come; does not wait itself. */
bool ls_beside_failed(ls_trainer_t *t);
void ls_beside_destroy(ls_trainer_t *t);
/* interval.c: how long a run goes on before it saves again, from what a save costs and the mean time between failures
 * (Daly 2006, a higher order estimate of the optimum checkpoint interval, eq. 37). */
int64_t ls_save_interval_ns(int64_t cost_ns, int64_t failure_ns);

/* claim.c. Locks the checkpoint directory of a run that trains, for the life of the trainer. Collective. */
ls_status_t ls_trainer_lock(ls_trainer_t *t);
/* The locked directory becomes this run's, once: unless the run is resumed, an earlier run there is moved aside; then the
 * resolved configuration is written. After the first step that counts, or before the first save: a run that fails
 * earlier leaves an earlier one where it is. Collective. */
ls_status_t ls_trainer_claim(ls_trainer_t *t);
/* If a run could not save anything, removes the directory that it created. Rank 0. */
void ls_trainer_unclaim(ls_trainer_t *t);

/* weights.c. The tensors of model.weights, as far as they fit, into a trainer that is initialised; rank 0 says which.
 * LS_ERR_MISMATCH: none fits. Collective. */
ls_status_t ls_trainer_take_weights(ls_trainer_t *t);

/* int8.c: opens a file of 8-bit integers for this model, before the program is made (*file is to be closed in any case);
 * takes its weights. One process. LS_ERR_MISMATCH: no such file, or of another model. */
ls_status_t ls_trainer_open_int8(ls_trainer_t *t, const char *path, ls_ckpt_t **file);
ls_status_t ls_trainer_take_int8(ls_trainer_t *t, const ls_ckpt_t *file);

/* history.c: an evaluation becomes a line of LS_HISTORY_NAME in the run's directory, with the mean training loss. A run that
 * is resumed goes on behind the line of its checkpoint's step. What cannot be written is said once. Rank 0. */
#define LS_HISTORY_NAME "history.jsonl"
void ls_history_add(ls_trainer_t *t, double train_loss);
/* The directory is this run's: writes what there is so far. */
void ls_history_begin(ls_trainer_t *t);

/* evaluate.c */
double ls_trainer_perplexity(const ls_trainer_t *t, double loss); /* NAN unless positions have classes */
/* loss (mean) and correct count over a part. Collective. */
ls_status_t ls_trainer_evaluate_part(ls_trainer_t *t, ls_part_t part, ls_eval_report_t *report);

/* watch.c: starts what watches this run, if monitor.dir asks for it: sets t->monitor. Collective. */
ls_status_t ls_trainer_watch(ls_trainer_t *t);
/* The tasks of a step for the event log, once a minute where tasks are timed. Called for every micro-batch that was
 * waited for; *line begins as 0. */
typedef struct {
  json_t *tasks; /* of the step under way; NULL: it is not shown */
  int64_t steps, begin_ns, next_ns;
} ls_timeline_t;
void ls_trainer_timeline(ls_trainer_t *t, int64_t step, int m, ls_timeline_t *line);
/* The newest evaluation, for what is shown next. */
void ls_trainer_seen_evaluation(const ls_trainer_t *t, ls_monitor_state_t *state);
/* A step has ended, or (parts NULL) an evaluation or a save: *state is brought up to date and shown. */
void ls_trainer_seen(ls_trainer_t *t, const float *stats, int64_t step_ns, const ls_step_parts_t *parts,
                     ls_monitor_state_t *state);

/* report.c: statistics over the steps of one run. */
enum { LS_LOSS_RING = 100 };
typedef struct {
  double *step_ns; /* one per step */
  int64_t count, capacity;
  double loss[LS_LOSS_RING]; /* of the newest applied steps; place loss_count % LS_LOSS_RING comes next */
  int64_t loss_count;
  /* Their sum without adding all of them up for each step: the places before the next one, and those from each place on,
   * as they were when the ring began again. */
  double newer, older[LS_LOSS_RING + 1];
  double parts_ns[2][LS_PHASE_STEP_COUNT]; /* sums: of the warm-up steps, of the later ones up to capacity */
  bool parts;                              /* they were measured */
} ls_step_log_t;
ls_status_t ls_step_log_create(ls_ctx_t *ctx, int64_t capacity, ls_step_log_t *log);
void ls_step_log_release(ls_step_log_t *log);
/* parts_ns: of this step, NULL = not measured. The remainder of step_ns is added to the rest, so that the
 * parts add up to the step; *parts gets them. */
void ls_step_log_add(ls_step_log_t *log, int64_t step_ns, const int64_t parts_ns[LS_PHASE_STEP_COUNT],
                     double loss, bool applied, ls_step_parts_t *parts);
/* Mean loss of the last applied steps; NAN: there was none. */
double ls_step_log_loss(const ls_step_log_t *log);
/* Times and parts cover the same steps: those after the warm-up. */
void ls_step_log_report(ls_step_log_t *log, ls_train_report_t *report);

/* trace.c: tasks of the last steps of every rank, as the events of a Chrome trace (an array), written by rank 0. Of a
 * step's micro-batches it has the first and the last LS_TRACE_ENDS; those between are alike. */
enum { LS_TRACE_STEPS = 20, LS_TRACE_ENDS = 8 };
/* The micro-batch of the most recent wait, if its tasks were timed. */
ls_status_t ls_trace_add(json_t *events, const ls_engine_t *engine, int64_t step, int m);
ls_status_t ls_trace_write(ls_ctx_t *ctx, json_t *events, ls_comm_t *comm, const char *path); /* collective */

#endif
