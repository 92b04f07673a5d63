/* JSON files: what is whole is read; all else is refused with its line, and nothing is written. */
#include "capture.h"

#include <stdlib.h>
#include <unistd.h>

static char path[64];

static int setup(void **state) {
  strcpy(path, "/tmp/lockstep-test-XXXXXX");
  int file = mkstemp(path);
  return file < 0 || close(file) ? -1 : capture_setup(state);
}

static int teardown(void **state) {
  int failed = unlink(path);
  return capture_teardown(state) || failed;
}

static ls_status_t read_text(capture_t *c, const char *text, size_t limit_bytes, json_t **json) {
  capture_clear(c);
  assert_int_equal(ls_file_write(c->ctx, path, text, strlen(text)), LS_OK);
  return ls_json_read(c->ctx, path, limit_bytes, LS_ERR_CORRUPT, "; write it again", json);
}

static void whole(void **state) {
  capture_t *c = *state;
  json_t *json = NULL;
  assert_int_equal(read_text(c, "{\"a\": [1, 2]}\n", 14, &json), LS_OK);
  assert_int_equal(json_array_size(json_object_get(json, "a")), 2);
  assert_int_equal(c->count, 0);
  json_decref(json);
}

static void refused(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text, *says;
  } rows[] = {{"", ":1:0: "},
              {"{\"a\": 1,\n \"b\": [", ":2:"},
              {"{\"a\": 1, \"a\": 2}", "duplicate"},
              {"{} {}", "end of file"},
              {"{\"a\": \"\xff\"}", "decode"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    json_t poison, *json = &poison;
    assert_int_equal(read_text(c, rows[i].text, 1000, &json), LS_ERR_CORRUPT);
    assert_ptr_equal(json, &poison);
    assert_int_equal(c->count, 1);
    assert_non_null(strstr(c->text, path));
    assert_non_null(strstr(c->text, "; write it again"));
    if (!strstr(c->text, rows[i].says)) fail_msg("no \"%s\" in: %s", rows[i].says, c->text);
  }
}

static void numbers_have_no_more_digits_than_read_back_equal(void **state) {
  json_t *json = json_pack("[f, f, f, f, f, i, s, b, n]", 0.1, 1.0 / 3, -0.25, 3.0, 100000.0, 17,
                           "0.10000000000000001 \\\" 1.50", 1);
  char *text = ls_json_dump(json, JSON_COMPACT);
  assert_string_equal(
      text, "[0.1,0.3333333333333333,-0.25,3.0,100000.0,17,\"0.10000000000000001 \\\\\\\" 1.50\",true,null]");
  json_t *again = json_loads(text, 0, NULL);
  assert_true(json_equal(json, again));
  json_decref(again);
  json_decref(json);
  free(text);
}

static void too_large_or_absent(void **state) {
  capture_t *c = *state;
  json_t *json = NULL;
  assert_int_equal(read_text(c, "{\"a\": [1, 2]}\n", 13, &json), LS_ERR_IO);
  assert_int_equal(ls_json_read(c->ctx, "/tmp/lockstep-test-none", 13, LS_ERR_CORRUPT, "", &json),
                   LS_ERR_NOT_FOUND);
  assert_null(json);
}

static ls_status_t read_once(capture_t *c) {
  json_t *json = NULL;
  ls_status_t status = ls_json_read(c->ctx, path, 1000, LS_ERR_CORRUPT, "", &json);
  json_decref(json);
  return status;
}

static void memory_runs_out(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_file_write(c->ctx, path, "[1]", 3), LS_OK);
  assert_true(capture_fail_each_alloc(c, read_once) > 0);
}

TESTS(setup, teardown, whole, refused, too_large_or_absent, numbers_have_no_more_digits_than_read_back_equal,
      memory_runs_out)
