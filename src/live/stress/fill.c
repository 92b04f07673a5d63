/* Memory: takes it up to a share, and sweeps over it for as long as the machine is burned in, through the op turn_words:
 * the device itself checks every word right before it writes it again. */
#include "device/words.h"
#include "graph/low.h"
#include "graph/ops/ops.h"
#include "stress/parts.h"

#include <math.h>
#include <string.h>

enum { CHUNKS_MAX = 4096, AHEAD = 64 };
/* Sizes of an allocation, and of a check between two looks at the clock. */
static const size_t chunk_bytes = (size_t)256 << 20, host_piece_bytes = (size_t)16 << 20;
/* Memory that always stays free for other users of the node. */
static const int64_t reserve_bytes = (int64_t)256 << 20;

typedef struct {
  uint32_t *words;
  size_t bytes;
} chunk_t;

struct ls_stress_fill {
  ls_ctx_t *ctx;
  ls_device_t *device;
  const ls_backend_t *backend;
  ls_stream_t *stream;
  ls_event_t *from, *to;
  ls_kernel_fn turn;
  int (*stop)(void);
  chunk_t chunk[CHUNKS_MAX];
  int chunk_count;
  int64_t *wrong; /* of the device: words */
  int64_t total_bytes, before_bytes, want_bytes, own_bytes;
  int ranks;    /* that share the memory, and take equal parts of it */
  int chunk_at; /* where the sweep is */
  size_t offset;
  int64_t first_word; /* of the chunk */
  int64_t sweep, checked_bytes, wrong_words;
  double busy_ns;
};

/* Puts the check of a piece on the stream. sweep 0: it holds nothing yet. */
static ls_status_t turn(ls_stress_fill_t *f, uint32_t *words, size_t bytes, int64_t first, int64_t sweep) {
  const int64_t count = (int64_t)(bytes / sizeof *words);
  const ls_attrs_t attrs = {.i = {[LS_TURN_COUNT] = count,
                                  [LS_TURN_FIRST] = first,
                                  [LS_TURN_SWEEP] = sweep,
                                  [LS_TURN_CHECK] = sweep > 0}};
  const ls_tensor_t out[] = {{words, LS_SHAPE(LS_I32, count)}, {f->wrong, LS_SHAPE(LS_I64, 1)}};
  ls_kernel_args_t args = {.attrs = &attrs, .out = out, .out_count = 2};
  char lacks[LS_KERNEL_TEXT_BYTES];
  if (!f->turn) f->turn = ls_op_kernel(f->device, &ls_op_turn_words, &args, lacks);
  if (!f->turn) return ls_fail(f->ctx, LS_ERR_UNSUPPORTED, "backend %s has no %s", f->backend->name, lacks);
  return f->backend->stream->launch(f->stream, f->turn, &args);
}

static ls_status_t copy(ls_stress_fill_t *f, void *to, const void *from, size_t bytes) {
  ls_status_t status = f->backend->stream->copy(f->stream, to, from, bytes);
  return status == LS_OK ? f->backend->stream->sync(f->stream, LS_STRESS_DEADLINE_S * INT64_C(1000000000))
                         : status;
}

static bool stopping(const ls_stress_fill_t *f) {
  return f->stop && f->stop();
}

/* ---- taking it ---- */

static ls_status_t in_use(ls_stress_fill_t *f, int64_t *used) {
  if (f->backend->device->memory) return f->backend->device->memory(f->device, used, &f->total_bytes);
  int64_t left = ls_machine_memory_free("");
  f->total_bytes = ls_machine_memory("");
  if (left < 0 || f->total_bytes < 0)
    return ls_fail(f->ctx, LS_ERR_UNSUPPORTED, "the system does not say how much memory is free");
  *used = f->total_bytes - left;
  return LS_OK;
}

static ls_status_t take(ls_stress_fill_t *f, size_t bytes, int64_t *first) {
  void *memory;
  ls_status_t status = f->backend->buffer->alloc(f->device, LS_MEM_DEVICE, bytes, &memory);
  if (status != LS_OK) return status;
  f->chunk[f->chunk_count++] = (chunk_t){memory, bytes};
  f->own_bytes += (int64_t)bytes;
  status = turn(f, memory, bytes, *first, 0);
  *first += (int64_t)(bytes / sizeof(uint32_t));
  return status == LS_OK ? f->backend->stream->sync(f->stream, 0) : status;
}

/* Takes whole pages, so that the device's count is exact, and at least one piece, so that some memory is checked whatever others
 * use. */
static ls_status_t take_all(ls_stress_fill_t *f, double share) {
  const int64_t page = f->backend->buffer->page_bytes > 4096 ? (int64_t)f->backend->buffer->page_bytes : 4096;
  int64_t first = 0;
  ls_status_t status = in_use(f, &f->before_bytes);
  f->want_bytes = (int64_t)(share * (double)f->total_bytes);
  int64_t left = (f->want_bytes - f->before_bytes) / f->ranks;
  const int64_t most = (f->total_bytes - f->before_bytes - reserve_bytes) / f->ranks;
  if (left < (int64_t)host_piece_bytes) left = (int64_t)host_piece_bytes;
  if (left > most) left = most;
  for (left -= left % page; left > 0 && f->chunk_count < CHUNKS_MAX && status == LS_OK && !stopping(f);) {
    size_t bytes = left < (int64_t)chunk_bytes ? (size_t)left : chunk_bytes;
    status = take(f, bytes, &first);
    left -= (int64_t)bytes;
  }
  f->sweep = 1;
  return status;
}

ls_status_t ls_fill_open(ls_ctx_t *ctx, ls_device_t *device, double share, int ranks, int (*stop)(void),
                         ls_stress_fill_t **out) {
  const ls_backend_t *b = device->backend;
  ls_stress_fill_t *f = ls_alloc(ctx, sizeof *f);
  if (!f) return LS_ERR_MEMORY;
  f->ctx = ctx;
  f->device = device;
  f->backend = b;
  f->stop = stop;
  f->ranks = b->device->memory ? 1 : ranks;
  ls_status_t status = b->stream->create(device, LS_STREAM_INLINE, &f->stream);
  if (status == LS_OK) status = b->stream->event_create(device, true, &f->from);
  if (status == LS_OK) status = b->stream->event_create(device, true, &f->to);
  if (status == LS_OK) status = b->buffer->alloc(device, LS_MEM_DEVICE, sizeof *f->wrong, (void **)&f->wrong);
  if (status == LS_OK) status = take_all(f, share);
  if (status == LS_OK)
    *out = f;
  else
    ls_fill_close(f);
  return status;
}

void ls_fill_close(ls_stress_fill_t *f) {
  if (!f) return;
  for (int i = 0; i < f->chunk_count; i++)
    f->backend->buffer->free(f->device, LS_MEM_DEVICE, f->chunk[i].words);
  f->backend->buffer->free(f->device, LS_MEM_DEVICE, f->wrong);
  if (f->from) f->backend->stream->event_destroy(f->from);
  if (f->to) f->backend->stream->event_destroy(f->to);
  if (f->stream) f->backend->stream->destroy(f->stream);
  ls_free(f);
}

/* Flips a bit of a word. */
static ls_status_t spoil(ls_stress_fill_t *f, uint32_t *at) {
  uint32_t word;
  ls_status_t status = copy(f, &word, at, sizeof word);
  word ^= 1u << 7;
  return status == LS_OK ? copy(f, at, &word, sizeof word) : status;
}

/* The next piece, wherever the sweep is. */
static ls_status_t step(ls_stress_fill_t *f, bool *plant) {
  const chunk_t *c = &f->chunk[f->chunk_at];
  size_t left = c->bytes - f->offset, word = f->offset / sizeof(uint32_t),
         part = f->backend->synchronous && left > host_piece_bytes ? host_piece_bytes : left;
  ls_status_t status = *plant ? spoil(f, c->words + word + part / sizeof(uint32_t) / 2) : LS_OK;
  if (status == LS_OK) status = turn(f, c->words + word, part, f->first_word + (int64_t)word, f->sweep);
  *plant = false;
  f->checked_bytes += (int64_t)part;
  f->offset += part;
  if (f->offset < c->bytes) return status;
  f->first_word += (int64_t)(c->bytes / sizeof(uint32_t));
  f->offset = 0;
  if (++f->chunk_at < f->chunk_count) return status;
  f->chunk_at = 0;
  f->first_word = 0;
  f->sweep++;
  return status;
}

/* Pieces for as long as the budget lasts; on a device of its own many are on the stream at a time. */
ls_status_t ls_fill_sweep(ls_stress_fill_t *f, int64_t budget_ns, bool *plant) {
  const ls_stream_ops_t *stream = f->backend->stream;
  const int64_t begin = ls_clock_ns();
  const int ahead = f->backend->synchronous ? 1 : AHEAD;
  ls_status_t status = LS_OK;
  while (f->chunk_count > 0 && status == LS_OK && ls_clock_ns() - begin < budget_ns && !stopping(f)) {
    int64_t ns = 0;
    status = stream->record(f->stream, f->from);
    for (int i = 0; i < ahead && status == LS_OK; i++)
      status = step(f, plant);
    if (status == LS_OK) status = stream->record(f->stream, f->to);
    if (status == LS_OK) status = copy(f, &f->wrong_words, f->wrong, sizeof f->wrong_words);
    if (status == LS_OK) status = stream->elapsed(f->from, f->to, &ns);
    f->busy_ns += (double)ns;
  }
  return status;
}

double ls_fill_busy_ns(const ls_stress_fill_t *f) {
  return f->busy_ns;
}

/* A device says itself what is in use. On a host others come and go, so what was in use at the beginning counts. */
void ls_fill_report(ls_stress_fill_t *f, ls_stress_memory_t *m) {
  int64_t used = 0;
  *m = (ls_stress_memory_t){.bytes = f->total_bytes,
                            .before_bytes = f->before_bytes,
                            .want_bytes = f->want_bytes,
                            .used_bytes = f->before_bytes + f->ranks * f->own_bytes,
                            .checked_bytes = f->checked_bytes,
                            .wrong = f->wrong_words};
  if (f->backend->device->memory && in_use(f, &used) == LS_OK) m->used_bytes = used;
}
