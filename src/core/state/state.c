/* The memory of one rank's state: allocates it, fills it, and copies saved rows to the host. */
#include "state/state.h"

#include <string.h>

static bool is_host(const ls_state_t *state) {
  return state->device->backend->host_memory;
}

static ls_status_t allocate(ls_state_t *s, bool staging) {
  const ls_buffer_ops_t *buffer = s->device->backend->buffer;
  ls_status_t status = LS_OK;
  for (int i = 0; i < s->count && !status; i++) {
    const ls_state_row_t *row = &s->table->row[i];
    size_t size_bytes = ls_state_row_bytes(row);
    if (size_bytes == 0) continue;
    status = buffer->alloc(s->device, LS_MEM_DEVICE, size_bytes, &s->data[i]);
    if (status || row->file == LS_STATE_UNSAVED) continue;
    if (is_host(s))
      s->host[i] = s->data[i];
    else if (staging)
      status = buffer->alloc(s->device, LS_MEM_HOST, size_bytes, &s->host[i]);
  }
  return status;
}

ls_status_t ls_state_create(ls_ctx_t *ctx, ls_state_table_t *table, ls_device_t *device, bool staging,
                            ls_state_t **state) {
  size_t room = table->count ? (size_t)table->count : 1;
  ls_state_t *s = ls_alloc(ctx, sizeof *s);
  if (!s) return LS_ERR_MEMORY;
  *s = (ls_state_t){.table = ls_state_table_hold(table), .device = device, .count = table->count};
  s->data = ls_alloc_array(ctx, room, sizeof *s->data);
  s->host = ls_alloc_array(ctx, room, sizeof *s->host);
  ls_status_t status = s->data && s->host ? allocate(s, staging) : LS_ERR_MEMORY;
  if (status) {
    ls_state_destroy(s);
    return status;
  }
  *state = s;
  ls_state_changed(s);
  return LS_OK;
}

void ls_state_changed(const ls_state_t *state) {
  state->device->epoch++;
}

void ls_state_destroy(ls_state_t *state) {
  if (!state) return;
  const ls_buffer_ops_t *buffer = state->device->backend->buffer;
  for (int i = 0; i < state->count; i++) {
    if (state->host && !is_host(state)) buffer->free(state->device, LS_MEM_HOST, state->host[i]);
    if (state->data) buffer->free(state->device, LS_MEM_DEVICE, state->data[i]);
  }
  ls_free(state->host);
  ls_free(state->data);
  ls_state_table_release(state->table);
  ls_free(state);
}

/* This rank's ranges of the whole, packed. */
static void pack(const ls_state_row_t *row, const char *whole, char *to) {
  size_t each = ls_dtype_bytes(row->shape.dtype);
  for (int i = 0; i < row->range_count; i++) {
    size_t size_bytes = (size_t)(row->range[i].end - row->range[i].begin) * each;
    memcpy(to, whole + (size_t)row->range[i].begin * each, size_bytes);
    to += size_bytes;
  }
}

static ls_status_t fill_row(ls_state_t *s, int i, ls_stream_t *stream, uint64_t seed, int64_t deadline_ns) {
  const ls_state_row_t *row = &s->table->row[i];
  const ls_stream_ops_t *ops = s->device->backend->stream;
  bool whole = row->owner != LS_STATE_SHARDED;
  ls_state_changed(s);
  if (is_host(s) && whole) {
    memset(s->data[i], 0, ls_state_row_bytes(row));
    if (row->fill) row->fill(row, s->table->layout, seed, s->data[i]);
    return LS_OK;
  }
  char *values = ls_alloc(s->table->ctx, ls_shape_bytes(&row->shape));
  char *own = whole ? values : ls_alloc(s->table->ctx, ls_state_row_bytes(row));
  ls_status_t status = values && own ? LS_OK : LS_ERR_MEMORY;
  if (!status) {
    if (row->fill) row->fill(row, s->table->layout, seed, values);
    if (!whole) pack(row, values, own);
    status = ops->copy(stream, s->data[i], own, ls_state_row_bytes(row));
    if (!status) status = ops->sync(stream, deadline_ns);
  }
  if (!whole) ls_free(own);
  ls_free(values);
  return status;
}

ls_status_t ls_state_copy_parameters(ls_state_t *state, ls_stream_t *stream, int64_t deadline_ns) {
  const ls_stream_ops_t *ops = state->device->backend->stream;
  ls_status_t status = LS_OK;
  int copies = 0;
  for (int i = 0; i < state->count && !status; i++) {
    const ls_state_row_t *row = &state->table->row[i];
    if (!row->copies_parameters || !state->data[i]) continue;
    status = ops->copy(stream, state->data[i], state->data[LS_STATE_PARAMETERS], ls_state_row_bytes(row));
    copies++;
  }
  if (copies == 0) return LS_OK;
  ls_state_changed(state);
  return status ? status : ops->sync(stream, deadline_ns);
}

ls_status_t ls_state_fill(ls_state_t *state, ls_stream_t *stream, uint64_t seed, int64_t deadline_ns) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < state->count && !status; i++)
    if (state->table->row[i].fill && state->data[i]) status = fill_row(state, i, stream, seed, deadline_ns);
  return status ? status : ls_state_copy_parameters(state, stream, deadline_ns);
}

ls_status_t ls_state_refill(ls_state_t *state, ls_stream_t *stream, uint64_t seed, int64_t deadline_ns) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < state->count && !status; i++)
    if (state->table->row[i].life == LS_STATE_CARRIED && state->data[i])
      status = fill_row(state, i, stream, seed, deadline_ns);
  return status ? status : ls_state_copy_parameters(state, stream, deadline_ns);
}

static ls_status_t move(ls_state_t *s, ls_stream_t *stream, bool back, int64_t deadline_ns) {
  const ls_stream_ops_t *ops = s->device->backend->stream;
  if (back) ls_state_changed(s);
  if (is_host(s)) return LS_OK;
  ls_status_t status = LS_OK;
  for (int i = 0; i < s->count && !status; i++) {
    if (!s->host[i]) continue;
    void *to = back ? s->data[i] : s->host[i], *from = back ? s->host[i] : s->data[i];
    status = ops->copy(stream, to, from, ls_state_row_bytes(&s->table->row[i]));
  }
  return status ? status : ops->sync(stream, deadline_ns);
}

ls_status_t ls_state_pull(ls_state_t *state, ls_stream_t *stream, int64_t deadline_ns) {
  return move(state, stream, false, deadline_ns);
}

ls_status_t ls_state_push(ls_state_t *state, ls_stream_t *stream, int64_t deadline_ns) {
  return move(state, stream, true, deadline_ns);
}
