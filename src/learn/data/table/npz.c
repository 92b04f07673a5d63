/* Reads a zip archive from its end: the end record locates the directory, and the directory's entries locate
 * the members. Every number is checked against the available bytes before it is used as a position. */
#include "data/table/npz.h"
#include "data/gunzip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum {
  END_BYTES = 22,
  LOCATOR_BYTES = 20,
  END64_BYTES = 56,
  ENTRY_BYTES = 46,
  LOCAL_BYTES = 30,
  COMMENT_MAX = 0xffff,
  STORED = 0,
  DEFLATED = 8,
  FLAGS_ENCRYPTED = 1 | 1 << 6 | 1 << 13,
  EXTRA_ZIP64 = 1,
  LIST_BYTES = 512,
  NAME_SHOWN = 100
};
static const uint64_t in_zip64 = 0xffffffff; /* marks a size or position that is in the zip64 record */

typedef struct {
  ls_ctx_t *ctx;
  const char *path; /* for messages */
  const unsigned char *b;
  size_t size, dir_begin, dir_end;
} zip_t;

typedef struct {
  const char *name;
  size_t name_len;
  unsigned flags, method;
  uint32_t crc;
  uint64_t packed, size, header; /* bytes, bytes, place of the local header */
} entry_t;

/* `count` bytes, little-endian. */
static uint64_t number(const unsigned char *b, int count) {
  uint64_t n = 0;
  for (int i = 0; i < count; i++)
    n |= (uint64_t)b[i] << (8 * i);
  return n;
}

static bool signed_as(const unsigned char *b, const char *signature) {
  return memcmp(b, signature, 4) == 0;
}

size_t ls_npz_file_length(const char *path) {
  size_t len = strlen(path);
  for (const char *at = path; (at = strstr(at, ".npz:")); at++)
    len = (size_t)(at - path) + strlen(".npz");
  return len;
}

bool ls_npz_is(const char *path, const void *bytes, size_t size) {
  return path[ls_npz_file_length(path)] || (size >= 4 && signed_as(bytes, "PK\3\4"));
}

static ls_status_t torn(const zip_t *z, size_t offset, const char *what) {
  return ls_fail(z->ctx, LS_ERR_DATA, "%s: offset %zu: damaged .npz file: %s", z->path, offset, what);
}

/* Numbers of the end record that do not fit are in a second record. */
static ls_status_t find_end64(const zip_t *z, size_t end, uint64_t *begin, uint64_t *size) {
  static const char missing[] = "the zip64 record of its directory is missing";
  if (end < LOCATOR_BYTES + END64_BYTES || !signed_as(z->b + end - LOCATOR_BYTES, "PK\6\7"))
    return torn(z, end, missing);
  uint64_t at = number(z->b + end - LOCATOR_BYTES + 8, 8);
  if (at > end - LOCATOR_BYTES - END64_BYTES || !signed_as(z->b + at, "PK\6\6"))
    return torn(z, end - LOCATOR_BYTES, missing);
  *size = number(z->b + at + 40, 8);
  *begin = number(z->b + at + 48, 8);
  return LS_OK;
}

static ls_status_t find_directory(zip_t *z) {
  size_t end = z->size >= END_BYTES ? z->size - END_BYTES : 0,
         first = end > COMMENT_MAX ? end - COMMENT_MAX : 0;
  if (z->size < END_BYTES) return ls_fail(z->ctx, LS_ERR_DATA, "%s: not a .npz file (zip archive)", z->path);
  while (!signed_as(z->b + end, "PK\5\6") || number(z->b + end + 20, 2) != z->size - end - END_BYTES)
    if (end-- == first)
      return ls_fail(z->ctx, LS_ERR_DATA,
                     "%s: not a .npz file (zip archive), or truncated: the end record is missing", z->path);
  if (number(z->b + end + 4, 2) != number(z->b + end + 6, 2))
    return torn(z, end, "archives in several parts are not supported");
  uint64_t size = number(z->b + end + 12, 4), begin = number(z->b + end + 16, 4);
  if (size == in_zip64 || begin == in_zip64) {
    ls_status_t status = find_end64(z, end, &begin, &size);
    if (status != LS_OK) return status;
  }
  if (begin > end || size > end - begin) return torn(z, end, "the directory does not lie in the file");
  z->dir_begin = (size_t)begin;
  z->dir_end = (size_t)(begin + size);
  return LS_OK;
}

/* Sizes and places that do not fit into the entry, in this order. */
static ls_status_t read_zip64(const zip_t *z, size_t at, size_t len, entry_t *e) {
  uint64_t *const values[] = {&e->size, &e->packed, &e->header};
  for (size_t end = at + len; end - at >= 4;) {
    uint64_t id = number(z->b + at, 2), bytes = number(z->b + at + 2, 2);
    at += 4;
    if (bytes > end - at) break;
    size_t next = at + (size_t)bytes;
    for (int i = 0; id == EXTRA_ZIP64 && i < LS_COUNT(values); i++) {
      if (*values[i] != in_zip64) continue;
      if (next - at < 8) return torn(z, at, "a zip64 field is too short");
      *values[i] = number(z->b + at, 8);
      at += 8;
    }
    at = next;
  }
  return LS_OK;
}

/* Reads the entry at *at and moves *at past it. */
static ls_status_t next_entry(const zip_t *z, size_t *at, entry_t *e) {
  const unsigned char *b = z->b + *at;
  if (z->dir_end - *at < ENTRY_BYTES || !signed_as(b, "PK\1\2"))
    return torn(z, *at, "an entry of its directory was expected");
  size_t name = (size_t)number(b + 28, 2), extra = (size_t)number(b + 30, 2),
         all = ENTRY_BYTES + name + extra + (size_t)number(b + 32, 2);
  if (all > z->dir_end - *at) return torn(z, *at, "an entry is longer than the directory");
  *e = (entry_t){.name = (const char *)b + ENTRY_BYTES,
                 .name_len = name,
                 .flags = (unsigned)number(b + 8, 2),
                 .method = (unsigned)number(b + 10, 2),
                 .crc = (uint32_t)number(b + 16, 4),
                 .packed = number(b + 20, 4),
                 .size = number(b + 24, 4),
                 .header = number(b + 42, 4)};
  ls_status_t status = read_zip64(z, *at + ENTRY_BYTES + name, extra, e);
  *at += all;
  return status;
}

/* Length of the array's name: numpy adds .npy to it. */
static size_t array_length(const entry_t *e) {
  return e->name_len > 4 && memcmp(e->name + e->name_len - 4, ".npy", 4) == 0 ? e->name_len - 4 : e->name_len;
}

static bool is_named(const entry_t *e, const char *member) {
  size_t len = strlen(member);
  return (len == e->name_len || len == array_length(e)) && memcmp(e->name, member, len) == 0;
}

/* Appends a name while there is room for one of full length and for three dots. */
static void list_add(char list[LIST_BYTES], const entry_t *e) {
  size_t used = strlen(list), len = array_length(e);
  char name[NAME_SHOWN];
  bool room = used + NAME_SHOWN + 8 < LIST_BYTES;
  if (!room && strcmp(list + used - 4, ", ..") == 0) return;
  snprintf(list + used, LIST_BYTES - used, "%s%s", used ? ", " : "",
           room ? ls_text_shown(e->name, len, name, sizeof name) : "..");
}

/* The entry that the path names; without a name, the only one. */
static ls_status_t choose(const zip_t *z, entry_t *chosen) {
  size_t file_len = ls_npz_file_length(z->path);
  const char *member = z->path[file_len] ? z->path + file_len + 1 : NULL;
  char list[LIST_BYTES] = "";
  int64_t count = 0, found = 0;
  for (size_t at = z->dir_begin; at < z->dir_end; count++) {
    entry_t e;
    ls_status_t status = next_entry(z, &at, &e);
    if (status != LS_OK) return status;
    list_add(list, &e);
    if (member && !is_named(&e, member)) continue;
    *chosen = e;
    found++;
  }
  if (found == 1) return LS_OK;
  if (count == 0) return ls_fail(z->ctx, LS_ERR_DATA, "%s: the archive is empty", z->path);
  if (!member)
    return ls_fail(z->ctx, LS_ERR_DATA,
                   "%s: the archive has %" PRId64 " arrays: name one as FILE.npz:NAME; it has %s", z->path,
                   count, list);
  return ls_fail(z->ctx, LS_ERR_DATA, "%.*s: %s named '%s'; the archive has %s", (int)file_len, z->path,
                 found ? "several arrays are" : "no array is", LS_SHOWN(member), list);
}

/* The position of the member's data: after its own header, which repeats the name. */
static ls_status_t locate(const zip_t *z, const entry_t *e, size_t *begin) {
  if (e->header > z->dir_begin || z->dir_begin - e->header < LOCAL_BYTES)
    return torn(z, z->dir_begin, "a member does not lie in the file");
  size_t at = (size_t)e->header;
  const unsigned char *b = z->b + at;
  size_t name = (size_t)number(b + 26, 2), all = LOCAL_BYTES + name + (size_t)number(b + 28, 2);
  if (!signed_as(b, "PK\3\4") || all > z->dir_begin - at || name != e->name_len ||
      memcmp(b + LOCAL_BYTES, e->name, name) != 0 || number(b + 8, 2) != e->method)
    return torn(z, at, "a member's header and its entry in the directory differ");
  *begin = at + all;
  if (e->packed > z->dir_begin - *begin)
    return ls_fail(z->ctx, LS_ERR_DATA,
                   "%s: offset %zu: the directory promises %" PRIu64 " bytes, but only %zu are there",
                   z->path, *begin, e->packed, z->dir_begin - *begin);
  return LS_OK;
}

/* Checks the entry's claims about the member before anything is allocated. */
static ls_status_t check_entry(const zip_t *z, const entry_t *e, size_t limit_bytes) {
  if (e->flags & FLAGS_ENCRYPTED)
    return ls_fail(z->ctx, LS_ERR_DATA, "%s: the member is encrypted; save it without a password", z->path);
  if (e->method != STORED && e->method != DEFLATED)
    return ls_fail(
        z->ctx, LS_ERR_DATA,
        "%s: compression method %u; stored (0) and deflated (8) are supported, which numpy.savez and "
        "savez_compressed write",
        z->path, e->method);
  if (e->size > limit_bytes)
    return ls_fail(z->ctx, LS_ERR_DATA, "%s: the member has %" PRIu64 " bytes, more than the limit of %zu",
                   z->path, e->size, limit_bytes);
  if (e->method == STORED && e->size != e->packed)
    return ls_fail(z->ctx, LS_ERR_DATA,
                   "%s: damaged .npz file: the member is stored, but has %" PRIu64 " bytes in %" PRIu64,
                   z->path, e->size, e->packed);
  if (e->size > LS_UNPACK_RATIO_FROM_BYTES && e->size / LS_UNPACK_RATIO_MAX > e->packed)
    return ls_fail(z->ctx, LS_ERR_DATA,
                   "%s: the member unpacks to more than %d times its size (%" PRIu64 " bytes from %" PRIu64
                   "): if this is meant, save it with numpy.savez",
                   z->path, LS_UNPACK_RATIO_MAX, e->size, e->packed);
  return LS_OK;
}

static ls_status_t check_crc(const zip_t *z, const entry_t *e, const char *data) {
  uint32_t crc = (uint32_t)crc32_z(0, (const unsigned char *)data, (size_t)e->size);
  if (crc == e->crc) return LS_OK;
  return ls_fail(z->ctx, LS_ERR_DATA,
                 "%s: damaged .npz file: the member's CRC-32 is %08" PRIx32 ", the directory says %08" PRIx32,
                 z->path, crc, e->crc);
}

ls_status_t ls_npz_member(ls_ctx_t *ctx, const char *path, size_t limit_bytes, char **bytes, size_t *size) {
  zip_t z = {.ctx = ctx, .path = path, .b = (const unsigned char *)*bytes, .size = *size};
  entry_t e;
  size_t begin;
  ls_status_t status = find_directory(&z);
  if (status == LS_OK) status = choose(&z, &e);
  if (status == LS_OK) status = check_entry(&z, &e, limit_bytes);
  if (status == LS_OK) status = locate(&z, &e, &begin);
  if (status != LS_OK) return status;
  char *data = *bytes + begin;
  if (e.method == DEFLATED)
    status = ls_inflate(ctx, path, *bytes, begin, begin + (size_t)e.packed, (size_t)e.size, &data);
  if (status != LS_OK) return status;
  status = check_crc(&z, &e, data);
  if (status != LS_OK) goto free_data;
  if (e.method == STORED)
    memmove(*bytes, data, (size_t)e.size);
  else
    ls_free(*bytes);
  *bytes = e.method == STORED ? *bytes : data;
  *size = (size_t)e.size;
  return LS_OK;

free_data:
  if (e.method == DEFLATED) ls_free(data);
  return status;
}
