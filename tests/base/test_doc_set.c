/* Assignments: what they change, what they refuse, and that a refused one changes nothing. */
#include "capture.h"

static const char *const base = "model:\n"
                                "  layers:\n"
                                "    - dense: {units: 128}\n"
                                "    - dense: {units: 10}\n"
                                "  loss: mse\n"
                                "train:\n";

static void parse(capture_t *c, ls_doc_t *doc) {
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", base, strlen(base), doc), LS_OK);
}

/* The node at a path of keys and indices, as in an assignment. */
static const ls_doc_node_t *find(const ls_doc_t *doc, const char *path) {
  char copy[256], *rest = copy;
  const ls_doc_node_t *node = doc->root;
  snprintf(copy, sizeof copy, "%s", path);
  for (char *part; node && (part = strtok_r(rest, ".", &rest));)
    node = node->kind == LS_DOC_LIST ? ls_doc_at(node, *part - '0') : ls_doc_get(node, part);
  return node;
}

static const struct {
  const char *assignment;
  const char *path;
  ls_doc_kind_t kind;
  const char *text;
} good[] = {
    {"model.loss=cross-entropy", "model.loss", LS_DOC_SCALAR, "cross-entropy"},
    {"model.layers.0.dense.units=7", "model.layers.0.dense.units", LS_DOC_SCALAR, "7"},
    {"model.layers.1={dropout: {rate: 0.5}}", "model.layers.1.dropout.rate", LS_DOC_SCALAR, "0.5"},
    {"model.layers.1.dense.activation=relu", "model.layers.1.dense.activation", LS_DOC_SCALAR, "relu"},
    {"model.layers=[]", "model.layers", LS_DOC_LIST, NULL},
    {"train.optimizer.lr=3e-4", "train.optimizer.lr", LS_DOC_SCALAR, "3e-4"}, /* below a null */
    {"train.optimizer={name: adam}", "train.optimizer.name", LS_DOC_SCALAR, "adam"},
    {"data.csv.target=[close, open]", "data.csv.target.1", LS_DOC_SCALAR, "open"},
    {"a.b.c.d.e=1", "a.b.c.d.e", LS_DOC_SCALAR, "1"},
    {"model.loss=", "model.loss", LS_DOC_NULL, NULL},
    {"model.loss=~", "model.loss", LS_DOC_NULL, NULL},
    {"data.path=a=b", "data.path", LS_DOC_SCALAR, "a=b"},
    {"data.path='3'", "data.path", LS_DOC_SCALAR, "3"},
    {"data.path= x y ", "data.path", LS_DOC_SCALAR, "x y"},
};

static void assignments(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(good); i++) {
    ls_doc_t doc;
    parse(c, &doc);
    assert_int_equal(ls_doc_set(c->ctx, &doc, good[i].assignment, false), LS_OK);
    const ls_doc_node_t *node = find(&doc, good[i].path);
    assert_non_null(node);
    assert_int_equal(node->kind, good[i].kind);
    if (good[i].text) assert_string_equal(node->text, good[i].text);
    assert_string_equal(c->text, "");
    ls_doc_release(&doc);
  }
}

static void a_text_is_taken_as_it_stands(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *value, *text; /* text NULL: a null node */
  } rows[] = {{",", ","},        {"|", "|"},          {";", ";"},   {"\t", "\t"},   {"a: [b #c", "a: [b #c"},
              {"\"\\t\"", "\t"}, {"'it''s'", "it's"}, {"*x", "*x"}, {" x ", " x "}, {"null", NULL},
              {"", NULL}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_doc_t doc;
    char assignment[64];
    parse(c, &doc);
    snprintf(assignment, sizeof assignment, "data.path=%s", rows[i].value);
    assert_int_equal(ls_doc_set(c->ctx, &doc, assignment, true), LS_OK);
    const ls_doc_node_t *node = find(&doc, "data.path");
    assert_int_equal(node->kind, rows[i].text ? LS_DOC_SCALAR : LS_DOC_NULL);
    if (rows[i].text) assert_string_equal(node->text, rows[i].text);
    assert_int_equal(node->place.column, 11);
    ls_doc_release(&doc);
  }
  ls_doc_t doc;
  parse(c, &doc);
  assert_int_equal(ls_doc_set(c->ctx, &doc, "data.path=\xff", true), LS_ERR_CONFIG);
  ls_doc_release(&doc);
}

static const struct {
  const char *assignment;
  const char *message;
} bad[] = {
    {"", "--set:1:1: `=` is missing"},
    {"model.loss",
     "--set:1:11: `=` is missing: section.option=value was expected\n  model.loss\n            ^"},
    {"=3", "--set:1:1: a name is missing in the path\n  =3\n  ^"},
    {".a=3", "--set:1:1: a name is missing"},
    {"a.=3", "--set:1:3: a name is missing"},
    {"a..b=3", "--set:1:3: a name is missing"},
    {"model.loss.kind=3", "--set:1:12: `kind` cannot be set: `loss` is a value, not a map"},
    {"model.layers.2.dense=3", "--set:1:14: there is no entry 2: the list has 2"},
    {"model.layers.99999999999999999999=3", "--set:1:14: there is no entry 99999999999999999999"},
    {"model.layers.-1=3", "--set:1:14: `-1` is not an index"},
    {"model.layers.dense=3", "--set:1:14: `dense` is not an index, but a list of 2 entries stands here"},
    {"a.b=[1, 2", "--set:1:10: "},
    {"a.b={x: 1, x: 2}", "--set:1:12: key `x` is given twice"},
    {"a.b=&x 3", "--set:1:5: anchors"},
    {"a.b=!!int 3", "--set:1:5: tags"},
    {"a.b=\xff", "--set:1:5: invalid leading UTF-8 octet"},
    {"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1",
     "--set:1:63: nested deeper than 32"},
    {"a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=[1]",
     "--set:1:64: nested deeper than 32"},
};

static int count_nodes(const ls_doc_node_t *node) {
  int count = 1;
  for (const ls_doc_node_t *child = node->child; child; child = child->next)
    count += count_nodes(child);
  return count;
}

static void refusals(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  parse(c, &doc);
  int nodes = count_nodes(doc.root);
  for (int i = 0; i < LS_COUNT(bad); i++) {
    capture_clear(c);
    assert_int_equal(ls_doc_set(c->ctx, &doc, bad[i].assignment, false), LS_ERR_CONFIG);
    if (strncmp(c->text, bad[i].message, strlen(bad[i].message)) != 0)
      fail_msg("case %d: got \"%s\", expected \"%s\"", i, c->text, bad[i].message);
    assert_int_equal(c->count, 1);
    assert_int_equal(count_nodes(doc.root), nodes);
  }
  ls_doc_release(&doc);
}

static void places_point_into_the_assignment(void **state) {
  capture_t *c = *state;
  ls_doc_t doc;
  parse(c, &doc);
  assert_int_equal(ls_doc_set(c->ctx, &doc, "data.new={k: [1, v]}", false), LS_OK);
  const ls_doc_node_t *node = find(&doc, "data.new");
  assert_string_equal(node->place.file, "--set");
  assert_int_equal(node->place.line, 1);
  assert_int_equal(node->place.column, 10);
  assert_int_equal(node->key_place.column, 6);
  assert_string_equal(node->place.source, "data.new={k: [1, v]}");
  assert_int_equal(find(&doc, "data.new.k.1")->place.column, 18);
  assert_int_equal(find(&doc, "data")->key_place.column, 1);
  assert_int_equal(ls_doc_set(c->ctx, &doc, "model.loss=x", false), LS_OK);
  node = find(&doc, "model.loss"); /* its key is still in the file */
  assert_string_equal(node->place.file, "--set");
  assert_string_equal(node->key_place.file, "f.yaml");
  assert_int_equal(node->key_place.line, 5);
  ls_doc_release(&doc);
}

static ls_status_t set_some(capture_t *c) {
  ls_doc_t doc;
  static char assignment[30000] = "a.b.c.d="; /* more than a block of the arena */
  memset(assignment + 8, 'x', sizeof assignment - 9);
  ls_status_t status = ls_doc_parse(c->ctx, "f.yaml", base, strlen(base), &doc);
  if (status != LS_OK) return status;
  status = ls_doc_set(c->ctx, &doc, assignment, false);
  if (status != LS_OK) assert_null(ls_doc_get(doc.root, "a"));
  ls_doc_release(&doc);
  return status;
}

static void allocation_failures(void **state) {
  assert_true(capture_fail_each_alloc(*state, set_some) >= 3);
}

TESTS(capture_setup, capture_teardown, assignments, a_text_is_taken_as_it_stands, refusals,
      places_point_into_the_assignment, allocation_failures)
