/* Observers of a training. The loop trains, evaluates and saves, and tells its observers. An observer is a row of functions
 * in a file of its own (observers/), with private state; the loop knows none of them by name. tests/toy/observer.c adds one
 * from outside.
 *
 * The functions are called in the order of the rows, by the trainer's thread, and are local unless they say otherwise. A
 * function may be NULL. What is called in every step allocates nothing, opens nothing and takes no lock, except to show a
 * step that was asked for (trace, timeline). */
#ifndef LS_TRAIN_OBSERVER_H
#define LS_TRAIN_OBSERVER_H

#include "base/json.h"
#include <lockstep/train.h>
#include <stddef.h>

typedef struct ls_loop ls_loop_t; /* train/loop.h: one run, and its newest step */

/* The activity of the trainer's thread, which it publishes together with the steps done (ls_trainer_do). */
typedef enum {
  LS_DOING_NOTHING, /* no run, or a run before its first step */
  LS_DOING_STEPS,
  LS_DOING_EVALUATION,
  LS_DOING_SAVE,
  LS_DOING_PAUSE,
  LS_DOING_OTHER, /* hooks of the program and files, which may take any time */
  LS_DOING_END,   /* the run after its last step */
  LS_DOING_CLOSE, /* the trainer is destroyed */
  LS_DOINGS = 8
} ls_doing_t;

/* Both as one number. */
static inline uint64_t ls_beat(int64_t step, ls_doing_t doing) {
  return (uint64_t)step * LS_DOINGS + (uint64_t)doing;
}

/* Wishes between two steps. A wish of any rank holds for all ranks, but `save` only from rank 0. */
typedef struct {
  bool stop;       /* save and return LS_ERR_INTERRUPTED */
  bool end;        /* save and return LS_ERR_AGAIN */
  bool pause;      /* save and do no steps as long as the wish lasts */
  bool save;       /* save and go on */
  bool smaller;    /* half the configured micro-batch; false: the configured one */
  int64_t rest_ns; /* of this rank alone, before its next step */
} ls_asks_t;

/* When a save is written. */
typedef enum {
  LS_SAVE_NOW, /* before the call returns */
  LS_SAVE_BESIDE, /* by a thread, from a copy, if checkpoint.beside allows it and rank 0 has all of the state. The result is
                   * known at ls_trainer_saved or the next save */
  LS_SAVE_BEST /* the same for a better evaluation. If saves come too often the copy waits, and the copy of a better
                   * evaluation takes its place. Every other save, ls_trainer_pull and ls_trainer_saved write it first */
} ls_save_when_t;

typedef struct {
  const char *name;
  size_t
      own_bytes; /* of its state, which begins with the trainer: ls_trainer_t *t. The rest begins as zeros */

  /* ---- as long as the trainer lives ---- */
  /* Whether there is something to observe. The trainer has only its configuration and world. NULL: if it trains. */
  bool (*wanted)(const ls_trainer_t *t);
  ls_status_t (*open)(void *own, const ls_trainer_options_t *options); /* collective */
  void (*close)(void *own); /* in the opposite order, also after a failed open */
  void (*doing)(void *own, ls_doing_t doing);
  void (*failed)(void *own, ls_status_t status); /* with this rank's own error, before the others have it */
  void (*claimed)(void *own);                    /* the checkpoint directory is this run's; rank 0 */
  /* A line for the event log, borrowed. Any thread. */
  void (*told)(void *own, const char *kind, json_t *members);

  /* ---- one run ---- */
  ls_status_t (*begin)(void *own, const ls_loop_t *loop); /* collective */
  ls_status_t (*before_step)(void *own, const ls_loop_t *loop);
  void (*unit)(void *own, const ls_loop_t *loop, int64_t step, int m); /* micro-batch m has ended */
  ls_status_t (*after_step)(void *own, const ls_loop_t *loop);
  /* Whether `check` is wanted after this step. Alike on all ranks. */
  bool (*due)(void *own, int64_t step);
  /* Before a save, and where due: no step is in flight. Collective. */
  ls_status_t (*check)(void *own, const ls_loop_t *loop);
  void (*idle)(void *own, const ls_loop_t *loop, ls_asks_t *asks); /* between two steps */
  void (*evaluated)(void *own, const ls_loop_t *loop);             /* t->run.val is new */
  void (*saved)(void *own, const ls_loop_t *loop, ls_save_when_t when, int64_t took_ns);
  /* After the last step of a run that did not fail; its memory and report are still open. Collective. */
  void (*finish)(void *own, const ls_loop_t *loop, ls_train_report_t *report);
  void (*at_end)(void *own, ls_status_t status); /* always, last */
} ls_observer_t;

enum { LS_OBSERVERS_MAX = 24 };
/* Adds a row after the others, for trainers that are created later. False: there are too many. */
bool ls_observer_register(const ls_observer_t *row);

/* An observer of one trainer. */
typedef struct {
  const ls_observer_t *row;
  void *own;
} ls_observed_t;

/* The observers of a trainer, and for each function of the row those that have it, so that a step asks nobody else. */
#define LS_HOOK(hook)                                                                                        \
  ((offsetof(ls_observer_t, hook) - offsetof(ls_observer_t, wanted)) / sizeof(((ls_observer_t *)0)->wanted))
enum { LS_HOOKS = LS_HOOK(at_end) + 1 };
typedef struct {
  ls_observed_t all[LS_OBSERVERS_MAX];
  int count;
  const ls_observed_t *with[LS_HOOKS][LS_OBSERVERS_MAX + 1]; /* NULL after the last */
} ls_observers_t;

/* The statement that follows is done for each observer that has `hook`: it calls o->row->hook(o->own, ..). */
#define LS_OBSERVERS(o, t, hook)                                                                             \
  for (const ls_observed_t *const *o##_at = (t)->observers.with[LS_HOOK(hook)], *o; (o = *o##_at); o##_at++)

/* The stage of creation, and its undoing. Collective; local. */
ls_status_t ls_observers_open(ls_trainer_t *t, const ls_trainer_options_t *options);
void ls_observers_close(ls_trainer_t *t);
/* Tells the observers. LS_OK is no failure. */
void ls_trainer_failed(ls_trainer_t *t, ls_status_t status);
/* The same of a line for the event log, whose reference is taken. Any thread. */
void ls_trainer_tell(ls_trainer_t *t, const char *kind, json_t *members);

#endif
