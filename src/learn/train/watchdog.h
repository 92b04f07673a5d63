/* Ends waits that have no deadline of their own. A rank's threads wait for each other in locks, rings and
 * joins. If one of them dies or is held while the others need it, they would wait for ever. A thread of the
 * trainer checks regularly whether its rank makes progress. */
#ifndef LS_TRAIN_WATCHDOG_H
#define LS_TRAIN_WATCHDOG_H

#include "base/ctx.h"

#include <stdatomic.h>

typedef struct ls_watchdog ls_watchdog_t;

/* The activity of the trainer's thread. Not covered: the program's own code, its hooks, and saving, which
 * waits for storage alone. */
typedef enum {
  LS_WATCHDOG_OFF,
  LS_WATCHDOG_STEP,
  LS_WATCHDOG_EVALUATION,
  LS_WATCHDOG_END
} ls_watchdog_phase_t;

/* The observations of one moment. */
typedef struct {
  uint64_t beat;  /* phase and step; a change is progress */
  int64_t now_ns; /* monotonic */
  int64_t cpu_ns; /* processor time of all threads of the process except the watchdog */
  bool running;   /* a thread runs, is ready to run, or waits for a disk */
} ls_watchdog_sample_t;

typedef struct {
  ls_watchdog_sample_t last;
  int64_t dead_ns; /* time without progress, processor time or a running thread */
} ls_watchdog_state_t;

/* Processes a sample, expected every `tick_ns`. True once the process has been dead for `deadline_ns`. A long
 * computation never counts as dead, and time in which the process is stopped does not count. Pure. */
bool ls_watchdog_judge(ls_watchdog_state_t *state, const ls_watchdog_sample_t *sample, int64_t tick_ns,
                       int64_t deadline_ns);

/* Detects stops (Ctrl-Z) of more than a second from the looks at the clock. A look holds the milliseconds of
 * all stops in its upper 32 bits and those of the clock in its lower 32. Returns the next look. Pure. */
uint64_t ls_watchdog_look(uint64_t look, int64_t now_ns);

/* Starts the thread, with phase OFF. When a wait is dead it reports once: through `stuck`, which may take no
 * lock, or, if that is NULL, through ctx as LS_ERR_TIMEOUT. ctx is borrowed until stop. */
ls_status_t ls_watchdog_start(ls_ctx_t *ctx, int64_t deadline_ns,
                              void (*stuck)(void *user, const char *message), void *user,
                              ls_watchdog_t **watchdog);
void ls_watchdog_stop(ls_watchdog_t *watchdog);
/* Total time in which the process was stopped (Ctrl-Z), to a tenth of a second per stop. */
int64_t ls_watchdog_stopped_ns(const ls_watchdog_t *watchdog);

/* The trainer's thread enters a phase: one store. NULL: no watchdog. Returns the previous beat, for leave. */
uint64_t ls_watchdog_enter(ls_watchdog_t *watchdog, ls_watchdog_phase_t phase, int64_t step);
/* Returns to the phase that enter found. */
void ls_watchdog_leave(ls_watchdog_t *watchdog, uint64_t before);

#endif
