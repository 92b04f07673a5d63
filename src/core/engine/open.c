/* Opening: device, connections, programs, memory, in that order. */
#include "base/process.h"
#include "comm/transport.h"
#include "engine/engine.h"

#include <string.h>

/* Address space that must be left after the engine's own memory: oneDNN writes code for its products there,
 * and crashes if it cannot; a thread needs its stack. */
enum { ROOM_BYTES = 32 << 20 };

static ls_step_spec_t spec_of(const ls_engine_t *e, ls_step_kind_t kind, int64_t rows) {
  return (ls_step_spec_t){.step = e->options.step,
                          .kind = kind,
                          .rank = e->comm->rank,
                          .world_size = e->comm->size,
                          .rows = rows,
                          .data_rows = e->data_rows,
                          .backend = e->backend,
                          .table = e->table};
}

/* Declares all that is saved, before data are read. A graph of one row has the same parameters as any other. */
static ls_status_t declare(ls_engine_t *e, bool training) {
  ls_step_spec_t spec = spec_of(e, training ? LS_STEP_TRAIN : LS_STEP_PREDICT, 1);
  spec.data_rows = 0;
  return ls_step_declare(e->ctx, &spec, &e->table);
}

ls_status_t ls_engine_open(ls_ctx_t *ctx, const ls_engine_options_t *options, ls_engine_t *e) {
  ls_comm_t *comm = options->comm;
  const ls_step_options_t *step = &options->step;
  *e = (ls_engine_t){.ctx = ctx,
                     .options = *options,
                     .comm = comm,
                     .exchange = options->exchange ? options->exchange : comm,
                     .data_rows = options->data_rows};
  ls_status_t status = ls_backend_find(ctx, options->backend, &e->backend);
  if (status == LS_OK) status = ls_backend_check_math(ctx, e->backend, step->math);
  if (status != LS_OK) return status;
  e->lag = e->backend->synchronous ? 0 : 1;
  e->threads = options->threads;
  if (e->threads == 0) e->threads = ls_cpu_count() / comm->local_size;
  if (e->threads < 1) e->threads = 1;
  if (e->backend->host_processors && options->bind && e->threads <= ls_cpu_count() / comm->local_size)
    ls_cpu_narrow(comm->local_rank, comm->local_size, &e->unbound);
  if (options->share)
    e->share = *options->share;
  else
    ls_engine_share(step->batching, comm->rank, comm->size, &e->share);
  if (!e->backend->host_processors) {
    int devices = e->backend->device->count(ctx);
    if (comm->local_rank >= devices)
      return ls_fail(ctx, LS_ERR_DEVICE,
                     "rank %d is number %d on its node, but the node has %d %s device%s; start fewer ranks",
                     comm->rank, comm->local_rank + 1, devices, e->backend->name, LS_PLURAL(devices));
  }
  ls_device_options_t device = {.index = comm->local_rank,
                                .threads = e->threads,
                                .reproducible = step->options.reproducible,
                                .strict_sums = step->strict_sums,
                                .math = step->math};
  status = e->backend->device->open(ctx, &device, &e->device);
  if (status == LS_OK) status = e->backend->stream->create(e->device, LS_STREAM_INLINE, &e->stream);
  return status == LS_OK ? declare(e, options->training) : status;
}

ls_status_t ls_engine_connect(ls_engine_t *e) {
  const char *transport = e->options.transport;
  ls_status_t status = ls_transport_connect(e->ctx, transport, e->device, e->comm, &e->exchange);
  e->own_exchange = e->exchange != e->comm;
  return status;
}

ls_status_t ls_engine_lower(ls_engine_t *e, ls_step_kind_t kind, int64_t rows) {
  if (e->step[kind].program.count) return LS_OK;
  const ls_step_spec_t spec = spec_of(e, kind, rows);
  ls_status_t status = ls_step_lower(e->ctx, &spec, &e->step[kind]);
  return status == LS_OK ? ls_program_check(&e->step[kind].program) : status;
}

ls_status_t ls_engine_allocate(ls_engine_t *e, bool staging) {
  ls_status_t status = ls_state_create(e->ctx, e->table, e->device, staging, &e->state);
  if (status != LS_OK) return status;
  for (int i = 0; i < LS_STEP_KINDS; i++) {
    size_t size_bytes = ls_program_bytes(&e->step[i].program, LS_REGION_TRANSIENT);
    if (size_bytes > e->transient_bytes) e->transient_bytes = size_bytes;
  }
  if (e->transient_bytes > 0)
    status = e->backend->buffer->alloc(e->device, LS_MEM_DEVICE, e->transient_bytes, &e->transient);
  return status == LS_OK ? ls_process_room(e->ctx, ROOM_BYTES, "oneDNN and the run's threads") : status;
}

ls_status_t ls_engine_bind(ls_engine_t *e, ls_run_timing_t timed) {
  const ls_run_options_t options = {.timed = timed,
                                    .deadline_ns = e->comm->deadline_ns,
                                    .transient = e->transient,
                                    .transient_bytes = e->transient_bytes};
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_STEP_KINDS && status == LS_OK; i++) {
    ls_step_t *m = &e->step[i];
    ls_comm_t *comm = i == LS_STEP_TRAIN ? e->exchange : NULL;
    if (m->program.count && !m->run)
      status = ls_run_create(e->ctx, &m->program, e->device, comm, e->state, &options, &m->run);
  }
  return status;
}

void ls_engine_unbind(ls_engine_t *e) {
  for (int i = 0; i < LS_STEP_KINDS; i++) {
    ls_run_destroy(e->step[i].run);
    e->step[i].run = NULL;
  }
}

ls_status_t ls_engine_fill(ls_engine_t *e, bool again) {
  return (again ? ls_state_refill : ls_state_fill)(e->state, e->stream, e->options.seed,
                                                   e->comm->deadline_ns);
}

ls_status_t ls_engine_begin_mean(ls_engine_t *e) {
  return ls_state_copy_parameters(e->state, e->stream, e->comm->deadline_ns);
}

void ls_engine_close(ls_engine_t *e) {
  ls_engine_stop(e);
  for (int i = 0; i < LS_STEP_KINDS; i++)
    ls_step_release(&e->step[i]);
  if (e->transient) e->backend->buffer->free(e->device, LS_MEM_DEVICE, e->transient);
  ls_state_destroy(e->state);
  if (e->own_exchange) ls_comm_destroy(e->exchange);
  ls_state_table_release(e->table);
  if (e->stream) e->backend->stream->destroy(e->stream);
  if (e->device) e->backend->device->close(e->device);
  ls_cpu_widen(&e->unbound);
  memset(e, 0, sizeof *e);
}
