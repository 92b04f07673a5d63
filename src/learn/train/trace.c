/* The trace file: every rank's tasks of the last steps in one Chrome trace (https://ui.perfetto.dev). */
#include "train/trainer.h"

#include <string.h>

ls_status_t ls_trace_add(json_t *events, const ls_engine_t *engine, int64_t step, int m) {
  const int count = engine->share.accumulate;
  const ls_run_t *run = engine->step[LS_STEP_TRAIN].run;
  const ls_program_t *program = &engine->step[LS_STEP_TRAIN].program;
  const ls_schedule_t *s = program->member[ls_program_at(program, step, m)];
  int64_t unit = step * count + m;
  if (m >= LS_TRACE_ENDS && m < count - LS_TRACE_ENDS) return LS_OK;
  return ls_schedule_trace(s, ls_run_times(run), step, m, engine->launched_ns[unit % LS_ENGINE_SLOTS],
                           events);
}

/* Every rank in turn sends its events as text; rank 0 appends them. If one of them runs out of memory, events
 * are lost, so this is remembered; the exchange continues, because the others take part in it. */
static ls_status_t gather(ls_ctx_t *ctx, json_t *events, ls_comm_t *comm, ls_status_t *own) {
  ls_status_t status = LS_OK;
  for (int r = 1; r < comm->size && status == LS_OK; r++) {
    char *dump = comm->rank == r ? json_dumps(events, JSON_COMPACT) : NULL;
    int64_t size_bytes = dump ? (int64_t)strlen(dump) : 0;
    if (comm->rank == r && !dump) *own = ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the trace");
    status = ls_comm_broadcast(comm, "trace size", &size_bytes, sizeof size_bytes, r);
    char *text = status == LS_OK ? ls_alloc(ctx, (size_t)size_bytes + 1) : NULL;
    if (text && dump) memcpy(text, dump, (size_t)size_bytes);
    if (status == LS_OK)
      status = text ? ls_comm_broadcast(comm, "trace", text, size_bytes, r) : LS_ERR_MEMORY;
    if (status == LS_OK && comm->rank == 0 && size_bytes > 0) {
      json_t *theirs = json_loads(text, 0, NULL);
      if (!theirs || json_array_extend(events, theirs) != 0)
        *own = ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the trace of rank %d", r);
      json_decref(theirs);
    }
    ls_free(text);
    free(dump);
  }
  return status;
}

static ls_status_t write_document(ls_ctx_t *ctx, json_t *events, const char *path) {
  json_t *document = json_pack("{s:O, s:s}", "traceEvents", events, "displayTimeUnit", "ns");
  char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;
  ls_status_t status = text ? ls_file_replace(ctx, path, text, strlen(text))
                            : ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the trace");
  free(text);
  json_decref(document);
  return status;
}

ls_status_t ls_trace_write(ls_ctx_t *ctx, json_t *events, ls_comm_t *comm, const char *path) {
  ls_status_t own = LS_OK, status = gather(ctx, events, comm, &own);
  if (status != LS_OK) return status;
  if (own == LS_OK && comm->rank == 0) own = write_document(ctx, events, path);
  return ls_comm_agree(comm, "writing the trace", own);
}
