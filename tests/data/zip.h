/* Zip archives made in memory, as numpy.savez and savez_compressed make them; tests then break them. */
#ifndef LS_TESTS_DATA_ZIP_H
#define LS_TESTS_DATA_ZIP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct {
  unsigned char *bytes, *entries; /* what is there so far, and its directory */
  size_t size, entries_size;
  int count;
} zip_file_t;

static inline void zip_put(unsigned char **to, size_t *size, const void *bytes, size_t count) {
  *to = realloc(*to, *size + count + 1);
  if (!*to) abort();
  if (count > 0) memcpy(*to + *size, bytes, count);
  *size += count;
}

static inline void zip_number(unsigned char *at, uint64_t n, int bytes) {
  for (int i = 0; i < bytes; i++)
    at[i] = (unsigned char)(n >> (8 * i));
}

/* A member; zip64: its sizes and place stand in an extra field. */
static inline void zip_add(zip_file_t *z, const char *name, const void *bytes, size_t size, bool deflated,
                           bool zip64) {
  size_t name_len = strlen(name), packed_size = size, room = compressBound((uLong)size) + 64;
  unsigned char *packed = malloc(room), *in = malloc(size + 1);
  if (!packed || !in) abort();
  if (size > 0) memcpy(in, bytes, size);
  if (!deflated && size > 0) memcpy(packed, bytes, size);
  if (deflated) {
    z_stream s = {.next_in = in, .avail_in = (uInt)size, .next_out = packed, .avail_out = (uInt)room};
    if (deflateInit2(&s, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&s, Z_FINISH) != Z_STREAM_END)
      abort();
    packed_size = s.total_out;
    deflateEnd(&s);
  }
  unsigned char local[30] = {'P', 'K', 3, 4, 45}, entry[46] = {'P', 'K', 1, 2, 45, 3, 45},
                extra[28] = {1, 0, 24};
  uint32_t crc = (uint32_t)crc32(0, in, (uInt)size);
  local[8] = entry[10] = deflated ? 8 : 0;
  zip_number(local + 14, crc, 4);
  zip_number(local + 18, packed_size, 4);
  zip_number(local + 22, size, 4);
  zip_number(local + 26, name_len, 2);
  zip_number(entry + 16, crc, 4);
  zip_number(entry + 20, zip64 ? 0xffffffff : packed_size, 4);
  zip_number(entry + 24, zip64 ? 0xffffffff : size, 4);
  zip_number(entry + 28, name_len, 2);
  zip_number(entry + 30, zip64 ? sizeof extra : 0, 2);
  zip_number(entry + 42, zip64 ? 0xffffffff : z->size, 4);
  zip_number(extra + 4, size, 8);
  zip_number(extra + 12, packed_size, 8);
  zip_number(extra + 20, z->size, 8);
  zip_put(&z->entries, &z->entries_size, entry, sizeof entry);
  zip_put(&z->entries, &z->entries_size, name, name_len);
  if (zip64) zip_put(&z->entries, &z->entries_size, extra, sizeof extra);
  zip_put(&z->bytes, &z->size, local, sizeof local);
  zip_put(&z->bytes, &z->size, name, name_len);
  zip_put(&z->bytes, &z->size, packed, packed_size);
  z->count++;
  free(packed);
  free(in);
}

/* The directory and the end record(s); z->bytes is then the file (free). */
static inline void zip_end(zip_file_t *z, bool zip64) {
  size_t begin = z->size;
  unsigned char end64[56] = {'P', 'K', 6, 6, 44}, locator[20] = {'P', 'K', 6, 7}, end[22] = {'P', 'K', 5, 6};
  zip_put(&z->bytes, &z->size, z->entries, z->entries_size);
  zip_number(end64 + 24, (uint64_t)z->count, 8);
  zip_number(end64 + 32, (uint64_t)z->count, 8);
  zip_number(end64 + 40, z->entries_size, 8);
  zip_number(end64 + 48, begin, 8);
  zip_number(locator + 8, z->size, 8);
  zip_number(locator + 16, 1, 4);
  if (zip64) {
    zip_put(&z->bytes, &z->size, end64, sizeof end64);
    zip_put(&z->bytes, &z->size, locator, sizeof locator);
  }
  zip_number(end + 8, (uint64_t)z->count, 2);
  zip_number(end + 10, (uint64_t)z->count, 2);
  zip_number(end + 12, zip64 ? 0xffffffff : z->entries_size, 4);
  zip_number(end + 16, zip64 ? 0xffffffff : begin, 4);
  zip_put(&z->bytes, &z->size, end, sizeof end);
  free(z->entries);
  z->entries = NULL;
}

#endif
