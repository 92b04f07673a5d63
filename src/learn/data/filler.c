/* A pool of threads that fill micro-batches. Samples that are made of pictures are dealt out one by one, because some take longer
 * than others; rows that are copied go in contiguous shares. */
#include "data/picture/augment.h"

#include "base/thread.h"

#include <stdatomic.h>

struct ls_filler {
  const ls_dataset_t *dataset;
  ls_pool_t *pool; /* NULL: the calling thread alone */
  int threads;
  ls_batch_work_t *work; /* (threads) */
  /* the present micro-batch: */
  const ls_loader_spec_t *spec;
  const ls_batch_t *to;
  int64_t unit;
  _Atomic int64_t next; /* next row to fill */
  _Atomic int status;   /* the first failure */
};

ls_status_t ls_filler_create(ls_ctx_t *ctx, const ls_dataset_t *dataset, int threads, ls_filler_t **filler) {
  ls_filler_t *f = ls_alloc(ctx, sizeof *f);
  if (!f) return LS_ERR_MEMORY;
  f->dataset = dataset;
  f->threads = threads > 1 ? threads : 1;
  f->work = ls_alloc_array(ctx, (size_t)f->threads, sizeof *f->work);
  ls_status_t status = !f->work      ? LS_ERR_MEMORY
                       : threads > 1 ? ls_pool_create(ctx, threads, &f->pool)
                                     : LS_OK;
  if (status != LS_OK)
    ls_filler_destroy(f);
  else
    *filler = f;
  return status;
}

void ls_filler_destroy(ls_filler_t *f) {
  if (!f) return;
  ls_pool_destroy(f->pool);
  for (int i = 0; f->work && i < f->threads; i++)
    ls_batch_work_release(&f->work[i]);
  ls_free(f->work);
  ls_free(f);
}

static void fill_share(ls_filler_t *f, int thread, int part, int parts) {
  ls_status_t status = ls_batch_fill_part(f->dataset, f->spec, f->unit, f->to, part, parts, &f->work[thread]);
  int none = LS_OK;
  if (status != LS_OK) atomic_compare_exchange_strong(&f->status, &none, (int)status);
}

static void fill_some(void *arg, int thread, int threads) {
  ls_filler_t *f = arg;
  bool dealt = f->dataset->images && !f->dataset->features && threads > 1;
  int64_t rows = f->spec->rows, row;
  if (!dealt) {
    fill_share(f, thread, thread, threads);
    return;
  }
  while (atomic_load(&f->status) == LS_OK && (row = atomic_fetch_add(&f->next, 1)) < rows)
    fill_share(f, thread, (int)row, (int)rows);
}

ls_status_t ls_filler_fill(ls_filler_t *f, const ls_loader_spec_t *spec, int64_t unit, const ls_batch_t *to) {
  f->spec = spec;
  f->unit = unit;
  f->to = to;
  atomic_store(&f->next, 0);
  atomic_store(&f->status, LS_OK);
  ls_pool_run(f->pool, fill_some, f);
  ls_status_t status = (ls_status_t)atomic_load(&f->status);
  return status == LS_OK ? ls_dataset_check(f->dataset) : status;
}

ls_input_times_t ls_filler_times(const ls_filler_t *f) {
  ls_input_times_t sum = {0};
  for (int i = 0; i < f->threads; i++) {
    const ls_input_times_t *t = &f->work[i].times;
    sum.read_ns += t->read_ns;
    sum.decode_ns += t->decode_ns;
    sum.augment_ns += t->augment_ns;
    sum.copy_ns += t->copy_ns;
    sum.samples += t->samples;
  }
  return sum;
}
