/* Fills micro-batches ahead of the training loop from a thread of its own. They go round a ring of slots; each side counts
 * what it has done, and the other waits for that. The loop's common case, a batch that is ready, is one atomic load,
 * and nothing is locked. Where another device computes, the thread looks for a free slot for a short while before it
 * sleeps; where the cores compute, it sleeps at once, because they belong to the computation. */
#include "data/data.h"

#include "base/clock.h"
#include "base/signals.h"
#include "base/wait.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

struct ls_loader {
  ls_ctx_t *ctx;
  const ls_dataset_t *dataset;
  ls_loader_spec_t spec;
  int slot_count;
  ls_batch_t *slots;
  int64_t units; /* of the run */
  int64_t first;
  ls_filler_t *filler;
  pthread_t thread;
  ls_signal_t filled;   /* units that are in their slots, from first on */
  ls_signal_t released; /* units whose slots may be overwritten */
  _Atomic bool stop;
  _Atomic int64_t
      failed; /* first unit that could not be filled; later ones are not filled either. INT64_MAX: none */
  ls_status_t status; /* of that unit, written before */
  /* of the calling thread: */
  int64_t next_fill;    /* without a thread */
  int64_t next_release; /* units below are released */
  bool lost;            /* the thread did not answer within the deadline */
};

/* Units from first to `end`, as signals count them. */
static uint32_t units_to(const ls_loader_t *l, int64_t end) {
  return (uint32_t)(end - l->first);
}

/* Waits until the slot of `unit` is free; false when the loader is being destroyed. */
static bool wait_free(ls_loader_t *l, int64_t unit) {
  uint32_t target = units_to(l, unit + 1 - l->slot_count);
  if (unit - l->slot_count < l->first) return !atomic_load(&l->stop);
  for (int64_t until_ns = l->spec.spin_ns > 0 ? ls_clock_ns() + l->spec.spin_ns : 0;
       until_ns > 0 && !ls_signal_reached(&l->released, target) && ls_clock_ns() < until_ns;)
    ls_wait_pause();
  ls_signal_sleep(&l->released, target, 0);
  return !atomic_load(&l->stop);
}

/* Whether that worked. */
static bool fill(ls_loader_t *l, int64_t unit) {
  l->status = ls_filler_fill(l->filler, &l->spec, unit, &l->slots[unit % l->slot_count]);
  if (l->status != LS_OK) atomic_store(&l->failed, unit);
  return l->status == LS_OK;
}

static void *fill_ahead(void *arg) {
  ls_loader_t *l = arg;
  for (int64_t unit = l->first; unit < l->units && wait_free(l, unit); unit++) {
    bool filled = fill(l, unit);
    ls_signal_add(&l->filled); /* wakes the waiting side, either one */
    if (!filled) break;
  }
  return NULL;
}

/* Without a thread: the slots of units up to `unit`, as the thread would have filled them. */
static bool fill_now(ls_loader_t *l, int64_t unit) {
  while (l->next_fill <= unit && fill(l, l->next_fill))
    l->next_fill++;
  return l->next_fill > unit;
}

static ls_status_t check(ls_ctx_t *ctx, const ls_dataset_t *d, const ls_loader_spec_t *p, int64_t first_step,
                         int slot_count) {
  int64_t part = p->part == LS_PART_TRAIN ? d->train_count : d->validation_count, last;
  int64_t stride = p->micro_batches > 1 ? p->stride : p->rows;
  if (part < 1) return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: the part to load from is empty", d->source);
  if (p->global_batch < 1 || p->first < 0 || p->rows < 0 || p->micro_batches < 1 || stride < p->rows ||
      stride > (INT64_MAX - p->first) / p->micro_batches || slot_count < 1 || first_step < 0 ||
      p->total_samples < 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "bad loader spec: %d x %" PRId64 " rows of a batch of %" PRId64 " from row %" PRId64
                   " on, %" PRId64 " apart, in %d slots from step %" PRId64,
                   p->micro_batches, p->rows, p->global_batch, p->first, stride, slot_count, first_step);
  if (__builtin_mul_overflow(p->total_steps, p->global_batch, &last) ||
      __builtin_mul_overflow(p->total_steps, p->micro_batches, &last))
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
  status = ls_filler_create(ctx, dataset, spec->threads, &l->filler);
  if (status != LS_OK) goto free_slots;
  atomic_init(&l->failed, INT64_MAX);
  l->units = spec->total_steps * spec->micro_batches;
  l->first = l->next_fill = l->next_release = first_step * spec->micro_batches;
  int error = spec->threads > 0 ? ls_signals_thread(&l->thread, "ls loader", fill_ahead, l) : 0;
  if (error != 0) {
    status = ls_fail(ctx, LS_ERR_MEMORY, "the thread that loads data cannot be started: %s", strerror(error));
    goto destroy_filler;
  }
  *loader = l;
  return LS_OK;

destroy_filler:
  ls_filler_destroy(l->filler);
free_slots:
  ls_free(l->slots);
free_loader:
  ls_free(l);
  return status;
}

/* Until the unit's batch is there or the deadline has passed. A nap that lasts much longer than it should is one in which the
 * process was stopped: that time is not part of a wait. */
static bool wait_filled(ls_loader_t *l, int64_t unit) {
  const int64_t nap_ns = 100000000, stopped_ns = 1000000000, deadline_ns = l->spec.deadline_ns;
  int64_t waited_ns = 0, last_ns = ls_clock_ns();
  while (deadline_ns <= 0 || waited_ns < deadline_ns) {
    if (ls_signal_wait(&l->filled, units_to(l, unit + 1), nap_ns)) return true;
    int64_t now_ns = ls_clock_ns();
    waited_ns += now_ns - last_ns < nap_ns + stopped_ns ? now_ns - last_ns : nap_ns;
    last_ns = now_ns;
  }
  l->lost = true;
  return false;
}

void ls_loader_destroy(ls_loader_t *l) {
  if (!l) return;
  if (l->lost) { /* what a thread may still use is not freed */
    pthread_detach(l->thread);
    return;
  }
  atomic_store(&l->stop, true);
  ls_signal_add(&l->released); /* the thread waits for one unit at most */
  if (l->spec.threads > 0) pthread_join(l->thread, NULL);
  if (l->spec.times) *l->spec.times = ls_filler_times(l->filler);
  ls_filler_destroy(l->filler);
  ls_free(l->slots);
  ls_free(l);
}

ls_status_t ls_loader_acquire(ls_loader_t *l, int64_t unit) {
  if (unit >= l->units) return LS_OK;
  if (unit - l->slot_count >= l->next_release)
    return ls_fail(l->ctx, LS_ERR_INTERNAL, "micro-batch %" PRId64 " is asked for while its slot is in use",
                   unit);
  bool filled = unit < atomic_load(&l->failed) && (l->spec.threads == 0 ? fill_now : wait_filled)(l, unit);
  if (unit >= atomic_load(&l->failed)) return l->status;
  if (filled) return LS_OK;
  return ls_fail(l->ctx, LS_ERR_TIMEOUT,
                 "step %" PRId64
                 ": its batch was not there within %.3f s: the thread that loads data does not answer",
                 unit / l->spec.micro_batches, (double)l->spec.deadline_ns * 1e-9);
}

void ls_loader_release(ls_loader_t *l, int64_t unit) {
  for (; l->next_release <= unit; l->next_release++)
    ls_signal_add(&l->released);
}
