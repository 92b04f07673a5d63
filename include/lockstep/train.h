/* Training from a program: open the world (this process alone, or the ranks that a launcher started), create
 * a trainer from a configuration, run it, evaluate, predict, save. One thread uses a trainer and its world.
 * Unless marked local, calls are collective: every rank makes them in the same order.
 *
 * Signals: the library installs no handler, and its own threads take no signals. Handlers of the program may
 * run in the calling thread during any call, without an alternate stack. The kernels of one library would be
 * damaged by a signal's frame, so around each of its products the thread blocks all signals but those that
 * its own instructions raise (SIGSEGV and the like). docs/signals.md has the limits. A data file that becomes shorter
 * while it is mapped raises SIGBUS: ls_data_fault (data.h) makes that an error. */
#ifndef LOCKSTEP_TRAIN_H
#define LOCKSTEP_TRAIN_H

#include <lockstep/config.h>
#include <lockstep/data.h>
#include <lockstep/memory.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_world ls_world_t;
typedef struct ls_trainer ls_trainer_t;

/* Joins the ranks that mpirun or srun started together with this process; without a launcher the world is
 * this process alone. deadline_s limits every wait between ranks; 0 = 60. The caller owns the world and
 * closes it after its trainers. */
LS_API ls_status_t ls_world_open(ls_ctx_t *ctx, double deadline_s, ls_world_t **world);
LS_API void ls_world_close(ls_world_t *world); /* NULL is allowed */
/* Local. The number of this process, from 0, and how many there are. */
LS_API int ls_world_rank(const ls_world_t *world);
LS_API int ls_world_size(const ls_world_t *world);
/* Local. Ends all ranks at once after a failure of this one, because other ranks may be waiting for it. Does
 * not return in a world of several ranks; returns in a world of one. */
LS_API void ls_world_abort(ls_world_t *world, int exit_code);

/* The parts of a step in nanoseconds on rank 0. They add up to the step; a report holds their means over the
 * steps of step_time_mean_us. comm is exposed communication, the time that the compute lane waited; rest
 * includes the loop between two steps. */
typedef struct {
  int64_t input_ns, forward_ns, backward_ns, comm_ns, optimizer_ns, rest_ns;
  bool measured; /* false: this backend does not time parts inside a captured step */
  bool
      comm_measured; /* comm_ns is: also inside a captured step, if several ranks are monitored; where not every
                         step is timed, it is that of the newest one */
} ls_step_parts_t;

/* Figures of an evaluation: those that train.metrics names, in its order. */
enum { LS_EVAL_METRICS_MAX = 16, LS_EVAL_TARGETS_MAX = 16, LS_EVAL_TARGET_BYTES = 64 };
typedef struct {
  const char *name;
  double value; /* NAN: it has none, such as r2 of targets that are all alike */
  bool share;   /* a ratio in [0, 1], such as accuracy */
  bool usual; /* loss, accuracy or perplexity: reports have these even if train.metrics does not name them */
  bool each;  /* of[] has its value for each target, as r2 and mae have; `value` is their mean */
  double of[LS_EVAL_TARGETS_MAX];
} ls_eval_metric_t;
typedef struct {
  int count;
  ls_eval_metric_t v[LS_EVAL_METRICS_MAX];
  int targets; /* with a value of their own; 0: there is one target, or more than LS_EVAL_TARGETS_MAX */
  char target[LS_EVAL_TARGETS_MAX][LS_EVAL_TARGET_BYTES]; /* their names; numbers, where the data have none */
} ls_eval_metrics_t;

/* The position of a run, passed to the progress hook after every step. Losses are means over the global
 * batch. */
typedef struct {
  int64_t step, total_steps;   /* steps done */
  int64_t epoch, total_epochs; /* epochs done; total_epochs 0 when the run is given in steps */
  int64_t in_epoch;            /* that of this step, from 1 */
  double train_loss;           /* of this step's batch */
  double train_loss_mean;      /* of the last (at most 100) applied steps */
  double grad_norm;            /* before clipping */
  double lr;
  int64_t step_time_ns;          /* of this step, without evaluation and saving */
  ls_step_parts_t parts;         /* of this step */
  double samples_per_s;          /* since the run's first step, without evaluation and saving */
  double val_loss, val_accuracy; /* newest; NAN = none yet */
  ls_eval_metrics_t val_metrics; /* the same; none yet: count 0 */
  int64_t skipped_steps;
  int64_t device_bytes; /* computed need of this rank on its device, without libraries */
  int64_t running_ns;   /* since the run began, without the time in which the process was stopped */
} ls_progress_t;

typedef struct {
  void (*progress)(void *user, const ls_progress_t *progress); /* may be NULL; called on rank 0 */
  bool (*stop)(void *user); /* may be NULL; true ends the run after a save, with LS_ERR_INTERRUPTED */
  void *user;
  const char *trace_path; /* if not NULL, rank 0 writes a Chrome trace of the last steps there */
} ls_train_hooks_t;

typedef struct {
  int64_t params;
  int world_size;
  char strategy[16], backend[16], precision[8], device[64];
  int threads_per_rank;
  int64_t global_batch;
  int64_t steps; /* done by this run (a resumed run counts from its first step) */
  int64_t total_steps;
  int64_t resumed_from; /* step, -1 = not resumed */
  double samples_per_s; /* without evaluation, saving and the first step */
  /* Runs of more than 20 steps leave out warm-up steps; of a long run the first 1,048,576 steps count. */
  double step_time_median_us, step_time_p95_us;
  ls_step_parts_t parts;
  double train_loss_first, train_loss; /* first step; mean of the last (at most 100) applied steps */
  bool classes;
  double val_loss_first,
      val_loss;          /* before training and at the end; NAN without validation part. A run that ends
                                    * before its last evaluation has none at the end */
  bool val_ended;        /* it was evaluated at the end, to whatever number */
  double val_accuracy;   /* NAN without classes */
  double val_perplexity; /* exp(val_loss) with a class for every position, else NAN */
  ls_eval_metrics_t val_metrics; /* at the end; count 0 without validation part */
  int64_t val_samples;
  int64_t skipped_steps;
  char params_xxh3[33];
  char checkpoint[4096]; /* newest of this run, "" = none; saves 0: it is the one that was resumed */
  int64_t saves;         /* checkpoints that were written */
  char unsaved[128];     /* why there is none; "" = there is one */
  /* The best evaluation by train.best, whose name and value these are; step -1: there was none after the beginning. */
  struct {
    const char *name;
    double value;
    bool share;          /* as of a metric */
    int64_t step, epoch; /* steps and epochs done */
  } best;
  double wall_s, eval_s, save_s;
  ls_status_t trace;        /* of writing the trace; a failure is reported and does not end the run */
  char stopped_early[128];  /* why the run ended before its last step; "" = it did not */
  ls_train_memory_t memory; /* *_used_bytes: of the rank that used most; 0 when the run failed */
  double step_time_mean_us; /* of the steps that step_time_median_us covers */
  int64_t step_time_count;  /* the number of those steps */
  int64_t train_loss_steps; /* the number of steps that train_loss covers; 0 = none was applied */
  double loss_scale;        /* of the last step; 0 = train.precision is not fp16 */
  /* Where the last evaluation is no better than an answer that does not look at the sample: sentences; of rank 0. */
  int notes;
  char note[2][256];
  /* With LS_ERR_AGAIN: section safety asks for this many micro-batches a step; else 0. The run is saved: destroy the
   * trainer, call ls_config_resize, create it again with options.resume, and run it. */
  int64_t accumulate_next;
} ls_train_report_t;

typedef struct {
  int64_t samples, correct;
  double loss;
  double accuracy;   /* NAN without classes; like correct it counts positions where each has a class */
  double perplexity; /* exp(loss) with a class for every position, else NAN */
  ls_eval_metrics_t metrics;
  double figure;   /* the value that train.best names */
  bool validation; /* true: of the held-out part; false: of all samples */
  bool new_data;   /* these samples are not those of the checkpoint's run */
} ls_eval_report_t;

typedef struct {
  bool resume;            /* continue from the newest intact checkpoint; if there is none, start from the
                           * beginning */
  const char *checkpoint; /* load this one (directory) instead; for evaluation and prediction */
  const ls_data_memory_t *memory; /* samples instead of the configured files; NULL = files */
  bool trace;       /* the run will be traced: do not capture steps if that would hide their tasks */
  bool no_training; /* only evaluate and predict: no gradients, no optimizer memory */
  bool no_data;     /* with no_training: only predict; the configured data are not read */
  bool ranges;      /* with no_training, one process: measure what lockstep quantize needs */
  /* With checkpoint and no_training, one process: a file of lockstep quantize. Compute with its 8-bit weights. */
  const char *int8;
  int64_t rows;     /* samples of one evaluation or prediction step; 0 = chosen */
  const char *init; /* begin with these weights: checkpoint, run or .safetensors file; not with resume */
  bool best;        /* `checkpoint` is a run's directory: take its best checkpoint, not the newest */
  bool allow_data_change; /* with resume: accept other samples, or another split or seed, than the
                           * checkpoint's */
  /* Called once, from a thread of the library, when a call on the trainer waits inside this process and no
   * thread of the process has computed for the world's deadline: a thread has died or is held, perhaps with a
   * lock. That call may never return; the message says where it is. Only actions that are safe in a signal
   * handler are allowed: write the message, end the process. NULL: the message goes to the context as
   * LS_ERR_TIMEOUT, and the call continues to wait. Time in which the process is stopped, hooks and saving do
   * not count. */
  void (*stuck)(void *user, const char *message);
  void *stuck_user;
} ls_trainer_options_t;

/* Opens device and data, builds and checks the schedule, allocates, initialises or loads. If `config` names
 * no parallel.strategy, or "auto", the ranks of `world` use the first strategy for their number. `config` and
 * `world` are borrowed until destroy; options may be NULL. The caller owns *trainer, which is written on success
 * only. */
LS_API ls_status_t ls_trainer_create(ls_ctx_t *ctx, ls_world_t *world, const ls_config_t *config,
                                     const ls_trainer_options_t *options, ls_trainer_t **trainer);
LS_API void ls_trainer_destroy(ls_trainer_t *trainer);

/* Trains to the end. hooks and report may be NULL. If the run ends early, *report is filled as far as it is known. A run
 * that ls_trainer_step has begun goes on from there, without a trace; hooks->stop is then asked before the first step,
 * too. */
LS_API ls_status_t ls_trainer_run(ls_trainer_t *trainer, const ls_train_hooks_t *hooks,
                                  ls_train_report_t *report);
/* A step. The caller sets struct_bytes to the size of its struct; later versions add fields at the end, and the library
 * writes no more than that size. */
typedef struct {
  size_t struct_bytes;
  int64_t step;     /* steps done */
  int64_t left;     /* steps of the run that are left; 0: its length or train.patience ends it here */
  double loss;      /* mean over the global batch, before the update */
  double grad_norm; /* before clipping */
  int64_t step_time_ns;
  bool applied; /* false: loss or gradients were not finite, and the parameters stayed */
} ls_step_stats_t;
/* Takes one step of a run, and waits for its end. The first call begins the run as ls_trainer_run does: it evaluates first
 * if there is a validation part. Evaluation, pruning and saving that are due after the step are done in the same call. To end
 * the run (last evaluation, save, report), call ls_trainer_run, which first takes the steps that are left unless hooks->stop
 * says otherwise. Between two calls the trainer may evaluate, predict, and get and set parameters. All steps give
 * the bits of ls_trainer_run.
 * LS_ERR_ARGUMENT: no step is left; the run stays open. After any other error the run has ended. */
LS_API ls_status_t ls_trainer_step(ls_trainer_t *trainer, ls_step_stats_t *stats);
/* Local. The report of the newest run that has ended, as the JSON text of lockstep train --json. The caller owns it (ls_free).
 * NULL: no run has ended, or memory is short. */
LS_API char *ls_trainer_report_text(ls_trainer_t *trainer);
/* Loss (and accuracy) on the validation part, or on all samples if there is none. With options.checkpoint: on
 * the part that the checkpoint held out if the samples are its own, else on all samples. */
LS_API ls_status_t ls_trainer_evaluate(ls_trainer_t *trainer, ls_eval_report_t *report);
/* Local. Outputs (rows, outputs) for features (rows, inputs) in the units of the data: inputs are normalised,
 * and real targets are scaled back. For classes the outputs are probabilities. With data.missing a NaN is a feature without
 * a value. LS_ERR_DATA: a token that is no row of the model's embedding. */
LS_API ls_status_t ls_trainer_predict(ls_trainer_t *trainer, int64_t rows, const float *features,
                                      float *outputs);
/* A parameter, or a state of the graph such as a running mean. The caller sets struct_bytes as in ls_step_stats_t. */
enum { LS_PARAMETER_RANK_MAX = 6 };
typedef struct {
  size_t struct_bytes;
  const char *name; /* that of the checkpoint's tensor; until the trainer is destroyed */
  int64_t dim[LS_PARAMETER_RANK_MAX];
  int rank;
  bool trained; /* false: frozen, or a state */
  const float
      *values; /* host memory of the trainer, row-major f32; the values until the next step, set or save */
} ls_parameter_t;
/* Local. The number of parameters. */
LS_API int ls_trainer_parameter_count(const ls_trainer_t *trainer);
/* Local. The parameter of this name; with name NULL that of the index, in the order of names. LS_ERR_NOT_FOUND;
 * LS_ERR_UNSUPPORTED: the ranks share the parameters among them. */
LS_API ls_status_t ls_trainer_parameter(ls_trainer_t *trainer, const char *name, int index,
                                        ls_parameter_t *parameter);
/* Local; in a world of several ranks each sets the same values. Copies `count` values, which is the number that the parameter
 * has (LS_ERR_SHAPE), in its shape's order. What the optimizer carries stays. Errors as above. */
LS_API ls_status_t ls_trainer_parameter_set(ls_trainer_t *trainer, const char *name, const float *values,
                                            int64_t count);
/* Local. Numbers of a sample, and of a prediction. */
LS_API int64_t ls_trainer_inputs(const ls_trainer_t *trainer);
LS_API int64_t ls_trainer_outputs(const ls_trainer_t *trainer);
/* XXH3-128 over all parameters in name order, as hex. All ranks must call it, because each may hold a
 * part. */
LS_API ls_status_t ls_trainer_hash(ls_trainer_t *trainer, char hex[33]);

#ifdef __cplusplus
}
#endif
#endif
