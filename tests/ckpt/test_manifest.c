/* The manifest: what is written is read back; anything else is refused with its reason; no bit of it can
 * change unnoticed. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH "0123456789abcdef0123456789abcdef"

static ls_manifest_t example(void) {
  static ls_manifest_file_t files[] = {{LS_MODEL_NAME, 4096, HASH, false}, {LS_OPTIM_NAME, 0, HASH, false}};
  return (ls_manifest_t){.step = 1234567890123, .metric = 0.1, .file_count = 2, .file = files};
}

static void reads_back_what_was_written(void **state) {
  static const double metrics[] = {0.1, -0.0, 1e-300, NAN, INFINITY};
  for (int i = 0; i < LS_COUNT(metrics); i++) {
    ls_manifest_t m = example(), back = {0};
    m.metric = metrics[i];
    json_t *meta = json_pack("{s:[f,f], s:{s:s}}", "norm", 0.1, 1e-7, "model", "layer", "\xc3\xa4\"\n");
    char *text;
    size_t size;
    assert_int_equal(ls_manifest_write(f->ctx, &m, meta, &text, &size), LS_OK);
    assert_null(strstr(text, "0.10000000000000001")); /* as few digits as read back equal */
    assert_int_equal(strlen(text), size);
    assert_int_equal(ls_manifest_read(f->ctx, "m", text, size, &back), LS_OK);
    assert_int_equal(back.step, m.step);
    double expected = isfinite(m.metric) ? m.metric : NAN; /* what is not finite is unknown */
    assert_true(isnan(expected) ? isnan(back.metric) : back.metric == expected);
    assert_int_equal(back.file_count, 2);
    assert_string_equal(back.file[0].name, LS_MODEL_NAME);
    assert_int_equal(back.file[0].size_bytes, 4096);
    assert_string_equal(back.file[1].xxh3_128, HASH);
    assert_true(json_equal(back.meta, meta));
    assert_string_equal(back.file[1].name, LS_OPTIM_NAME);
    assert_int_equal(back.tensor_count, 0);
    assert_non_null(strstr(text, "\"version\": 1,"));
    assert_null(strstr(text, "\"tensors\""));
    ls_manifest_release(&back);
    ls_free(text);
    json_decref(meta);
  }
}

static void reads_back_the_pieces_that_were_written(void **state) {
  ls_manifest_t m = example(), back = {0};
  ls_manifest_piece_t pieces[] = {{1, {0, 5}}, {0, {5, 6}}, {1, {6, 12}}};
  ls_manifest_tensor_t tensors[] = {
      {"w", LS_PART_MODEL, LS_SHAPE(LS_BF16, 3, 4), 3, pieces},
      {"w", LS_PART_OPTIM, {.dtype = LS_F64}, 1, &(ls_manifest_piece_t){0, {0, 1}}},
      {"empty", LS_PART_OPTIM, LS_SHAPE(LS_U16, 0, 4), 0, NULL}};
  m.tensor = tensors;
  m.tensor_count = LS_COUNT(tensors);
  char *text;
  size_t size;
  assert_int_equal(ls_manifest_write(f->ctx, &m, NULL, &text, &size), LS_OK);
  assert_non_null(strstr(text, "\"version\": 2,"));
  assert_int_equal(ls_manifest_read(f->ctx, "m", text, size, &back), LS_OK);
  assert_int_equal(back.tensor_count, LS_COUNT(tensors));
  for (int i = 0; i < back.tensor_count; i++) {
    assert_string_equal(back.tensor[i].name, tensors[i].name);
    assert_int_equal(back.tensor[i].part, tensors[i].part);
    assert_true(ls_shape_equal(&back.tensor[i].shape, &tensors[i].shape));
    assert_int_equal(back.tensor[i].piece_count, tensors[i].piece_count);
    for (int k = 0; k < tensors[i].piece_count; k++) {
      assert_int_equal(back.tensor[i].piece[k].file, tensors[i].piece[k].file);
      assert_int_equal(back.tensor[i].piece[k].range.begin, tensors[i].piece[k].range.begin);
      assert_int_equal(back.tensor[i].piece[k].range.end, tensors[i].piece[k].range.end);
    }
  }
  assert_true(back.file[0].pieces && back.file[1].pieces);
  ls_manifest_release(&back);
  ls_free(text);
}

static void refuses_meta_that_is_not_an_object(void **state) {
  ls_manifest_t m = example();
  json_t *meta = json_array();
  char *text = NULL;
  size_t size;
  assert_int_equal(ls_manifest_write(f->ctx, &m, meta, &text, &size), LS_ERR_ARGUMENT);
  assert_null(text);
  json_decref(meta);
}

#define HEAD     "{\"format\":\"lockstep-checkpoint\",\"version\":1,"
#define FILES(x) "\"files\":[" x "],"
#define FILE_OK  "{\"name\":\"a\",\"size_bytes\":1,\"xxh3_128\":\"" HASH "\"}"
#define TAIL     "\"meta\":{},\"manifest_xxh3_128\":\"" HASH "\"}"
/* Version 2 with one tensor, and its list of pieces alone. */
#define TENSORS(x)                                                                                           \
  "{\"format\":\"lockstep-checkpoint\",\"version\":2,\"step\":1,\"metric\":null," FILES(                     \
      FILE_OK) "\"tensors\":" x "," TAIL
#define TENSOR(part, dtype, shape, pieces)                                                                   \
  "{\"name\":\"t\",\"part\":" part ",\"dtype\":" dtype ",\"shape\":" shape ",\"pieces\":" pieces "}"
#define ONE(part, dtype, shape, pieces) TENSORS("[" TENSOR(part, dtype, shape, pieces) "]")
#define PIECES(x)                       ONE("\"model\"", "\"F32\"", "[2,3]", "[" x "]")
#define PIECE(begin, end)               "{\"file\":\"a\",\"begin\":" #begin ",\"end\":" #end "}"
#define GOOD                            TENSOR("\"model\"", "\"F32\"", "[6]", "[" PIECE(0, 6) "]")
#define NAMED(n)                                                                                             \
  HEAD "\"step\":1,\"metric\":null," FILES("{\"name\":" n ",\"size_bytes\":1,\"xxh3_128\":\"" HASH "\"}") TAIL

static const struct {
  const char *text, *reason;
} bad[] = {
    {"", "m:"},
    {"{", "not valid JSON"},
    {"[]", "not a JSON object"},
    {"{}", "\"format\" is not"},
    {"{\"format\":3}", "\"format\" is not"},
    {"{\"format\":\"safetensors\",\"version\":1}", "\"format\" is not"},
    {"{\"format\":\"lockstep-checkpoint\"}", "\"version\" is not an integer"},
    {"{\"format\":\"lockstep-checkpoint\",\"version\":\"1\"}", "\"version\" is not an integer"},
    {"{\"format\":\"lockstep-checkpoint\",\"version\":3,\"other\":1}", "version 3 is not known"},
    {"{\"format\":\"lockstep-checkpoint\",\"version\":-7}", "version -7 is not known"},
    {HEAD "\"step\":1,\"step\":2}", "not valid JSON"},
    {HEAD "\"metric\":null," FILES(FILE_OK) TAIL, "m: step: this member is expected"},
    {HEAD "\"step\":1,\"metric\":null," FILES(FILE_OK) "\"meta\":{}}",
     "manifest_xxh3_128: this member is expected"},
    {HEAD "\"step\":1,\"metric\":null,\"x\\u001by\":1," FILES(FILE_OK) TAIL, "unknown key \"x\\x1by\""},
    {HEAD "\"step\":1,\"metric\":null,\"x\\ny\":1," FILES(FILE_OK) TAIL, "unknown key \"x\\ny\""},
    {HEAD "\"step\":1.0,\"metric\":null," FILES(FILE_OK) TAIL, "step: a whole number >= 0 expected"},
    {HEAD "\"step\":-1,\"metric\":null," FILES(FILE_OK) TAIL, "step: a whole number >= 0 expected"},
    {HEAD "\"step\":1,\"metric\":\"0\"," FILES(FILE_OK) TAIL, "metric: a number expected"},
    {HEAD "\"step\":1,\"metric\":1e999," FILES(FILE_OK) TAIL, "not valid JSON"},
    {HEAD "\"step\":1,\"metric\":null,\"files\":{}," TAIL, "files: a list of"},
    {HEAD "\"step\":1,\"metric\":null," FILES("1") TAIL, "files[0]: an object expected"},
    {HEAD "\"step\":1,\"metric\":null," FILES("{}") TAIL, "files[0].name: this member is expected"},
    {HEAD "\"step\":1,\"metric\":null," FILES(FILE_OK "," FILE_OK) TAIL, "listed twice"},
    {HEAD "\"step\":1,\"metric\":null," FILES("{\"name\":\"a\",\"size_bytes\":-1,\"xxh3_128\":\"" HASH "\"}")
         TAIL,
     "files[0].size_bytes: a whole number"},
    {HEAD "\"step\":1,\"metric\":null," FILES("{\"name\":\"a\",\"size_bytes\":1,\"xxh3_128\":\"" HASH "0\"}")
         TAIL,
     "32 hexadecimal digits"},
    {HEAD "\"step\":1,\"metric\":null," FILES(
         "{\"name\":\"a\",\"size_bytes\":1,\"xxh3_128\":\"0123456789ABCDEF0123456789abcdef\"}") TAIL,
     "32 hexadecimal digits"},
    {NAMED("\"\""), "files[0].name: a plain file name expected"},
    {NAMED("\"..\""), "files[0].name: a plain file name expected"},
    {NAMED("\"../../etc/passwd\""), "files[0].name: a plain file name expected"},
    {NAMED("\"/etc/passwd\""), "files[0].name: a plain file name expected"},
    {NAMED("\"a/b\""), "files[0].name: a plain file name expected"},
    {NAMED("\".hidden\""), "files[0].name: a plain file name expected"},
    {NAMED("\"manifest.json\""), "files[0].name: a plain file name expected"},
    {NAMED("\"a\\nb\""), "files[0].name: a plain file name expected"},
    {NAMED("\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""),
     "files[0].name: a plain file name expected"},
    {NAMED("7"), "files[0].name: a plain file name expected"},
    {HEAD "\"step\":1,\"metric\":null," FILES(FILE_OK) "\"meta\":[],\"manifest_xxh3_128\":\"" HASH "\"}",
     "meta: an object expected"},
    {HEAD "\"step\":1,\"metric\":null," FILES(FILE_OK) TAIL, "does not match the hash at its end"},
    {TENSORS("[" GOOD "]"), "does not match the hash at its end"},
    {HEAD "\"step\":1,\"metric\":null," FILES(FILE_OK) "\"tensors\":[" GOOD "]," TAIL,
     "\"tensors\" and \"version\" do not go together"},
    {"{\"format\":\"lockstep-checkpoint\",\"version\":2,\"step\":1,\"metric\":null," FILES(FILE_OK) TAIL,
     "\"tensors\" and \"version\" do not go together"},
    {TENSORS("{}"), "\"tensors\" is not a list"},
    {TENSORS("[]"), "\"tensors\" is not a list, or empty"},
    {TENSORS("[7]"), "tensor '' is not {name"},
    {TENSORS("[{\"name\":\"t\"}]"), "tensor 't' is not {name"},
    {TENSORS("[" GOOD "," GOOD "]"), "tensor 't' is listed twice"},
    {ONE("\"else\"", "\"F32\"", "[1]", "[]"), "belongs to no known part"},
    {ONE("1", "\"F32\"", "[1]", "[]"), "belongs to no known part"},
    {ONE("\"optim\"", "\"F8\"", "[1]", "[]"), "tensor 't' has the dtype 'F8'"},
    {ONE("\"optim\"", "\"F32\"", "[-1]", "[]"), "negative dimension"},
    {ONE("\"optim\"", "\"F32\"", "[4611686018427387904,4]", "[]"), "size overflows"},
    {ONE("\"optim\"", "\"U8\"", "[1,1,1,1,1,1,1]", "[]"), "more than 6 dimensions"},
    {ONE("\"optim\"", "\"F32\"", "[1]", "{}"), "has no list of pieces"},
    {PIECES("7"), "has a piece that is not {file, begin, end}"},
    {PIECES("{\"file\":\"a\",\"begin\":0,\"end\":6,\"x\":1}"), "has a piece that is not {file, begin, end}"},
    {PIECES("{\"file\":\"b\",\"begin\":0,\"end\":6}"),
     "m: tensor 't' has a piece in a file that is not listed"},
    {PIECES("{\"file\":\"../a\",\"begin\":0,\"end\":6}"), "in a file that is not listed"},
    {PIECES("{\"file\":1,\"begin\":0,\"end\":6}"), "in a file that is not listed"},
    {PIECES("{\"file\":\"a\",\"begin\":0,\"end\":6.0}"), "not a whole number"},
    {PIECES(""), "tensor 't' lacks its last pieces"},
    {PIECES(PIECE(0, 5)), "tensor 't' lacks its last pieces"},
    {PIECES(PIECE(1, 6)), "has a gap between its pieces"},
    {PIECES(PIECE(0, 2) "," PIECE(3, 6)), "has a gap between its pieces"},
    {PIECES(PIECE(0, 4) "," PIECE(3, 6)), "has pieces that overlap"},
    {PIECES(PIECE(3, 6) "," PIECE(0, 3)), "has a gap between its pieces"},
    {PIECES(PIECE(0, 6) "," PIECE(0, 6)), "has pieces that overlap"},
    {PIECES(PIECE(-1, 6)), "has pieces that overlap"},
    {PIECES(PIECE(0, 0) "," PIECE(0, 6)), "has a piece that is empty"},
    {PIECES(PIECE(0, -9223372036854775807)), "has a piece that is empty"},
    {PIECES(PIECE(0, 7)), "has a piece beyond its end"},
    {PIECES(PIECE(0, 9223372036854775807)), "has a piece beyond its end"},
};

static void refuses_malformed_text_with_the_reason(void **state) {
  for (int i = 0; i < LS_COUNT(bad); i++) {
    fixture_forget();
    ls_manifest_t m = {.step = -5};
    size_t size = strlen(bad[i].text);
    char *text = malloc(size ? size : 1); /* no NUL behind it: the sanitizer sees a read beyond the end */
    memcpy(text, bad[i].text, size);
    assert_int_equal(ls_manifest_read(f->ctx, "m", text, size, &m), LS_ERR_CORRUPT);
    assert_int_equal(m.step, -5);
    assert_contains(ls_ctx_error(f->ctx), bad[i].reason);
    assert_int_equal(ls_ctx_error_count(f->ctx), 1);
    free(text);
  }
}

static void refuses_more_files_than_it_holds(void **state) {
  enum { EACH_BYTES = 128 };
  char *text = malloc((LS_MANIFEST_FILES_MAX + 4) * EACH_BYTES), *to = text;
  to += sprintf(to, "%s", HEAD "\"step\":1,\"metric\":null,\"files\":[");
  for (int i = 0; i <= LS_MANIFEST_FILES_MAX; i++)
    to += sprintf(to, "%s{\"name\":\"f%d\",\"size_bytes\":1,\"xxh3_128\":\"" HASH "\"}", i ? "," : "", i);
  strcpy(to, "]," TAIL);
  ls_manifest_t m;
  fixture_forget();
  assert_refused(ls_manifest_read(f->ctx, "m", text, strlen(text), &m), LS_ERR_CORRUPT,
                 "files: a list of at most 16384 expected");
  free(text);
}

static void notices_every_changed_bit_and_every_cut(void **state) {
  ls_manifest_t m = example(), back;
  char *text;
  size_t size;
  json_t *meta = json_pack("{s:i, s:s}", "position", 7, "note", "aAbB");
  assert_int_equal(ls_manifest_write(f->ctx, &m, meta, &text, &size), LS_OK);
  for (size_t bit = 0; bit < 8 * size; bit++) {
    text[bit / 8] ^= (char)(1 << bit % 8);
    assert_int_equal(ls_manifest_read(f->ctx, "m", text, size, &back), LS_ERR_CORRUPT);
    text[bit / 8] ^= (char)(1 << bit % 8);
  }
  for (size_t cut = 0; cut < size; cut++)
    assert_int_equal(ls_manifest_read(f->ctx, "m", text, cut, &back), LS_ERR_CORRUPT);
  assert_int_equal(ls_manifest_read(f->ctx, "m", text, size, &back), LS_OK);
  ls_manifest_release(&back);
  ls_free(text);
  json_decref(meta);
}

/* ---- memory ---- */

static ls_status_t write_and_read(void) {
  ls_manifest_t m = example(), back;
  char *text = NULL;
  size_t size;
  ls_status_t status = ls_manifest_write(f->ctx, &m, NULL, &text, &size);
  if (status) assert_null(text);
  if (status) return status;
  status = ls_manifest_read(f->ctx, "m", text, size, &back);
  if (!status) ls_manifest_release(&back);
  ls_free(text);
  return status;
}

static int json_left;
static void *failing_malloc(size_t size) {
  return json_left-- == 0 ? NULL : malloc(size);
}

static void reports_every_failed_allocation(void **state) {
  ls_ctx_fail_alloc(f->ctx, 0);
  assert_int_equal(write_and_read(), LS_OK);
  int64_t made = ls_ctx_fail_alloc(f->ctx, 0);
  assert_true(made >= 1);
  for (int64_t n = 1; n <= made; n++) {
    ls_ctx_fail_alloc(f->ctx, n);
    assert_int_equal(write_and_read(), LS_ERR_MEMORY);
  }
  ls_ctx_fail_alloc(f->ctx, 0);
}

/* jansson takes an allocation that fails within a string for bad syntax, so either error will do. */
static void survives_every_failed_allocation_of_the_json_library(void **state) {
  ls_status_t status = LS_ERR_MEMORY;
  json_set_alloc_funcs(failing_malloc, free);
  for (int n = 0; n < 10000 && (status == LS_ERR_MEMORY || status == LS_ERR_CORRUPT); n++) {
    json_left = n;
    status = write_and_read();
  }
  json_set_alloc_funcs(malloc, free);
  assert_int_equal(status, LS_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_back_what_was_written),
      cmocka_unit_test(reads_back_the_pieces_that_were_written),
      cmocka_unit_test(refuses_meta_that_is_not_an_object),
      cmocka_unit_test(refuses_malformed_text_with_the_reason),
      cmocka_unit_test(refuses_more_files_than_it_holds),
      cmocka_unit_test(notices_every_changed_bit_and_every_cut),
      cmocka_unit_test(reports_every_failed_allocation),
      cmocka_unit_test(survives_every_failed_allocation_of_the_json_library),
  };
  return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
