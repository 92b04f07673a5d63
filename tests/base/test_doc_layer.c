/* Documents in layers: what merges, what replaces, where it says it comes from, and what is refused. */
#include "capture.h"

#include "base/file.h"
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/lockstep-layer-XXXXXX";

static void put(const char *name, const char *text) {
  char *path = ls_path_join(NULL, dir, name);
  assert_int_equal(ls_file_write(NULL, path, text, strlen(text)), LS_OK);
  ls_free(path);
}

static ls_status_t layered(capture_t *c, const char *name, const char *env, bool needed, ls_doc_t *doc) {
  char *path = ls_path_join(NULL, dir, name);
  ls_status_t status = ls_doc_load(c->ctx, path, doc);
  ls_free(path);
  if (status != LS_OK) return status;
  status = ls_doc_layer(c->ctx, doc, env, needed);
  if (status != LS_OK) ls_doc_release(doc);
  return status;
}

/* The tree in a line: maps {k: v}, lists [v], null ~; behind a value its file's last letter before .yaml and its line. */
static void draw(const ls_doc_node_t *node, FILE *to) {
  if (node->key) fprintf(to, "%s:", node->key);
  if (node->kind == LS_DOC_NULL) fprintf(to, "~");
  if (node->kind == LS_DOC_SCALAR) fprintf(to, "%s", node->text);
  if (!node->child) {
    const char *file = strrchr(node->place.file, '/') + 1;
    fprintf(to, "@%c%d%s%s", *file, node->place.line, node->env ? "/" : "", node->env ? node->env : "");
  }
  if (node->kind == LS_DOC_SCALAR || node->kind == LS_DOC_NULL) return;
  fprintf(to, node->kind == LS_DOC_MAP ? "{" : "[");
  int count = 0;
  for (const ls_doc_node_t *child = node->child; child; child = child->next, count++) {
    if (count) fprintf(to, " ");
    draw(child, to);
  }
  fprintf(to, node->kind == LS_DOC_MAP ? "}" : "]");
  assert_int_equal(count, node->count);
}

static const struct {
  const char *base, *top, *env, *result;
} rows[] = {
    {"a: 1\n", "b: 2\n", NULL, "{a:1@b1 b:2@t2}"},
    {"a: 1\n", "a: 2\n", NULL, "{a:2@t2}"},
    {"a: {x: 1, y: 2}\n", "a: {y: 3, z: 4}\n", NULL, "{a:{x:1@b1 y:3@t2 z:4@t2}}"},
    {"a: {x: {p: 1, q: 2}}\n", "a: {x: {q: 3}}\n", NULL, "{a:{x:{p:1@b1 q:3@t2}}}"},
    {"a: [1, 2]\n", "a: [3]\n", NULL, "{a:[3@t2]}"},
    {"a: {x: 1}\n", "a: [3]\n", NULL, "{a:[3@t2]}"},
    {"a: {x: 1}\nb: 2\n", "a: \n", NULL, "{a:~@t2 b:2@b2}"},
    {"a: 1\n", "a: {x: 1}\n", NULL, "{a:{x:1@t2}}"},
    {"a: 1\n", "env: {e: {a: 3}}\n", NULL, "{a:1@b1}"},
    {"a: 1\n", "env: {e: {a: 3}}\n", "e", "{a:3@t2/e}"},
    {"a: 1\nenv: {e: {a: 4, b: 5}, f: {a: 6}}\n", "a: 2\nenv: {e: {a: 3}}\n", "e", "{a:3@t3/e b:5@b2/e}"},
    {"a: 1\nenv: {e: {a: 4, b: 5}, f: {a: 6}}\n", "a: 2\nenv: {e: {a: 3}}\n", "f", "{a:6@b2/f}"},
    {"a: 1\n", "env: {e: }\n", "e", "{a:1@b1}"},
    {"a: {x: 1, y: 2}\n", "a: {x: 2}\nenv: {e: {a: {x: 3}}}\n", "e", "{a:{x:3@t3/e y:2@b1}}"},
};

static void merges(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(rows); i++) {
    char top[512], *text = NULL;
    size_t len;
    ls_doc_t doc;
    snprintf(top, sizeof top, "base: b.yaml\n%s", rows[i].top);
    put("b.yaml", rows[i].base);
    put("t.yaml", top);
    assert_int_equal(layered(c, "t.yaml", rows[i].env, true, &doc), LS_OK);
    FILE *to = open_memstream(&text, &len);
    draw(doc.root, to);
    fclose(to);
    assert_string_equal(text, rows[i].result);
    free(text);
    ls_doc_release(&doc);
  }
}

/* Each file's paths start at its own folder, also that of its base. */
static void folders(void **state) {
  capture_t *c = *state;
  char *below = ls_path_join(NULL, dir, "below");
  assert_int_equal(ls_dir_make(c->ctx, below), LS_OK);
  put("below/m.yaml", "base: ../b.yaml\ny: 1\n");
  put("b.yaml", "x: 1\n");
  put("t.yaml", "base: below/m.yaml\nz: 1\n");
  ls_doc_t doc;
  assert_int_equal(layered(c, "t.yaml", NULL, false, &doc), LS_OK);
  assert_string_equal(ls_doc_get(doc.root, "y")->dir, below);
  assert_string_equal(ls_doc_get(doc.root, "x")->dir, dir);
  assert_string_equal(ls_doc_get(doc.root, "z")->dir, dir);
  ls_doc_release(&doc);
  ls_free(below);
}

static void chains_end(void **state) {
  capture_t *c = *state;
  char name[32], text[64];
  ls_doc_t doc;
  for (int i = 0; i < 17; i++) {
    snprintf(name, sizeof name, "%d.yaml", i);
    snprintf(text, sizeof text, i < 16 ? "base: %d.yaml\n" : "a: 1\n", i + 1);
    put(name, text);
  }
  assert_int_equal(layered(c, "1.yaml", NULL, false, &doc), LS_OK);
  ls_doc_release(&doc);
  assert_int_equal(layered(c, "0.yaml", NULL, false, &doc), LS_ERR_CONFIG);
  assert_non_null(strstr(c->text, "15.yaml:1:7"));
  assert_non_null(strstr(c->text, "more than 16 files"));
  capture_clear(c);
  put("16.yaml", "base: 16.yaml\n");
  assert_int_equal(layered(c, "16.yaml", NULL, false, &doc), LS_ERR_CONFIG);
  assert_non_null(strstr(c->text, "16.yaml:1:7"));
  assert_non_null(strstr(c->text, "a loop"));
}

static ls_status_t load_some(capture_t *c) {
  ls_doc_t doc;
  ls_status_t status = layered(c, "t.yaml", "e", true, &doc);
  if (status == LS_OK) ls_doc_release(&doc);
  return status;
}

static void allocation_failures(void **state) {
  put("b.yaml", "a: 1\n");
  put("t.yaml", "base: b.yaml\nenv: {e: {a: 2}}\n");
  assert_true(capture_fail_each_alloc(*state, load_some) >= 4);
}

static int open_dir(void **state) {
  return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
  return ls_dir_remove(NULL, dir) == LS_OK ? 0 : -1;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, capture_setup, capture_teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(merges),
      TEST(folders),
      TEST(chains_end),
      TEST(allocation_failures),
  };
  return cmocka_run_group_tests(tests, open_dir, remove_dir);
}
