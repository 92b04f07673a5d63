/* Documents: the tree, the places, and everything that is refused. */
#include "capture.h"

#include <stdlib.h>

static ls_status_t parse(capture_t *c, const char *text, ls_doc_t *doc) {
  return ls_doc_parse(c->ctx, "f.yaml", text, strlen(text), doc);
}

static void tree(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  const char *text = "model:\n  input: [28, 28]\n  layers:\n    - dense: {units: 10}\n    - dropout:\n"
                     "loss: 'cross-entropy'\nnote: |\n  two\n  lines\nnone: ~\n";
  assert_int_equal(parse(c, text, &doc), LS_OK);
  assert_string_equal(doc.file, "f.yaml");
  assert_int_equal(doc.root->kind, LS_DOC_MAP);
  assert_int_equal(doc.root->count, 4);
  const ls_doc_node_t *model = ls_doc_get(doc.root, "model"), *input = ls_doc_get(model, "input");
  assert_int_equal(input->kind, LS_DOC_LIST);
  assert_int_equal(input->count, 2);
  assert_string_equal(ls_doc_at(input, 1)->text, "28");
  assert_null(ls_doc_at(input, 2));
  assert_null(ls_doc_at(input, -1));
  const ls_doc_node_t *layers = ls_doc_get(model, "layers");
  assert_string_equal(ls_doc_get(ls_doc_get(ls_doc_at(layers, 0), "dense"), "units")->text, "10");
  assert_int_equal(ls_doc_get(ls_doc_at(layers, 1), "dropout")->kind, LS_DOC_NULL);
  assert_true(ls_doc_get(doc.root, "loss")->quoted);
  assert_string_equal(ls_doc_get(doc.root, "note")->text, "two\nlines\n");
  assert_int_equal(ls_doc_get(doc.root, "none")->kind, LS_DOC_NULL);
  assert_null(ls_doc_get(doc.root, "absent"));
  assert_null(ls_doc_get(NULL, "absent"));
  assert_null(ls_doc_get(input, "28"));
  ls_doc_release(&doc);
  assert_null(doc.root);
}

static void json_is_a_subset(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  assert_int_equal(parse(c, "{\"a\": [1, 2.5, true, null], \"b\": {\"c\": \"1\"}}", &doc), LS_OK);
  const ls_doc_node_t *a = ls_doc_get(doc.root, "a");
  assert_int_equal(ls_doc_at(a, 3)->kind, LS_DOC_NULL);
  assert_false(ls_doc_at(a, 0)->quoted);
  assert_true(ls_doc_get(ls_doc_get(doc.root, "b"), "c")->quoted);
  ls_doc_release(&doc);
}

static void expect_place(const ls_place_t *place, int line, int column, const char *source) {
  assert_string_equal(place->file, "f.yaml");
  assert_int_equal(place->line, line);
  assert_int_equal(place->column, column);
  assert_int_equal(place->source_len, strlen(source));
  assert_memory_equal(place->source, source, strlen(source));
}

static void places(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  assert_int_equal(parse(c, "# \xc3\xa9\r\nfirst: 1\r\n\xc3\xa9\xe2\x82\xac: {b: [1, xy]}\n\nlast: z", &doc),
                   LS_OK);
  const ls_doc_node_t *first = ls_doc_get(doc.root, "first");
  expect_place(&first->key_place, 2, 1, "first: 1");
  expect_place(&first->place, 2, 8, "first: 1");
  const ls_doc_node_t *wide = ls_doc_get(doc.root, "\xc3\xa9\xe2\x82\xac"); /* columns are bytes: 2 + 3 */
  const char *line = "\xc3\xa9\xe2\x82\xac: {b: [1, xy]}";
  expect_place(&wide->key_place, 3, 1, line);
  expect_place(&wide->place, 3, 8, line);
  expect_place(&ls_doc_at(ls_doc_get(wide, "b"), 1)->place, 3, 16, line);
  expect_place(&ls_doc_get(doc.root, "last")->place, 5, 7, "last: z");
  ls_doc_release(&doc);
}

/* Texts that are refused: where, and why. */
static const struct {
  const char *text;
  const char *message; /* begins the report */
} refused[] = {
    {"", "f.yaml:1:1: nothing is configured"},
    {"# only a comment\n", "f.yaml:1:1: nothing is configured"},
    {"~\n", "f.yaml:1:1: nothing is configured"},
    {"- a\n- b\n", "f.yaml:1:1: not a map"},
    {"just text\n", "f.yaml:1:1: not a map"},
    {"a: 1\nb: 2\na: 3\n", "f.yaml:3:1: key `a` is given twice, first in line 1"},
    {"m: {k: 1, k: 2}\n", "f.yaml:1:11: key `k` is given twice"},
    {"a: &x 1\n", "f.yaml:1:4: anchors"},
    {"a: &x [1]\n", "f.yaml:1:4: anchors"},
    {"a: &x {b: 1}\n", "f.yaml:1:4: anchors"},
    {"a: *x\n", "f.yaml:1:4: aliases"},
    {"a: !!int 3\n", "f.yaml:1:4: tags"},
    {"a: ! 3\n", "f.yaml:1:4: tags"},
    {"a: !x [1]\n", "f.yaml:1:4: tags"},
    {"? [1, 2]\n: x\n", "f.yaml:1:3: a key must be a name"},
    {"{{a: 1}: 2}\n", "f.yaml:1:2: a key must be a name"},
    {"a: [1, 2\n", "f.yaml:"},
    {"a: 'x\n", "f.yaml:"},
    {"a: b: c\n", "f.yaml:1:5: mapping values are not allowed"},
    {"a:\n\t- 1\n", "f.yaml:2:1: found character that cannot start any token while scanning for the next "
                    "token: a tab cannot "
                    "indent, use blanks"},
    {"a: @b\n",
     "f.yaml:1:4: found character that cannot start any token while scanning for the next token: put a text "
     "that begins with it in quotes"},
    {"{\"a\": \"\\ud83d\\ude00\"}\n",
     "f.yaml:1:10: found invalid Unicode character escape code while parsing a quoted scalar: write a "
     "character beyond U+FFFF as itself, not as two \\u escapes (Python: json.dump(.., ensure_ascii=False))"},
    {"a: 1\n  b: 2\n", "f.yaml:2:4: mapping values are not allowed"},
    {"a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document"},
    {"a: \"x\\0y\"\n", "f.yaml:1:4: a text must not contain"},
    {"a: \xff\n", "f.yaml:1:4: invalid leading UTF-8 octet"},
    {"a: 1\nb: \x01\n", "f.yaml:2:4: control characters are not allowed"},
};

static void refusals(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(refused); i++) {
    ls_doc_t doc = {.file = "untouched"};
    capture_clear(c);
    assert_int_equal(parse(c, refused[i].text, &doc), LS_ERR_CONFIG);
    if (strncmp(c->text, refused[i].message, strlen(refused[i].message)) != 0)
      fail_msg("case %d: got \"%s\", expected \"%s\"", i, c->text, refused[i].message);
    assert_int_equal(c->count, 1);
    assert_string_equal(doc.file, "untouched");
  }
}

static void all_errors_at_once(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  assert_int_equal(parse(c, "a: &x 1\nb: !!int 2\nc: *x\na: 3\n", &doc), LS_ERR_CONFIG);
  assert_int_equal(c->count, 4);
}

static void depth(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  char text[200] = "a: ";
  for (int i = 0; i < 31; i++)
    strcat(text, "["); /* the map is level 1 */
  for (int i = 0; i < 31; i++)
    strcat(text, "]");
  assert_int_equal(parse(c, text, &doc), LS_OK);
  ls_doc_release(&doc);
  memmove(text + 4, text + 3, strlen(text + 3) + 1);
  text[3] = '[';
  strcat(text, "]");
  assert_int_equal(parse(c, text, &doc), LS_ERR_CONFIG);
  assert_memory_equal(c->text, "f.yaml:1:35: nested deeper than 32 levels", 41);
}

/* Inputs that cost other parsers seconds or gigabytes. */
static void hostile_sizes(void **state) {
  capture_t *c = *state;
  enum { SIZE = (1 << 20) + 1 };
  char *text = malloc(SIZE);
  ls_doc_t doc;
  memset(text, '[', SIZE);
  memcpy(text, "a: ", 3);
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, SIZE, &doc), LS_ERR_CONFIG);
  assert_non_null(strstr(c->text, "more than the limit of 1048576"));
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, SIZE - 1, &doc), LS_ERR_CONFIG);
  for (int i = 3; i < SIZE; i++)
    text[i] = "[1,"[i % 3];
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, SIZE - 1, &doc), LS_ERR_CONFIG);
  text[3] = '[';
  for (int i = 4; i < SIZE; i++)
    text[i] = "1,"[i % 2]; /* one line, half a million values */
  capture_clear(c);
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, SIZE - 1, &doc), LS_ERR_CONFIG);
  assert_non_null(strstr(c->text, "more than 10000 values"));
  size_t used = 0;
  for (int i = 0; used < SIZE - 20; i++)
    used += (size_t)sprintf(text + used, "k%d:\n", i);
  capture_clear(c);
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, used, &doc), LS_ERR_CONFIG);
  assert_non_null(strstr(c->text, "more than 10000 values"));
  free(text);
}

static void long_lines_are_shown_in_part(void **state) {
  capture_t *c = *state;
  char text[2000];
  ls_doc_t doc;
  memset(text, 'x', sizeof text);
  memcpy(text, "a: &", 4);
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, sizeof text, &doc), LS_ERR_CONFIG);
  assert_true(strlen(c->text) < 400);
}

static void load(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  char path[] = "/tmp/lockstep-test-XXXXXX";
  assert_non_null(mkdtemp(path));
  char *file = ls_path_join(c->ctx, path, "c.yaml");
  assert_int_equal(ls_doc_load(c->ctx, file, &doc), LS_ERR_NOT_FOUND);
  assert_int_equal(ls_doc_load(c->ctx, path, &doc), LS_ERR_IO);
  assert_int_equal(ls_file_write(c->ctx, file, "a: 1\n", 5), LS_OK);
  assert_int_equal(ls_doc_load(c->ctx, file, &doc), LS_OK);
  assert_string_equal(doc.file, file);
  ls_doc_release(&doc);
  ls_free(file);
  assert_int_equal(ls_dir_remove(c->ctx, path), LS_OK);
}

static ls_status_t parse_some(capture_t *c) {
  static char text[40000]; /* more than a block of the arena */
  memset(text, ' ', sizeof text - 1);
  const char *begin = "a: [1, {b: c}]\nd: x\n";
  memcpy(text, begin, strlen(begin));
  ls_doc_t doc;
  ls_status_t status = parse(c, text, &doc);
  if (status == LS_OK) ls_doc_release(&doc);
  return status;
}

static void allocation_failures(void **state) {
  assert_true(capture_fail_each_alloc(*state, parse_some) >= 2);
}

TESTS(capture_setup, capture_teardown, tree, json_is_a_subset, places, refusals, all_errors_at_once, depth,
      hostile_sizes, long_lines_are_shown_in_part, load, allocation_failures)
