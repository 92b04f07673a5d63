/* .npz: members of zip archives by name; torn, altered, exploding and foreign archives are refused. */
#include "common.h"
#include "data/read.h"
#include "data/table/npz.h"
#include "zip.h"

enum { LIMIT_BYTES = 1 << 30 };
static const char long_text[] = "some text, some more text, some more text, some more text, some more text";

/* ls_npz_member on a copy of the archive; the member in *out (ls_free), or NULL. */
static ls_status_t take(ls_ctx_t *ctx, const char *path, const void *archive, size_t size, size_t limit,
                        char **out, size_t *out_size) {
  char *bytes = ls_alloc(ctx, size + 1);
  if (!bytes) return LS_ERR_MEMORY;
  if (size > 0) memcpy(bytes, archive, size);
  *out_size = size;
  ls_status_t status = ls_npz_member(ctx, path, limit, &bytes, out_size);
  if (status != LS_OK) {
    ls_free(bytes);
    bytes = NULL;
  }
  *out = bytes;
  return status;
}

static zip_file_t two_arrays(bool deflated, bool zip64) {
  zip_file_t z = {0};
  zip_add(&z, "x.npy", long_text, sizeof long_text, deflated, zip64);
  zip_add(&z, "part/y.npy", "abc", 3, deflated, zip64);
  zip_end(&z, zip64);
  return z;
}

static void test_members_by_name(void **state) {
  static const struct {
    const char *path, *bytes;
    size_t size;
  } rows[] = {{"f.npz:x", long_text, sizeof long_text},
              {"f.npz:x.npy", long_text, sizeof long_text},
              {"dir.npz:1/f.npz:part/y", "abc", 3},
              {"f.npz:part/y.npy", "abc", 3}};
  for (int kind = 0; kind < 4; kind++) {
    zip_file_t z = two_arrays(kind & 1, kind & 2);
    for (int i = 0; i < LS_COUNT(rows); i++) {
      char *out;
      size_t size;
      if (take(said.ctx, rows[i].path, z.bytes, z.size, LIMIT_BYTES, &out, &size) != LS_OK)
        fail_msg("refused: %s", said.messages);
      assert_int_equal(size, rows[i].size);
      assert_memory_equal(out, rows[i].bytes, size);
      ls_free(out);
    }
    free(z.bytes);
  }
}

static void test_paths(void **state) {
  assert_int_equal(ls_npz_file_length("a.npz"), 5);
  assert_int_equal(ls_npz_file_length("a.npz:x"), 5);
  assert_int_equal(ls_npz_file_length("C:a.npy"), 7);
  assert_int_equal(ls_npz_file_length("d.npz:e/a.npz:x:y"), 13);
  assert_true(ls_npz_is("a.npz:x", "", 0));
  assert_true(ls_npz_is("a", "PK\3\4", 4));
  assert_false(ls_npz_is("a.npz", "PK\3", 3));
}

/* Without a name the only member is taken; several are listed. */
static void test_which_member(void **state) {
  zip_file_t one = {0}, two = two_arrays(false, false), none = {0}, twice = {0}, many = {0};
  zip_add(&one, "arr_0.npy", "abc", 3, true, false);
  zip_end(&one, false);
  char *out;
  size_t size;
  assert_int_equal(take(said.ctx, "f.npz", one.bytes, one.size, LIMIT_BYTES, &out, &size), LS_OK);
  assert_memory_equal(out, "abc", 3);
  ls_free(out);
  assert_refused(take(said.ctx, "f.npz", two.bytes, two.size, LIMIT_BYTES, &out, &size), LS_ERR_DATA,
                 "f.npz: the archive has 2 arrays: name one as FILE.npz:NAME; it has x, part/y\n");
  assert_refused(take(said.ctx, "f.npz:z", two.bytes, two.size, LIMIT_BYTES, &out, &size), LS_ERR_DATA,
                 "f.npz: no array is named 'z'; the archive has x, part/y\n");
  zip_end(&none, false);
  assert_refused(take(said.ctx, "f.npz:z", none.bytes, none.size, LIMIT_BYTES, &out, &size), LS_ERR_DATA,
                 "f.npz:z: the archive is empty");
  zip_add(&twice, "x.npy", "a", 1, false, false);
  zip_add(&twice, "x.npy", "b", 1, false, false);
  zip_end(&twice, false);
  assert_refused(take(said.ctx, "f.npz:x", twice.bytes, twice.size, LIMIT_BYTES, &out, &size), LS_ERR_DATA,
                 "several arrays are named 'x'");
  char name[201] = "";
  memset(name, 'n', 200);
  for (int i = 0; i < 100; i++)
    zip_add(&many, name, "a", 1, false, false);
  zip_end(&many, false);
  said_clear();
  assert_refused(take(said.ctx, "f.npz:x", many.bytes, many.size, LIMIT_BYTES, &out, &size), LS_ERR_DATA,
                 "nnn..., ..\n");
  free(one.bytes);
  free(two.bytes);
  free(none.bytes);
  free(twice.bytes);
  free(many.bytes);
}

/* Bytes at a place counted from one of three records are overwritten. */
static void test_refuses(void **state) {
  enum { LOCAL, ENTRY, END };
  static const struct {
    const char *said;
    int record;
    bool deflated;
    size_t at;
    int bytes;
    uint64_t value;
  } rows[] = {
      {"encrypted", ENTRY, false, 8, 2, 1},
      {"compression method 12", ENTRY, false, 10, 2, 12},
      {"CRC-32 is", ENTRY, false, 16, 4, 0x12345678},
      {"CRC-32 is", ENTRY, true, 16, 4, 0x12345678},
      {"is stored, but has 5 bytes in 74", ENTRY, false, 24, 4, 5},
      {"unpacks to more than its size in the directory, 5 bytes", ENTRY, true, 24, 4, 5},
      {"unpacks to 74 bytes, not the 75", ENTRY, true, 24, 4, 75},
      {"the deflated data end too early", ENTRY, true, 20, 4, 9},
      {"promises 2147483648 bytes", ENTRY, true, 20, 4, (uint64_t)1 << 31},
      {"more than the limit of", ENTRY, true, 24, 4, 0x7fffffff},
      {"unpacks to more than 100 times its size (100000000 bytes", ENTRY, true, 24, 4, 100000000},
      {"does not lie in the file", ENTRY, false, 42, 4, 0x7fffffff},
      {"header and its entry in the directory differ", ENTRY, false, 42, 4, 1},
      {"header and its entry in the directory differ", LOCAL, false, 30, 1, 'z'},
      {"header and its entry in the directory differ", LOCAL, false, 26, 2, 0xffff},
      {"an entry is longer than the directory", ENTRY, false, 30, 2, 0xffff},
      {"an entry of its directory was expected", ENTRY, false, 0, 1, 'X'},
      {"several parts", END, false, 4, 2, 1},
      {"the directory does not lie in the file", END, false, 16, 4, 0x7fffffff},
      {"the directory does not lie in the file", END, false, 12, 4, 0x7fffffff},
      {"zip64 record of its directory is missing", END, false, 16, 4, 0xffffffff},
      {"the end record is missing", END, false, 20, 2, 3},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    zip_file_t z = {0};
    zip_add(&z, "x.npy", long_text, sizeof long_text, rows[i].deflated, false);
    size_t records[] = {[LOCAL] = 0, [ENTRY] = z.size, [END] = z.size + z.entries_size}, size;
    zip_end(&z, false);
    zip_number(z.bytes + records[rows[i].record] + rows[i].at, rows[i].value, rows[i].bytes);
    char *out;
    said_clear();
    assert_int_equal(take(said.ctx, "f.npz:x", z.bytes, z.size, LIMIT_BYTES, &out, &size), LS_ERR_DATA);
    assert_int_equal(ls_ctx_error_count(said.ctx), 1);
    assert_said("f.npz:x: ");
    assert_said(rows[i].said);
    free(z.bytes);
  }
}

/* No part of a file is a file; a changed byte gives the same member, or is found. */
static void test_truncated_and_changed(void **state) {
  for (int kind = 0; kind < 4; kind++) {
    zip_file_t z = two_arrays(kind & 1, kind & 2);
    for (size_t i = 0; i < 2 * z.size; i++) {
      bool cut = i < z.size;
      char *copy = malloc(z.size), *out; /* of the exact size, for the sanitizers */
      size_t size = cut ? i : z.size;
      memcpy(copy, z.bytes, z.size);
      if (!cut) copy[i - z.size] ^= 0x55;
      said_clear();
      ls_status_t status = take(said.ctx, "f.npz:x", copy, size, LIMIT_BYTES, &out, &size);
      if (cut || status != LS_OK) assert_int_equal(status, LS_ERR_DATA);
      if (status == LS_OK) assert_string_equal(out, long_text);
      if (status == LS_OK) ls_free(out);
      free(copy);
    }
    free(z.bytes);
  }
}

/* 100 MB of zeros in 100 kB. */
static void test_bomb(void **state) {
  size_t big = 100000000, size;
  char *zeros = calloc(1, big), *out;
  zip_file_t z = {0};
  zip_add(&z, "x.npy", zeros, big, true, false);
  zip_end(&z, false);
  assert_refused(take(said.ctx, "f.npz", z.bytes, z.size, LIMIT_BYTES, &out, &size), LS_ERR_DATA,
                 "unpacks to more than 100 times its size");
  assert_refused(take(said.ctx, "f.npz", z.bytes, z.size, big - 1, &out, &size), LS_ERR_DATA,
                 "more than the limit of 99999999");
  free(zeros);
  free(z.bytes);
}

/* Bytes of an array, header padded as numpy does. */
static size_t npy(const char *order, const char *shape, const float *values, size_t count, char file[512]) {
  memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
  memset(file + 10, ' ', 118);
  int len = snprintf(file + 10, 118, "{'descr': '<f4', 'fortran_order': %s, 'shape': %s, }", order, shape);
  file[10 + len] = ' ';
  file[127] = '\n';
  memcpy(file + 128, values, count * sizeof *values);
  return 128 + count * sizeof *values;
}

static const char *archive_make(void) {
  static const float x[] = {1, 2, 3, 4, 5, 6}, y[] = {7, 8, 9};
  char file[512];
  zip_file_t z = {0};
  size_t size = npy("True", "(3, 2)", x, 6, file);
  zip_add(&z, "x.npy", file, size, true, false);
  size = npy("False", "(3, 1)", y, 3, file);
  zip_add(&z, "y.npy", file, size, false, false);
  zip_end(&z, false);
  const char *path = file_make("a.npz", z.bytes, z.size);
  free(z.bytes);
  return path;
}

static ls_status_t open_archive(ls_ctx_t *ctx, void *arg) {
  char x[200], y[200];
  snprintf(x, sizeof x, "%s:x", (const char *)arg);
  snprintf(y, sizeof y, "%s:y", (const char *)arg);
  ls_data_config_t config = {.kind = LS_DATA_NPY, .features = x, .targets = y};
  ls_data_want_t want = {.inputs = 2, .outputs = 1};
  ls_dataset_t *d;
  ls_status_t status = ls_dataset_open(ctx, &config, NULL, &want, 1, NULL, &d);
  if (status != LS_OK) return status;
  assert_int_equal(d->rows, 3);
  const float *held = d->features, *held_y = d->targets;
  assert_true(held[0] == 1 && held[1] == 4 && held[2] == 2 && held_y[2] == 9);
  ls_dataset_close(d);
  return LS_OK;
}

/* Two arrays of one archive are a dataset; the features stand column by column. */
static void test_dataset_in_fortran_order(void **state) {
  char nowhere[] = "/nowhere/b.npz";
  assert_int_equal(open_archive(said.ctx, (void *)(uintptr_t)archive_make()), LS_OK);
  assert_refused(open_archive(said.ctx, nowhere), LS_ERR_NOT_FOUND, "/nowhere/b.npz: No such file");
  const char *no_zip = file_make("c.npz", "\x93NUMPY\1\0 and more than twenty-two bytes", 40);
  assert_refused(open_archive(said.ctx, (void *)(uintptr_t)no_zip), LS_ERR_DATA,
                 "c.npz:x: not a .npz file (zip archive)");
}

static void test_memory(void **state) {
  each_alloc_fails(open_archive, (void *)(uintptr_t)archive_make());
}

TESTS(said_open, said_close, test_members_by_name, test_paths, test_which_member, test_refuses,
      test_truncated_and_changed, test_bomb, test_dataset_in_fortran_order, test_memory)
