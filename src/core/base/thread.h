/* A pool of threads for loops inside one task. Workers spin for a short while after a loop, so that the next
 * one starts within about a microsecond, then sleep. The calling thread takes part as thread 0.
 * Calls come from one thread at a time. */
#ifndef LS_BASE_THREAD_H
#define LS_BASE_THREAD_H

#include "base/ctx.h"

#include <sched.h>

typedef struct ls_pool ls_pool_t;
typedef void (*ls_pool_fn)(void *arg, int thread, int threads);

/* `threads` >= 1 counts the caller; 1 makes no thread at all. Owned by the caller. */
ls_status_t ls_pool_create(ls_ctx_t *ctx, int threads, ls_pool_t **pool);
void ls_pool_destroy(ls_pool_t *pool);
int ls_pool_threads(const ls_pool_t *pool);

/* Runs fn(arg, 0..threads-1, threads) and returns when all are done. Not reentrant. With a NULL pool, runs
 * inline. Workers compute in the caller's floating-point mode. */
void ls_pool_run(ls_pool_t *pool, ls_pool_fn fn, void *arg);

/* The same with as many threads as the loop is worth. `work_ns` estimates its time in one thread. An awake
 * worker gets at least LS_POOL_SHARE_NS of work, a worker that has to be woken LS_POOL_WAKE_SHARE_NS. If a
 * loop is long enough for an awake worker but too short for waking one, the sleeping worker is woken for the
 * next loop. */
enum { LS_POOL_SHARE_NS = 2000, LS_POOL_WAKE_SHARE_NS = 50000 };
void ls_pool_run_work(ls_pool_t *pool, int64_t work_ns, ls_pool_fn fn, void *arg);

/* The half-open part [*begin, *end) of [0, count) that `thread` takes, in multiples of `grain`. */
void ls_pool_share(int64_t count, int64_t grain, int thread, int threads, int64_t *begin, int64_t *end);

/* Cores that this process may use (sched_getaffinity, cgroup quota). At least 1. */
int ls_cpu_count(void);
/* Limits the calling thread, and the threads that it starts from now on, to part `part` of `parts` equal, disjoint
 * parts of its processors. Hardware threads of one core stay together. *before is for ls_cpu_widen, and empty if
 * nothing changed: there are fewer processors than parts, or the system refuses. */
void ls_cpu_narrow(int part, int parts, cpu_set_t *before);
void ls_cpu_widen(const cpu_set_t *before);

#endif
