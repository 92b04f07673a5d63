/* Option rows: strict values, every error at its place, did-you-mean, defaults, JSON and help. */
#include "capture.h"

#include "base/secret.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
  int64_t units, steps;
  double lr;
  bool bias;
  const char *path;
  int activation;
  ls_ints_t input;
  ls_strings_t target;
  double decay, norm;
  const char *webhook;
} section_t;

static const char *const activations[] = {"none", "relu", "gelu", "sigmoid", NULL};
static const ls_option_t rows[] = {
    {"units", LS_FIELD_INT64, offsetof(section_t, units), "outputs", 1, 4096, NULL, false, NULL, "Width."},
    {"steps", LS_FIELD_INT64, offsetof(section_t, steps), NULL, 1, INFINITY, NULL, true, NULL, "Steps."},
    {"lr", LS_FIELD_REAL, offsetof(section_t, lr), NULL, 0, 1, "1e-3", false, NULL, "Learning rate."},
    {"bias", LS_FIELD_BOOL, offsetof(section_t, bias), NULL, 0, 0, "true", false, NULL, "Adds a bias."},
    {"path", LS_FIELD_STRING, offsetof(section_t, path), NULL, 0, 0, NULL, true, NULL, "A file."},
    {"activation", LS_FIELD_CHOICE, offsetof(section_t, activation), NULL, 0, 0, "relu", false, activations,
     "What."},
    {"input", LS_FIELD_INTS, offsetof(section_t, input), NULL, 1, 100, "28, 28", false, NULL, "Shape."},
    {"target", LS_FIELD_STRINGS, offsetof(section_t, target), NULL, 0, 0, NULL, true, NULL, "Columns."},
    {"decay", LS_FIELD_REAL, offsetof(section_t, decay), NULL, -1, 10, "-1", false, NULL, "Decay.",
     .apart = true},
    {"norm", LS_FIELD_REAL, offsetof(section_t, norm), NULL, 0, 1e30, "0", false, NULL, "Norm."},
    {"webhook", LS_FIELD_STRING, offsetof(section_t, webhook), NULL, 0, 0, NULL, true, NULL, "Who is told.",
     .secret = true},
};
static const ls_section_t section = {"net", rows, LS_COUNT(rows), "A section for tests."};
static const char *const nested[] = {"layers", NULL};

/* Parses "units: 1" and the given lines. The document stays alive in *doc for the strings' sake. */
static ls_status_t parse_text(capture_t *c, const char *text, ls_doc_t *doc, section_t *out) {
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, strlen(text), doc), LS_OK);
  memset(out, 0xA5, sizeof *out);
  return ls_option_parse(c->ctx, &doc->arena, &section, doc->root, nested, out);
}

static void defaults(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  section_t s;
  assert_int_equal(parse_text(c, "units: 7\nlayers: {}\n", &doc, &s), LS_OK);
  assert_int_equal(s.units, 7);
  assert_int_equal(s.steps, 0);
  assert_true(s.lr == 1e-3);
  assert_true(s.bias);
  assert_null(s.path);
  assert_int_equal(s.activation, 1);
  assert_int_equal(s.input.count, 2);
  assert_int_equal(s.input.v[1], 28);
  assert_int_equal(s.target.count, 0);
  ls_doc_release(&doc);
}

static void given(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  section_t s;
  const char *text = "units: +4096\nsteps: 9223372036854775807\nlr: .5e-0\nbias: false\npath: \"7\"\n"
                     "activation: none\ninput: 3\ntarget: [a, 'b c', 3]\n";
  assert_int_equal(parse_text(c, text, &doc, &s), LS_OK);
  assert_int_equal(s.units, 4096);
  assert_true(s.steps == INT64_MAX);
  assert_true(s.lr == 0.5);
  assert_false(s.bias);
  assert_string_equal(s.path, "7");
  assert_int_equal(s.activation, 0);
  assert_int_equal(s.input.count, 1);
  assert_int_equal(s.input.v[0], 3);
  assert_int_equal(s.target.count, 3);
  assert_string_equal(s.target.v[1], "b c");
  assert_string_equal(s.target.v[2], "3");
  ls_doc_release(&doc);
}

/* One line each, beside a good `units`, and the report it gets. */
static const struct {
  const char *line;
  const char *message;
} bad[] = {
    {"steps: 32xyz", "f.yaml:2:8: net.steps: `32xyz` is not an integer\n"},
    {"steps: 1e3", "f.yaml:2:8: net.steps: `1e3` is not an integer: write all of its digits"},
    {"steps: 1_000", "f.yaml:2:8: net.steps: `1_000` is not an integer\n"},
    {"steps: 12.0", "f.yaml:2:8: net.steps: `12.0` is not an integer: write all"},
    {"steps: 12.5", "f.yaml:2:8: net.steps: `12.5` is not an integer\n"},
    {"steps: 0x10", "f.yaml:2:8: net.steps: `0x10` is not an integer\n"},
    {"steps: 007",
     "f.yaml:2:8: net.steps: `007` is not an integer: write all of its digits, without leading"},
    {"steps: '12'", "f.yaml:2:8: net.steps: `12` is quoted text, not an integer"},
    {"steps: 9223372036854775808", "f.yaml:2:8: net.steps: `9223372036854775808` does not fit"},
    {"steps: -9223372036854775809", "f.yaml:2:8: net.steps: `-9223372036854775809` does not fit"},
    {"steps: -1", "f.yaml:2:8: net.steps: `-1` must be at least 1\n"},
    {"steps: [1]", "f.yaml:2:8: net.steps: a list is given, an integer was expected"},
    {"steps: {a: 1}", "f.yaml:2:8: net.steps: a map is given, an integer was expected"},
    {"lr: 1e999", "f.yaml:2:5: net.lr: `1e999` is not a finite decimal number"},
    {"lr: nan", "f.yaml:2:5: net.lr: `nan` is not a finite"},
    {"lr: .inf", "f.yaml:2:5: net.lr: `.inf` is not a finite"},
    {"lr: infinity", "f.yaml:2:5: net.lr: `infinity` is not a finite"},
    {"lr: 0x1p-3", "f.yaml:2:5: net.lr: `0x1p-3` is not a finite"},
    {"lr: 1e", "f.yaml:2:5: net.lr: `1e` is not a finite"},
    {"lr: 1,5", "f.yaml:2:5: net.lr: `1,5` is not a finite"},
    {"lr: .", "f.yaml:2:5: net.lr: `.` is not a finite"},
    {"lr: 1e-3x", "f.yaml:2:5: net.lr: `1e-3x` is not a finite"},
    {"lr: '0.1'", "f.yaml:2:5: net.lr: `0.1` is quoted text, not a number"},
    {"lr: 2", "f.yaml:2:5: net.lr: `2` must be in [0, 1]"},
    {"decay: -0.5", "f.yaml:2:8: net.decay: `-0.5` must be -1 or in [0, 10]"},
    {"decay: -2", "f.yaml:2:8: net.decay: `-2` must be -1 or in [0, 10]"},
    {"norm: 1e31", "f.yaml:2:7: net.norm: `1e31` must be at most 1e+30"},
    {"norm: -1", "f.yaml:2:7: net.norm: `-1` must be at least 0"},
    {"lr:", "f.yaml:2:1: net.lr: a value is missing"},
    {"bias: yes", "f.yaml:2:7: net.bias: `yes` is neither true nor false"},
    {"bias: 1", "f.yaml:2:7: net.bias: `1` is neither true nor false"},
    {"bias: 'true'", "f.yaml:2:7: net.bias: `true` is neither true nor false"},
    {"path: [a]", "f.yaml:2:7: net.path: a list is given, a text was expected"},
    {"activation: rleu",
     "f.yaml:2:13: net.activation: `rleu` is not one of none, relu, gelu, sigmoid; did you mean "
     "`relu`?"},
    {"activation: xyz", "f.yaml:2:13: net.activation: `xyz` is not one of none, relu, gelu, sigmoid\n"},
    {"activation: {}", "f.yaml:2:13: net.activation: a map is given, a name was expected"},
    {"input: []", "f.yaml:2:8: net.input: 0 entries"},
    {"input: [1, 0]", "f.yaml:2:12: net.input: `0` must be in [1, 100]"},
    {"input: [1, [2]]", "f.yaml:2:12: net.input: a list is given, an integer was expected"},
    {"input: {a: 1}", "f.yaml:2:8: net.input: a map is given, a list was expected"},
    {"target: [a, ~]", "f.yaml:2:13: net.target: nothing is given, a text was expected"},
    {"inptu: 3", "f.yaml:2:1: unknown option `inptu` in net; did you mean `input`?"},
    {"layres: 3", "f.yaml:2:1: unknown option `layres` in net; did you mean `layers`?"},
    {"quite_another: 3",
     "f.yaml:2:1: unknown option `quite_another` in net; possible: units, steps, lr, bias, path, "
     "activation, input, target, decay, norm, webhook, layers"},
};

static void refusals(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(bad); i++) {
    ls_doc_t doc;
    section_t s;
    char text[256];
    snprintf(text, sizeof text, "units: 1\n%s\n", bad[i].line);
    capture_clear(c);
    assert_int_equal(parse_text(c, text, &doc, &s), LS_ERR_CONFIG);
    if (strncmp(c->text, bad[i].message, strlen(bad[i].message)) != 0)
      fail_msg("case %d: got \"%s\", expected \"%s\"", i, c->text, bad[i].message);
    assert_int_equal(c->count, 1);
    ls_doc_release(&doc);
  }
}

static void all_errors_at_once(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  section_t s;
  assert_int_equal(parse_text(c, "unist: 3\nlr: x\nbias: x\ninput: [x, y, 0]\nactivation: x\n", &doc, &s),
                   LS_ERR_CONFIG);
  assert_int_equal(ls_ctx_error_count(c->ctx), 8); /* the missing `units` too */
  assert_non_null(strstr(c->text, "net.units is missing: Width."));
  ls_doc_release(&doc);
}

static void maps_that_are_none(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  section_t s;
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  assert_int_equal(ls_option_parse(c->ctx, &arena, &section, NULL, NULL, &s), LS_ERR_CONFIG);
  assert_string_equal(c->text, "net.units is missing: Width.\n");
  capture_clear(c);
  const char *text = "net:\nvalue: 3\nlist: [1]\n";
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, strlen(text), &doc), LS_OK);
  assert_int_equal(ls_option_parse(c->ctx, &arena, &section, ls_doc_get(doc.root, "net"), NULL, &s),
                   LS_ERR_CONFIG);
  assert_memory_equal(c->text, "f.yaml:1:1: net.units is missing", 32);
  capture_clear(c);
  assert_int_equal(ls_option_parse(c->ctx, &arena, &section, ls_doc_get(doc.root, "value"), NULL, &s),
                   LS_ERR_CONFIG);
  assert_memory_equal(c->text, "f.yaml:2:8: net: a value is given, a map of options was expected", 64);
  assert_int_equal(c->count, 1);
  assert_int_equal(ls_option_parse(c->ctx, &arena, &section, ls_doc_get(doc.root, "list"), NULL, &s),
                   LS_ERR_CONFIG);
  ls_doc_release(&doc);
  ls_arena_release(&arena);
}

/* A row whose default does not fit it is the program's fault, not the user's. */
static void broken_defaults(void **state) {
  capture_t *c = *state;
  static const ls_option_t broken_rows[] = {
      {"n", LS_FIELD_INT64, 0, NULL, 1, 5, "6", false, NULL, "N."},
  };
  const ls_section_t broken = {"broken", broken_rows, 1, ""};
  int64_t n;
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  assert_int_equal(ls_option_parse(c->ctx, &arena, &broken, NULL, NULL, &n), LS_ERR_INTERNAL);
  ls_arena_release(&arena);
}

static void lists_have_a_limit(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  section_t s;
  char text[1024] = "units: 1\ninput: [1";
  for (int i = 1; i < LS_OPT_LIST_MAX; i++)
    strcat(text, ", 1");
  size_t used = strlen(text);
  strcat(text, "]\n");
  assert_int_equal(parse_text(c, text, &doc, &s), LS_OK);
  assert_int_equal(s.input.count, LS_OPT_LIST_MAX);
  ls_doc_release(&doc);
  strcpy(text + used, ", 1]\n");
  assert_int_equal(parse_text(c, text, &doc, &s), LS_ERR_CONFIG);
  ls_doc_release(&doc);
}

static void a_list_of_names_may_be_long(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  section_t s;
  char text[8192] = "units: 1\ntarget: [n0";
  for (int i = 1; i < 1000; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), ", n%d", i);
  strcat(text, "]\n");
  assert_int_equal(parse_text(c, text, &doc, &s), LS_OK);
  assert_int_equal(s.target.count, 1000);
  assert_string_equal(s.target.v[0], "n0");
  assert_string_equal(s.target.v[999], "n999");
  ls_doc_release(&doc);
}

/* A program that speaks another language still reads decimal points. */
static void locales(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  section_t s;
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "de_DE.utf8")) skip();
  assert_int_equal(parse_text(c, "units: 1\nlr: 0.25\n", &doc, &s), LS_OK);
  assert_true(s.lr == 0.25);
  ls_doc_release(&doc);
  setlocale(LC_NUMERIC, "C");
}

static void json(void **state) {
  capture_t *c = *state;
  ls_doc_t doc, again;
  section_t s, t;
  assert_int_equal(parse_text(c, "units: 5\ninput: [3, 4]\ntarget: x\nactivation: gelu\n", &doc, &s), LS_OK);
  json_t *object = ls_option_json(&section, &s);
  char *text = json_dumps(object, JSON_COMPACT);
  assert_string_equal(text, "{\"units\":5,\"steps\":null,\"lr\":0.001,\"bias\":true,\"path\":null,"
                            "\"activation\":\"gelu\",\"input\":[3,4],\"target\":[\"x\"],\"decay\":-1.0,"
                            "\"norm\":0.0,\"webhook\":null}");
  assert_int_equal(parse_text(c, text, &again, &t), LS_OK); /* what is saved can be read, and says the same */
  json_t *second = ls_option_json(&section, &t);
  assert_true(json_equal(object, second));
  json_decref(second);
  json_decref(object);
  free(text);
  ls_doc_release(&again);
  ls_doc_release(&doc);
}

/* A secret stood in every saved and printed configuration. What names its source is shown, and is read when it is needed. */
static void a_secret_is_read_from_its_source_and_shown_nowhere(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  section_t s;
  char path[] = "/tmp/ls_secret_XXXXXX", text[128], value[LS_SECRET_BYTES], why[256];
  const struct {
    const char *given, *shown, *value; /* NULL: `why` is said */
    const char *why;
  } cases[] = {
      {"https://u:pw@host/?token=T", "\"(hidden)\"", "https://u:pw@host/?token=T", NULL},
      {"env:LS_TEST_SECRET", "\"env:LS_TEST_SECRET\"", "a \"b\"\\", NULL},
      {"env:LS_TEST_NONE", "\"env:LS_TEST_NONE\"", NULL,
       "environment of this process has no variable LS_TEST_NONE"},
      {"file:secret", "\"file:/there/secret\"", NULL, "/there/secret: cannot be read: No such file"},
      {"file:/dev/zero", "\"file:/dev/zero\"", NULL, "/dev/zero: too long for a secret"},
      {"file:/dev/null", "\"file:/dev/null\"", NULL, "file:/dev/null: is empty"},
      {"(hidden)", "\"(hidden)\"", NULL, "hidden in this saved configuration: write env:NAME or file:PATH"}};
  setenv("LS_TEST_SECRET", "a \"b\"\\", 1);
  for (int i = 0; i < LS_COUNT(cases); i++) {
    snprintf(text, sizeof text, "units: 1\nwebhook: %s\n", cases[i].given);
    assert_int_equal(ls_doc_parse(c->ctx, "/there/f.yaml", text, strlen(text), &doc), LS_OK);
    assert_int_equal(ls_doc_start_paths(&doc, doc.root, "/there"), LS_OK);
    assert_int_equal(ls_option_parse(c->ctx, &doc.arena, &section, doc.root, nested, &s), LS_OK);
    json_t *json = ls_option_json(&section, &s);
    char *shown = json_dumps(json_object_get(json, "webhook"), JSON_ENCODE_ANY);
    assert_string_equal(shown, cases[i].shown);
    assert_int_equal(ls_secret_read(s.webhook, value, why, sizeof why), cases[i].value != NULL);
    if (cases[i].value) assert_string_equal(value, cases[i].value);
    if (cases[i].why && !strstr(why, cases[i].why)) fail_msg("%s", why);
    free(shown);
    json_decref(json);
    ls_doc_release(&doc);
  }
  static const char *const refused[] = {"units: 1\nwebhook: 'env:'\n", "units: 1\nwebhook: 'file:'\n"};
  for (int i = 0; i < LS_COUNT(refused); i++) {
    capture_clear(c);
    assert_int_equal(parse_text(c, refused[i], &doc, &s), LS_ERR_CONFIG);
    assert_non_null(strstr(c->text, "names no source: env:NAME or file:PATH was expected"));
    ls_doc_release(&doc);
  }
  int fd = mkstemp(path);
  assert_int_equal(write(fd, "https://host/x\r\nmore\n", 21), 21);
  close(fd);
  snprintf(text, sizeof text, "file:%s", path);
  assert_true(ls_secret_read(text, value, why, sizeof why));
  assert_string_equal(value, "https://host/x");
  unlink(path);
}

static void help(void **state) {
  capture_t *c = *state;
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  const char *text = ls_option_help(&arena, &section);
  assert_memory_equal(text, "net: A section for tests.\n  units  ", 34);
  assert_non_null(strstr(text, "integer, in [1, 4096], outputs, required"));
  assert_non_null(strstr(text, "number, in [0, 1], default 1e-3"));
  assert_non_null(strstr(text, "none | relu | gelu | sigmoid, default relu"));
  assert_non_null(strstr(text, "integer, at least 1, optional"));
  ls_arena_release(&arena);
}

static void nearest(void **state) {
  static const char *const names[] = {"learning_rate", "momentum", "name", "lr", NULL};
  assert_string_equal(ls_nearest("learnign_rate", names), "learning_rate"); /* a transposition is one step */
  assert_string_equal(ls_nearest("Momentum", names), "momentum");
  assert_string_equal(ls_nearest("nmae", names), "name");
  assert_string_equal(ls_nearest("lr", names), "lr");
  assert_string_equal(ls_nearest("rl", names), "lr");
  assert_null(ls_nearest("epochs", names));
  assert_null(ls_nearest("", names));
  assert_null(
      ls_nearest("a_name_that_is_longer_than_any_option_could_ever_be_and_so_is_not_compared", names));
}

/* However many names there are, the list says that more exist where it ends early. */
static void names_text(void **state) {
  char buf[LS_NAMES_TEXT_BYTES];
  static const char *const two[] = {"one", "two", NULL}, *const nothing[] = {NULL};
  const char *many[200] = {0};
  assert_string_equal(ls_names_text(two, buf), "one, two");
  assert_string_equal(ls_names_text(nothing, buf), "none");
  for (int i = 0; i < 199; i++)
    many[i] = "name";
  size_t length = strlen(ls_names_text(many, buf));
  assert_true(length > LS_NAMES_TEXT_BYTES - 20 && length < LS_NAMES_TEXT_BYTES);
  assert_string_equal(buf + length - 11, ", name, ...");
}

static ls_status_t parse_all(capture_t *c) {
  ls_doc_t doc;
  section_t s;
  static char text[25000] = "units: 3\nactivation: relu\ntarget: [a, b]\npath: ";
  size_t used = strcspn(text, "x");
  memset(text + used, 'x', sizeof text - 1 - used);
  ls_status_t status = ls_doc_parse(c->ctx, "f.yaml", text, strlen(text), &doc);
  if (status != LS_OK) return status;
  status = ls_option_parse(c->ctx, &doc.arena, &section, doc.root, nested, &s);
  if (status == LS_OK && !ls_option_help(&doc.arena, &section)) status = LS_ERR_MEMORY;
  ls_doc_release(&doc);
  return status;
}

static void allocation_failures(void **state) {
  assert_true(capture_fail_each_alloc(*state, parse_all) >= 3);
}

static void patterns_choose_names(void **state) {
  static const char *const all_but_a[] = {"*", "!a.*"}, *const again[] = {"*.b", "!a.*", "a.b"},
                           *const none[] = {"!*"};
  static const struct {
    ls_strings_t patterns;
    const char *name;
    bool chosen;
  } cases[] = {{{2, all_but_a}, "b.weight", true},
               {{2, all_but_a}, "a.weight", false},
               {{3, again}, "a.b", true},
               {{2, again}, "a.b", false},
               {{1, all_but_a}, "a.weight", true},
               {{1, none}, "a", false},
               {{0, NULL}, "a", false}};
  for (int i = 0; i < LS_COUNT(cases); i++)
    assert_true(ls_patterns_choose(&cases[i].patterns, cases[i].name) == cases[i].chosen);
}

TESTS(capture_setup, capture_teardown, defaults, given, refusals, all_errors_at_once, maps_that_are_none,
      broken_defaults, lists_have_a_limit, a_list_of_names_may_be_long, locales, json,
      a_secret_is_read_from_its_source_and_shown_nowhere, help, nearest, names_text, patterns_choose_names,
      allocation_failures)
