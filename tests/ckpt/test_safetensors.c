/* The safetensors container: exact bytes out, exact numbers back, and a refusal with a reason for everything
 * else. */
#include "image.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void writes_the_exact_bytes(void **state) {
  float weight[2] = {1.5f, -2.0f};
  unsigned char flag[3] = {7, 8, 9};
  const ls_ckpt_tensor_t tensors[] = {{"b", LS_SHAPE(LS_U8, 3), flag}, {"w", LS_SHAPE(LS_F32, 1, 2), weight}};
  static const char json[] = "{\"b\":{\"data_offsets\":[8,11],\"dtype\":\"U8\",\"shape\":[3]},"
                             "\"w\":{\"data_offsets\":[0,8],\"dtype\":\"F32\",\"shape\":[1,2]}}";
  char *bytes = NULL;
  size_t size = 0;
  assert_int_equal(image_write(f->ctx, tensors, 2, &bytes, &size), LS_OK);
  assert_int_equal(size, 4096 + 11);
  uint64_t length;
  memcpy(&length, bytes, 8);
  assert_int_equal(length, 4096 - 8);
  assert_memory_equal(bytes + 8, json, sizeof json - 1);
  for (size_t i = 8 + sizeof json - 1; i < 4096; i++)
    assert_int_equal(bytes[i], ' ');
  assert_memory_equal(bytes + 4096, weight, 8);
  assert_memory_equal(bytes + 4096 + 8, flag, 3);
  ls_free(bytes);
}

/* A header's length begins like other files now and then: 640 like a pickle, 0x685a42 like bzip2. It counts where it can be one. */
static void a_length_that_looks_like_another_file(void **state) {
  static const uint64_t lengths[] = {640, 1152, 1408, 0x685a42, 0xffd8ff};
  size_t json_bytes;
  for (int i = 0; i < LS_COUNT(lengths); i++) {
    assert_int_equal(ls_safetensors_length(f->ctx, "w", &lengths[i], lengths[i] + 8, &json_bytes), LS_OK);
    assert_int_equal(json_bytes, lengths[i]);
    assert_int_equal(ls_safetensors_length(f->ctx, "w", &lengths[i], lengths[i] + 7, &json_bytes),
                     LS_ERR_CORRUPT);
  }
}

static void reads_back_what_was_written(void **state) {
  state_t s;
  state_create(&s, 3);
  state_fill(&s, 11);
  char *bytes;
  size_t size;
  assert_int_equal(image_write(f->ctx, s.optim, OPTIM_COUNT, &bytes, &size), LS_OK);
  ls_arena_t arena;
  ls_arena_init(&arena, f->ctx);
  ls_ckpt_tensor_t *back;
  int count;
  assert_int_equal(image_read(f->ctx, &arena, "x", bytes, size, &back, &count), LS_OK);
  assert_int_equal(count, OPTIM_COUNT);
  for (int i = 0; i < count; i++) {
    const ls_ckpt_tensor_t *was = NULL;
    for (int k = 0; k < OPTIM_COUNT; k++)
      if (strcmp(s.optim[k].name, back[i].name) == 0) was = &s.optim[k];
    assert_non_null(was);
    assert_true(ls_shape_equal(&was->shape, &back[i].shape));
    assert_memory_equal(was->data, back[i].data, ls_shape_bytes(&was->shape));
  }
  ls_arena_release(&arena);
  ls_free(bytes);
  state_destroy(&s);
}

/* One number of each 16-bit type that is finite, and its neighbour that is not. */
static void stores_types_of_sixteen_bits(void **state) {
  uint16_t bf16[2] = {0x3f80, 0x7f7f}, f16[2] = {0x3c00, 0x7bff}, u16[2] = {0, 0xffff};
  const ls_ckpt_tensor_t tensors[] = {{"bf16", LS_SHAPE(LS_BF16, 2), bf16},
                                      {"f16", LS_SHAPE(LS_F16, 2), f16},
                                      {"u16", LS_SHAPE(LS_U16, 2), u16}};
  char *bytes;
  size_t size;
  assert_int_equal(image_write(f->ctx, tensors, 3, &bytes, &size), LS_OK);
  assert_non_null(strstr(bytes + 8, "\"BF16\""));
  assert_non_null(strstr(bytes + 8, "\"F16\""));
  assert_non_null(strstr(bytes + 8, "\"U16\""));
  ls_arena_t arena;
  ls_arena_init(&arena, f->ctx);
  ls_ckpt_tensor_t *back;
  int count;
  assert_int_equal(image_read(f->ctx, &arena, "x", bytes, size, &back, &count), LS_OK);
  assert_int_equal(count, 3);
  for (int i = 0; i < 3; i++) {
    assert_true(ls_shape_equal(&back[i].shape, &tensors[i].shape));
    assert_memory_equal(back[i].data, tensors[i].data, 4);
    assert_int_equal(ls_ckpt_nonfinite(back[i].shape.dtype, back[i].data, 4), -1);
  }
  ls_arena_release(&arena);
  ls_free(bytes);
  bf16[1]++;
  f16[1]++;
  assert_int_equal(ls_ckpt_nonfinite(LS_BF16, bf16, 4), 1);
  assert_int_equal(ls_ckpt_nonfinite(LS_F16, f16, 4), 1);
}

static void writes_a_file_without_tensors(void **state) {
  char *bytes;
  size_t size;
  assert_int_equal(image_write(f->ctx, NULL, 0, &bytes, &size), LS_OK);
  assert_int_equal(size, 4096);
  ls_arena_t arena;
  ls_arena_init(&arena, f->ctx);
  ls_ckpt_tensor_t *back;
  int count = -1;
  assert_int_equal(image_read(f->ctx, &arena, "x", bytes, size, &back, &count), LS_OK);
  assert_int_equal(count, 0);
  ls_arena_release(&arena);
  ls_free(bytes);
}

static void refuses_names_that_clash(void **state) {
  float x = 0;
  static const struct {
    const char *a, *b, *reason;
  } cases[] = {{"w", "w", "same name"},
               {"w", "", "no name"},
               {"w", "__metadata__", "__metadata__"},
               {"w", "a\nb", "printable ASCII"},
               {"w", "\xc3\xa4", "printable ASCII"}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    fixture_forget();
    const ls_ckpt_tensor_t t[] = {{cases[i].a, LS_SHAPE(LS_F32, 1), &x},
                                  {cases[i].b, LS_SHAPE(LS_F32, 1), &x}};
    char *bytes = NULL;
    size_t size;
    assert_int_equal(image_write(f->ctx, t, 2, &bytes, &size), LS_ERR_ARGUMENT);
    assert_null(bytes);
    assert_contains(ls_ctx_error(f->ctx), cases[i].reason);
  }
}

/* ---- malformed files ---- */

/* `length` 0 means the header's own. */
typedef struct {
  const char *header;
  size_t data_bytes;
  const char *reason; /* NULL: must be accepted */
  uint64_t length;
} bad_t;

#define T(dtype, shape, from, to)                                                                            \
  "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

static const bad_t bad_files[] = {
    {"{\"a\":" T("F32", "[2]", 0, 8) "}", 8, NULL, 0},
    {"{\"a\":" T("F32", "[2]", 0, 8) "}  \n ", 8, NULL, 0},
    {"{\"a\":" T("I64", "[]", 0, 8) ",\"z\":" T("U8", "[0]", 8, 8) "}", 8, NULL, 0},
    {"{\"__metadata__\":{\"format\":\"pt\"},\"a\":" T("F32", "[2]", 0, 8) "}", 8, NULL, 0},
    {"{\"b\":" T("F32", "[1]", 4, 8) ",\"a\":" T("F32", "[1]", 0, 4) "}", 8, NULL, 0},
    {"{}", 0, NULL, 0},
    {"{}", 0, "not a safetensors file", 100000001},
    {"{}", 0, "not a safetensors file", UINT64_MAX},
    {"{}", 0, "the file ends after 2", 3},
    {"", 0, "does not begin with '{'", 0},
    {" {}", 0, "does not begin with '{'", 0},
    {"[]", 0, "does not begin with '{'", 0},
    {"{\"a\":", 0, "not valid JSON", 0},
    {"{}x", 0, "not valid JSON", 0},
    {"{\"a\":" T("F32", "[2]", 0, 8) ",\"a\":" T("F32", "[2]", 0, 8) "}", 8, "duplicate object key", 0},
    {"{\"a\":3}", 0, "tensor 'a' is not described by an object", 0},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "tensor 'a' has no dtype", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "has no shape", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "no data_offsets", 0},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8, "a key other than", 0},
    {"{\"a\":" T("F8_E4M3", "[8]", 0, 8) "}", 8, "dtype 'F8_E4M3'", 0},
    {"{\"a\":" T("f32", "[2]", 0, 8) "}", 8, "dtype 'f32'", 0},
    {"{\"\\u001b[31m\":" T("F8_E4M3", "[8]", 0, 8) "}", 8, "tensor '\\x1b[31m'", 0},
    {"{\"a\":" T("F32", "[-2]", 0, 8) "}", 8, "negative dimension", 0},
    {"{\"a\":" T("F32", "[2.0]", 0, 8) "}", 8, "not an integer", 0},
    {"{\"a\":" T("F32", "[1,1,1,1,1,1,2]", 0, 8) "}", 8, "more than 6 dimensions", 0},
    {"{\"a\":" T("F32", "[4611686018427387904,4]", 0, 0) "}", 0, "overflows", 0},
    {"{\"a\":" T("F32", "[2305843009213693952]", 0, 0) "}", 0, "overflows", 0},
    {"{\"a\":" T("F32", "[99999999999999999999]", 0, 0) "}", 0, "not valid JSON", 0},
    {"{\"a\":" T("F32", "[2]", 8, 0) "}", 8, "run backwards", 0},
    {"{\"a\":" T("F32", "[2]", -8, 0) "}", 8, "negative", 0},
    {"{\"a\":" T("F32", "[2]", 0, 7) "}", 8, "do not fit its shape", 0},
    {"{\"a\":" T("F32", "[2]", 0, 8) "}", 7, "after the end of the file", 0},
    {"{\"a\":" T("F32", "[2]", 0, 8) "}", 9, "1 bytes after the last tensor", 0},
    {"{}", 1, "1 bytes after the last tensor", 0},
    {"{\"a\":" T("F32", "[1]", 4, 8) "}", 8, "'a' begins after a hole", 0},
    {"{\"a\":" T("F32", "[1]", 0, 4) ",\"b\":" T("F32", "[1]", 8, 12) "}", 12, "'b' begins after a hole", 0},
    {"{\"a\":" T("F32", "[2]", 0, 8) ",\"b\":" T("F32", "[2]", 4, 12) "}", 12, "'b' overlaps", 0},
    {"{\"a\":" T("F32", "[2]", 0, 8) ",\"b\":" T("F32", "[2]", 0, 8) "}", 8, "overlaps", 0},
    {"{\"__metadata__\":{\"format\":1}}", 0, "__metadata__ must map", 0},
    {"{\"__metadata__\":[]}", 0, "__metadata__ must map", 0},
};

static void refuses_malformed_files_with_the_reason(void **state) {
  for (int i = 0; i < LS_COUNT(bad_files); i++) {
    const bad_t *b = &bad_files[i];
    fixture_forget();
    uint64_t json_bytes = strlen(b->header), length = b->length ? b->length : json_bytes;
    size_t size = 8 + json_bytes + b->data_bytes;
    char *bytes = malloc(size); /* exactly: a read beyond the end is seen by the sanitizer */
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, b->header, json_bytes);
    memset(bytes + 8 + json_bytes, 1, b->data_bytes);
    ls_arena_t arena;
    ls_arena_init(&arena, f->ctx);
    ls_ckpt_tensor_t *tensors = NULL;
    int count = -1;
    ls_status_t status = image_read(f->ctx, &arena, "the-file", bytes, size, &tensors, &count);
    if ((status == LS_OK) != (b->reason == NULL)) print_error("case %d: %s\n", i, b->header);
    assert_int_equal(status, b->reason ? LS_ERR_CORRUPT : LS_OK);
    if (b->reason) {
      assert_contains(ls_ctx_error(f->ctx), b->reason);
      assert_contains(ls_ctx_error(f->ctx), "the-file");
      assert_int_equal(ls_ctx_error_count(f->ctx), 1);
      assert_null(tensors);
      assert_int_equal(count, -1);
    }
    ls_arena_release(&arena);
    free(bytes);
  }
}

static void refuses_every_truncation(void **state) {
  static const char header[] = "{\"a\":" T("F32", "[2]", 0, 8) "}";
  char whole[8 + sizeof header - 1 + 8] = {sizeof header - 1};
  memcpy(whole + 8, header, sizeof header - 1);
  for (size_t size = 0; size <= sizeof whole; size++) {
    char *bytes = malloc(size ? size : 1);
    memcpy(bytes, whole, size);
    ls_arena_t arena;
    ls_arena_init(&arena, f->ctx);
    ls_ckpt_tensor_t *tensors;
    int count;
    ls_status_t status = image_read(f->ctx, &arena, "x", bytes, size, &tensors, &count);
    assert_int_equal(status, size == sizeof whole ? LS_OK : LS_ERR_CORRUPT);
    ls_arena_release(&arena);
    free(bytes);
  }
}

/* ---- memory ---- */

static ls_status_t write_and_read(const state_t *s) {
  char *bytes = NULL;
  size_t size;
  ls_status_t status = image_write(f->ctx, s->param, PARAM_COUNT, &bytes, &size);
  if (status) assert_null(bytes);
  if (status) return status;
  ls_arena_t arena;
  ls_arena_init(&arena, f->ctx);
  ls_ckpt_tensor_t *tensors;
  int count;
  status = image_read(f->ctx, &arena, "x", bytes, size, &tensors, &count);
  ls_arena_release(&arena);
  ls_free(bytes);
  return status;
}

static void reports_every_failed_allocation(void **state) {
  state_t s;
  state_create(&s, 3);
  state_fill(&s, 1);
  ls_ctx_fail_alloc(f->ctx, 0);
  assert_int_equal(write_and_read(&s), LS_OK);
  int64_t made = ls_ctx_fail_alloc(f->ctx, 0);
  assert_true(made >= 3);
  for (int64_t n = 1; n <= made; n++) {
    fixture_forget();
    ls_ctx_fail_alloc(f->ctx, n);
    assert_int_equal(write_and_read(&s), LS_ERR_MEMORY);
    assert_int_equal(ls_ctx_error_count(f->ctx), 1);
  }
  ls_ctx_fail_alloc(f->ctx, 0);
  state_destroy(&s);
}

static int json_left;
static void *failing_malloc(size_t size) {
  return json_left-- == 0 ? NULL : malloc(size);
}

/* jansson takes an allocation that fails within a string for bad syntax, so either error will do. */
static void survives_every_failed_allocation_of_the_json_library(void **state) {
  state_t s;
  state_create(&s, 3);
  state_fill(&s, 1);
  ls_status_t status = LS_ERR_MEMORY;
  json_set_alloc_funcs(failing_malloc, free);
  for (int n = 0; n < 10000 && (status == LS_ERR_MEMORY || status == LS_ERR_CORRUPT); n++) {
    json_left = n;
    fixture_forget();
    status = write_and_read(&s);
  }
  json_set_alloc_funcs(malloc, free);
  assert_int_equal(status, LS_OK);
  state_destroy(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_the_exact_bytes),
      cmocka_unit_test(a_length_that_looks_like_another_file),
      cmocka_unit_test(reads_back_what_was_written),
      cmocka_unit_test(stores_types_of_sixteen_bits),
      cmocka_unit_test(writes_a_file_without_tensors),
      cmocka_unit_test(refuses_names_that_clash),
      cmocka_unit_test(refuses_malformed_files_with_the_reason),
      cmocka_unit_test(refuses_every_truncation),
      cmocka_unit_test(reports_every_failed_allocation),
      cmocka_unit_test(survives_every_failed_allocation_of_the_json_library),
  };
  return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
