/* IDX: every element type and rank, and headers that lie. */
#include "common.h"
#include "data/read.h"

typedef struct {
  unsigned char bytes[256];
  size_t size;
} file_t;

static void put(file_t *f, const void *bytes, size_t size) {
  memcpy(f->bytes + f->size, bytes, size);
  f->size += size;
}

static file_t header(int type, int rank, const uint32_t *dims) {
  file_t f = {{0, 0, (unsigned char)type, (unsigned char)rank}, 4};
  for (int i = 0; i < rank; i++) {
    unsigned char b[4] = {(unsigned char)(dims[i] >> 24), (unsigned char)(dims[i] >> 16),
                          (unsigned char)(dims[i] >> 8), (unsigned char)dims[i]};
    put(&f, b, 4);
  }
  return f;
}

static void check(const file_t *f, int64_t rows, int64_t cols, const float *values, bool integers,
                  bool bytes) {
  said_clear();
  ls_matrix_t m = {0};
  if (ls_read_idx(said.ctx, "f", f->bytes, f->size, &m) != LS_OK) fail_msg("refused: %s", said.messages);
  assert_int_equal(m.rows, rows);
  assert_int_equal(m.cols, cols);
  assert_int_equal(m.integers, integers);
  assert_int_equal(m.bytes, bytes);
  for (int64_t i = 0; i < rows * cols; i++)
    assert_true(ls_matrix_at(&m, i) == (double)values[i]);
  ls_matrix_release(&m);
}

static void test_types(void **state) {
  static const uint32_t two[] = {2};
  static const struct {
    int type;
    const char *bytes;
    size_t size;
    float values[2];
    bool integers, is_bytes;
  } rows[] = {
      {0x08, "\x00\xff", 2, {0, 255}, true, true},
      {0x09, "\x7f\x80", 2, {127, -128}, true, false},
      {0x0B, "\x01\x02\xff\xfe", 4, {258, -2}, true, false},
      {0x0C, "\x00\x01\x00\x00\xff\xff\xff\xff", 8, {65536, -1}, true, false},
      {0x0D, "\x3f\x80\x00\x00\xc0\x20\x00\x00", 8, {1, -2.5f}, false, false},
      {0x0E,
       "\x3f\xf0\x00\x00\x00\x00\x00\x00\xbf\xe0\x00\x00\x00\x00\x00\x00",
       16,
       {1, -0.5f},
       false,
       false},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    file_t f = header(rows[i].type, 1, two);
    put(&f, rows[i].bytes, rows[i].size);
    check(&f, 2, 1, rows[i].values, rows[i].integers, rows[i].is_bytes);
  }
}

static void test_ranks(void **state) {
  static const uint32_t dims[] = {2, 3, 1, 2, 1, 1};
  static const float values[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  file_t f = header(8, 6, dims);
  put(&f, "\0\1\2\3\4\5\6\7\10\11\12\13", 12);
  check(&f, 2, 6, values, true, true);
}

static void test_refuses(void **state) {
#define HEAD(type, rank) "\0\0" type rank
  static const struct {
    const char *bytes;
    size_t size;
    const char *part;
  } rows[] = {
      {"", 0, "0 bytes are too few"},
      {"\0\0\x08", 3, "3 bytes are too few"},
      {"\x1f\x8b\x08\x01", 4, "begins with 1f 8b instead of 00 00"},
      {HEAD("\x0A", "\x01") "\0\0\0\1x", 9, "unknown IDX element type 0x0a"},
      {HEAD("\x08", "\x00"), 4, "0 dimensions"},
      {HEAD("\x08", "\x07"), 4, "7 dimensions"},
      {HEAD("\x08", "\xff"), 4, "255 dimensions"},
      {HEAD("\x08", "\x03") "\0\0\0\1\0\0", 10, "the header needs 16 bytes, the file has 10"},
      {HEAD("\x08", "\x01") "\0\0\0\0", 8, "dimension 1 is 0"},
      {HEAD("\x08", "\x02") "\0\0\0\1\0\0\0\0", 12, "dimension 2 is 0"},
      {HEAD("\x08", "\x01") "\0\0\0\3ab", 10, "promises 3 bytes of data from offset 8, the file has 2"},
      {HEAD("\x08", "\x01") "\0\0\0\1abc", 11, "2 bytes follow the data at offset 9"},
      {HEAD("\x08", "\x01") "\xff\xff\xff\xff"
                            "abc",
       11, "promises 4294967295 bytes"},
      {HEAD("\x0E", "\x02") "\xff\xff\xff\xff\xff\xff\xff\xff"
                            "abc",
       15, "more than 2^63 bytes"},
      {HEAD("\x08", "\x03") "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                            "abc",
       19, "more than 2^63 bytes"},
      {HEAD("\x0D", "\x01") "\0\0\0\1\x7f\xc0\0\0", 12, "row 0, column 0 (from 0; byte offset 8) is nan"},
      {HEAD("\x0D", "\x02") "\0\0\0\1\0\0\0\2\0\0\0\0\xff\x80\0\0", 20,
       "column 1 (from 0; byte offset 16) is infinite"},
      {HEAD("\x0E", "\x01") "\0\0\0\1\x7f\xe0\0\0\0\0\0\0", 16, "infinite or too large"},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    /* An exact block, so that a read beyond it is seen by AddressSanitizer. */
    char *copy = malloc(rows[i].size + (rows[i].size == 0));
    memcpy(copy, rows[i].bytes, rows[i].size);
    ls_matrix_t m = {.rows = -7};
    said_clear();
    ls_ctx_fail_alloc(said.ctx, 0);
    assert_refused(ls_read_idx(said.ctx, "f.idx", copy, rows[i].size, &m), LS_ERR_DATA, "f.idx");
    assert_said(rows[i].part);
    /* Lies cost no memory; only values that were converted can turn out not to be finite. */
    bool converted = strstr(rows[i].part, "column") || strstr(rows[i].part, "infinite");
    assert_int_equal(ls_ctx_fail_alloc(said.ctx, 0), converted ? 1 : 0);
    assert_int_equal(m.rows, -7);
    free(copy);
  }
}

static ls_status_t attempt(ls_ctx_t *ctx, void *arg) {
  const file_t *f = arg;
  ls_matrix_t m;
  ls_status_t status = ls_read_idx(ctx, "f", f->bytes, f->size, &m);
  if (status == LS_OK) ls_matrix_release(&m);
  return status;
}

static void test_memory(void **state) {
  file_t f = header(8, 1, (const uint32_t[]){2});
  put(&f, "ab", 2);
  each_alloc_fails(attempt, &f);
}

TESTS(said_open, said_close, test_types, test_ranks, test_refuses, test_memory)
