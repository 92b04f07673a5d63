/* One run of the training loop: what loop.c does with it and loop_told.c tells of it. */
#ifndef LS_TRAIN_LOOP_H
#define LS_TRAIN_LOOP_H

#include "train/trainer.h"

typedef struct {
  ls_trainer_t *t;
  const ls_train_hooks_t *hooks;
  json_t *trace; /* events; NULL: none is asked for */
  ls_step_log_t log;
  int64_t first_step;
  int64_t last_done_ns; /* when the newest finished step finished, by clock_ns, plus left_out_ns */
  int64_t left_out_ns;  /* pauses since then, which are no part of the next step */
  int64_t begin_ns;     /* of the run, by clock_ns */
  int64_t stopped_ns;   /* how long the process had been stopped by then */
  int64_t loop_ns, eval_ns, save_ns;
  int64_t first_ns; /* of the first step, which also warms up */
  int64_t skipped, skipped_row;
  int64_t saves, saved_ns;    /* of this run; when it last began one, by clock_ns */
  int64_t resized;            /* micro-batches that safety wants for a step; 0: those that it has */
  int64_t stop_check_step;    /* when the ranks agree next whether to stop */
  float stats[LS_STAT_COUNT]; /* of the newest finished step, as the next two */
  int64_t step_ns, parts_ns[LS_PHASE_STEP_COUNT]; /* the parts are of the newest step that was timed */
  int64_t own_ns;                                 /* of that step without the newest known wait for others */
  bool comm_measured;                             /* one was, its wait for others at least */
  int64_t waited_ns, waited_units; /* for samples, since the newest step ended; up to which launch that is */
  ls_status_t tracing;
  ls_step_parts_t parts;
  ls_monitor_state_t seen;
  ls_timeline_t timeline;
  ls_page_phase_t shown;  /* what the page shows between evaluations and saves */
  ls_progress_t progress; /* what the hook hears of; evaluations change what they bring */
  bool spoke_of_saves;    /* it was said when the next one is due */
  double train_loss_first;
} ls_loop_t;

/* A clock that stands still while the process is stopped. */
static inline int64_t ls_loop_clock_ns(const ls_loop_t *loop) {
  return ls_clock_ns() - ls_watchdog_stopped_ns(loop->t->watchdog);
}

/* Adds the engine's newest wait for samples, once, to those of the step under way. A device runs ahead of the host, so
 * these are samples of later steps. But the host waits for them before it sees the step end: they are part of what it
 * measures as this step; by the device's clock, of the step after it. Where two micro-batches are launched in a row, as
 * after an evaluation, only the second wait is known. */
static inline void ls_loop_count_wait(ls_loop_t *loop, const ls_engine_t *e) {
  if (e->unit_launched != loop->waited_units) loop->waited_ns += e->waited_ns;
  loop->waited_units = e->unit_launched;
}

/* own_ns of the step that ended and took step_ns by the host's clock. The host sees a device's steps end too late to tell
 * ranks apart by a few percent, so the device's clock counts where it is known: not of a step in which the process was
 * stopped (not whole). */
static inline void ls_loop_count_own(ls_loop_t *loop, const ls_step_times_t *took, bool whole,
                                     int64_t step_ns) {
  const int64_t device_ns = took && whole && took->device_ns > 0 ? took->device_ns - loop->left_out_ns : 0;
  loop->own_ns = (device_ns > 0 ? device_ns : step_ns) - loop->parts_ns[LS_PHASE_STEP_COMM];
  loop->left_out_ns = 0;
}

static inline bool ls_trainer_patience_lost(const ls_trainer_t *t) {
  return t->config->train.patience > 0 && t->no_better >= t->config->train.patience;
}

/* loop_told.c. The learning rate of a step; of a trainer. */
float ls_loop_rate(void *trainer, int64_t step);
/* Tells the progress hook of the newest step. Rank 0. */
void ls_loop_progress(ls_loop_t *loop);
/* Takes note of an evaluation of the validation part. Local. */
void ls_loop_evaluated(ls_loop_t *loop, const ls_eval_report_t *report);
/* LS_ERR_NONFINITE, reported with a remedy: the run stops because of these numbers. */
ls_status_t ls_loop_diverged(const ls_loop_t *loop, const float *stats);
/* Reports a run that had already reached its end. */
void ls_loop_nothing_left(const ls_trainer_t *t);
/* The report: what is known before the run, and what it has done. */
void ls_loop_describe(const ls_trainer_t *t, ls_train_report_t *report);
void ls_loop_report(ls_loop_t *loop, int64_t start_ns, ls_train_report_t *report);
/* notes.c: the report's notes, from what else is in it. */
void ls_loop_notes(const ls_loop_t *loop, ls_train_report_t *report);

#endif
