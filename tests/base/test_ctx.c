/* The context: what is delivered, what is kept, how a place is drawn, and checked allocation. */
#include "capture.h"
#include "support/threads.h"

#include <errno.h>

static void errors_are_counted_and_the_first_is_kept(void **state) {
  capture_t *c = *state;
  assert_string_equal(ls_ctx_error(c->ctx), "");
  assert_int_equal(ls_fail(c->ctx, LS_ERR_DATA, "row %d", 3), LS_ERR_DATA);
  assert_int_equal(ls_fail(c->ctx, LS_ERR_CONFIG, "second"), LS_ERR_CONFIG);
  ls_log(c->ctx, LS_LOG_WARN, "a warning is not an error");
  assert_int_equal(ls_ctx_error_count(c->ctx), 2);
  assert_string_equal(ls_ctx_error(c->ctx), "row 3");
  assert_string_equal(c->text, "row 3\nsecond\na warning is not an error\n");
  ls_ctx_clear(c->ctx);
  assert_int_equal(ls_ctx_error_count(c->ctx), 0);
  assert_string_equal(ls_ctx_error(c->ctx), "");
}

static void levels(void **state) {
  capture_t *c = *state;
  ls_log(c->ctx, LS_LOG_DEBUG, "hidden");
  ls_log(c->ctx, LS_LOG_INFO, "shown");
  ls_ctx_set_level(c->ctx, LS_LOG_ERROR);
  ls_log(c->ctx, LS_LOG_WARN, "hidden");
  ls_fail(c->ctx, LS_ERR_IO, "error");
  assert_string_equal(c->text, "shown\nerror\n");
}

static void the_rank_speaks(void **state) {
  capture_t *c = *state;
  ls_ctx_set_rank(c->ctx, 2, 3);
  ls_fail(c->ctx, LS_ERR_IO, "lost");
  ls_log(c->ctx, LS_LOG_INFO, "found");
  assert_string_equal(c->text, "rank 2: lost\nrank 2: found\n");
  assert_string_equal(ls_ctx_error(c->ctx), "rank 2: lost");
}

static void a_place_has_a_caret(void **state) {
  capture_t *c = *state;
  const char *line = "\tlr: fast";
  const ls_place_t place = {"run.yaml", 7, 6, line, (int)strlen(line)};
  assert_int_equal(ls_fail_at(c->ctx, LS_ERR_CONFIG, &place, "not a number"), LS_ERR_CONFIG);
  assert_string_equal(c->text, "run.yaml:7:6: not a number\n  \tlr: fast\n  \t    ^\n");
}

static void the_caret_counts_characters(void **state) {
  capture_t *c = *state;
  const char *line = "gr\xc3\xb6\xc3\x9f"
                     "e: x"; /* two characters of two bytes */
  const ls_place_t place = {"f", 1, 10, line, (int)strlen(line)};
  ls_fail_at(c->ctx, LS_ERR_CONFIG, &place, "bad");
  assert_string_equal(strrchr(c->text, ' ') + 1, "^\n");
  const char *last = strstr(c->text, "\n   ") + 3; /* after line end and indent */
  assert_int_equal(strcspn(last, "^"), 7);
}

static void places_with_little_in_them(void **state) {
  capture_t *c = *state;
  const ls_place_t only_file = {.file = "data.csv"}, nothing = {0}, beyond = {"f", 1, 50, "ab", 2},
                   named = {.file = "f", .line = 3, .about = "preset x"};
  ls_fail_at(c->ctx, LS_ERR_DATA, &only_file, "one");
  ls_fail_at(c->ctx, LS_ERR_DATA, &nothing, "two");
  ls_fail_at(c->ctx, LS_ERR_DATA, &beyond, "three");
  ls_fail_at(c->ctx, LS_ERR_DATA, &named, "four");
  assert_string_equal(c->text, "data.csv: one\ntwo\nf:1:50: three\n  ab\nf:3: preset x: four\n");
}

static void long_messages_are_cut(void **state) {
  capture_t *c = *state;
  ls_fail(c->ctx, LS_ERR_DATA, "%8000d", 1);
  assert_int_equal(strlen(ls_ctx_error(c->ctx)), 4095);
}

/* Whatever a file contains, a message is UTF-8 without control characters. */
/* Cells of a file end at their length, not at a NUL: nothing behind them is looked at. */
static void a_character_cut_off_by_the_length_is_shown_as_bytes(void **state) {
  static const struct {
    const char *text;
    size_t len;
    const char *shown;
  } rows[] = {{"ab\xc3\xa9", 3, "ab\\xc3"},
              {"ab\xc3\xa9", 4, "ab\xc3\xa9"},
              {"\xe2\x82\xac", 2, "\\xe2\\x82"},
              {"\xf0\x9f\x98\x80!", 4, "\xf0\x9f\x98\x80"},
              {"\xe2\x82\xac", SIZE_MAX, "\xe2\x82\xac"},
              {"2\0"
               "007",
               5, "2\\x00007"},
              {"a\tb\n", SIZE_MAX, "a\\tb\\n"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    char shown[64],
        *text = malloc(rows[i].len == SIZE_MAX ? strlen(rows[i].text) + 1 : rows[i].len); /* fenced */
    memcpy(text, rows[i].text, rows[i].len == SIZE_MAX ? strlen(rows[i].text) + 1 : rows[i].len);
    assert_string_equal(ls_text_shown(text, rows[i].len, shown, sizeof shown), rows[i].shown);
    free(text);
  }
}

static void messages_are_plain_text(void **state) {
  capture_t *c = *state;
  static const char *const cases[][2] = {
      {"tab\tand\nline", "tab\tand\nline"},
      {"\x1b[31mred\x7f", "\\x1b[31mred\\x7f"},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"},
      {"latin \xe9t\xe9", "latin \\xe9t\\xe9"},
      {"cut \xe2\x82", "cut \\xe2\\x82"},
      {"long \xc0\xaf \xe0\x80\xaf", "long \\xc0\\xaf \\xe0\\x80\\xaf"},
      {"surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80"},
      {"beyond \xf4\x90\x80\x80 \xff", "beyond \\xf4\\x90\\x80\\x80 \\xff"},
      {"control \xc2\x85", "control \\xc2\\x85"},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_ctx_clear(c->ctx);
    ls_fail(c->ctx, LS_ERR_DATA, "%s", cases[i][0]);
    assert_string_equal(ls_ctx_error(c->ctx), cases[i][1]);
  }
}

/* A line end in a path forged a line of its own. */
static void the_name_that_a_message_begins_with_is_one_line(void **state) {
  capture_t *c = *state;
  const ls_place_t place = {"run\n.yaml", 7, 0, NULL, 0};
  ls_fail(c->ctx, LS_ERR_IO, "%s: gone\n%s", "a\nb\t", "next");
  ls_log(c->ctx, LS_LOG_WARN, "%s/%s: gone", "a\nb", "c");
  ls_fail_at(c->ctx, LS_ERR_CONFIG, &place, "bad");
  errno = ENOENT;
  ls_fail_errno(c->ctx, "%s: cannot be opened", "x\ny");
  assert_string_equal(c->text, "a\\nb\\t: gone\nnext\na\\nb/c: gone\nrun\\n.yaml:7: bad\n"
                               "x\\ny: cannot be opened: No such file or directory\n");
}

static void system_errors(void **state) {
  capture_t *c = *state;
  static const struct {
    int error;
    ls_status_t status;
  } cases[] = {{ENOSPC, LS_ERR_NO_SPACE},
               {EDQUOT, LS_ERR_NO_SPACE},
               {ENOENT, LS_ERR_NOT_FOUND},
               {EACCES, LS_ERR_IO},
               {EIO, LS_ERR_IO}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    errno = cases[i].error;
    assert_int_equal(ls_fail_errno(c->ctx, "f"), cases[i].status);
    assert_non_null(strstr(c->text, strerror(cases[i].error)));
  }
}

static void no_context(void **state) {
  const ls_place_t place = {0};
  assert_int_equal(ls_fail(NULL, LS_ERR_DATA, "x"), LS_ERR_DATA);
  assert_int_equal(ls_fail_at(NULL, LS_ERR_DATA, &place, "x"), LS_ERR_DATA);
  errno = ENOSPC;
  assert_int_equal(ls_fail_errno(NULL, "x"), LS_ERR_NO_SPACE);
  ls_log(NULL, LS_LOG_ERROR, "x");
  ls_ctx_destroy(NULL);
}

static void *report(void *argument) {
  for (int i = 0; i < 200; i++)
    ls_fail(argument, LS_ERR_DATA, "message %d", i);
  return NULL;
}

static void any_thread_may_report(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  threads_run(4, report, ctx, 0);
  assert_int_equal(ls_ctx_error_count(ctx), 800);
  assert_string_equal(ls_ctx_error(ctx), "message 0");
  ls_ctx_destroy(ctx);
}

static void statuses(void **state) {
  assert_string_equal(ls_status_name(LS_ERR_NO_SPACE), "LS_ERR_NO_SPACE");
  assert_string_equal(ls_status_text(LS_OK), "ok");
  assert_int_equal(ls_status_exit_code(LS_ERR_CONFIG), 3);
  assert_int_equal(ls_status_exit_code(LS_OK), 0);
  assert_string_equal(ls_status_text((ls_status_t)-9999), "unknown status");
  assert_int_equal(ls_status_exit_code((ls_status_t)-9999), 1);
}

static void allocations(void **state) {
  capture_t *c = *state;
  ls_ctx_fail_alloc(c->ctx, 0);
  unsigned char *zeroed = ls_alloc(c->ctx, 100), *aligned = ls_alloc_aligned(c->ctx, 64, 100);
  for (int i = 0; i < 100; i++)
    assert_int_equal(zeroed[i] | aligned[i], 0);
  assert_int_equal((uintptr_t)aligned % 64, 0);
  char *copy = ls_strdup(c->ctx, "text");
  assert_string_equal(copy, "text");
  copy = ls_realloc_array(c->ctx, copy, 1000, 8);
  assert_string_equal(copy, "text");
  void *empty = ls_alloc(c->ctx, 0);
  assert_non_null(empty);
  assert_int_equal(ls_ctx_fail_alloc(c->ctx, 2), 5);
  void *first = ls_alloc(c->ctx, 1);
  assert_non_null(first);
  assert_null(ls_alloc(c->ctx, 1)); /* the second from then on fails, once */
  void *third = ls_alloc(c->ctx, 1);
  assert_non_null(third);
  assert_null(ls_alloc_array(c->ctx, SIZE_MAX / 2, 3));
  assert_null(ls_realloc_array(c->ctx, NULL, SIZE_MAX / 2, 3));
  assert_int_equal(ls_ctx_error_count(c->ctx), 3);
  void *all[] = {zeroed, aligned, copy, empty, first, third, NULL};
  for (int i = 0; i < LS_COUNT(all); i++)
    ls_free(all[i]);
}

TESTS(capture_setup, capture_teardown, errors_are_counted_and_the_first_is_kept, levels, the_rank_speaks,
      a_place_has_a_caret, the_caret_counts_characters, places_with_little_in_them, long_messages_are_cut,
      a_character_cut_off_by_the_length_is_shown_as_bytes, messages_are_plain_text,
      the_name_that_a_message_begins_with_is_one_line, system_errors, no_context, any_thread_may_report,
      statuses, allocations)
