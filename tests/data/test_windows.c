/* Windows over time: which rows are samples and targets, the split in the order of time, means of the training rows
 * alone, refusals. */
#include "common.h"

#include <math.h>

/* Row r of `rows`: a = r, b = 100 + r. */
static const char *series(const char *name, int first, int rows) {
  static char text[4096];
  size_t used = (size_t)snprintf(text, sizeof text, "day,a,b\n");
  for (int r = first; r < first + rows; r++)
    used += (size_t)snprintf(text + used, sizeof text - used, "2020-01-%02d,%d,%d\n", r + 1, r, 100 + r);
  return file_make(name, text, used);
}

static const ls_data_want_t want = {.inputs = 6, .outputs = 1};

static ls_dataset_t *open_windows(ls_data_config_t config) {
  ls_dataset_t *d = NULL;
  config.kind = LS_DATA_CSV;
  config.target = (ls_strings_t)NAMES("b");
  if (ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  return d;
}

/* Window `index` of a part begins at row `first`, and its target is row `target`. */
static void assert_window(const ls_dataset_t *d, ls_part_t part, int64_t index, int first, int target) {
  float x[6];
  int64_t row = ls_dataset_row(d, part, index);
  ls_dataset_features(d, row, 0, 6, x);
  for (int p = 0; p < 3; p++) {
    assert_true(x[2 * p] == (float)(first + p));
    assert_true(x[2 * p + 1] == (float)(100 + first + p));
  }
  assert_true(((const float *)d->targets)[row] == (float)(100 + target));
}

static void samples_are_windows_and_the_last_ones_are_held_out(void **state) {
  const ls_data_config_t config = {
      .path = series("a.csv", 0, 12), .window = 3, .horizon = 2, .stride = 2, .validation = 0.5};
  ls_dataset_t *d = open_windows(config);
  /* Targets at rows 4, 6, 8, 10. */
  assert_int_equal(d->rows, 4);
  assert_int_equal(d->train_count, 2);
  assert_int_equal(d->inputs, 6);
  assert_int_equal(d->column_count, 2);
  assert_string_equal(d->columns[1], "b");
  assert_true(ls_shape_equal(&d->sample.x, &LS_SHAPE(LS_F32, 3, 2)));
  assert_window(d, LS_PART_TRAIN, 0, 0, 4);
  assert_window(d, LS_PART_TRAIN, 1, 2, 6);
  assert_window(d, LS_PART_VALIDATION, 0, 4, 8);
  assert_window(d, LS_PART_VALIDATION, 1, 6, 10);
  assert_int_equal(ls_dataset_split(said.ctx, 0.25, d), LS_OK);
  assert_window(d, LS_PART_TRAIN, 2, 4, 8);
  ls_dataset_close(d);
}

static void windows_end_with_their_file(void **state) {
  const ls_data_config_t config = {
      .path = series("a.csv", 0, 6), .validation_path = series("b.csv", 10, 5), .window = 3, .horizon = 1};
  ls_dataset_t *d = open_windows(config);
  assert_int_equal(d->train_count, 3);
  assert_int_equal(d->validation_count, 2);
  assert_window(d, LS_PART_TRAIN, 2, 2, 5);
  assert_window(d, LS_PART_VALIDATION, 0, 10, 13);
  assert_window(d, LS_PART_VALIDATION, 1, 11, 14);
  ls_dataset_close(d);
}

/* dates_that_do_not_ascend: rows that are not in the order of time make no windows over time, and nobody said so. */
static void dates_that_do_not_ascend(void **state) {
  static const struct {
    const char *text, *expect;
  } cases[] = {
      {"day,a,b\n2020-01-01,1,2\n2020-01-03,1,2\n2020-01-02,1,2\n2020-01-04,1,2\n2020-01-01 12:00,1,2\n",
       ".csv:4: column 'day': '2020-01-02' is earlier than the row before (2 such rows), but windows take "
       "rows in the order of the "
       "file: sort it by date"},
      {"a,b,day\n1,2,2020-01-04\n1,2,2020-01-03\n1,2,2020-01-02\n1,2,2020-01-01\n",
       ".csv:3: column 'day': '2020-01-03' is earlier than the row before (3 such rows: the newest come "
       "first), but"},
      {",a,b\n2020-01-01,1,2\n2020-01-02,1,2\n2019-01-01,1,2\n2020-01-02,1,2\n",
       ".csv:4: column '(no name)': '2019-01-01' is earlier than the row before (1 such row), but"},
      /* equal ones, one of two columns, times in two zones, gaps, no dates */
      {"day,a,b\n2020-01-01,1,2\n2020-01-01,1,2\n2020-01-02,1,2\n2020-01-02,1,2\n", NULL},
      {"due,day,a,b\n2020-01-01,2020-01-01,1,2\n2019-01-01,2020-01-02,1,2\n2020-01-01,2020-01-03,1,2\n2020-"
       "01-01,2020-01-04,1,2\n",
       NULL},
      {"day,a,b\n2020-10-25 02:30+02:00,1,2\n2020-10-25 "
       "02:00+01:00,1,2\n2020-10-25T01:00:00.5Z,1,2\n2020-10-25 01:00:00.75Z,1,2\n",
       NULL},
      {"day,a,b\n2020-01-01,1,2\n,1,2\n2020-01-03,1,2\n2020-01-04,1,2\n", NULL},
      {"a,b\n4,2\n3,2\n2,2\n1,2\n", NULL},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    said_clear();
    const ls_data_config_t config = {.path = file_make("a.csv", cases[i].text, strlen(cases[i].text)),
                                     .columns = NAMES("a", "b"),
                                     .window = 3,
                                     .horizon = 1};
    ls_dataset_t *d = open_windows(config);
    if (cases[i].expect)
      assert_said(cases[i].expect);
    else if (strstr(said.messages, "earlier"))
      fail_msg("%s: %s", cases[i].text, said.messages);
    ls_dataset_close(d);
    files_remove();
  }
}

/* With horizon 0 a target is no feature: it would be the answer. */
static void horizon_0_keeps_the_target_out(void **state) {
  const ls_data_want_t one = {.inputs = 3, .outputs = 1};
  ls_data_config_t config = {
      .kind = LS_DATA_CSV, .path = series("a.csv", 0, 6), .target = NAMES("b"), .window = 3};
  ls_dataset_t *d = NULL;
  assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &one, 7, NULL, &d), LS_OK);
  assert_string_equal(d->columns[0], "a");
  assert_int_equal(d->rows, 4);
  assert_true(((const float *)d->targets)[ls_dataset_row(d, LS_PART_TRAIN, 3)] == 105);
  ls_dataset_close(d);
}

/* Two training windows touch rows 0 to 6: the mean of a is 3, its variance 4. Every position has the same. */
static void means_are_those_of_the_rows_that_training_sees(void **state) {
  const ls_data_config_t config = {.path = series("a.csv", 0, 12),
                                   .window = 3,
                                   .horizon = 2,
                                   .stride = 2,
                                   .validation = 0.5,
                                   .normalize = true};
  ls_dataset_t *d = open_windows(config);
  assert_int_equal(d->norm.inputs, 6);
  for (int i = 0; i < 6; i++) {
    assert_true(d->norm.mean[i] == (i % 2 ? 103 : 3));
    assert_true(d->norm.scale[i] == 0.5f);
  }
  assert_true(d->norm.target_mean[0] == 103);
  float x[6];
  ls_dataset_features(d, ls_dataset_row(d, LS_PART_VALIDATION, 0), 0, 6, x);
  assert_true(x[0] == 0.5f); /* row 4 */

  ls_dataset_t *again = NULL; /* a checkpoint's means are kept */
  ls_norm_t norm = d->norm;
  norm.mean[0] = norm.mean[2] = norm.mean[4] = 4;
  ls_data_config_t given = config;
  given.kind = LS_DATA_CSV;
  given.target = (ls_strings_t)NAMES("b");
  assert_int_equal(ls_dataset_open(said.ctx, &given, NULL, &want, 7, &norm, &again), LS_OK);
  ls_dataset_features(again, ls_dataset_row(again, LS_PART_VALIDATION, 0), 0, 6, x);
  assert_true(x[0] == 0);
  ls_dataset_close(again);
  ls_dataset_close(d);
}

/* 12 rows in windows of 3, a target 1 row later and a stride of 5 leave out the last 3 rows: rows 0 to 8 have the
 * mean 4. */
static void rows_behind_the_last_window_are_not_measured(void **state) {
  ls_data_config_t config = {
      .path = series("a.csv", 0, 12), .window = 3, .horizon = 1, .stride = 5, .normalize = true};
  for (int files = 0; files < 2; files++) {
    if (files) config.validation_path = series("b.csv", 20, 9);
    ls_dataset_t *d = open_windows(config);
    assert_int_equal(d->train_count, 2);
    assert_true(d->norm.mean[0] == 4 && d->norm.mean[1] == 104);
    assert_true(d->norm.target_mean[0] == 104);
    ls_dataset_close(d);
  }
}

static void refusals(void **state) {
  static const struct {
    ls_data_config_t config;
    int rows;
    ls_status_t status;
    const char *why;
  } cases[] = {
      {{.window = 2, .horizon = 1},
       6,
       LS_ERR_DATA,
       "a sample has that many in every row, but the model's input is 6: set "
       "model.input to [2, 2]"},
      {{.window = 3, .horizon = 4},
       6,
       LS_ERR_DATA,
       "6 rows give no sample of data.window: 3 rows with a target 4 rows "
       "behind: 7 are needed"},
      {{.stride = 2, .horizon = 1}, 6, LS_ERR_CONFIG, "data.stride goes with data.window"},
      {{.horizon = 2}, 6, LS_ERR_CONFIG, "data.horizon goes with data.window"},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_dataset_t *d = NULL;
    ls_data_config_t config = cases[i].config;
    config.kind = LS_DATA_CSV;
    config.target = (ls_strings_t)NAMES("b");
    config.path = series("a.csv", 0, cases[i].rows);
    said_clear();
    assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d), cases[i].status);
    assert_said(cases[i].why);
  }
}

static void allocation_failures(void **state) {
  ls_data_config_t config = {.kind = LS_DATA_CSV,
                             .path = series("a.csv", 0, 6),
                             .target = NAMES("b"),
                             .window = 3,
                             .horizon = 1,
                             .normalize = true};
  each_alloc_fails(dataset_attempt, &(dataset_attempt_t){&config, &want});
}

TESTS(said_open, said_close, samples_are_windows_and_the_last_ones_are_held_out, dates_that_do_not_ascend,
      windows_end_with_their_file, horizon_0_keeps_the_target_out,
      means_are_those_of_the_rows_that_training_sees, rows_behind_the_last_window_are_not_measured, refusals,
      allocation_failures)
