/* Names of files: joined, resolved against a folder, and written from the root. */
#include "capture.h"

#include <stdlib.h>
#include <unistd.h>

static void check(capture_t *c, const char *dir, const char *name, const char *expected) {
  char *path = ls_path_resolve(c->ctx, dir, name);
  assert_non_null(path);
  assert_string_equal(path, expected);
  ls_free(path);
}

static void resolved_as_short_as_possible(void **state) {
  static const char *const cases[][3] = {
      {".", "x", "x"},
      {"./", "./x", "x"},
      {"examples", "../runs/demo", "runs/demo"},
      {"examples", "../../shared/x", "../shared/x"},
      {"a/b", "../../..", ".."},
      {"a", "..", "."},
      {"..", "../x", "../../x"},
      {"../a", "../x", "../x"},
      {"/a/b", "../../../../x", "/x"},
      {"/a", "..", "/"},
      {"/", "x", "/x"},
      {"a//b/", ".//c/", "a/b/c"},
      {"a", "..b/...", "a/..b/..."},
      {"a", "/data//x/../y", "/data//x/../y"},
      {"", "x", "x"},
  };
  for (int i = 0; i < LS_COUNT(cases); i++)
    check(*state, cases[i][0], cases[i][1], cases[i][2]);
}

static void parents(void **state) {
  static const char *const cases[][2] = {{"x", "."}, {"a/x", "a"}, {"/x", "/"}, {"/a/x", "/a"}, {"", "."}};
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(cases); i++) {
    char *parent = ls_path_parent(c->ctx, cases[i][0]);
    assert_string_equal(parent, cases[i][1]);
    ls_free(parent);
  }
}

/* The parent of a link is not the parent of the folder that it names. */
static void a_link_keeps_its_dots(void **state) {
  capture_t *c = *state;
  char root[] = "/tmp/lockstep-test-XXXXXX", link[64], expected[80];
  assert_non_null(mkdtemp(root));
  snprintf(link, sizeof link, "%s/link", root);
  assert_int_equal(symlink("/usr/lib", link), 0);
  snprintf(expected, sizeof expected, "%s/../x", link);
  check(c, link, "../x", expected);
  snprintf(expected, sizeof expected, "%s/x", link);
  check(c, link, "y/../x", expected);
  assert_int_equal(ls_dir_remove(c->ctx, root), LS_OK);
}

static void from_the_root(void **state) {
  capture_t *c = *state;
  char here[4096];
  assert_non_null(getcwd(here, sizeof here));
  char *path = ls_path_absolute(c->ctx, "x"), *joined = ls_path_join(c->ctx, here, "x");
  assert_string_equal(path, joined);
  ls_free(path);
  ls_free(joined);
}

static ls_status_t resolve_one(capture_t *c) {
  char *path = ls_path_resolve(c->ctx, "a", "../b");
  ls_free(path);
  return path ? LS_OK : LS_ERR_MEMORY;
}

static void allocation_failures(void **state) {
  assert_int_equal(capture_fail_each_alloc(*state, resolve_one), 2);
}

TESTS(capture_setup, capture_teardown, resolved_as_short_as_possible, parents, a_link_keeps_its_dots,
      from_the_root, allocation_failures)
