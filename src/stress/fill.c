/* Memory: takes it up to a share, and sweeps over it for as long as the machine is burned in. A word's pattern depends on
 * its place, so that a wrong address line is found, too, and turns over with every sweep, so that each bit is written
 * and read as 0 and as 1. Every word is checked right before it is written again. */
#include "stress/parts.h"

#include <math.h>
#include <string.h>

enum { CHUNKS_MAX = 4096, THREADS_MAX = 8 };
static const size_t chunk_bytes = (size_t)256 << 20, piece_bytes = (size_t)16 << 20;
/* What is left to other users of the node's memory in any case. */
static const int64_t reserve_bytes = (int64_t)256 << 20;

typedef struct {
  uint32_t *words;
  size_t bytes;
} chunk_t;

struct ls_stress_fill {
  ls_ctx_t *ctx;
  ls_device_t *device;
  const ls_backend_t *backend;
  ls_stream_t *stream; /* of copies; NULL where the memory is the host's */
  ls_pool_t *pool;
  chunk_t chunk[CHUNKS_MAX];
  int chunk_count;
  uint32_t *staging; /* piece_bytes, pinned */
  int64_t total_bytes, before_bytes, want_bytes, own_bytes;
  int chunk_at; /* where the sweep is */
  size_t offset;
  uint64_t first_word; /* of the chunk */
  uint32_t sweep;
  int64_t checked_bytes, wrong;
};

static inline uint32_t pattern(uint64_t word, uint32_t sweep) {
  uint32_t turned = sweep & 1 ? UINT32_MAX : 0;
  return ((uint32_t)word * 2654435761u + (uint32_t)(word >> 32)) ^ turned;
}

/* ---- a piece ---- */

typedef struct {
  uint32_t *words;
  int64_t count;
  uint64_t first;
  uint32_t sweep;
  bool check;
  int64_t wrong[THREADS_MAX];
} piece_t;

static void work(void *arg, int thread, int threads) {
  piece_t *p = arg;
  int64_t begin, end, wrong = 0;
  ls_pool_share(p->count, 1024, thread, threads, &begin, &end);
  uint32_t *words = p->words;
  const uint64_t first = p->first;
  const uint32_t sweep = p->sweep;
  if (p->check)
    for (int64_t i = begin; i < end; i++)
      wrong += words[i] != pattern(first + (uint64_t)i, sweep);
  for (int64_t i = begin; i < end; i++)
    words[i] = pattern(first + (uint64_t)i, sweep + 1);
  p->wrong[thread] = wrong;
}

static void turn(ls_stress_fill_t *f, uint32_t *words, size_t bytes, uint64_t first, bool check) {
  piece_t p = {.words = words,
               .count = (int64_t)(bytes / sizeof *words),
               .first = first,
               .sweep = f->sweep,
               .check = check};
  ls_pool_run(f->pool, work, &p);
  for (int i = 0; i < THREADS_MAX; i++)
    f->wrong += p.wrong[i];
}

static ls_status_t copy(ls_stress_fill_t *f, void *to, const void *from, size_t bytes) {
  ls_status_t status = f->backend->stream->copy(f->stream, to, from, bytes);
  return status == LS_OK ? f->backend->stream->sync(f->stream, LS_STRESS_DEADLINE_S * INT64_C(1000000000))
                         : status;
}

/* Checks and rewrites a piece; `check` false: it holds nothing yet. */
static ls_status_t piece(ls_stress_fill_t *f, uint32_t *words, size_t bytes, uint64_t first, bool check,
                         bool plant) {
  uint32_t *at = f->stream ? f->staging : words;
  ls_status_t status = f->stream && check ? copy(f, at, words, bytes) : LS_OK;
  if (status != LS_OK) return status;
  if (plant) at[bytes / sizeof *at / 2] ^= 1u << 7;
  turn(f, at, bytes, first, check);
  return f->stream ? copy(f, words, at, bytes) : LS_OK;
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

static ls_status_t take(ls_stress_fill_t *f, size_t bytes, uint64_t *first) {
  void *memory;
  ls_status_t status = f->backend->buffer->alloc(f->device, LS_MEM_DEVICE, bytes, &memory);
  if (status != LS_OK) return status;
  f->chunk[f->chunk_count++] = (chunk_t){memory, bytes};
  f->own_bytes += (int64_t)bytes;
  for (size_t done = 0; done < bytes && status == LS_OK; done += piece_bytes) {
    size_t part = bytes - done < piece_bytes ? bytes - done : piece_bytes;
    status = piece(f, (uint32_t *)memory + done / sizeof(uint32_t), part, *first + done / sizeof(uint32_t),
                   false, false);
  }
  *first += bytes / sizeof(uint32_t);
  return status;
}

/* In pages, so that a device counts what is asked of it. At least a piece: whatever others use, some memory is checked. */
static ls_status_t take_all(ls_stress_fill_t *f, double share, int ranks) {
  const int64_t page = f->backend->buffer->page_bytes > 4096 ? (int64_t)f->backend->buffer->page_bytes : 4096;
  uint64_t first = 0;
  ls_status_t status = in_use(f, &f->before_bytes);
  f->want_bytes = (int64_t)(share * (double)f->total_bytes);
  int64_t left = (f->want_bytes - f->before_bytes) / (f->backend->device->memory ? 1 : ranks);
  const int64_t most = f->total_bytes - f->before_bytes - reserve_bytes;
  if (left < (int64_t)piece_bytes) left = (int64_t)piece_bytes;
  if (left > most) left = most;
  for (left -= left % page; left > 0 && f->chunk_count < CHUNKS_MAX && status == LS_OK;) {
    size_t bytes = left < (int64_t)chunk_bytes ? (size_t)left : chunk_bytes;
    status = take(f, bytes, &first);
    left -= (int64_t)bytes;
  }
  f->sweep = 1;
  return status;
}

ls_status_t ls_fill_open(ls_ctx_t *ctx, ls_device_t *device, double share, int ranks,
                         ls_stress_fill_t **out) {
  ls_stress_fill_t *f = ls_alloc(ctx, sizeof *f);
  if (!f) return LS_ERR_MEMORY;
  f->ctx = ctx;
  f->device = device;
  f->backend = device->backend;
  int threads = ls_cpu_count() / ranks;
  ls_status_t status = ls_pool_create(ctx,
                                      threads < 1             ? 1
                                      : threads > THREADS_MAX ? THREADS_MAX
                                                              : threads,
                                      &f->pool);
  if (status == LS_OK && !f->backend->host_memory) {
    status = f->backend->stream->create(device, LS_STREAM_ASYNC, &f->stream);
    if (status == LS_OK)
      status = f->backend->buffer->alloc(device, LS_MEM_HOST, piece_bytes, (void **)&f->staging);
  }
  if (status == LS_OK) status = take_all(f, share, ranks);
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
  f->backend->buffer->free(f->device, LS_MEM_HOST, f->staging);
  if (f->stream) f->backend->stream->destroy(f->stream);
  ls_pool_destroy(f->pool);
  ls_free(f);
}

ls_status_t ls_fill_sweep(ls_stress_fill_t *f, int64_t budget_ns, bool *plant) {
  const int64_t begin = ls_clock_ns();
  ls_status_t status = LS_OK;
  while (f->chunk_count > 0 && status == LS_OK && ls_clock_ns() - begin < budget_ns) {
    const chunk_t *c = &f->chunk[f->chunk_at];
    size_t left = c->bytes - f->offset, part = left < piece_bytes ? left : piece_bytes,
           word = f->offset / sizeof(uint32_t);
    status = piece(f, c->words + word, part, f->first_word + word, true, *plant);
    *plant = false;
    f->checked_bytes += (int64_t)part;
    f->offset += part;
    if (f->offset < c->bytes) continue;
    f->first_word += c->bytes / sizeof(uint32_t);
    f->offset = 0;
    if (++f->chunk_at < f->chunk_count) continue;
    f->chunk_at = 0;
    f->first_word = 0;
    f->sweep++;
  }
  return status;
}

/* A device says itself what is in use. On a host others come and go, so what was in use at the beginning counts. */
void ls_fill_report(ls_stress_fill_t *f, ls_stress_device_t *device) {
  int64_t used = 0;
  device->memory_bytes = f->total_bytes;
  device->memory_before_bytes = f->before_bytes;
  device->memory_want_bytes = f->want_bytes;
  device->memory_used_bytes = f->before_bytes + f->own_bytes;
  if (f->backend->device->memory && in_use(f, &used) == LS_OK) device->memory_used_bytes = used;
  device->memory_checked_bytes = f->checked_bytes;
  device->memory_wrong = f->wrong;
}
