/* Ends waits that have no deadline of their own. A rank's threads wait for each other in locks, rings and
 * joins; if one of them dies or is held while the others need it, they would wait for ever. A thread of the
 * trainer looks now and then whether its rank still gets anywhere. */
#ifndef LS_TRAIN_WATCHDOG_H
#define LS_TRAIN_WATCHDOG_H

#include "base/ctx.h"

#include <stdatomic.h>

typedef struct ls_watchdog ls_watchdog_t;

/* What the trainer's thread does. Not watched: the program's own code, its hooks, and saving, which waits for
 * storage alone. */
typedef enum {
  LS_WATCHDOG_OFF,
  LS_WATCHDOG_STEP,
  LS_WATCHDOG_EVALUATION,
  LS_WATCHDOG_END
} ls_watchdog_phase_t;

/* What is seen at one moment. */
typedef struct {
  uint64_t beat;  /* phase and step; a change is progress */
  int64_t now_ns; /* monotonic */
  int64_t cpu_ns; /* of all threads of the process but the watching one */
  bool running;   /* a thread runs, could run, or waits for a disk */
} ls_watchdog_sample_t;

typedef struct {
  ls_watchdog_sample_t last;
  int64_t dead_ns; /* without progress, processor time or a thread that runs */
} ls_watchdog_state_t;

/* Takes a sample, expected every `tick_ns`, into account. True once the process has been dead for
 * `deadline_ns`. A long computation never is, and the time in which the process is stopped does not count.
 * Pure. */
bool ls_watchdog_judge(ls_watchdog_state_t *state, const ls_watchdog_sample_t *sample, int64_t tick_ns,
                       int64_t deadline_ns);

/* What looks say about stops (Ctrl-Z) that took more than a second: the milliseconds of all of them above
 * those of the clock at the newest look, 32 bits each. Returns the next look. Pure. */
uint64_t ls_watchdog_look(uint64_t look, int64_t now_ns);

/* Starts the thread, with phase OFF. When a wait is dead it says so once: through `stuck`, which may take no
 * lock, or, if that is NULL, through ctx as LS_ERR_TIMEOUT. ctx is borrowed until stop. */
ls_status_t ls_watchdog_start(ls_ctx_t *ctx, int64_t deadline_ns,
                              void (*stuck)(void *user, const char *message), void *user,
                              ls_watchdog_t **watchdog);
void ls_watchdog_stop(ls_watchdog_t *watchdog);
/* How long the process has been stopped (Ctrl-Z) in all, to a tenth of a second a stop. */
int64_t ls_watchdog_stopped_ns(const ls_watchdog_t *watchdog);

/* The trainer's thread enters a phase: one store. NULL: nothing is watched. Returns the beat before, for
 * leave. */
uint64_t ls_watchdog_enter(ls_watchdog_t *watchdog, ls_watchdog_phase_t phase, int64_t step);
/* Goes back to the phase that enter found. */
void ls_watchdog_leave(ls_watchdog_t *watchdog, uint64_t before);

#endif
