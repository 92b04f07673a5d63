/* The rows of this folder, and what they have of each other. */
#ifndef LS_TRAIN_OBSERVERS_H
#define LS_TRAIN_OBSERVERS_H

#include "monitor/monitor.h"
#include "train/loop.h"

extern const ls_observer_t ls_observer_watchdog, /* a thread that ends waits without a deadline */
    ls_observer_page,                            /* shows a supervisor where this rank is */
    ls_observer_inject,                          /* faults on purpose */
    ls_observer_safety,                          /* the ladder of section safety */
    ls_observer_monitor,                         /* records, sinks and the event log of monitor.dir */
    ls_observer_timeline,                        /* a step's tasks for the event log, once a minute */
    ls_observer_trace,                           /* the trace file of the last steps */
    ls_observer_replicas,                        /* compares the parameters of all ranks */
    ls_observer_history,                         /* evaluations as lines of a file in the run's directory */
    ls_observer_saving,                          /* when to save, and saves that failed in their thread */
    ls_observer_progress;                        /* the program's progress hook */

/* The state of one of these observers; NULL: it has nothing to observe. */
void *ls_observers_own(const ls_trainer_t *t, const ls_observer_t *row);
/* page.c: the page of this trainer, borrowed until its observers close; NULL: it has none. */
ls_page_t *ls_observers_page(const ls_trainer_t *t);
/* safety.c: judges a record of this rank, in the monitor's thread. */
void ls_observers_judge(void *safety, const ls_monitor_sample_t *sample);

/* saving.c: how long a run goes on before it saves again, from the cost of a save and the mean time between failures (Daly
 * 2006, a higher order estimate of the optimum checkpoint interval, eq. 37). */
int64_t ls_save_interval_ns(int64_t cost_ns, int64_t failure_ns);

#endif
