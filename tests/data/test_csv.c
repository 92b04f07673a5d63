/* CSV: what RFC 4180 allows is read, everything else is refused at its place. */
#include "common.h"
#include "data/read.h"

static ls_status_t read_text(ls_ctx_t *ctx, const char *text, const ls_strings_t *want,
                             const ls_strings_t *except, ls_matrix_t *out) {
  return ls_read_csv(ctx,
                     &(ls_csv_read_t){.name = "t.csv",
                                      .text = text,
                                      .size = strlen(text),
                                      .want = want,
                                      .except = except,
                                      .targets = want && want->count > 0},
                     out);
}

static void check(const char *text, const ls_strings_t *want, const ls_strings_t *except, int64_t rows,
                  int64_t cols, const float *values) {
  said_clear();
  ls_matrix_t m = {0};
  ls_status_t status = read_text(said.ctx, text, want, except, &m);
  if (status != LS_OK) fail_msg("refused: %s", said.messages);
  assert_int_equal(m.rows, rows);
  assert_int_equal(m.cols, cols);
  assert_memory_equal(m.values, values, (size_t)(rows * cols) * sizeof *values);
  ls_matrix_release(&m);
}

static void test_reads(void **state) {
  static const float v[] = {1, 2, 3, 4};
  check("a,b\n1,2\n3,4\n", NULL, NULL, 2, 2, v);
  check("a,b\n1,2\n3,4", NULL, NULL, 2, 2, v);
  check("a,b\r\n1,2\r\n3,4\r\n", NULL, NULL, 2, 2, v);
  check("\xef\xbb\xbf"
        "a,b\n1,2\n3,4\n\n\r\n\n",
        NULL, NULL, 2, 2, v);
  check("\"a\",\"b\"\n\"1\",2\n3,\"4\"\n", NULL, NULL, 2, 2, v);
  check("\"a \"\"x\"\", y\",\"b\nc\"\n1,2\n3,4\n", NULL, NULL, 2, 2, v);
  check("a\n1\n2\n3\n4\n", NULL, NULL, 4, 1, v);
}

/* The header says what separates cells; spaces around a name or a number are no part of it. */
static void test_delimiters_and_spaces(void **state) {
  static const float v[] = {1, 2, 3, 4};
  ls_strings_t a_b = NAMES("a", "b");
  check("a;b\n1;2\n3;4\n", &a_b, NULL, 2, 2, v);
  check("a\tb\n1\t2\n3\t4\n", &a_b, NULL, 2, 2, v);
  check("\"a\"; b\r\n1 ;2\r\n3;\t4\r\n", &a_b, NULL, 2, 2, v);
  check("a, b\n1, 2\n 3 ,4 \n", &a_b, NULL, 2, 2, v);
  check(" \"a\" , \"b\"\n1,2\n3,4\n", &a_b, NULL, 2, 2, v);
  ls_strings_t comma = NAMES("a,x", "b;y");
  check("\"a,x\";\"b;y\"\n1;2\n3;4\n", &comma, NULL, 2, 2, v); /* what is quoted separates nothing */
  ls_matrix_t m;
  static const char text[] = "a,x|b;y\n1|2\n3|4\n";
  ls_strings_t bar = NAMES("a,x", "b;y");
  assert_int_equal(ls_read_csv(said.ctx, &(ls_csv_read_t){"t.csv", text, strlen(text), '|', &bar}, &m),
                   LS_OK);
  assert_memory_equal(m.values, v, sizeof v);
  ls_matrix_release(&m);
}

static void test_chooses_columns(void **state) {
  const char *text = "day,a,b,c\n2000-01-03,1,2,x\n2000-01-04,3,4,\"y\nz\"\n";
  ls_strings_t ba = NAMES("b", "a"), b = NAMES("b"), a = NAMES("a"), c = NAMES("c");
  static const float swapped[] = {2, 1, 4, 3}, only_b[] = {2, 4}, both[] = {1, 2, 3, 4};
  check(text, &ba, NULL, 2, 2, swapped);
  check(text, &b, &a, 2, 1, only_b);
  check(text, NULL, &c, 2, 2, both); /* the date column goes by itself */
  ls_matrix_t m;
  assert_int_equal(read_text(said.ctx, text, NULL, &c, &m), LS_OK);
  assert_said("column 'day' holds dates and is left out");
  ls_matrix_release(&m);
  ls_strings_t quoted = NAMES("say \"hi\"");
  static const float one[] = {7};
  check("\"say \"\"hi\"\"\",b\n7,8\n", &quoted, NULL, 1, 1, one);
}

static void test_refuses(void **state) {
  static const struct {
    const char *text, *want, *except, *place, *part;
  } rows[] = {
      {"", 0, 0, "t.csv", "empty"},
      {"\n\n", 0, 0, "t.csv", "empty"},
      {"a,b\n", 0, 0, "t.csv", "no rows below the header"},
      {"a,b\n\n\n", 0, 0, "t.csv", "no rows below the header"},
      {"\xff\xfe"
       "a\0",
       0, 0, "t.csv", "UTF-16"},
      {"a,gr\xf6\xdf"
       "e\n1,2\n",
       0, 0, "t.csv:1:3:", "the header is not UTF-8"}, /* Latin-1 */
      {"a,,c\n1,2,3\n", 0, 0, "t.csv:1:3:", "column 2 of the header has no name"},
      {"a,b,\n1,2,3\n", 0, 0, "t.csv:1:5:", "column 3 of the header has no name"},
      {"a,b,a\n1,2,3\n", 0, 0, "t.csv:1:5:", "columns 1 and 3 are both named 'a'"},
      {"a,b\n1,2\n3\n", 0, 0, "t.csv:3:1:", "1 of the header's 2 cells"},
      {"a,b\n1,2\n3,4,5\n", 0, 0, "t.csv:3:3:", "more cells than the header's 2"},
      {"a,b\n1,2\n\n3,4\n", 0, 0, "t.csv:3:1:", "1 of the header's 2 cells"},
      {"a,b\n1,\n", 0, 0, "t.csv:2:3:", "empty cell"},
      {"a,b\n1,\"\"\n", 0, 0, "t.csv:2:3:", "empty cell"},
      {"a\n1\n\n2\n", 0, 0, "t.csv:3:1:", "empty cell"},
      {"a,b\n1,x\n", 0, 0, "t.csv:2:3:", "'x' is not a finite number; to leave the column out"},
      {"a,b\n1,nan\n", 0, 0, "t.csv:2:3:", "column 'b': 'nan' is not a finite number"},
      {"a,b\n1,NaN\n", "b", 0, "t.csv:2:3:", "'NaN' is not a finite number"},
      {"a,b\n1,-inf\n", 0, 0, "t.csv:2:3:", "'-inf' is not a finite number"},
      {"a,b\n1, 2 3\n", 0, 0, "t.csv:2:4:", "'2 3' is not a finite number"},
      {"a,b\n1,  \n", 0, 0, "t.csv:2:5:", "empty cell"},
      {"a,b\n1,0x1f\n", 0, 0, "t.csv:2:3:", "'0x1f'"},
      {"a,b;c\n1,2;3\n", 0, 0, "t.csv:2:3:", "'2;3' is not a finite number"},
      {"a;b\n1;2\n", 0, "y", "t.csv:1:1:", "there is no column 'y'; the header has: a, b (cut at ';')"},
      {"a\tb;c\n1\t2;3\n", 0, "y", "t.csv:1:1:",
       "(cut at ','; it also holds ';': if that separates the cells, --set "
       "data.delimiter=';')"},
      {"a;b\n1,5;2\n", 0, 0,
       "t.csv:2:1:", "'1,5' has a decimal comma, and numbers need a decimal point: \"sed"},
      {"a;b\n1.000,5;2\n", 0, 0,
       "t.csv:2:1:", "'1.000,5' is not a finite number, whose decimals follow a point"},
      {"a,b\n1,\"2,5\"\n", 0, 0, "t.csv:2:3:", "'2,5' is not a finite number, whose decimals follow a point"},
      {"a,b\n1,1e39\n", 0, 0, "t.csv:2:3:", "too large for a 32-bit float"},
      {"a,b\n1,2\n2000-01-01,3\n", 0, 0, "t.csv:3:1:", "a date is not a number"},
      {"a,b\n2000-01-01,3\n", "a", 0, "t.csv:2:1:", "a date is not a number: '2000-01-01'"},
      {"a,b\n2000-01-01,3\n", 0, "b", "t.csv:1:1:", "no column of numbers is left"},
      {"a,b\n1,2\n", 0, "c", "t.csv:1:1:", "there is no column 'c'"},
      {"open,close\n1,2\n", "clsoe", 0, "t.csv:1:1:", "did you mean 'close'?"},
      {"open,close\n1,2\n", "volume", 0, "t.csv:1:1:", "the header has: open, close"},
      {"a,b\n1,2\n", "a", "a", "t.csv:1:1:", "cannot be both a feature and a target"},
      {"a,b\n1,\"2\n", 0, 0, "t.csv:2:3:", "this quote is never closed"},
      {"a,b\n1,\"2\"3\n", 0, 0, "t.csv:2:3:", "text follows the closing quote"},
      {"a,b\n1,2\"\n", 0, 0, "t.csv:2:3:", "a quote inside an unquoted cell"},
      {"a,b\n1,2\r3,4\n", 0, 0, "t.csv:2:3:", "a carriage return without a line feed"},
      {"\"a\nb\",c\n1,x\n", 0, 0, "t.csv:3:3:", "'x'"},
      {"a,b\n1,\"4\n5\"\n", 0, 0, "t.csv:2:3:", "'4\\n5' is not a finite number"},
      {"a,b\n1,\"\"\"\"\n", 0, 0, "t.csv:2:3:", "is not a finite number"},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_strings_t want = {rows[i].want ? 1 : 0, &rows[i].want},
                 except = {rows[i].except ? 1 : 0, &rows[i].except};
    ls_matrix_t m = {.rows = -7};
    said_clear();
    ls_status_t status = read_text(said.ctx, rows[i].text, &want, &except, &m);
    if (status != LS_ERR_DATA) fail_msg("row %d: status %d", i, status);
    assert_said(rows[i].place);
    assert_said(rows[i].part);
    assert_int_equal(ls_ctx_error_count(said.ctx), 1);
    assert_int_equal(m.rows, -7); /* outputs are written only on success */
  }
}

static void test_shows_the_line(void **state) {
  ls_matrix_t m;
  assert_refused(read_text(said.ctx, "a,b\n1.5,oops\n", NULL, NULL, &m), LS_ERR_DATA,
                 "\n  1.5,oops\n      ^");
}

/* one_line_for_each_column_of_bad_cells: with the first place, the number and the values; rows of a wrong length do not shift what
 * follows. */
static void test_reports_all(void **state) {
  ls_matrix_t m = {.rows = -7};
  assert_int_equal(read_text(said.ctx, "a,b\nx,y\n1,2,3,4\n5\n6,7\n8,\n", NULL, NULL, &m), LS_ERR_DATA);
  static const char *const places[] = {"t.csv:2:1: column 'a'", "t.csv:2:3: column 'b'",
                                       "t.csv:3:3: this row has", "t.csv:4:1: this row has",
                                       "t.csv:6:3: column 'b'"};
  for (int i = 0; i < LS_COUNT(places); i++)
    assert_said(places[i]);
  assert_int_equal(ls_ctx_error_count(said.ctx), LS_COUNT(places));
  assert_null(strstr(said.messages, "more bad"));
  said_clear();
  assert_int_equal(
      read_text(said.ctx, "a,b,c\n1,Rome,\n2,Oslo,5\n3,Rome,\nx,,NA\n5,6\ny,A,7\nz,B,7\nu,C,7\n7,8\nv,D,8\n",
                NULL, NULL, &m),
      LS_ERR_DATA);
  assert_int_equal(ls_ctx_error_count(said.ctx), 5);
  assert_said("t.csv:2:3: column 'b': 'Rome' is not a finite number; to leave the column out, name "
              "the ones to use (7 "
              "such cells of many kinds: 'Rome', 'Oslo', 'A', 'B', ...)");
  assert_said("t.csv:2:8: column 'c': empty cell where a number is needed; to leave the column out, "
              "name the ones to use (3 "
              "such cells: empty, 'NA')");
  assert_said("t.csv:5:1: column 'a': 'x' is not a finite number; to leave the column out, name the "
              "ones to use (5 such "
              "cells of many kinds: 'x', 'y', 'z', 'u', ...)");
  assert_said("t.csv:5:3: column 'b': empty cell where a number is needed; to leave the column out, "
              "name the ones to use\n");
  assert_said("t.csv:6:3: this row has 2 of the header's 3 cells (2 such rows)");
  char text[4096] = "", *to = text; /* of very many columns the first ones */
  for (int line = 0; line < 3; line++)
    for (int i = 0; i < 25; i++)
      to += sprintf(to, "%s%d%s", line && i < 23 ? "x" : "", 100 + i, i < 24 ? "," : "\n");
  said_clear();
  assert_int_equal(read_text(said.ctx, text, NULL, NULL, &m), LS_ERR_DATA);
  assert_int_equal(ls_ctx_error_count(said.ctx), 21);
  assert_said("t.csv: and 6 more bad cells or rows");
  /* A fault that breaks the text is named too, and ends the reading. */
  said_clear();
  assert_int_equal(read_text(said.ctx, "a,b\n1,x\n1,\"2\nx,x\n", NULL, NULL, &m), LS_ERR_DATA);
  assert_int_equal(ls_ctx_error_count(said.ctx), 2);
  assert_said("t.csv:3:3: this quote is never closed");
  assert_int_equal(m.rows, -7);
}

/* the_index_of_pandas: a first column without a name is none of the features, whatever it holds. */
static void the_index_of_pandas(void **state) {
  static const float v[] = {1, 2, 3, 4};
  ls_strings_t b = NAMES("b");
  check(",a,b\n0,1,2\n1,3,4\n", NULL, NULL, 2, 2, v);
  check("\"\",a,b\nx,1,2\ny,3,4\n", NULL, NULL, 2, 2, v);
  check(",b\n0,1\n1,2\n2,3\n3,4\n", &b, NULL, 4, 1, v);
  ls_matrix_t m;
  assert_int_equal(read_text(said.ctx, ",a\n0,1\n", NULL, NULL, &m), LS_OK);
  assert_said("t.csv: column 1 has no name and is left out, as an index is (pandas leaves it out of "
              "the file with index=False)");
  ls_matrix_release(&m);
  said_clear();
  assert_int_equal(read_text(said.ctx, "\na\n1\n", NULL, NULL, &m), LS_ERR_DATA); /* a line, not an index */
  assert_said("t.csv:1:1: column 1 of the header has no name");
}

/* A column asked for twice has no meaning as two columns of one matrix. */
static void test_refuses_twice(void **state) {
  ls_matrix_t m;
  ls_strings_t twice = NAMES("a", "a");
  assert_refused(read_text(said.ctx, "a,b\n1,2\n", &twice, NULL, &m), LS_ERR_DATA, "asked for twice");
}

static void test_zero_byte_in_name(void **state) {
  ls_matrix_t m;
  assert_refused(ls_read_csv(said.ctx, &(ls_csv_read_t){"t.csv", "a\0b\n1\n", 6}, &m), LS_ERR_DATA,
                 "zero byte");
}

/* Many rows and columns, so that every buffer has to grow. */
static void test_grows(void **state) {
  enum { ROWS = 3000, COLS = 40 };
  char *text = malloc(ROWS * COLS * 12), *to = text;
  for (int c = 0; c < COLS; c++)
    to += sprintf(to, "%sc%d", c ? "," : "", c);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLS; c++)
      to += sprintf(to, "%s%d", c ? "," : "\n", r * COLS + c);
  ls_matrix_t m;
  assert_int_equal(read_text(said.ctx, text, NULL, NULL, &m), LS_OK);
  assert_int_equal(m.rows, ROWS);
  assert_int_equal(m.cols, COLS);
  for (int i = 0; i < ROWS * COLS; i++)
    assert_true(((float *)m.values)[i] == (float)i);
  ls_matrix_release(&m);
  free(text);
}

static ls_status_t attempt(ls_ctx_t *ctx, void *arg) {
  ls_matrix_t m;
  ls_status_t status = read_text(ctx, arg, NULL, NULL, &m);
  if (status == LS_OK) ls_matrix_release(&m);
  return status;
}

static void test_memory(void **state) {
  char text[] = "\"a\"\"b\",b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\n1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8\n";
  each_alloc_fails(attempt, text);
}

TESTS(said_open, said_close, test_reads, test_delimiters_and_spaces, test_chooses_columns, test_refuses,
      test_shows_the_line, the_index_of_pandas, test_refuses_twice, test_zero_byte_in_name, test_reports_all,
      test_grows, test_memory)
