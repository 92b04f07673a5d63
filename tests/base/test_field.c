/* Records as rows: what is written is read back, what is unknown is null, and what comes from outside is refused with
 * its place. */
#include "base/field.h"
#include "capture.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
  char name[8];
} inner_t;
typedef struct {
  char text[8];
  const char *string;
  bool flag;
  int maybe, small, colour, count;
  int64_t large;
  double real, ns;
  inner_t one, few[2];
  int many_count;
  inner_t *many;
  json_t *json;
} outer_t;

static const char *const others[] = {"note", NULL}, *const none[] = {NULL};

static bool is_lower(const char *text) {
  return *text >= 'a' && *text <= 'z';
}

static const ls_field_t inner_rows[] = {
    LS_FIELD_AS(inner_t, name, "name", .good = is_lower, .expected = "a lower one")};
static const ls_record_t inner = LS_RECORD(inner_rows, none);
static const ls_field_t inner_each = LS_FIELD_EACH(inner_t, inner);
static const char *const colours[] = {"red", "blue", NULL};
static const ls_field_t rows[] = {
    LS_FIELD_AS(outer_t, text, "text", .known = LS_KNOWN_ABOVE_0),
    LS_FIELD(outer_t, string),
    LS_FIELD(outer_t, flag),
    LS_FIELD_OF(outer_t, maybe, LS_FIELD_MAYBE, "maybe"),
    LS_FIELD_AS(outer_t, small, "small", .known = LS_KNOWN_ABOVE_0, .max = 9),
    LS_FIELD_OF(outer_t, colour, LS_FIELD_CHOICE, "colour", .choices = colours),
    LS_FIELD_AS(outer_t, large, "large", .known = LS_KNOWN_FROM_0, .required = true),
    LS_FIELD_AS(outer_t, real, "real", .min = -INFINITY),
    LS_FIELD_AS(outer_t, one, "one", .record = &inner),
    LS_FIELD_OF(outer_t, few, LS_FIELD_LIST, "few", .each = &inner_each,
                .count_offset = offsetof(outer_t, count)),
    LS_FIELD_OF(outer_t, many, LS_FIELD_LIST_AT, "many", .each = &inner_each, .max = 3,
                .count_offset = offsetof(outer_t, many_count)),
    LS_FIELD(outer_t, json),
};
static const ls_record_t outer = LS_RECORD(rows, others);

static void expect_json(json_t *json, const char *text) {
  char *got = ls_json_dump(json, JSON_COMPACT);
  assert_string_equal(got, text);
  free(got);
  json_decref(json);
}

static const char unknown[] = "{\"text\":null,\"string\":null,\"flag\":false,\"maybe\":null,\"small\":null,"
                              "\"colour\":\"red\",\"large\":null,\"real\":null,\"one\":{\"name\":\"\"},"
                              "\"few\":[],\"many\":[],\"json\":null}";
static const char known[] =
    "{\"text\":\"abc\",\"string\":\"def\",\"flag\":true,\"maybe\":true,\"small\":3,"
    "\"colour\":\"blue\",\"large\":9007199254740993,\"real\":-0.1,\"one\":{\"name\":\"x\"},"
    "\"few\":[{\"name\":\"y\"},{\"name\":\"z\"}],\"many\":[{\"name\":\"a\"}],\"json\":{\"k\":1}}";

static void cleared_is_unknown(void **state) {
  outer_t r;
  memset(&r, 0x5a, sizeof r);
  ls_record_clear(&outer, &r);
  r.count = r.many_count = 0;
  assert_true(r.maybe == -1 && r.small == 0 && r.large == -1 && isnan(r.real) && !r.many);
  assert_string_equal(r.few[1].name, "");
  expect_json(ls_record_json(&outer, &r), unknown);
}

static void both_ways(void **state) {
  capture_t *c = *state;
  outer_t r = {0};
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  const ls_field_source_t source = {c->ctx, "file", LS_ERR_DATA, &arena};
  json_t *json = json_loads(known, 0, NULL);
  ls_record_clear(&outer, &r);
  assert_int_equal(ls_record_read(&source, &outer, json, &r), LS_OK);
  assert_true(r.flag && r.maybe == 1 && r.small == 3 && r.colour == 1 &&
              r.large == INT64_C(9007199254740993));
  assert_true(r.real == -0.1 && r.count == 2 && r.many_count == 1);
  assert_string_equal(r.string, "def");
  assert_string_equal(r.many[0].name, "a");
  expect_json(ls_record_json(&outer, &r), known);
  ls_arena_release(&arena);
  json_decref(json);
}

static void numbers_are_scaled(void **state) {
  static const ls_field_t scaled[] = {LS_FIELD_AS(outer_t, ns, "us", .scale = 1e-3),
                                      LS_FIELD_AS(outer_t, large, "large_us", .scale = 1e-3),
                                      LS_FIELD_AS(outer_t, real, "real", .known = LS_KNOWN_ABOVE_0)};
  static const ls_record_t record = LS_RECORD(scaled);
  const outer_t r = {.ns = 1500, .large = 2500, .real = 0.25}, unset = {.ns = INFINITY};
  expect_json(ls_record_json(&record, &r), "{\"us\":1.5,\"large_us\":2.5,\"real\":0.25}");
  expect_json(ls_record_json(&record, &unset), "{\"us\":null,\"large_us\":0.0,\"real\":null}");
}

typedef struct {
  int count, cell[3][3];
} matrix_t;
#define PER_COUNT .count_offset = offsetof(matrix_t, count), .counted = true
static const ls_field_t cell = {.type = LS_FIELD_INT, .size_bytes = sizeof(int)};
static const ls_field_t line = {.type = LS_FIELD_LIST,
                                .size_bytes = sizeof((matrix_t *)0)->cell[0],
                                .each = &cell,
                                PER_COUNT,
                                .expected = "one per line"};
static const ls_field_t matrix_rows[] = {
    LS_FIELD_OF(matrix_t, cell, LS_FIELD_LIST, "cell", .each = &line, PER_COUNT)};
static const ls_record_t matrix = LS_RECORD(matrix_rows);

static void lists_in_lists_take_the_record_s_count(void **state) {
  capture_t *c = *state;
  const ls_field_source_t source = {.ctx = c->ctx, .name = "file", .status = LS_ERR_DATA};
  matrix_t m = {.count = 2};
  json_t *good = json_loads("{\"cell\": [[1, 2], [3, 4]]}", 0, NULL),
         *uneven = json_loads("{\"cell\": [[1, 2], [3]]}", 0, NULL);
  assert_int_equal(ls_record_read(&source, &matrix, good, &m), LS_OK);
  assert_true(m.cell[0][1] == 2 && m.cell[1][0] == 3);
  expect_json(ls_record_json(&matrix, &m), "{\"cell\":[[1,2],[3,4]]}");
  assert_int_equal(ls_record_read(&source, &matrix, uneven, &m), LS_ERR_DATA);
  assert_non_null(strstr(c->text, "file: cell[1]: one per line expected"));
  json_decref(uneven);
  json_decref(good);
}

static void members_depend_on_flags(void **state) {
  static const ls_field_t flagged[] = {
      LS_FIELD_AS(outer_t, small, "if", LS_FIELD_IF(outer_t, flag)),
      LS_FIELD_AS(outer_t, large, "unless", LS_FIELD_UNLESS(outer_t, flag)),
      LS_FIELD_AS(outer_t, real, "absent", LS_FIELD_IF(outer_t, flag), .left_out = true)};
  static const ls_record_t record = LS_RECORD(flagged);
  outer_t r = {.small = 1, .large = 2, .real = 3};
  expect_json(ls_record_json(&record, &r), "{\"if\":null,\"unless\":2}");
  r.flag = true;
  expect_json(ls_record_json(&record, &r), "{\"if\":1,\"unless\":null,\"absent\":3.0}");
}

static void refused_with_its_place(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text, *says;
  } cases[] = {{"[]", "file: an object expected"},
               {"{}", "file: large: this member is expected"},
               {"{\"large\": null, \"smal\": 1}", "file: unknown key \"smal\" (did you mean small?)"},
               {"{\"large\": -1}", "large: a whole number >= 0"},
               {"{\"large\": 1.0}", "large: a whole number >= 0"},
               {"{\"large\": 1, \"small\": 10}", "small: a whole number from 0 to 9"},
               {"{\"large\": 1, \"real\": \"1\"}", "real: a number expected"},
               {"{\"large\": 1, \"text\": \"12345678\"}", "text: a short text"},
               {"{\"large\": 1, \"text\": \"a\\u0000b\"}", "text: a short text"},
               {"{\"large\": 1, \"string\": \"a\\u001bb\"}", "string: a short text"},
               {"{\"large\": 1, \"flag\": 1}", "flag: true or false"},
               {"{\"large\": 1, \"maybe\": 1}", "maybe: true, false or null"},
               {"{\"large\": 1, \"colour\": \"green\"}", "colour: one of \"red\" \"blue\" expected"},
               {"{\"large\": 1, \"one\": 3}", "one: an object"},
               {"{\"large\": 1, \"one\": {\"name\": \"A\"}}", "one.name: a lower one expected"},
               {"{\"large\": 1, \"few\": [{}, {\"name\": 1}]}", "few[1].name: a lower one expected"},
               {"{\"large\": 1, \"few\": [{}, {}, {}]}", "few: a list of at most 2"},
               {"{\"large\": 1, \"many\": [{}, {}, {}, {}]}", "many: a list of at most 3"},
               {"{\"large\": 1, \"json\": []}", "json: an object"},
               {"{\"large\": 1, \"note\": 2, \"one\": {\"note\": 3}}", "one: unknown key \"note\""},
               {"{\"large\": 1, \"one\": {\"nam\": 3}}", "one: unknown key \"nam\" (did you mean name?)"}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    outer_t r;
    ls_arena_t arena;
    ls_arena_init(&arena, c->ctx);
    const ls_field_source_t source = {c->ctx, "file", LS_ERR_DATA, &arena};
    json_t *json = json_loads(cases[i].text, JSON_ALLOW_NUL, NULL);
    ls_record_clear(&outer, &r);
    r.count = 0;
    capture_clear(c);
    assert_int_equal(ls_record_read(&source, &outer, json, &r), LS_ERR_DATA);
    if (!strstr(c->text, cases[i].says)) fail_msg("%s: %s", cases[i].text, c->text);
    json_decref(json);
    ls_arena_release(&arena);
  }
}

TESTS(capture_setup, capture_teardown, cleared_is_unknown, both_ways, numbers_are_scaled,
      members_depend_on_flags, lists_in_lists_take_the_record_s_count, refused_with_its_place)
