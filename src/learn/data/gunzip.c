/* gzip (RFC 1952) and deflate (RFC 1951) by zlib. The output grows geometrically, and the length in the
 * trailer is not trusted: a small file that claims or unpacks to terabytes stops at the limit. */
#include "data/gunzip.h"

#define ZLIB_CONST
#include <zlib.h>

enum {
  GZIP_WINDOW = 15 + 16, /* largest window, gzip wrapper only */
  RAW_WINDOW = -15,      /* largest window, no wrapper */
  FIRST_BYTES = 65536
};
static const size_t chunk_max = (size_t)1 << 30; /* zlib counts in 32 bits */

typedef struct {
  ls_ctx_t *ctx;
  const char *name, *kind, *limit_name; /* for messages */
  bool members;                         /* several may follow each other, of any size up to the limit */
  const unsigned char *in;
  size_t in_size, limit;
  char *out;
  size_t used, capacity;
  z_stream z;
} gunzip_t;

bool ls_gunzip_is(const void *bytes, size_t size) {
  const unsigned char *b = bytes;
  return size >= 2 && b[0] == 0x1f && b[1] == 0x8b;
}

static void *zlib_alloc(void *ctx, unsigned count, unsigned size) {
  return ls_alloc_array(ctx, count, size);
}
static void zlib_free(void *ctx, void *memory) {
  (void)ctx;
  ls_free(memory);
}

static size_t offset(const gunzip_t *g) {
  return (size_t)(g->z.next_in - g->in);
}

/* Makes room for at least one more byte and the NUL, one byte beyond the limit, so that output of exactly the
 * limit can be told from more. */
static ls_status_t grow(gunzip_t *g) {
  if (g->used + 1 < g->capacity) return LS_OK;
  size_t want = g->capacity ? g->capacity * 2 : FIRST_BYTES;
  if (want > g->limit + 2) want = g->limit + 2;
  char *out = ls_realloc_array(g->ctx, g->out, want, 1);
  if (!out) return LS_ERR_MEMORY;
  g->out = out;
  g->capacity = want;
  return LS_OK;
}

/* One call of inflate with as much space and input as zlib can count. */
static int step(gunzip_t *g) {
  size_t room = g->capacity - 1 - g->used, left = g->in_size - offset(g);
  g->z.next_out = (unsigned char *)g->out + g->used;
  g->z.avail_out = (uInt)(room < chunk_max ? room : chunk_max);
  g->z.avail_in = (uInt)(left < chunk_max ? left : chunk_max);
  int code = inflate(&g->z, Z_NO_FLUSH);
  g->used = (size_t)((char *)g->z.next_out - g->out);
  return code;
}

static ls_status_t unpack_member(gunzip_t *g) {
  for (;;) {
    ls_status_t status = grow(g);
    if (status != LS_OK) return status;
    int code = step(g);
    if (g->used > g->limit)
      return ls_fail(g->ctx, LS_ERR_DATA, "%s: offset %zu: the file unpacks to more than %s %zu bytes",
                     g->name, offset(g), g->limit_name, g->limit);
    if (g->used > LS_UNPACK_RATIO_FROM_BYTES && g->used / LS_UNPACK_RATIO_MAX > offset(g))
      return ls_fail(
          g->ctx, LS_ERR_DATA,
          "%s: offset %zu: the file unpacks to more than %d times its size (%zu bytes so far): if this "
          "is meant, unpack it yourself and name the result",
          g->name, offset(g), LS_UNPACK_RATIO_MAX, g->used);
    if (code == Z_STREAM_END) return LS_OK;
    if (code == Z_MEM_ERROR) return LS_ERR_MEMORY; /* reported by zlib_alloc */
    if (code != Z_OK && code != Z_BUF_ERROR)
      return ls_fail(g->ctx, LS_ERR_DATA, "%s: offset %zu: damaged %s data: %s", g->name, offset(g), g->kind,
                     g->z.msg ? g->z.msg : "unknown fault");
    if (offset(g) == g->in_size && g->used + 1 < g->capacity)
      return ls_fail(g->ctx, LS_ERR_DATA, "%s: offset %zu: the %s data end too early: the file is truncated",
                     g->name, g->in_size, g->kind);
  }
}

/* gzip: members follow each other to the end of the input. deflate: one, of exactly the size that is known.
 */
static ls_status_t check_end(gunzip_t *g, bool *again) {
  size_t at = offset(g), left = g->in_size - at;
  *again = g->members && left > 0 && ls_gunzip_is(g->in + at, left);
  if (!g->members && g->used != g->limit)
    return ls_fail(g->ctx, LS_ERR_DATA, "%s: offset %zu: unpacks to %zu bytes, not the %zu of the directory",
                   g->name, at, g->used, g->limit);
  if (left == 0 || *again) return LS_OK;
  return ls_fail(g->ctx, LS_ERR_DATA, "%s: offset %zu: %zu bytes follow the %s data", g->name, at, left,
                 g->kind);
}

static ls_status_t unpack(gunzip_t *g, size_t begin, int window, char **out, size_t *out_size) {
  g->z = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = g->ctx, .next_in = g->in + begin};
  if (inflateInit2(&g->z, window) != Z_OK) return LS_ERR_MEMORY; /* reported by zlib_alloc */
  ls_status_t status = LS_OK;
  for (bool again = true; again && status == LS_OK; inflateReset(&g->z)) {
    status = unpack_member(g);
    if (status == LS_OK) status = check_end(g, &again);
  }
  inflateEnd(&g->z);
  if (status != LS_OK) {
    ls_free(g->out);
    return status;
  }
  g->out[g->used] = '\0';
  *out = g->out;
  *out_size = g->used;
  return LS_OK;
}

ls_status_t ls_gunzip(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, size_t limit_bytes,
                      char **out, size_t *out_size) {
  gunzip_t g = {.ctx = ctx,
                .name = name,
                .kind = "gzip",
                .limit_name = "the limit of",
                .members = true,
                .in = bytes,
                .in_size = size,
                .limit = limit_bytes};
  return unpack(&g, 0, GZIP_WINDOW, out, out_size);
}

ls_status_t ls_inflate(ls_ctx_t *ctx, const char *name, const void *bytes, size_t begin, size_t end,
                       size_t out_size, char **out) {
  gunzip_t g = {.ctx = ctx,
                .name = name,
                .kind = "deflated",
                .limit_name = "its size in the directory,",
                .in = bytes,
                .in_size = end,
                .limit = out_size};
  return unpack(&g, begin, RAW_WINDOW, out, &out_size);
}
