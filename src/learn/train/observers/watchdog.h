/* Ends waits that have no deadline of their own. A rank's threads wait for each other in locks, rings and
 * joins. If one of them dies or is stopped while the others need it, they would wait for ever. A thread of the
 * trainer checks regularly whether its rank makes progress. */
#ifndef LS_TRAIN_OBSERVERS_WATCHDOG_H
#define LS_TRAIN_OBSERVERS_WATCHDOG_H

#include "train/observer.h"

#include <stdatomic.h>

typedef struct ls_watchdog ls_watchdog_t;

/* The observations of one moment. */
typedef struct {
  uint64_t beat;  /* ls_beat of the trainer; a change is progress */
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

/* Starts the thread, which reads *beat. When a wait is dead it reports once: through `stuck`, which may take no
 * lock, or, if that is NULL, through ctx as LS_ERR_TIMEOUT. ctx and beat are borrowed until stop. Not watched are the
 * program's own code, its hooks, and saving, which waits for storage alone. */
ls_status_t ls_watchdog_start(ls_ctx_t *ctx, const _Atomic uint64_t *beat, int64_t deadline_ns,
                              void (*stuck)(void *user, const char *message), void *user,
                              ls_watchdog_t **watchdog);
void ls_watchdog_stop(ls_watchdog_t *watchdog);
/* The thread's looks at the clock (train/stops.h), until stop. */
const _Atomic uint64_t *ls_watchdog_looks(const ls_watchdog_t *watchdog);

#endif
