/* .npy: headers as numpy writes them, and everything that is not a plain array of numbers. */
#include "common.h"
#include "data/read.h"

static char *npy(int major, const char *header, const void *data, size_t data_size, size_t *size) {
  size_t len = strlen(header), prefix = major == 1 ? 10 : 12;
  char *file = malloc(prefix + len + data_size + 1);
  memcpy(file, "\x93NUMPY", 6);
  file[6] = (char)major;
  file[7] = 0;
  file[8] = (char)len;
  file[9] = (char)(len >> 8);
  if (major > 1) file[10] = file[11] = 0;
  memcpy(file + prefix, header, len);
  if (data_size) memcpy(file + prefix + len, data, data_size);
  *size = prefix + len + data_size;
  return file;
}

static void test_types(void **state) {
  static const struct {
    const char *descr, *bytes;
    size_t size;
    double value;
    bool integers, is_bytes;
  } rows[] = {
      {"<f4", "\0\0\x80\x3f", 4, 1, false, false},
      {">f4", "\x3f\x80\0\0", 4, 1, false, false},
      {"<f8", "\0\0\0\0\0\0\xe0\xbf", 8, -0.5f, false, false},
      {">f8", "\xbf\xe0\0\0\0\0\0\0", 8, -0.5f, false, false},
      {"<f2", "\0\x3c", 2, 1, false, false},
      {">f2", "\xc5\0", 2, -5, false, false},
      {"<f2", "\xff\x7b", 2, 65504, false, false},
      {"<f2", "\1\0", 2, 0x1p-24, false, false},
      {"<f2", "\xff\x03", 2, 1023 * 0x1p-24, false, false},
      {"<f2", "\0\x04", 2, 0x1p-14, false, false},
      {"<f2", "\0\x80", 2, -0.0, false, false},
      {"|u1", "\xff", 1, 255, true, true},
      {"<u1", "\xff", 1, 255, true, true},
      {"|i1", "\xff", 1, -1, true, false},
      {"|b1", "\x01", 1, 1, true, true},
      {"<i2", "\xfe\xff", 2, -2, true, false},
      {">u2", "\x01\x02", 2, 258, true, false},
      {"<i4", "\xff\xff\xff\xff", 4, -1, true, false},
      {"<u4", "\xff\xff\xff\xff", 4, 4294967295.0, true, false},
      {"<i8", "\x03\0\0\0\0\0\0\0", 8, 3, true, false},
      {">i8", "\xff\xff\xff\xff\xff\xff\xff\xfd", 8, -3, true, false},
      {"<u8", "\0\0\0\0\0\0\0\x80", 8, 9223372036854775808.0, true, false},
  };
  for (int i = 0; i < LS_COUNT(rows); i++)
    for (int version = 1; version <= 3; version++) {
      char header[128];
      snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (1,), }         \n",
               rows[i].descr);
      size_t size;
      char *file = npy(version, header, rows[i].bytes, rows[i].size, &size);
      ls_matrix_t m;
      if (ls_read_npy(said.ctx, "a.npy", file, size, &m) != LS_OK) fail_msg("refused: %s", said.messages);
      assert_int_equal(m.rows, 1);
      assert_int_equal(m.cols, 1);
      assert_true(ls_matrix_at(&m, 0) == rows[i].value);
      assert_int_equal(m.integers, rows[i].integers);
      assert_int_equal(m.bytes, rows[i].is_bytes);
      ls_matrix_release(&m);
      free(file);
    }
}

static void test_shapes(void **state) {
  static const struct {
    const char *header;
    int64_t rows, cols;
  } rows[] = {
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (12,), }\n", 12, 1},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4), }\n", 3, 4},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 2), }\n", 2, 6},
      {"{'shape':(12,1),\"descr\":\"|u1\",'fortran_order':False}", 12, 1},
      {"  { 'shape' : ( 4 , 3 , ) , 'descr' : '|u1' , 'fortran_order' : False }  \n", 4, 3},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    size_t size;
    char *file = npy(1, rows[i].header, "\0\1\2\3\4\5\6\7\10\11\12\13", 12, &size);
    ls_matrix_t m;
    if (ls_read_npy(said.ctx, "a.npy", file, size, &m) != LS_OK) fail_msg("refused: %s", said.messages);
    assert_int_equal(m.rows, rows[i].rows);
    assert_int_equal(m.cols, rows[i].cols);
    for (int k = 0; k < 12; k++)
      assert_true(ls_matrix_at(&m, k) == (float)k);
    ls_matrix_release(&m);
    free(file);
  }
}

/* The layout of numpy.asfortranarray: the first index runs fastest, also inside a row. */
static void test_column_by_column(void **state) {
  static const struct {
    const char *header, *bytes;
    int64_t rows, cols;
  } rows[] = {
      {"{'descr': '|u1', 'fortran_order': True, 'shape': (6,), }", "\0\1\2\3\4\5", 6, 1},
      {"{'descr': '|u1', 'fortran_order': True, 'shape': (3, 2), }", "\0\2\4\1\3\5", 3, 2},
      {"{'descr': '|u1', 'fortran_order': True, 'shape': (1, 2, 3), }", "\0\3\1\4\2\5", 1, 6},
      {"{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3), }", "\0\0\0\3\0\1\0\4\0\2\0\5", 2, 3},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    size_t size;
    char *file = npy(1, rows[i].header, rows[i].bytes, strstr(rows[i].header, "u2") ? 12 : 6, &size);
    ls_matrix_t m;
    if (ls_read_npy(said.ctx, "a.npy", file, size, &m) != LS_OK) fail_msg("refused: %s", said.messages);
    assert_int_equal(m.rows, rows[i].rows);
    assert_int_equal(m.cols, rows[i].cols);
    for (int k = 0; k < 6; k++)
      assert_true(ls_matrix_at(&m, k) == (float)k);
    ls_matrix_release(&m);
    free(file);
  }
}

static void refuse(const char *file, size_t size, const char *part) {
  char *copy = malloc(size + (size == 0));
  memcpy(copy, file, size);
  ls_matrix_t m = {.rows = -7};
  said_clear();
  ls_status_t status = ls_read_npy(said.ctx, "a.npy", copy, size, &m);
  if (status != LS_ERR_DATA) fail_msg("status %d where '%s' was expected", status, part);
  assert_said("a.npy");
  assert_said(part);
  assert_int_equal(ls_ctx_error_count(said.ctx), 1);
  assert_int_equal(m.rows, -7);
  free(copy);
}

static void test_refuses_headers(void **state) {
#define OK_TAIL "'fortran_order': False, 'shape': (4,), }\n"
  static const struct {
    const char *header, *part;
  } rows[] = {
      {"{'descr': '|O', " OK_TAIL, "Python objects (dtype object)"},
      {"{'descr': 'O', " OK_TAIL, "Python objects (dtype object)"},
      {"{'descr': [('a', '<f4'), ('b', '<i4')], " OK_TAIL, "structured arrays are not supported"},
      {"{'descr': '<U5', " OK_TAIL, "holds text"},
      {"{'descr': '|S5', " OK_TAIL, "holds text"},
      {"{'descr': '<c8', " OK_TAIL, "'<c8' is not supported"},
      {"{'descr': '<f16', " OK_TAIL, "'<f16' is not supported"},
      {"{'descr': '<M8[ns]', " OK_TAIL, "not supported"},
      {"{'descr': '|f4', " OK_TAIL, "not supported"},
      {"{'descr': '=f4', " OK_TAIL, "not supported"},
      {"{'descr': '', " OK_TAIL, "not supported"},
      {"{'descr': 7, " OK_TAIL, "descr must be a string"},
      {"{'descr': '|u1', 'fortran_order': 0, 'shape': (4,), }", "fortran_order must be True or False"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "no dimensions"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4), }", "(n,) is"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': 4, }", "shape must be a tuple"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (-4,), }", "not a whole number"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4.0,), }", "comma or ) is missing"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (04,), }", "not a whole number"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,), }", "not a whole number"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "more than 2^63"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (0,), }", "dimension 1 is 0"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", "promises 5 bytes"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "1 bytes follow the data"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4,)", "comma or } is missing"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4", "comma or ) is missing"},
      {"{'descr': '|u1', 'fortran_order': False, }", "must all be there"},
      {"{'descr': '|u1', 'descr': '|u1', " OK_TAIL, "comes twice"},
      {"{'descr': '|u1', 'order': 'C', " OK_TAIL, "unknown key"},
      {"{descr: '|u1', " OK_TAIL, "a key is not a string"},
      {"{'descr' '|u1', " OK_TAIL, "a colon is missing"},
      {"{'descr': '|u1' 'fortran_order': False, 'shape': (4,)}", "comma or } is missing"},
      {"{'descr': '|u1", "descr must be a string"},
      {"{'descr': '|u1', " OK_TAIL "; import os", "text after the closing }"},
      {"", "must begin with {"},
      {"[]", "must begin with {"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': "
       "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
       "1,1,1,1)}",
       "more than 32 dimensions"},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    size_t size;
    char *file = npy(1, rows[i].header, "\1\2\3\4", 4, &size);
    refuse(file, size, rows[i].part);
    free(file);
  }
  size_t size;
  char *file = npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "\0\0\xc0\x7f", 4, &size);
  refuse(file, size, "is nan");
  free(file);
  file = npy(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", "\0\0\0\x7c", 4, &size);
  refuse(file, size, "row 1, column 0 (from 0; byte offset");
  free(file);
}

static void test_refuses_prefixes(void **state) {
  refuse("", 0, "not a .npy file");
  refuse("\x93NUMPX\1\0\0\0", 10, "not a .npy file");
  refuse("\x93NUMPY\1\1\2\0{}", 12, "version 1.1");
  refuse("\x93NUMPY\4\0\2\0{}", 12, "version 4.0");
  refuse("\x93NUMPY\1\0\2", 9, "truncated after 9 bytes");
  refuse("\x93NUMPY\2\0\2\0\0", 11, "truncated after 11 bytes");
  refuse("\x93NUMPY\1\0\3\0{}", 12, "a header of 3 bytes, but the file ends after 2");
  refuse("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14, "a header of 4294967295 bytes; at most 65536");
}

/* Every prefix of a good file is refused. */
static void test_truncated_anywhere(void **state) {
  size_t size;
  char *file = npy(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }\n", "\1\2\3\4", 4, &size);
  for (size_t cut = 0; cut < size; cut++)
    refuse(file, cut, "a.npy");
  free(file);
}

TESTS(said_open, said_close, test_types, test_shapes, test_column_by_column, test_refuses_headers,
      test_refuses_prefixes, test_truncated_anywhere)
