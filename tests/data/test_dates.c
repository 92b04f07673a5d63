/* Dates of CSV files as numbers: the calendar, named parts, parts of columns that nobody names. */
#include "common.h"
#include "data/read.h"
#include "data/table/number.h"

static void the_calendar(void **state) {
  static const struct {
    const char *text;
    double part[LS_DATE_PARTS]; /* all 0: no date */
  } rows[] = {
      {"1970-01-01", {1970, 1, 1, 3, 1, 0, 0}},
      {"2000-02-29", {2000, 2, 29, 1, 60, 0, 0}},
      {"2024-12-31", {2024, 12, 31, 1, 366, 0, 0}},
      {"2023-12-31 23:59", {2023, 12, 31, 6, 365, 23, 59}},
      {"1900-03-01T07:08:09Z", {1900, 3, 1, 3, 60, 7, 8}},
      {"0000-01-01", {0, 1, 1, 5, 1, 0, 0}},
      {"2023-02-29", {0}},
      {"1900-02-29", {0}},
      {"2023-04-31", {0}},
      {"2023-4-30", {0}},
      {"", {0}},
      {"5", {0}},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    double part[LS_DATE_PARTS];
    bool timed, good = rows[i].part[LS_DATE_DAY] > 0;
    assert_int_equal(ls_number_date(rows[i].text, strlen(rows[i].text), part, &timed), good);
    if (!good) continue;
    for (int k = 0; k < LS_DATE_PARTS; k++)
      if (part[k] != rows[i].part[k]) fail_msg("%s: %s is %g", rows[i].text, ls_date_part_names[k], part[k]);
    assert_int_equal(timed, strlen(rows[i].text) > 10);
  }
}

static const char text[] = "when,a,y\n2024-02-29 06:30,1,2\n2024-03-01 18:00,3,4\n";

static ls_status_t read_features(const char *csv, const ls_data_config_t *config, const ls_strings_t *target,
                                 ls_matrix_t *out) {
  ls_csv_read_t read = ls_csv_features(config, target);
  read.name = "f";
  read.text = csv;
  read.size = strlen(csv);
  return ls_read_csv(said.ctx, &read, out);
}

static ls_matrix_t read_all(const ls_data_config_t *config) {
  const ls_strings_t target = NAMES("y");
  ls_matrix_t m = {0};
  if (read_features(text, config, &target, &m) != LS_OK) fail_msg("%s", said.messages);
  return m;
}

static void columns_of_dates_become_parts(void **state) {
  ls_data_config_t config = {.kind = LS_DATA_CSV, .dates = LS_DATES_PARTS};
  ls_matrix_t m = read_all(&config);
  static const char *const names[] = {"when.year",    "when.month", "when.day",
                                      "when.weekday", "when.hour",  "a"};
  static const double values[] = {2024, 2, 29, 3, 6, 1, 2024, 3, 1, 4, 18, 3};
  assert_int_equal(m.cols, 6);
  for (int i = 0; i < 12; i++) {
    if (i < 6) assert_string_equal(m.names[i], names[i]);
    assert_true(ls_matrix_at(&m, i) == values[i]);
  }
  ls_matrix_release(&m);

  /* the names of a checkpoint find the same columns, in their order */
  const ls_data_config_t named = {
      .kind = LS_DATA_CSV, .columns = NAMES("when.minute", "a", "when.yearday"), .columns_trained = true};
  m = read_all(&named);
  static const double chosen[] = {30, 1, 60, 0, 3, 61};
  assert_int_equal(m.cols, 3);
  for (int i = 0; i < 6; i++)
    assert_true(ls_matrix_at(&m, i) == chosen[i]);
  ls_matrix_release(&m);

  config.dates = LS_DATES_SKIP;
  m = read_all(&config);
  assert_int_equal(m.cols, 1);
  ls_matrix_release(&m);
}

/* A gap says nothing about a column: its first value does, as for labels. */
static void the_first_value_makes_a_column_one_of_dates(void **state) {
  static const char gaps[] = "empty,when,late,a,y\n,NA,,1,2\n,2024-03-01 18:00,?,3,4\n,,2024-03-02,5,6\n";
  const ls_strings_t target = NAMES("y");
  static const struct {
    ls_data_config_t config;
    int cols;
    const char *name[9];
  } cases[] = {{{.kind = LS_DATA_CSV, .missing = LS_MISSING_MEAN}, 2, {"empty", "a"}},
               {{.kind = LS_DATA_CSV, .missing = LS_MISSING_MEAN, .dates = LS_DATES_PARTS},
                11,
                {"empty", "when.year", "when.month", "when.day", "when.weekday", "when.hour", "late.year",
                 "late.month", "late.day"}}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    said_clear();
    ls_matrix_t m = {0};
    if (read_features(gaps, &cases[i].config, &target, &m) != LS_OK) fail_msg("%s", said.messages);
    assert_int_equal(m.cols, cases[i].cols);
    for (int c = 0; c < LS_COUNT(cases[i].name) && cases[i].name[c]; c++)
      assert_string_equal(m.names[c], cases[i].name[c]);
    ls_matrix_release(&m);
  }
}

static void what_is_no_date_is_refused(void **state) {
  static const char bad[] = "when,y,b\n2024-02-29,2,1\n2023-02-29,4,2024-01-01\n,4,2\n";
  const ls_data_config_t configs[] = {{.kind = LS_DATA_CSV, .dates = LS_DATES_PARTS},
                                      {.kind = LS_DATA_CSV, .columns = NAMES("when.day")},
                                      {.kind = LS_DATA_CSV, .columns = NAMES("when.day", "when.day")},
                                      {.kind = LS_DATA_CSV, .columns = NAMES("when.days")},
                                      {.kind = LS_DATA_CSV, .columns = NAMES("when.day")},
                                      {.kind = LS_DATA_CSV, .columns = NAMES("b")},
                                      {.kind = LS_DATA_CSV}};
  static const char *const expect[] = {
      "f:3:1: column 'when': '2023-02-29' is no date",
      "is no date",
      "column 'when.day' is asked for twice",
      "there is no column 'when.days'",
      "f:4:1: column 'when': '' is no date: YYYY-MM-DD was expected, with or "
      "without a time; data.missing: mean fills it",
      "f:3:14: column 'b': a date is not a number: '2024-01-01'; name parts "
      "of it in data.columns, such as NAME.weekday",
      "f:3:14: column 'b': a date is not a number: '2024-01-01'; to leave the "
      "column out, name the ones to use"};
  const ls_strings_t target = NAMES("y");
  for (int i = 0; i < LS_COUNT(configs); i++) {
    said_clear();
    ls_matrix_t m;
    assert_refused(read_features(bad, &configs[i], &target, &m), LS_ERR_DATA, expect[i]);
  }
}

/* A checkpoint's names have to find the same features again. */
static void a_column_called_like_a_part_is_refused(void **state) {
  static const char *const texts[] = {"when,a,when.year,y\n2024-02-29,1,7,2\n",
                                      "when.year,when,y\n7,2024-02-29,2\n",
                                      "y,when,when.year\n1,2024-02-29,7\n"};
  const ls_strings_t targets[] = {NAMES("y"), NAMES("y"), NAMES("y", "when.year")};
  ls_matrix_t m = {0};
  for (int i = 0; i < LS_COUNT(texts); i++) {
    ls_data_config_t config = {.kind = LS_DATA_CSV, .dates = LS_DATES_PARTS};
    said_clear();
    assert_refused(read_features(texts[i], &config, &targets[i], &m), LS_ERR_DATA,
                   "column 'when.year' has the name of a part of the dates in column 'when'");
    config.columns = (ls_strings_t)NAMES("when.month"); /* no part of that name */
    assert_int_equal(read_features(texts[i], &config, &targets[i], &m), LS_OK);
    ls_matrix_release(&m);
  }
  /* By name the column comes before the part. */
  const ls_data_config_t named = {.kind = LS_DATA_CSV, .columns = NAMES("when.year", "when.day")};
  assert_int_equal(read_features(texts[0], &named, &targets[0], &m), LS_OK);
  assert_true(ls_matrix_at(&m, 0) == 7 && ls_matrix_at(&m, 1) == 29);
  ls_matrix_release(&m);
}

TESTS(said_open, said_close, the_calendar, columns_of_dates_become_parts,
      the_first_value_makes_a_column_one_of_dates, a_column_called_like_a_part_is_refused,
      what_is_no_date_is_refused)
