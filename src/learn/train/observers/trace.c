/* The trace file: tasks of the last steps of every rank in one Chrome trace (https://ui.perfetto.dev), written by rank 0. Of
 * the micro-batches of a step it has the first and the last ENDS; those between are alike. */
#include "train/observers/observers.h"

#include <string.h>

enum { STEPS = 20, ENDS = 8 };

typedef struct {
  ls_trainer_t *t;
  json_t *events; /* NULL: this run is not traced */
  ls_status_t status;
} own_t;

static ls_status_t begin(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  o->status = LS_OK;
  if (!loop->hooks->trace_path || (o->events = json_array())) return LS_OK;
  return ls_fail(o->t->ctx, LS_ERR_MEMORY, "out of memory for the trace");
}

static void unit(void *own, const ls_loop_t *loop, int64_t step, int m) {
  own_t *o = own;
  const ls_engine_t *e = &loop->t->engine;
  const ls_step_t *train = &e->step[LS_STEP_TRAIN];
  const int count = e->share.micro_batches;
  if (!o->events || o->status != LS_OK || step < o->t->run.total_steps - STEPS) return;
  if (!ls_run_times(train->run) || (m >= ENDS && m < count - ENDS)) return;
  o->status = ls_schedule_trace(train->program.member[ls_program_at(&train->program, step, m)],
                                ls_run_times(train->run), step, m,
                                e->launched_ns[(step * count + m) % LS_ENGINE_SLOTS], o->events);
}

static ls_status_t after_step(void *own, const ls_loop_t *loop) {
  (void)loop;
  return ((const own_t *)own)->status;
}

/* Every rank in turn sends its events as text; rank 0 appends them. A rank that runs out of memory loses events. It notes
 * that in *own and goes on with the exchange, because the others take part in it. */
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

static void finish(void *own, const ls_loop_t *loop, ls_train_report_t *report) {
  const own_t *o = own;
  ls_comm_t *comm = o->t->world->comm;
  const char *path = loop->hooks->trace_path;
  const int left_out = o->t->engine.share.micro_batches - 2 * ENDS;
  if (!o->events) return;
  if (left_out > 0 && comm->rank == 0)
    ls_log(o->t->ctx, LS_LOG_WARN,
           "%s: of each step the trace has the first %d and the last %d micro-batches; %d between them are "
           "left out",
           path, ENDS, ENDS, left_out);
  ls_status_t written = LS_OK, status = gather(o->t->ctx, o->events, comm, &written);
  if (status == LS_OK && written == LS_OK && comm->rank == 0)
    written = write_document(o->t->ctx, o->events, path);
  report->trace = status == LS_OK ? ls_comm_agree(comm, "writing the trace", written) : status;
}

static void at_end(void *own, ls_status_t status) {
  (void)status;
  own_t *o = own;
  json_decref(o->events);
  o->events = NULL;
}

const ls_observer_t ls_observer_trace = {.name = "trace",
                                         .own_bytes = sizeof(own_t),
                                         .begin = begin,
                                         .unit = unit,
                                         .after_step = after_step,
                                         .finish = finish,
                                         .at_end = at_end};
