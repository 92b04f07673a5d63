/* The samples of an engine: copied to its device, or filled by a loader's threads. */
#include "engine/engine.h"

enum {
  LOADER_THREADS_MAX = 8,
  ROW_COST_BYTES = 128,    /* the cost of finding a row, as bytes that are copied meanwhile */
  DIRECT_BYTES = 24 << 10, /* are copied in about 3 us */
  ROWS_PER_THREAD = 4096   /* filling so many row numbers takes about as long as handing out the work */
};

ls_status_t ls_engine_upload(ls_engine_t *e, const ls_dataset_t *d) {
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

int ls_engine_input_threads(const ls_engine_t *e, const ls_dataset_t *d) {
  return d->images && !d->features ? e->threads : 0;
}

int ls_engine_loader_threads(const ls_backend_t *backend, int threads, int64_t rows, int64_t row_bytes,
                             bool resident) {
  if (backend->host_processors) return rows * (ROW_COST_BYTES + row_bytes) > DIRECT_BYTES;
  int64_t most = resident ? rows / ROWS_PER_THREAD : LOADER_THREADS_MAX;
  if (most > LOADER_THREADS_MAX) most = LOADER_THREADS_MAX;
  if (most > threads) most = threads;
  return most < 1 ? 1 : (int)most;
}
