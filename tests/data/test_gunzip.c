/* gzip: whole files of one or several members; torn, damaged and exploding ones are refused. */
#include "common.h"
#include "data/gunzip.h"
#include "data/read.h"

static void test_round_trip(void **state) {
  static const size_t sizes[] = {0, 1, 65534, 65535, 65536, 65537, 1000000};
  for (int i = 0; i < LS_COUNT(sizes); i++) {
    char *text = malloc(sizes[i] + 1), *out;
    for (size_t k = 0; k < sizes[i]; k++)
      text[k] = (char)(k * k >> 3);
    size_t packed_size, size;
    unsigned char *packed = gzip(text, sizes[i], &packed_size);
    assert_int_equal(ls_gunzip(said.ctx, "f.gz", packed, packed_size, sizes[i], &out, &size), LS_OK);
    assert_int_equal(size, sizes[i]);
    assert_memory_equal(out, text, size);
    assert_int_equal(out[size], 0);
    ls_free(out);
    if (sizes[i] > 0) { /* one byte more than the limit */
      said_clear();
      assert_refused(ls_gunzip(said.ctx, "f.gz", packed, packed_size, sizes[i] - 1, &out, &size), LS_ERR_DATA,
                     "unpacks to more than the limit");
    }
    free(packed);
    free(text);
  }
}

static void test_members(void **state) {
  size_t a_size, b_size, size;
  unsigned char *a = gzip("hello ", 6, &a_size), *b = gzip("world", 5, &b_size), both[256];
  memcpy(both, a, a_size);
  memcpy(both + a_size, b, b_size);
  char *out;
  assert_int_equal(ls_gunzip(said.ctx, "f.gz", both, a_size + b_size, 100, &out, &size), LS_OK);
  assert_string_equal(out, "hello world");
  assert_int_equal(size, 11);
  ls_free(out);
  free(a);
  free(b);
}

/* Every prefix is truncated, every changed byte of the data or the checksum is found, trailing bytes are
 * named. */
static void test_refuses(void **state) {
  char *out = NULL;
  size_t packed_size, size;
  unsigned char *packed = gzip("some text, some more text", 25, &packed_size);
  for (size_t cut = 2; cut < packed_size; cut++) {
    unsigned char *copy = malloc(cut);
    memcpy(copy, packed, cut);
    said_clear();
    assert_refused(ls_gunzip(said.ctx, "f.gz", copy, cut, 1000, &out, &size), LS_ERR_DATA,
                   "the file is truncated");
    free(copy);
  }
  for (size_t at = 10; at < packed_size; at++) {
    unsigned char copy[256];
    memcpy(copy, packed, packed_size);
    copy[at] ^= 0x55;
    said_clear();
    assert_refused(ls_gunzip(said.ctx, "f.gz", copy, packed_size, 1000, &out, &size), LS_ERR_DATA,
                   "f.gz: offset ");
  }
  unsigned char tail[256];
  memcpy(tail, packed, packed_size);
  memcpy(tail + packed_size, "xyz", 3);
  said_clear();
  assert_refused(ls_gunzip(said.ctx, "f.gz", tail, packed_size + 3, 1000, &out, &size), LS_ERR_DATA,
                 "3 bytes follow the gzip data");
  assert_null(out);
  free(packed);
}

/* 64 MB of zeros in 64 kB: stops at the limit, having asked for little more. */
static void test_bomb(void **state) {
  size_t packed_size, size, big = (size_t)64 << 20;
  char *zeros = calloc(1, big), *out;
  unsigned char *packed = gzip(zeros, big, &packed_size);
  free(zeros);
  assert_refused(ls_gunzip(said.ctx, "f.gz", packed, packed_size, 1 << 20, &out, &size), LS_ERR_DATA,
                 "limit of 1048576 bytes");
  free(packed);
}

static void test_read_bytes(void **state) {
  size_t packed_size, size;
  unsigned char *packed = gzip("abc", 3, &packed_size);
  const char *path = file_make("a.gz", packed, packed_size), *plain = file_make("b", "xyz", 3);
  const char *empty = file_make("c", "", 0);
  char *bytes;
  assert_int_equal(ls_read_bytes(said.ctx, path, &bytes, &size), LS_OK);
  assert_string_equal(bytes, "abc");
  ls_free(bytes);
  assert_int_equal(ls_read_bytes(said.ctx, plain, &bytes, &size), LS_OK);
  assert_string_equal(bytes, "xyz");
  ls_free(bytes);
  assert_int_equal(ls_read_bytes(said.ctx, empty, &bytes, &size), LS_OK);
  assert_int_equal(size, 0);
  ls_free(bytes);
  assert_refused(ls_read_bytes(said.ctx, "/nowhere/at/all", &bytes, &size), LS_ERR_NOT_FOUND,
                 "/nowhere/at/all");
  assert_int_not_equal(ls_read_bytes(said.ctx, "/", &bytes, &size), LS_OK);
  free(packed);
}

static ls_status_t attempt(ls_ctx_t *ctx, void *arg) {
  char *bytes;
  size_t size;
  ls_status_t status = ls_read_bytes(ctx, arg, &bytes, &size);
  if (status == LS_OK) ls_free(bytes);
  return status;
}

static void test_memory(void **state) {
  enum { SIZE = 300000 };
  size_t packed_size;
  char *text = calloc(1, SIZE);
  unsigned char *packed = gzip(text, SIZE, &packed_size);
  const char *path = file_make("m.gz", packed, packed_size);
  each_alloc_fails(attempt, (void *)(uintptr_t)path);
  free(packed);
  free(text);
}

TESTS(said_open, said_close, test_round_trip, test_members, test_refuses, test_bomb, test_read_bytes,
      test_memory)
