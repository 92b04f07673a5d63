/* Meta data of a manifest whose hash is right and whose content is not: refused by name, never read as 0. */
#include "train/saved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static const char good[] =
    "{'seed': 42, 'global_batch': 10, 'train_samples': 48, 'samples': 100, 'columns': ['a', 'b'],"
    " 'early_stopping': {'best': null, 'no_better': 0}, 'data': {'rows': 60, 'xxh3_64': 'ab'},"
    " 'config': {'model': {'layers': [{'dense': {}}]}, 'data': {'kind': 'csv', 'validation': 0.2, 'columns': "
    "[]},"
    " 'train': {}}}";

/* The good meta data with `part` (JSON with ' for ") merged into them; a null in it takes the member away. */
static json_t *meta_with(const char *part) {
  char text[2][1024];
  const char *from[] = {good, part};
  json_t *json[2];
  for (int i = 0; i < 2; i++) {
    snprintf(text[i], sizeof text[i], "%s", from[i]);
    for (char *c = text[i]; *c; c++)
      if (*c == '\'') *c = '"';
    json[i] = json_loads(text[i], 0, NULL);
    assert_non_null(json[i]);
  }
  const char *key;
  json_t *value;
  json_object_foreach(json[1], key, value) {
    if (json_is_null(value))
      json_object_del(json[0], key);
    else
      json_object_set(json[0], key, value);
  }
  json_decref(json[1]);
  return json[0];
}

static ls_status_t check(const char *part, char message[1024]) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  json_t *meta = meta_with(part);
  ls_saved_t saved;
  ls_status_t status = ls_train_saved(ctx, "step-1", meta, &saved);
  snprintf(message, 1024, "%s", status ? ls_ctx_error(ctx) : "");
  json_decref(meta);
  ls_ctx_destroy(ctx);
  return status;
}

static void test_a_member_of_a_wrong_type_or_range_is_refused_by_name(void **state) {
  (void)state;
  static const struct {
    const char *part, *says;
  } cases[] = {
      {"{'columns': ['a', null]}", "meta data: columns[1]: a text expected"},
      {"{'columns': [1, 2]}", "meta data: columns[0]: a text expected"},
      {"{'labels': ['a', {}]}", "meta data: labels[1]: a text expected"},
      {"{'seed': 'x'}", "meta data: seed: a whole number"},
      {"{'seed': null}", "meta data: seed: this member is expected"},
      {"{'config': []}", "meta data: config: an object"},
      {"{'config': null}", "meta data: config: this member is expected"},
      {"{'config': {'model': {'layers': [1]}}}", "meta data: config.model.layers[0]: an object"},
      {"{'early_stopping': {'no_better': 4611686018427387904}}",
       "early_stopping.no_better: a whole number from 0 to 2147483647"},
      {"{'early_stopping': {'best': 'low'}}", "early_stopping.best: a number expected"},
      {"{'early_stopping': 3}", "early_stopping: an object"},
      {"{'samples': -5}", "samples: a whole number from 0 to "},
      {"{'samples': 1.5}", "samples: a whole number"},
      {"{'global_batch': 0}", "global_batch: a whole number from 1 to "},
      {"{'data': {'rows': 'all'}}", "data.rows: a whole number"},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    char message[1024];
    if (check(cases[i].part, message) != LS_ERR_CORRUPT || !strstr(message, cases[i].says))
      fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].part, message, cases[i].says);
  }
}

static void test_what_older_versions_did_not_write_may_be_absent(void **state) {
  (void)state;
  char message[1024];
  assert_int_equal(check("{}", message), LS_OK);
  assert_int_equal(check("{'samples': null, 'early_stopping': null, 'columns': null, 'data': null}", message),
                   LS_OK);
  assert_int_equal(check("{'early_stopping': {'best': 0.5, 'no_better': 2}}", message), LS_OK);
}

/* Whatever the readers take for a name: line ends, tabs, escapes, any length. */
static void test_names_may_hold_control_characters_and_be_long(void **state) {
  (void)state;
  static const char *const lists[] = {"columns", "labels", "vocabulary"};
  enum { LONG = 1 << 20 };
  char *name = malloc(LONG + 1);
  memset(name, 'x', LONG);
  memcpy(name, "\t\n\r\x1b[31m\x7f\xc2\x9b", 11);
  name[LONG] = '\0';
  json_t *meta = meta_with("{}");
  for (int i = 0; i < LS_COUNT(lists); i++)
    json_object_set_new(meta, lists[i], json_pack("[s, s]", name, "b"));
  json_object_set_new(json_object_get(json_object_get(meta, "config"), "data"), "columns",
                      json_pack("[s]", name));
  char *text = json_dumps(meta, 0);
  json_decref(meta);
  meta = json_loads(text, 0, NULL);
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_saved_t saved;
  if (ls_train_saved(ctx, "step-1", meta, &saved) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
  ls_ctx_destroy(ctx);
  json_decref(meta);
  free(text);
  free(name);
}

/* Checkpoints of before there was a list of indicators had one for every column. */
static void indicators_of_older_checkpoints(void **state) {
  (void)state;
  static const struct {
    const char *part;
    int count;
  } cases[] = {{"{}", 2}, {"{'indicators': ['b']}", 1}, {"{'indicators': []}", 0}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
    ls_arena_t arena;
    ls_arena_init(&arena, ctx);
    json_t *meta = meta_with(cases[i].part);
    ls_data_config_t data = {.kind = LS_DATA_CSV, .missing = LS_MISSING_INDICATOR};
    assert_int_equal(ls_train_take_names(&arena, meta, &data), LS_OK);
    assert_true(data.indicators_trained);
    assert_int_equal(data.indicators.count, cases[i].count);
    if (cases[i].count > 0) assert_string_equal(data.indicators.v[cases[i].count - 1], "b");
    data = (ls_data_config_t){.kind = LS_DATA_CSV, .missing = LS_MISSING_INDICATOR};
    assert_int_equal(ls_train_take_names(&arena, NULL, &data), LS_OK);
    assert_false(data.indicators_trained); /* a new run */
    json_decref(meta);
    ls_arena_release(&arena);
    ls_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(indicators_of_older_checkpoints),
      cmocka_unit_test(test_a_member_of_a_wrong_type_or_range_is_refused_by_name),
      cmocka_unit_test(test_what_older_versions_did_not_write_may_be_absent),
      cmocka_unit_test(test_names_may_hold_control_characters_and_be_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
