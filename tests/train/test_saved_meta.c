/* Meta data of a manifest whose hash is right and whose content is not: refused by name, never read as 0. */
#include "train/compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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
  ls_status_t status = ls_train_meta_check(ctx, "step-1", meta);
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
      {"{'columns': ['a', null]}", "meta.columns in its manifest is not a list of strings"},
      {"{'columns': [1, 2]}", "meta.columns in its manifest is not a list of strings"},
      {"{'seed': 'x'}", "meta.seed in its manifest is not a whole number"},
      {"{'seed': null}", "its manifest has no meta.seed"},
      {"{'config': []}", "meta.config in its manifest is not an object"},
      {"{'config': null}", "its manifest has no meta.config"},
      {"{'config': {'model': {'layers': [1]}}}", "meta.config.model.layers in its manifest is not a list of"},
      {"{'early_stopping': {'no_better': 4611686018427387904}}",
       "meta.early_stopping.no_better in its manifest is out"},
      {"{'early_stopping': {'best': 'low'}}", "meta.early_stopping.best in its manifest is not a number"},
      {"{'early_stopping': 3}", "meta.early_stopping in its manifest is not an object"},
      {"{'samples': -5}", "meta.samples in its manifest is out of range: 0 to "},
      {"{'samples': 1.5}", "meta.samples in its manifest is not a whole number"},
      {"{'global_batch': 0}", "meta.global_batch in its manifest is out of range: 1 to "},
      {"{'data': {'rows': 'all'}}", "meta.data.rows in its manifest is not a whole number"},
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_member_of_a_wrong_type_or_range_is_refused_by_name),
      cmocka_unit_test(test_what_older_versions_did_not_write_may_be_absent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
