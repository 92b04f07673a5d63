/* Fills micro-batches ahead of the training loop from a thread of its own. They go round a ring of slots; two
 * counters say how far each side is. The loop's common case, a batch that is ready, is one atomic load. The
 * filler never spins: the cores belong to the computation. */
#include "data/data.h"

#include "base/signals.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { SLICE_NS = 100000000 }; /* of a wait with a deadline */
enum { SPINS = 200 /* about a microsecond: shorter than going to sleep and being woken */ };

struct ls_loader {
  ls_ctx_t *ctx;
  const ls_dataset_t *dataset;
  ls_loader_spec_t spec;
  int slot_count;
  ls_batch_t *slots;
  int64_t units; /* of the run */
  int64_t first;
  ls_pool_t *pool; /* more threads for large batches; NULL = none */
  int64_t filling; /* the unit that the pool is filling */
  pthread_t thread;
  pthread_mutex_t lock; /* guards changes of what follows */
  pthread_cond_t changed_filled, changed_released;
  _Atomic int64_t filled; /* units below are in their slots */
  int64_t released;       /* units below may be overwritten */
  bool stop;
  bool lost; /* the thread did not answer within the deadline; of the calling thread */
};

/* Waits until the slot of `unit` is free; false when the loader is being destroyed. */
static bool wait_free(ls_loader_t *l, int64_t unit) {
  pthread_mutex_lock(&l->lock);
  while (!l->stop && unit - l->slot_count >= l->released)
    pthread_cond_wait(&l->changed_released, &l->lock);
  bool go = !l->stop;
  pthread_mutex_unlock(&l->lock);
  return go;
}

static void fill_part(void *arg, int part, int parts) {
  ls_loader_t *l = arg;
  ls_batch_fill_part(l->dataset, &l->spec, l->filling, &l->slots[l->filling % l->slot_count], part, parts);
}

static void *fill_ahead(void *arg) {
  ls_loader_t *l = arg;
  for (int64_t unit = l->first; unit < l->units && wait_free(l, unit); unit++) {
    l->filling = unit;
    ls_pool_run(l->pool, fill_part, l);
    pthread_mutex_lock(&l->lock);
    atomic_store_explicit(&l->filled, unit + 1, memory_order_release);
    pthread_cond_signal(&l->changed_filled);
    pthread_mutex_unlock(&l->lock);
  }
  return NULL;
}

/* Without a thread: the slots of units up to `unit`, as the thread would have filled them. */
static void fill_now(ls_loader_t *l, int64_t unit) {
  int64_t filled = atomic_load_explicit(&l->filled, memory_order_relaxed);
  for (; filled <= unit; filled++)
    ls_batch_fill(l->dataset, &l->spec, filled, &l->slots[filled % l->slot_count]);
  atomic_store_explicit(&l->filled, filled, memory_order_relaxed);
}

static ls_status_t check(ls_ctx_t *ctx, const ls_dataset_t *d, const ls_loader_spec_t *p, int64_t first_step,
                         int slot_count) {
  int64_t part = p->part == LS_PART_TRAIN ? d->train_count : d->validation_count, last;
  if (part < 1) return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: the part to load from is empty", d->source);
  if (p->global_batch < 1 || p->first < 0 || p->count < 0 ||
      (p->count > 0 && p->first > p->global_batch - p->count) || p->accumulate < 1 || p->rows < 0 ||
      p->rows > INT64_MAX / p->accumulate || p->rows * p->accumulate < p->count || slot_count < 1 ||
      first_step < 0 || p->total_samples < 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "bad loader spec: rows %" PRId64 " to %" PRId64 " of a batch of %" PRId64
                   " as %d x %" PRId64 " in %d slots from step %" PRId64,
                   p->first, p->first + p->count, p->global_batch, p->accumulate, p->rows, slot_count,
                   first_step);
  if (__builtin_mul_overflow(p->total_steps, p->global_batch, &last) ||
      __builtin_mul_overflow(p->total_steps, p->accumulate, &last))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "%" PRId64 " steps of %" PRId64 " samples are too many",
                   p->total_steps, p->global_batch);
  return LS_OK;
}

ls_status_t ls_loader_create(ls_ctx_t *ctx, const ls_dataset_t *dataset, const ls_loader_spec_t *spec,
                             int64_t first_step, int slot_count, const ls_batch_t *slots,
                             ls_loader_t **loader) {
  ls_status_t status = check(ctx, dataset, spec, first_step, slot_count);
  if (status == LS_OK && slots[0].row && dataset->rows > INT32_MAX)
    status = ls_fail(ctx, LS_ERR_ARGUMENT, "%s: %" PRId64 " samples are too many for row numbers of 32 bits",
                     dataset->source, dataset->rows);
  if (status != LS_OK) return status;
  ls_loader_t *l = ls_alloc(ctx, sizeof *l);
  if (!l) return LS_ERR_MEMORY;
  l->slots = ls_alloc_array(ctx, (size_t)slot_count, sizeof *l->slots);
  if (!l->slots) {
    status = LS_ERR_MEMORY;
    goto free_loader;
  }
  memcpy(l->slots, slots, (size_t)slot_count * sizeof *l->slots);
  l->ctx = ctx;
  l->dataset = dataset;
  l->spec = *spec;
  l->slot_count = slot_count;
  if (spec->threads > 1) {
    status = ls_pool_create(ctx, spec->threads, &l->pool);
    if (status != LS_OK) goto free_slots;
  }
  l->units = spec->total_steps * spec->accumulate;
  l->first = l->released = first_step * spec->accumulate;
  atomic_init(&l->filled, l->first);
  /* These cannot fail for default attributes on the systems that are supported (glibc). */
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed_filled, NULL);
  pthread_cond_init(&l->changed_released, NULL);
  int error = spec->threads > 0 ? ls_signals_thread(&l->thread, "ls loader", fill_ahead, l) : 0;
  if (error != 0) {
    status = ls_fail(ctx, LS_ERR_MEMORY, "the thread that loads data cannot be started: %s", strerror(error));
    goto destroy_lock;
  }
  *loader = l;
  return LS_OK;

destroy_lock:
  pthread_cond_destroy(&l->changed_released);
  pthread_cond_destroy(&l->changed_filled);
  pthread_mutex_destroy(&l->lock);
  ls_pool_destroy(l->pool);
free_slots:
  ls_free(l->slots);
free_loader:
  ls_free(l);
  return status;
}

static struct timespec slice_end(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  int64_t ns = at.tv_nsec + SLICE_NS;
  return (struct timespec){.tv_sec = at.tv_sec + ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* Whether the deadline allows one more slice. Slices are counted, not hours: the time in which the process
 * was stopped is not part of a wait. */
static bool more(const ls_loader_t *l, int slices) {
  return l->spec.deadline_ns <= 0 || (int64_t)slices * SLICE_NS < l->spec.deadline_ns;
}

/* For the loop's side, which must not wait for ever for a lock whose holder has vanished. */
static bool lock_within(ls_loader_t *l) {
  if (pthread_mutex_trylock(&l->lock) == 0) return true;
  for (int slice = 0; more(l, slice); slice++) {
    const struct timespec until = slice_end();
    if (pthread_mutex_clocklock(&l->lock, CLOCK_MONOTONIC, &until) == 0) return true;
  }
  l->lost = true;
  return false;
}

static bool is_filled(const ls_loader_t *l, int64_t unit) {
  return atomic_load_explicit(&l->filled, memory_order_acquire) > unit;
}

/* Until the unit's batch is there or the deadline has passed. */
static bool wait_filled(ls_loader_t *l, int64_t unit) {
  for (int slice = 0; more(l, slice); slice++) {
    const struct timespec until = slice_end();
    if (!lock_within(l)) return false;
    int error = 0;
    while (!is_filled(l, unit) && error == 0)
      error = pthread_cond_clockwait(&l->changed_filled, &l->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&l->lock);
    if (is_filled(l, unit)) return true;
  }
  l->lost = true;
  return false;
}

void ls_loader_destroy(ls_loader_t *l) {
  if (!l) return;
  if (l->lost || !lock_within(l)) { /* what a thread may still use is not freed */
    pthread_detach(l->thread);
    return;
  }
  l->stop = true;
  pthread_cond_signal(&l->changed_released);
  pthread_mutex_unlock(&l->lock);
  if (l->spec.threads > 0) pthread_join(l->thread, NULL);
  pthread_cond_destroy(&l->changed_released);
  pthread_cond_destroy(&l->changed_filled);
  pthread_mutex_destroy(&l->lock);
  ls_pool_destroy(l->pool);
  ls_free(l->slots);
  ls_free(l);
}

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

ls_status_t ls_loader_acquire(ls_loader_t *l, int64_t unit) {
  if (unit >= l->units) return LS_OK;
  if (l->spec.threads == 0) {
    fill_now(l, unit);
    return LS_OK;
  }
  for (int i = 0; i < SPINS; i++) {
    if (is_filled(l, unit)) return LS_OK;
    relax();
  }
  if (wait_filled(l, unit)) return LS_OK;
  return ls_fail(l->ctx, LS_ERR_TIMEOUT,
                 "step %" PRId64
                 ": its batch was not there within %.3f s: the thread that loads data does not answer",
                 unit / l->spec.accumulate, (double)l->spec.deadline_ns * 1e-9);
}

void ls_loader_release(ls_loader_t *l, int64_t unit) {
  if (l->spec.threads == 0 || l->lost || !lock_within(l)) return; /* the next acquire says so */
  if (unit >= l->released) l->released = unit + 1;
  pthread_cond_signal(&l->changed_released);
  pthread_mutex_unlock(&l->lock);
}
