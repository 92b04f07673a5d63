/* Things that can be timed: an op on tensors of its own, a hand-over between lanes, a copy between host and
 * device. */
#include "probe/meter.h"

#include "graph/low.h"
#include "probe/probe.h"
#include "probe/task_key.h"

#include <stdio.h>
#include <string.h>

enum { TILE_FLOATS = 1 << 14 };

static ls_status_t add(ls_meter_t *b, const char *key, double bytes,
                       ls_status_t (*issue)(ls_meter_t *, void *), void *arg, ls_meter_item_t **out) {
  if (b->count == LS_METER_ITEMS_MAX)
    return ls_fail(b->ctx, LS_ERR_INTERNAL, "probe: more than %d things to time", LS_METER_ITEMS_MAX);
  ls_meter_item_t *item = &b->items[b->count++];
  item->bytes = bytes;
  item->issue = issue;
  item->arg = arg;
  snprintf(item->key, sizeof item->key, "%s", key);
  if (out) *out = item;
  return LS_OK;
}

/* Fills memory with numbers in [-1, 1], one tile of them repeated. Zeros would be too easy for some hardware. */
static ls_status_t fill(ls_meter_t *b, void *memory, size_t size_bytes) {
  float *tile = ls_alloc_array(b->ctx, TILE_FLOATS, sizeof *tile);
  if (!tile) return LS_ERR_MEMORY;
  for (int i = 0; i < TILE_FLOATS; i += 4) {
    ls_rng4_t words = ls_rng(1, LS_RNG_SYNTHETIC, (uint64_t)i);
    for (int k = 0; k < 4; k++)
      tile[i + k] = 2 * ls_rng_unit(words.v[k]) - 1;
  }
  const size_t tile_bytes = TILE_FLOATS * sizeof *tile;
  ls_status_t status = LS_OK;
  for (size_t done = 0; done < size_bytes && status == LS_OK; done += tile_bytes) {
    size_t part = size_bytes - done < tile_bytes ? size_bytes - done : tile_bytes;
    status = b->backend->stream->copy(b->stream, (char *)memory + done, tile, part);
  }
  if (status == LS_OK) status = b->backend->stream->sync(b->stream, 0);
  ls_free(tile);
  return status;
}

ls_status_t ls_meter_memory(ls_meter_t *b, size_t size_bytes, void **out) {
  void *memory;
  if (b->memory_count == LS_COUNT(b->memory))
    return ls_fail(b->ctx, LS_ERR_INTERNAL, "probe: more than %d buffers", LS_COUNT(b->memory));
  ls_status_t status = b->backend->buffer->alloc(b->device, LS_MEM_DEVICE, size_bytes, &memory);
  if (status != LS_OK) return status;
  b->memory[b->memory_count++] = memory;
  status = fill(b, memory, size_bytes);
  if (status == LS_OK) *out = memory;
  return status;
}

typedef struct {
  ls_kernel_fn kernel;
  ls_attrs_t attrs;
  ls_tensor_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  ls_kernel_args_t args;
} op_item_t;

static ls_status_t issue_op(ls_meter_t *b, void *arg) {
  const op_item_t *item = arg;
  return b->backend->stream->launch(b->stream, item->kernel, &item->args);
}

void ls_probe_op_key(const ls_backend_t *backend, ls_math_t math, int threads, const ls_op_t *op,
                     const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out,
                     char key[LS_PROFILE_KEY_BYTES]) {
  ls_sched_tensor_t tensors[LS_NODE_IN_MAX + LS_NODE_OUT_MAX] = {0};
  ls_task_t task = {
      .kind = LS_TASK_OP, .op = op, .attrs = *attrs, .in_count = op->in_count, .out_count = op->out_count};
  int count = 0;
  for (int i = 0; i < op->in_count; i++) {
    task.in[i] = count;
    tensors[count++].shape = in[i];
  }
  for (int i = 0; i < op->out_count; i++) {
    task.out[i] = count;
    tensors[count++].shape = out[i];
  }
  ls_schedule_t schedule = {.tasks = &task, .task_count = 1, .tensors = tensors, .tensor_count = count};
  char name[LS_BACKEND_KEY_BYTES];
  ls_task_key(&schedule, 0, ls_backend_key(backend, math, name), threads, key);
}

static ls_status_t bind(ls_meter_t *b, const ls_op_t *op, const ls_shape_t *in, op_item_t *item,
                        ls_shape_t *out) {
  ls_status_t status = ls_op_shape(b->ctx, op, &item->attrs, in, out);
  for (int i = 0; i < op->in_count && status == LS_OK; i++) {
    item->in[i].shape = in[i];
    status = ls_meter_memory(b, ls_shape_bytes(&in[i]), &item->in[i].data);
  }
  for (int i = 0; i < op->out_count && status == LS_OK; i++) {
    item->out[i].shape = out[i];
    status = ls_meter_memory(b, ls_shape_bytes(&out[i]), &item->out[i].data);
  }
  size_t scratch_bytes = ls_op_scratch(op, &item->attrs, in, out, b->backend->plain_c);
  void *scratch = NULL;
  if (status == LS_OK && scratch_bytes) status = ls_meter_memory(b, scratch_bytes, &scratch);
  item->args = (ls_kernel_args_t){&item->attrs,  item->in, op->in_count,  item->out,
                                  op->out_count, scratch,  scratch_bytes, NULL};
  return status;
}

ls_status_t ls_meter_add_op(ls_meter_t *b, const char *name, const ls_shape_t *in, const char *key,
                            double bytes, ls_meter_item_t **out) {
  const ls_op_t *op = ls_op_find(name);
  op_item_t *item = ls_arena_alloc(&b->arena, sizeof *item);
  if (!item) return LS_ERR_MEMORY;
  if (!op) return ls_fail(b->ctx, LS_ERR_INTERNAL, "probe: there is no op %s", name);
  ls_shape_t outputs[LS_NODE_OUT_MAX];
  ls_status_t status = bind(b, op, in, item, outputs);
  if (status != LS_OK) return status;
  char lacks[LS_KERNEL_TEXT_BYTES];
  item->kernel = ls_op_kernel(b->device, op, &item->args, lacks);
  if (!item->kernel)
    return ls_fail(b->ctx, LS_ERR_UNSUPPORTED, "probe: backend %s has no %s", b->backend->name, lacks);
  char own[LS_PROFILE_KEY_BYTES];
  if (!key) ls_probe_op_key(b->backend, b->device->math, b->threads, op, &item->attrs, in, outputs, own);
  ls_meter_item_t *added;
  status = add(b, key ? key : own, bytes, issue_op, item, &added);
  if (status != LS_OK) return status;
  added->flops = (double)ls_op_flops(op, &item->attrs, in, outputs);
  if (out) *out = added;
  return LS_OK;
}

/* The cost of a task on another lane, for compute that waits for it: two marks, two waits, an op on one number. */
static ls_status_t issue_hand_over(ls_meter_t *b, void *arg) {
  const op_item_t *item = arg;
  const ls_stream_ops_t *stream = b->backend->stream;
  ls_status_t status = stream->record(b->stream, b->there);
  if (status == LS_OK) status = stream->wait(b->other, b->there);
  if (status == LS_OK) status = stream->launch(b->other, item->kernel, &item->args);
  if (status == LS_OK) status = stream->record(b->other, b->back);
  if (status == LS_OK) status = stream->wait(b->stream, b->back);
  return status;
}

ls_status_t ls_meter_add_hand_over(ls_meter_t *b) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_DEVICE, b->backend->name, "hand-over", 0, b->threads});
  ls_meter_item_t *item;
  ls_status_t status = ls_meter_add_op(b, "copy", &LS_SHAPE(LS_F32, 1), key, -1, &item);
  if (status == LS_OK) item->issue = issue_hand_over;
  return status;
}

typedef struct {
  void *to;
  const void *from;
  size_t size_bytes;
} copy_item_t;

static ls_status_t issue_copy(ls_meter_t *b, void *arg) {
  const copy_item_t *item = arg;
  return b->backend->stream->copy(b->stream, item->to, item->from, item->size_bytes);
}

ls_status_t ls_meter_add_copy(ls_meter_t *b, bool in, size_t size_bytes) {
  void *device, *host;
  char key[LS_PROFILE_KEY_BYTES];
  copy_item_t *item = ls_arena_alloc(&b->arena, sizeof *item);
  if (!item) return LS_ERR_MEMORY;
  if (b->pinned_count == LS_COUNT(b->pinned))
    return ls_fail(b->ctx, LS_ERR_INTERNAL, "probe: more than %d buffers", LS_COUNT(b->pinned));
  ls_status_t status = ls_meter_memory(b, size_bytes, &device);
  if (status == LS_OK) status = b->backend->buffer->alloc(b->device, LS_MEM_HOST, size_bytes, &host);
  if (status != LS_OK) return status;
  b->pinned[b->pinned_count++] = host;
  *item = (copy_item_t){.to = in ? device : host, .from = in ? host : device, .size_bytes = size_bytes};
  ls_profile_key(
      key, (ls_profile_key_t){LS_KEY_DEVICE, b->backend->name, in ? "copy-in" : "copy-out", 0, b->threads});
  return add(b, key, (double)size_bytes, issue_copy, item, NULL);
}
