/* The pool: an order starts a worker's part of a loop, and a count of busy workers ends the loop. Both sides
 * spin briefly, because the next loop of a training step is usually microseconds away, and then sleep on a
 * futex (Linux), so that an idle or oversubscribed process yields its cores. */
#include "base/thread.h"

#include "base/clock.h"
#include "base/float_mode.h"
#include "base/signals.h"
#include "base/wait.h"

#include <string.h>

enum { CACHE_LINE_BYTES = 64, SPIN_NS = 50000, PAUSES_PER_LOOK = 16 };

/* Sleeping follows one pattern on both sides. The sleeper announces itself, then the kernel compares the word
 * again. The waker changes the word, then looks for sleepers. With sequentially consistent accesses at least
 * one of them sees the other, so no wake-up is lost. */
typedef struct {
  _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t order; /* a change starts this worker's part of a loop */
  _Atomic uint32_t sleeps;
  ls_pool_t *pool;
  pthread_t id;
  int index;
} worker_t;

struct ls_pool {
  _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t busy; /* workers that have not finished this loop */
  _Atomic uint32_t caller_sleeps;
  _Alignas(CACHE_LINE_BYTES)
      ls_pool_fn fn; /* NULL ends the workers; written, like the next three fields, before orders */
  void *arg;
  int taking_part; /* threads, the caller among them */
  ls_float_mode_t mode;
  int threads, started;
  int64_t spin_ns;
  worker_t worker[];
};

/* Spins while *word == value, for at most spin_ns; true when it changed. */
static bool spin_while(_Atomic uint32_t *word, uint32_t value, int64_t spin_ns) {
  if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
  if (spin_ns <= 0) return false;
  int64_t deadline_ns = ls_clock_ns() + spin_ns;
  do {
    for (int i = 0; i < PAUSES_PER_LOOK; i++) {
      ls_wait_pause();
      if (atomic_load_explicit(word, memory_order_acquire) != value) return true;
    }
  } while (ls_clock_ns() < deadline_ns);
  return false;
}

static void wait_while(_Atomic uint32_t *word, uint32_t value, _Atomic uint32_t *sleepers, int64_t spin_ns) {
  while (!spin_while(word, value, spin_ns)) {
    atomic_fetch_add(sleepers, 1);
    if (atomic_load(word) == value) ls_wait_sleep(word, value, 0, LS_WAIT_THREADS);
    atomic_fetch_sub(sleepers, 1);
  }
}

static void *work(void *argument) {
  worker_t *self = argument;
  ls_pool_t *pool = self->pool;
  uint32_t seen = 0;
  for (;;) {
    wait_while(&self->order, seen, &self->sleeps, pool->spin_ns);
    seen++; /* the caller gives no other order before this worker has finished this one */
    if (!pool->fn) return NULL;
    ls_float_mode_set(pool->mode);
    pool->fn(pool->arg, self->index, pool->taking_part);
    if (atomic_fetch_sub(&pool->busy, 1) == 1 && atomic_load(&pool->caller_sleeps))
      ls_wait_wake(&pool->busy, LS_WAIT_THREADS);
  }
}

static void start_loop(ls_pool_t *pool, int threads, ls_pool_fn fn, void *arg) {
  pool->fn = fn;
  pool->arg = arg;
  pool->taking_part = threads;
  pool->mode = ls_float_mode();
  atomic_store_explicit(&pool->busy, (uint32_t)(threads - 1), memory_order_relaxed);
  for (worker_t *w = pool->worker; w < pool->worker + threads - 1; w++) {
    atomic_fetch_add(&w->order, 1);
    if (atomic_load(&w->sleeps)) ls_wait_wake(&w->order, LS_WAIT_THREADS);
  }
}

static void run(ls_pool_t *pool, int threads, ls_pool_fn fn, void *arg) {
  if (threads == 1) {
    fn(arg, 0, 1);
    return;
  }
  start_loop(pool, threads, fn, arg);
  fn(arg, 0, threads);
  uint32_t busy;
  while ((busy = atomic_load_explicit(&pool->busy, memory_order_acquire)) != 0)
    wait_while(&pool->busy, busy, &pool->caller_sleeps, pool->spin_ns);
}

void ls_pool_run(ls_pool_t *pool, ls_pool_fn fn, void *arg) {
  run(pool, ls_pool_threads(pool), fn, arg);
}

static int at_most(int64_t count, int most) {
  return count < 1 ? 1 : count < most ? (int)count : most;
}

/* The number of threads that a loop is worth; wakes those that sleep. */
static int threads_worth(ls_pool_t *pool, int64_t work_ns) {
  int most = at_most(work_ns / LS_POOL_SHARE_NS, pool->threads), awake = 1;
  while (awake < most && atomic_load(&pool->worker[awake - 1].sleeps) == 0)
    awake++;
  if (awake == most) return most;
  for (worker_t *w = &pool->worker[awake - 1]; w < pool->worker + most - 1 && pool->spin_ns > 0; w++)
    if (atomic_load(&w->sleeps))
      ls_wait_wake(&w->order, LS_WAIT_THREADS); /* it finds no order, and spins for the next */
  int asleep = at_most(work_ns / LS_POOL_WAKE_SHARE_NS, most);
  return asleep > awake ? asleep : awake;
}

void ls_pool_run_work(ls_pool_t *pool, int64_t work_ns, ls_pool_fn fn, void *arg) {
  run(pool, pool ? threads_worth(pool, work_ns) : 1, fn, arg);
}

static ls_status_t start_workers(ls_ctx_t *ctx, ls_pool_t *pool) {
  int error = 0;
  while (pool->started < pool->threads - 1 && error == 0) {
    worker_t *worker = &pool->worker[pool->started];
    *worker = (worker_t){.pool = pool, .index = pool->started + 1};
    error = ls_signals_thread(&worker->id, "ls worker", work, worker);
    if (error == 0) pool->started++;
  }
  if (error == 0) return LS_OK;
  return ls_fail(ctx, LS_ERR_MEMORY, "thread %d of %d could not be started: %s", pool->started + 2,
                 pool->threads, strerror(error));
}

ls_status_t ls_pool_create(ls_ctx_t *ctx, int threads, ls_pool_t **out) {
  if (threads < 1 || threads > 4096)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "a pool of %d threads was asked for; 1 to 4096 are possible",
                   threads);
  size_t size = sizeof(ls_pool_t) + (size_t)(threads - 1) * sizeof(worker_t);
  ls_pool_t *pool = ls_alloc_aligned(ctx, CACHE_LINE_BYTES, size);
  if (!pool) return LS_ERR_MEMORY;
  pool->threads = threads;
  pool->spin_ns =
      threads <= ls_cpu_count() ? SPIN_NS : 0; /* a spinner without a core of its own only harms */
  ls_status_t status = start_workers(ctx, pool);
  if (status != LS_OK) {
    ls_pool_destroy(pool);
    return status;
  }
  *out = pool;
  return LS_OK;
}

void ls_pool_destroy(ls_pool_t *pool) {
  if (!pool) return;
  start_loop(pool, pool->started + 1, NULL, NULL);
  for (int i = 0; i < pool->started; i++)
    pthread_join(pool->worker[i].id, NULL);
  ls_free(pool);
}

int ls_pool_threads(const ls_pool_t *pool) {
  return pool ? pool->threads : 1;
}

void ls_pool_share(int64_t count, int64_t grain, int thread, int threads, int64_t *begin, int64_t *end) {
  if (count < 0) count = 0;
  if (grain < 1) grain = 1;
  int64_t units = count / grain + (count % grain != 0), each = units / threads, more = units % threads;
  int64_t first = each * thread + (thread < more ? thread : more);
  int64_t last = first + each + (thread < more);
  *begin = first < units ? first * grain : count;
  *end = last < units ? last * grain : count;
}
