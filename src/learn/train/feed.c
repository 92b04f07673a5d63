/* The samples of an engine: copied to its device, or filled by a loader's threads. */
#include "train/feed.h"

enum {
  LOADER_THREADS_MAX = 8,
  LOADER_SPIN_NS = 100000,
  ROW_COST_BYTES = 128,    /* the cost of finding a row, as bytes that are copied meanwhile */
  DIRECT_BYTES = 24 << 10, /* are copied in about 3 us */
  ROWS_PER_THREAD = 4096   /* filling so many row numbers takes about as long as handing out the work */
};

ls_status_t ls_feed_upload(ls_engine_t *e, const ls_dataset_t *d) {
  const void *const from[] = {d->features, d->targets};
  static const char *const names[] = {LS_NAME_FEATURES, LS_NAME_TARGETS};
  if (ls_state_find(e->table, LS_NAME_FEATURES) < 0) return LS_OK;
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_COUNT(names) && status == LS_OK; i++) {
    int row = ls_state_find(e->table, names[i]);
    status = e->backend->stream->copy(e->stream, e->state->data[row], from[i],
                                      ls_state_row_bytes(&e->table->row[row]));
  }
  return status == LS_OK ? e->backend->stream->sync(e->stream, e->comm->deadline_ns) : status;
}

int ls_feed_decoders(const ls_engine_t *e, const ls_dataset_t *d) {
  return d->images && !d->features ? e->threads : 0;
}

int ls_feed_threads(const ls_backend_t *backend, int threads, int64_t rows, int64_t row_bytes,
                    bool resident) {
  if (backend->host_processors) return rows * (ROW_COST_BYTES + row_bytes) > DIRECT_BYTES;
  int64_t most = resident ? rows / ROWS_PER_THREAD : LOADER_THREADS_MAX;
  if (most > LOADER_THREADS_MAX) most = LOADER_THREADS_MAX;
  if (most > threads) most = threads;
  return most < 1 ? 1 : (int)most;
}

ls_batch_t ls_feed_batch(const ls_engine_t *e, ls_step_kind_t kind, int slot) {
  ls_run_t *run = e->step[kind].run;
  return (ls_batch_t){.x = ls_run_input(run, LS_NAME_X, slot),
                      .target = ls_run_input(run, LS_NAME_TARGET, slot),
                      .weight = ls_run_input(run, LS_NAME_WEIGHT, slot),
                      .step = ls_run_input(run, LS_NAME_STEP, slot),
                      .row = ls_run_input(run, LS_NAME_ROWS, slot)};
}

static ls_status_t acquire(void *loader, int64_t unit) {
  return ls_loader_acquire(loader, unit);
}

static void release(void *loader, int64_t unit) {
  ls_loader_release(loader, unit);
}

static void destroy(void *loader) {
  ls_loader_destroy(loader);
}

ls_status_t ls_feed_start(ls_engine_t *e, const ls_feed_t *feed) {
  const ls_sample_t *sample = &feed->dataset->sample;
  const int64_t row_bytes = (int64_t)(ls_shape_bytes(&sample->x) + ls_shape_bytes(&sample->target));
  const int filling = ls_feed_threads(e->backend, e->threads, e->share.rows, row_bytes, e->data_rows > 0),
            decoding = ls_feed_decoders(e, feed->dataset);
  const ls_loader_spec_t spec = {.part = LS_PART_TRAIN,
                                 .seed = feed->seed,
                                 .shuffle = true,
                                 .global_batch = e->options.step.batching.batch,
                                 .first = e->share.first,
                                 .rows = e->share.rows,
                                 .stride = e->share.stride,
                                 .micro_batches = e->share.micro_batches,
                                 .origin = feed->origin,
                                 .total_samples = feed->total_samples,
                                 .total_steps = feed->total_steps,
                                 .lr = feed->lr,
                                 .lr_user = feed->lr_user,
                                 .deadline_ns = e->comm->deadline_ns,
                                 .threads = decoding > filling ? decoding : filling,
                                 .times = feed->times,
                                 .spin_ns = e->backend->host_processors ? 0 : LOADER_SPIN_NS};
  ls_batch_t slots[LS_ENGINE_SLOTS];
  for (int i = 0; i < LS_ENGINE_SLOTS; i++)
    slots[i] = ls_feed_batch(e, LS_STEP_TRAIN, i);
  ls_loader_t *loader;
  ls_status_t status =
      ls_loader_create(e->ctx, feed->dataset, &spec, feed->first_step, LS_ENGINE_SLOTS, slots, &loader);
  if (status != LS_OK) return status;
  const ls_engine_steps_t steps = {.acquire = acquire,
                                   .release = release,
                                   .close = destroy,
                                   .source = loader,
                                   .first_step = feed->first_step,
                                   .total_steps = feed->total_steps,
                                   .observer = feed->observer};
  return ls_engine_start(e, &steps);
}
