/* Templates: placeholders, conditions, and what is left as it is. */
#include "base/capture.h"
#include "base/expand.h"
#include <stdlib.h>

static bool value(void *data, const char *name, FILE *to) {
  const char *const rows[][2] = {{"ranks", "4"}, {"none", ""}, {"zero", "0"}, {"width*4", "lines\nof it"}};
  (void)data;
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (strcmp(rows[i][0], name) == 0) return fputs(rows[i][1], to) >= 0;
  return false;
}

static void expands(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text, *want; /* NULL: refused */
    const char *said;
  } cases[] = {
      {"", "", NULL},
      {"n=${ranks}, ${ranks}${ranks}", "n=4, 44", NULL},
      {"a\n${width*4}!\n", "a\nlines\nof it!\n", NULL},
      {"${?ranks}a\n${?none}b\n${?zero}c\n${!none}d\n${!ranks}e\nf", "a\nd\nf", NULL},
      {"${?ranks}${!zero}both ${ranks}\n${?ranks}${?zero}one\n", "both 4\n", NULL},
      {"${HOME:-x} $ranks ${} ${ranks $", "${HOME:-x} $ranks ${} ${ranks $", NULL},
      {"x\n ${rank}\n", NULL, "t.in:2: there is no value for the placeholder `rank`"},
      {"${?rank}x", NULL, "t.in:1: there is no value for the placeholder `rank`"},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    ls_status_t status = ls_expand(c->ctx, "t.in", 1, cases[i].text, value, NULL, to);
    fclose(to);
    assert_int_equal(status, cases[i].want ? LS_OK : LS_ERR_CONFIG);
    if (cases[i].want) assert_string_equal(text, cases[i].want);
    if (cases[i].said) assert_non_null(strstr(c->text, cases[i].said));
    free(text);
    capture_clear(c);
  }
}

static void a_name_or_a_path(void **state) {
  capture_t *c = *state;
  static const ls_embedded_t files[] = {{"one", "1", 1}, {"two", "2", 1}, {NULL, NULL, 0}};
  const char *file, *text;
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  assert_int_equal(ls_template_read(c->ctx, &arena, files, NULL, "two", &file, &text), LS_OK);
  assert_string_equal(text, "2");
  assert_int_equal(ls_template_read(c->ctx, &arena, files, NULL, "three", &file, &text), LS_ERR_NOT_FOUND);
  assert_string_equal(c->text, "");
  assert_int_equal(ls_template_read(c->ctx, &arena, files, "/none", "x.in", &file, &text), LS_ERR_NOT_FOUND);
  assert_non_null(strstr(c->text, "/none/x.in"));
  ls_arena_release(&arena);
}

TESTS(capture_setup, capture_teardown, expands, a_name_or_a_path)
