/* One call of ls_trainer_run: what the loop counts, and what observers see of it. Times leave out the time in which the
 * process was stopped. */
#ifndef LS_TRAIN_LOOP_H
#define LS_TRAIN_LOOP_H

#include "train/step_log.h"
#include "train/stops.h"
#include "train/trainer.h"

struct ls_loop {
  ls_trainer_t *t;
  const ls_train_hooks_t *hooks;
  ls_train_report_t *report; /* describes the run from the beginning; filled in at its end */
  ls_step_log_t log;
  int64_t first_step;
  bool stepping;        /* the caller takes each step by a call, and waits for its end */
  int64_t start_ns;     /* of the run, by a clock that does not stop with the process */
  int64_t begin_ns;     /* of the run */
  int64_t away_ns;      /* when the newest of these calls returned */
  int64_t last_done_ns; /* end of the newest finished step, plus left_out_ns */
  int64_t left_out_ns;  /* pauses since then, which are no part of the next step */
  int64_t stopped_ns;   /* how long the process had been stopped by then */
  int64_t loop_ns, eval_ns, save_ns;
  int64_t first_ns; /* of the first step, which also warms up */
  int64_t skipped,
      skipped_in_a_row;    /* steps: all; up to now, without those of an fp16 loss scale that is too large */
  int64_t saves, saved_ns; /* of this run; when it last began one */
  int64_t resized;         /* micro-batches that are asked for a step; 0: those that it has */
  int64_t rest_ns;         /* of this rank, before its next step */
  int64_t agree_step;      /* when the ranks agree next on what is asked */
  float stats[LS_STAT_COUNT]; /* of the newest finished step, as the next ones */
  int64_t step_ns;
  ls_step_parts_t parts;
  int64_t parts_ns[LS_PHASE_STEP_COUNT]; /* of the newest step that was timed */
  int64_t own_ns;                        /* of that step, without the newest known wait for others */
  bool comm_measured;                    /* one was, its wait for others at least */
  int64_t waited_ns, waited_units; /* for samples, since the newest step ended; up to which launch that is */
  double train_loss_first;
};

static inline int64_t ls_loop_clock_ns(const ls_loop_t *loop) {
  return ls_clock_ns() - ls_stops_ns(loop->t->stops);
}

/* Adds the engine's newest wait for samples, once, to those of the step under way. A device runs ahead of the host, so
 * these are samples of later steps. But the host waits for them before it sees the step end: they are part of what it
 * measures as this step, and of the step after it by the device's clock. If two micro-batches are launched in a row, as
 * after an evaluation, only the second wait is known. */
static inline void ls_loop_count_wait(ls_loop_t *loop, const ls_engine_t *e) {
  if (e->unit_launched != loop->waited_units) loop->waited_ns += e->waited_ns;
  loop->waited_units = e->unit_launched;
}

/* Sets own_ns of the step that ended and took step_ns by the host's clock. The host sees the end of a device's step too late
 * to tell ranks apart by a few percent, so the device's clock counts if it is known and the process was not stopped
 * (whole). */
static inline void ls_loop_count_own(ls_loop_t *loop, const ls_step_times_t *took, bool whole,
                                     int64_t step_ns) {
  const int64_t device_ns = took && whole && took->device_ns > 0 ? took->device_ns - loop->left_out_ns : 0;
  loop->own_ns = (device_ns > 0 ? device_ns : step_ns) - loop->parts_ns[LS_PHASE_STEP_COMM];
  loop->left_out_ns = 0;
}

static inline bool ls_trainer_patience_lost(const ls_trainer_t *t) {
  return t->config->train.patience > 0 && t->run.no_better >= t->config->train.patience;
}

/* loop.c: starts the source of samples. */
ls_status_t ls_loop_start(ls_loop_t *loop);
/* Whether the run has another step. Local. */
bool ls_loop_left(const ls_trainer_t *t);
/* Takes a step, does the work that follows it, and obeys what is asked then. Collective. */
ls_status_t ls_loop_advance(ls_loop_t *loop);
/* Waits until `ahead` steps are in flight. */
ls_status_t ls_loop_finish_steps(ls_loop_t *loop, int ahead);

/* loop_run.c: ends an open run without evaluation, save or report. For ls_trainer_destroy. Local. */
void ls_loop_drop(ls_trainer_t *t);

/* loop_between.c. Whether an evaluation between epochs follows this step; whether the step, possibly the run's last, ends a
 * multiple of train.evaluate_every epochs; whether the work after it needs its end. */
bool ls_loop_evaluates(const ls_trainer_t *t, int64_t step);
bool ls_loop_epochs_end(const ls_trainer_t *t, int64_t step);
bool ls_loop_needs_end(const ls_trainer_t *t, int64_t step);
/* That work, with no step in flight. Collective, as the next ones. */
ls_status_t ls_loop_follow(ls_loop_t *loop, int64_t step);
ls_status_t ls_loop_evaluate(ls_loop_t *loop);
/* Counts an evaluation for early stopping: those at the ends of epochs, including the last, so that an interrupted or
 * extended run counts the same. Whether it is better than all before. Local. */
bool ls_loop_count_evaluation(ls_trainer_t *t);
/* Claims the checkpoint directory as soon as a step was applied. */
ls_status_t ls_loop_claim(ls_loop_t *loop);
ls_status_t ls_loop_save(ls_loop_t *loop, ls_save_when_t when);
/* A pause between two steps is part of neither. Local. */
void ls_loop_leave_out(ls_loop_t *loop, int64_t ns);

/* loop_asks.c: does what is asked after this step. LS_ERR_INTERRUPTED and LS_ERR_AGAIN end the run. Collective. */
ls_status_t ls_loop_obey(ls_loop_t *loop, int64_t step);
/* The micro-batches of a step once the ranks want the other size; 0: there is none. No rank gets a micro-batch without a
 * row. */
int64_t ls_loop_resized(const ls_trainer_t *t, bool smaller);

/* report.c. The learning rate of a step; of a trainer. */
float ls_loop_rate(void *trainer, int64_t step);
double ls_loop_samples_per_s(const ls_loop_t *loop);
int64_t ls_loop_epochs(const ls_trainer_t *t); /* whole ones that are done */
/* LS_ERR_NONFINITE, reported with a remedy: the run stops because of these numbers. */
ls_status_t ls_loop_diverged(const ls_loop_t *loop, const float *stats);
/* Reports a run that had already reached its end. */
void ls_loop_nothing_left(const ls_trainer_t *t);
/* The report: what is known before the run, and what it has done. */
void ls_loop_describe(const ls_trainer_t *t, ls_train_report_t *report);
void ls_loop_report(ls_loop_t *loop);
/* notes.c: the report's notes, from what else is in it. */
void ls_loop_notes(const ls_loop_t *loop, ls_train_report_t *report);

#endif
