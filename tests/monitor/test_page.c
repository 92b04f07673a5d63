/* The page of a run's ranks: what one process writes another one reads; strange files are refused or replaced. */
#include "monitor/page.h"

#include "unit.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static ls_ctx_t *ctx;
static char *dir;

static int set_up(void **state) {
  ctx = ls_ctx_create(NULL, NULL);
  return ls_dir_temporary(ctx, "page", &dir) == LS_OK ? 0 : -1;
}
static int tear_down(void **state) {
  ls_dir_remove(ctx, dir);
  ls_free(dir);
  ls_ctx_destroy(ctx);
  return 0;
}

static void another_process_is_seen_while_it_steps(void **state) {
  ls_page_t *page, *reader;
  assert_int_equal(ls_page_open(ctx, dir, 3, &page), LS_OK);
  assert_int_equal(ls_page_read(ctx, dir, &reader), LS_OK);
  assert_int_equal(ls_page_ranks(reader), 3);
  ls_page_look_t look;
  ls_page_look(reader, 1, &look);
  assert_int_equal(look.phase, LS_PAGE_NONE);
  pid_t child = fork();
  if (child == 0) {
    ls_page_line_t *line = ls_page_line(page, 1);
    ls_page_begin(line, 100);
    ls_page_first(line, 40);
    ls_page_step(line, 41, 200);
    ls_page_step(line, 42, 300);
    atomic_fetch_add(&line->entered, 2);
    atomic_fetch_add(&line->left, 1);
    ls_page_fail(line, LS_ERR_NO_SPACE);
    ls_page_fail(line, LS_ERR_COMM); /* a consequence */
    _exit(0);
  }
  assert_int_equal(waitpid(child, NULL, 0), child);
  ls_page_look(reader, 1, &look);
  assert_int_equal(look.phase, LS_PAGE_STEP);
  assert_int_equal(look.step, 42);
  assert_int_equal(look.first, 40);
  assert_int_equal(look.since_ns, 300);
  assert_int_equal(look.entered, 2);
  assert_int_equal(look.left, 1);
  assert_int_equal(look.error, LS_ERR_NO_SPACE);
  assert_true(look.error_ns > 0 && look.error_ns <= ls_clock_ns());
  assert_int_equal(look.pid, child);
  assert_int_equal(look.parent, getpid());
  for (int rank = 0; rank < 3; rank += 2) {
    ls_page_look(reader, rank, &look);
    assert_int_equal(look.pid, 0);
  }
  ls_page_clear(ls_page_line(page, 1));
  ls_page_look(reader, 1, &look);
  assert_int_equal(look.phase, LS_PAGE_NONE);
  assert_int_equal(look.pid + look.step + look.error, 0);
  ls_page_close(reader);
  ls_page_close(page);
}

/* A line has room for half of the step at which a life began. */
static void a_life_began_where_it_did_however_late_it_is_seen(void **state) {
  static const int64_t first[] = {0, 900, INT64_C(0xfffffff0), INT64_C(0x300000007)};
  ls_page_t *page;
  ls_page_look_t look;
  assert_int_equal(ls_page_open(ctx, dir, 1, &page), LS_OK);
  for (int i = 0; i < LS_COUNT(first); i++) {
    ls_page_line_t *line = ls_page_line(page, 0);
    ls_page_begin(line, 100);
    ls_page_first(line, first[i]);
    ls_page_look(page, 0, &look);
    assert_true(look.step == first[i] && look.first == first[i]);
    ls_page_step(line, first[i] + 5000, 200);
    ls_page_look(page, 0, &look);
    assert_true(look.step == first[i] + 5000 && look.first == first[i]);
    ls_page_put(line, &look);
    ls_page_look(page, 0, &look);
    assert_true(look.first == first[i]);
  }
  ls_page_close(page);
}

/* A reader of a page must not fault when a run of another size takes the directory. */
static void another_number_of_ranks_gets_another_file(void **state) {
  ls_page_t *wide, *narrow, *again;
  ls_page_look_t look;
  assert_int_equal(ls_page_open(ctx, dir, 200, &wide), LS_OK);
  ls_page_step(ls_page_line(wide, 199), 7, 1);
  assert_int_equal(ls_page_open(ctx, dir, 2, &narrow), LS_OK);
  ls_page_step(ls_page_line(narrow, 1), 9, 1);
  ls_page_look(wide, 199, &look);
  assert_int_equal(look.step, 7);
  assert_int_equal(ls_page_open(ctx, dir, 2, &again), LS_OK); /* the same file */
  ls_page_look(again, 1, &look);
  assert_int_equal(look.step, 9);
  ls_page_close(again);
  ls_page_close(narrow);
  ls_page_close(wide);
}

static void what_is_no_page_is_refused_by_readers_and_replaced_by_writers(void **state) {
  ls_page_t *page;
  assert_int_equal(ls_page_read(ctx, dir, &page), LS_ERR_NOT_FOUND);
  char *path = ls_path_join(ctx, dir, LS_PAGE_NAME);
  char head[256] = "LSPAGE1";
  const int32_t heads[][2] = {
      {64, 4}, {64, 0}, {64, -1}, {32, 3}, {64, INT32_MAX}}; /* bytes, ranks: 3 lines follow */
  for (int i = 0; i < LS_COUNT(heads); i++) {
    memcpy(head + 8, heads[i], sizeof heads[i]);
    assert_int_equal(ls_file_replace(ctx, path, head, sizeof head), LS_OK);
    assert_int_equal(ls_page_read(ctx, dir, &page), LS_ERR_CORRUPT);
  }
  for (size_t size = 0; size < 65; size += 8) {
    assert_int_equal(ls_file_replace(ctx, path, head, size), LS_OK);
    assert_int_equal(ls_page_read(ctx, dir, &page), LS_ERR_CORRUPT);
  }
  assert_int_equal(ls_page_open(ctx, dir, 3, &page), LS_OK);
  ls_page_close(page);
  assert_int_equal(ls_page_read(ctx, dir, &page), LS_OK);
  ls_page_close(page);
  assert_int_equal(ls_page_open(ctx, dir, 0, &page), LS_ERR_ARGUMENT);
  unlink(path);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(ls_page_read(ctx, dir, &page), LS_ERR_CORRUPT);
  assert_int_not_equal(ls_page_open(ctx, dir, 3, &page), LS_OK);
  ls_free(path);
}

TESTS(set_up, tear_down, another_process_is_seen_while_it_steps,
      a_life_began_where_it_did_however_late_it_is_seen, another_number_of_ranks_gets_another_file,
      what_is_no_page_is_refused_by_readers_and_replaced_by_writers)
