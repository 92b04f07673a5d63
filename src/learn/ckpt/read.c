/* Reads tensors of an open checkpoint into memory: the wanted spans of bytes of each file, in the file's
 * order. A file that is wanted as a whole is hashed again on the way, so that the bytes are those that were
 * saved even if the disk has changed them. Of other files no byte beyond the spans is read. */
#include "ckpt/open.h"

#include "base/half.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ls_status_t ls_ckpt_reader_open(ls_ckpt_reader_t *r, ls_ctx_t *ctx, const char *path, int fd) {
  *r = (ls_ckpt_reader_t){ctx, path, fd, 0, XXH3_createState()};
  if (!r->hash) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: hash of %s", path);
  XXH3_128bits_reset(r->hash);
  return LS_OK;
}

void ls_ckpt_reader_close(ls_ckpt_reader_t *r) {
  XXH3_freeState(r->hash);
}

ls_status_t ls_ckpt_reader_get(ls_ckpt_reader_t *r, void *to, size_t size) {
  char *bytes = to;
  while (size > 0) {
    ssize_t n =
        pread(r->fd, bytes, size < LS_CKPT_CHUNK_BYTES ? size : LS_CKPT_CHUNK_BYTES, (off_t)r->offset_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ls_fail_errno(r->ctx, "%s: cannot be read", r->path);
    if (n == 0) return ls_fail(r->ctx, LS_ERR_CORRUPT, "%s: became shorter while it was read", r->path);
    XXH3_128bits_update(r->hash, bytes, (size_t)n);
    bytes += n;
    size -= (size_t)n;
    r->offset_bytes += (uint64_t)n;
  }
  return LS_OK;
}

ls_status_t ls_ckpt_reader_skip(ls_ckpt_reader_t *r, uint64_t size) {
  char unused[LS_CKPT_CHUNK_BYTES];
  ls_status_t status = LS_OK;
  while (size > 0 && !status) {
    size_t part = size < sizeof unused ? (size_t)size : sizeof unused;
    status = ls_ckpt_reader_get(r, unused, part);
    size -= part;
  }
  return status;
}

ls_status_t ls_ckpt_reader_compare(const ls_ckpt_reader_t *r, const char *expected, const char *by) {
  char text[LS_HASH_TEXT_BYTES];
  ls_hash_text(XXH3_128bits_digest(r->hash), text);
  if (strcmp(text, expected) == 0) return LS_OK;
  return ls_fail(r->ctx, LS_ERR_CORRUPT, "%s: its bytes hash to %s, %s says %s: altered", r->path, text, by,
                 expected);
}

/* ---- spans ---- */

/* Bytes of a file, and their destination. */
typedef struct {
  int file;
  uint64_t offset_bytes;
  size_t size_bytes;
  char *to;
} span_t;

typedef struct {
  span_t *span;
  size_t count, capacity;
} spans_t;

static ls_status_t add_span(ls_ctx_t *ctx, spans_t *s, span_t span) {
  if (s->count == s->capacity) {
    size_t wanted = s->capacity ? 2 * s->capacity : 64;
    span_t *room = ls_alloc_array(ctx, wanted, sizeof *room);
    if (!room) return LS_ERR_MEMORY;
    if (s->count) memcpy(room, s->span, s->count * sizeof *room);
    ls_free(s->span);
    s->span = room;
    s->capacity = wanted;
  }
  s->span[s->count++] = span;
  return LS_OK;
}

/* The intersections of a tensor's pieces with the wanted ranges; both ascend. */
static ls_status_t add_tensor(ls_ctx_t *ctx, const ls_ckpt_source_t *from, const ls_ckpt_tensor_t *to,
                              spans_t *spans) {
  const size_t each = ls_dtype_bytes(from->shape.dtype);
  const ls_range_t all = {0, ls_shape_count(&from->shape)}, *want = to->held ? to->held : &all;
  int p = 0, want_count = to->held ? to->held_count : 1;
  char *next = to->data;
  ls_status_t status = LS_OK;
  for (int i = 0; i < want_count && next; i++) {
    while (p < from->piece_count && from->piece[p].range.end <= want[i].begin)
      p++;
    for (int64_t at = want[i].begin; at < want[i].end && !status;) {
      const ls_ckpt_piece_t *piece = &from->piece[p];
      int64_t end = piece->range.end < want[i].end ? piece->range.end : want[i].end;
      size_t size_bytes = (size_t)(end - at) * each;
      status =
          add_span(ctx, spans,
                   (span_t){piece->file, piece->offset_bytes + (uint64_t)(at - piece->range.begin) * each,
                            size_bytes, next});
      next += size_bytes;
      at = end;
      p += end == piece->range.end;
    }
  }
  return status;
}

static int by_place(const void *a, const void *b) {
  const span_t *x = a, *y = b;
  if (x->file != y->file) return x->file < y->file ? -1 : 1;
  return x->offset_bytes < y->offset_bytes ? -1 : x->offset_bytes > y->offset_bytes;
}

/* The spans of one file. They do not overlap, so if their bytes equal the file's data, they cover all of
 * it. */
static ls_status_t read_file(ls_ctx_t *ctx, const ls_ckpt_file_t *file, const span_t *span, size_t count) {
  uint64_t wanted = file->header_bytes;
  for (size_t i = 0; i < count; i++)
    wanted += span[i].size_bytes;
  bool whole = wanted == file->size_bytes && file->xxh3_128[0];
  ls_ckpt_reader_t r;
  ls_status_t status = ls_ckpt_reader_open(&r, ctx, file->path, file->fd);
  if (!status && whole) status = ls_ckpt_reader_skip(&r, file->header_bytes);
  for (size_t i = 0; i < count && !status; i++) {
    r.offset_bytes = span[i].offset_bytes;
    status = ls_ckpt_reader_get(&r, span[i].to, span[i].size_bytes);
  }
  if (!status && whole) status = ls_ckpt_reader_compare(&r, file->xxh3_128, "the manifest");
  ls_ckpt_reader_close(&r);
  return status;
}

static ls_status_t read_spans(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const spans_t *spans) {
  ls_status_t status = LS_OK;
  if (spans->count > 1) qsort(spans->span, spans->count, sizeof *spans->span, by_place);
  for (size_t i = 0, next; i < spans->count && !status; i = next) {
    for (next = i + 1; next < spans->count && spans->span[next].file == spans->span[i].file;)
      next++;
    status = read_file(ctx, &ckpt->file[spans->span[i].file], &spans->span[i], next - i);
  }
  return status;
}

ls_status_t ls_ckpt_read(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const ls_ckpt_tensor_t *params,
                         int param_count, const ls_ckpt_tensor_t *optim, int optim_count) {
  const struct {
    const ls_ckpt_tensor_t *tensors;
    int count;
  } want[LS_PART_COUNT] = {{params, param_count}, {optim, optim_count}};
  const int part_count = optim ? LS_PART_COUNT : 1;
  const ls_ckpt_tensor_t **to[LS_PART_COUNT];
  spans_t spans = {0};
  ls_arena_t scratch;
  ls_arena_init(&scratch, ctx);
  ls_status_t status = LS_OK;
  for (int p = 0; p < part_count && !status; p++)
    status = ls_ckpt_match(ctx, &scratch, ckpt->part[p].path, ckpt->part[p].source, ckpt->part[p].count,
                           want[p].tensors, want[p].count, &to[p]);
  for (int p = 0; p < part_count && !status; p++)
    for (int i = 0; i < ckpt->part[p].count && !status; i++)
      status = add_tensor(ctx, &ckpt->part[p].source[i], to[p][i], &spans);
  if (!status) status = read_spans(ctx, ckpt, &spans);
  ls_free(spans.span);
  ls_arena_release(&scratch);
  return status;
}

ls_status_t ls_ckpt_read_row(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const char *row,
                             const ls_ckpt_tensor_t *tensors, int count, int *found) {
  const size_t len = strlen(row);
  spans_t spans = {0};
  ls_status_t status = LS_OK;
  *found = 0;
  for (int i = 0; i < ckpt->part[LS_PART_OPTIM].count && !status; i++) {
    const ls_ckpt_source_t *from = &ckpt->part[LS_PART_OPTIM].source[i];
    if (strncmp(from->name, row, len) != 0 || from->name[len] != '.') continue;
    for (int k = 0; k < count && !status; k++)
      if (strcmp(from->name + len + 1, tensors[k].name) == 0 &&
          ls_shape_equal(&from->shape, &tensors[k].shape)) {
        status = add_tensor(ctx, from, &tensors[k], &spans);
        (*found)++;
      }
  }
  if (!status) status = read_spans(ctx, ckpt, &spans);
  ls_free(spans.span);
  return status;
}

/* ---- one tensor ---- */

int ls_ckpt_count(const ls_ckpt_t *ckpt) {
  return ckpt->part[LS_PART_MODEL].count;
}
const char *ls_ckpt_name(const ls_ckpt_t *ckpt, int tensor) {
  return ckpt->part[LS_PART_MODEL].source[tensor].name;
}
const ls_shape_t *ls_ckpt_shape(const ls_ckpt_t *ckpt, int tensor) {
  return &ckpt->part[LS_PART_MODEL].source[tensor].shape;
}

int ls_ckpt_find(const ls_ckpt_t *ckpt, const char *name) {
  for (int i = 0; i < ls_ckpt_count(ckpt); i++)
    if (strcmp(ls_ckpt_name(ckpt, i), name) == 0) return i;
  return -1;
}

static float as_f32(ls_dtype_t dtype, const char *bytes) {
  uint16_t half;
  double wide;
  if (dtype == LS_F64) {
    memcpy(&wide, bytes, sizeof wide);
    return (float)wide;
  }
  memcpy(&half, bytes, sizeof half);
  return dtype == LS_BF16 ? ls_f32_of_bf16(half) : ls_f32_of_f16(half);
}

ls_status_t ls_ckpt_read_bytes(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, int tensor, void *to) {
  const ls_ckpt_source_t *from = &ckpt->part[LS_PART_MODEL].source[tensor];
  const ls_ckpt_tensor_t whole = {.name = from->name, .shape = from->shape, .data = to};
  spans_t spans = {0};
  ls_status_t status = add_tensor(ctx, from, &whole, &spans);
  if (!status) status = read_spans(ctx, ckpt, &spans);
  ls_free(spans.span);
  return status;
}

ls_status_t ls_ckpt_read_f32(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, int tensor, float *to) {
  const ls_ckpt_source_t *from = &ckpt->part[LS_PART_MODEL].source[tensor];
  const ls_dtype_t dtype = from->shape.dtype;
  const int64_t count = ls_shape_count(&from->shape);
  if (ls_dtype_row(dtype)->exponent == 0)
    return ls_fail(ctx, LS_ERR_MISMATCH, "%s: '%s' holds whole numbers (%s), not weights", ckpt->path,
                   LS_SHOWN(from->name), ls_dtype_name(dtype));
  char *bytes = dtype == LS_F32 ? (char *)to : ls_alloc_array(ctx, (size_t)count, ls_dtype_bytes(dtype));
  if (!bytes) return LS_ERR_MEMORY;
  ls_status_t status = ls_ckpt_read_bytes(ctx, ckpt, tensor, bytes);
  for (int64_t i = 0; i < count && !status && dtype != LS_F32; i++) {
    to[i] = as_f32(dtype, bytes + (size_t)i * ls_dtype_bytes(dtype));
    if (!isfinite(to[i]))
      status = ls_fail(ctx, LS_ERR_MISMATCH, "%s: '%s' has a value that is too large for a 32-bit float",
                       ckpt->path, LS_SHOWN(from->name));
  }
  if (dtype != LS_F32) ls_free(bytes);
  return status;
}
