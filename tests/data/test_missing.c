/* Features without a value: refused, or the mean of the others, with or without indicators. */
#include "common.h"

#include <math.h>

static const char text[] =
    "day,a,b,y\n2020-01-01,1,,1\n2020-01-02,NA,5,2\n2020-01-03,3,7,3\n2020-01-04,5,?,4\n";

static ls_status_t open_gaps(ls_ctx_t *ctx, int missing, int64_t inputs, const ls_norm_t *norm,
                             ls_dataset_t **d) {
  const ls_data_want_t want = {.inputs = inputs, .outputs = 1};
  const ls_data_config_t config = {.kind = LS_DATA_CSV,
                                   .path = file_make("t.csv", text, sizeof text - 1),
                                   .target = NAMES("y"),
                                   .missing = missing,
                                   .normalize = true};
  return ls_dataset_open(ctx, &config, NULL, &want, 7, norm, d);
}

static float at(const ls_dataset_t *d, int64_t row, int64_t column) {
  float value;
  ls_dataset_features(d, row, column, 1, &value);
  return value;
}

/* a: 1, 3, 5: mean 3, variance 8/3. b: 5, 7: mean 6, variance 1. */
static void gaps_are_the_mean_of_the_values(void **state) {
  ls_dataset_t *d = NULL;
  assert_int_equal(open_gaps(said.ctx, LS_MISSING_MEAN, 2, NULL, &d), LS_OK);
  assert_true(d->norm.mean[0] == 3 && d->norm.mean[1] == 6);
  assert_true(d->norm.scale[0] == (float)(1 / sqrt(8.0 / 3)) && d->norm.scale[1] == 1);
  assert_true(at(d, 1, 0) == 0 && at(d, 0, 1) == 0 && at(d, 3, 1) == 0);
  assert_true(at(d, 1, 1) == -1 && at(d, 2, 1) == 1);
  ls_norm_t norm = d->norm; /* a checkpoint's mean, not that of the file */
  ls_dataset_t *again = NULL;
  norm.mean[1] = 4;
  assert_int_equal(open_gaps(said.ctx, LS_MISSING_MEAN, 2, &norm, &again), LS_OK);
  assert_true(at(again, 0, 1) == 0 && at(again, 1, 1) == 1);
  ls_dataset_close(again);
  ls_dataset_close(d);
}

static void indicators_stand_behind_the_columns(void **state) {
  ls_dataset_t *d = NULL;
  assert_int_equal(open_gaps(said.ctx, LS_MISSING_INDICATOR, 4, NULL, &d), LS_OK);
  assert_int_equal(d->column_count, 2);
  assert_string_equal(d->columns[1], "b");
  /* Row 1 lacks a: 1 of 4. Mean 1/4, variance 3/16. */
  assert_true(d->norm.mean[2] == 0.25 && d->norm.mean[3] == 0.5);
  assert_true(at(d, 1, 2) > 0 && at(d, 0, 2) < 0 && at(d, 2, 2) == at(d, 0, 2));
  assert_true(at(d, 0, 3) == 1 && at(d, 3, 3) == 1 && at(d, 1, 3) == -1 && at(d, 2, 3) == -1);
  ls_dataset_close(d);
}

/* an_indicator_for_columns_with_gaps_alone; those of a checkpoint, whatever its files lack. */
static void indicators_of_columns_with_gaps(void **state) {
  static const char some[] = "a,b,c,y\n1,<NA>,1,1\n2,5,2,2\n3,None,3,3\n4,#N/A,4,4\n",
                    held[] = "a,b,c,y\n,1,1,1\nn/a,,2,2\n";
  ls_data_want_t want = {.inputs = 4, .outputs = 1};
  ls_data_config_t config = {.kind = LS_DATA_CSV,
                             .path = file_make("some.csv", some, sizeof some - 1),
                             .validation_path = file_make("held.csv", held, sizeof held - 1),
                             .target = NAMES("y"),
                             .missing = LS_MISSING_INDICATOR,
                             .normalize = true};
  ls_dataset_t *d = NULL;
  if (ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  assert_int_equal(d->column_count, 3);
  assert_int_equal(d->indicators.count, 1);
  assert_string_equal(d->indicators.v[0], "b");
  assert_true(d->norm.mean[3] == 0.75 && at(d, 1, 3) < 0 && at(d, 0, 3) == at(d, 3, 3));
  assert_true(at(d, 4, 0) == 0 && at(d, 4, 3) == at(d, 1, 3) && at(d, 5, 3) == at(d, 0, 3));
  ls_dataset_close(d);

  want.inputs = 5;
  said_clear();
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d), LS_ERR_DATA,
                 "some.csv has 4 features per sample (the last 1 of them indicators of gaps), but the "
                 "model's input is 5");
  config.indicators = (ls_strings_t)NAMES("a", "c"); /* of a checkpoint */
  config.indicators_trained = true;
  assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d), LS_OK);
  assert_int_equal(d->indicators.count, 2);
  assert_true(at(d, 0, 3) == 0 && at(d, 4, 3) == 1 && at(d, 4, 4) == 0);
  ls_dataset_close(d);
}

static void refusals(void **state) {
  ls_dataset_t *d = NULL;
  assert_refused(open_gaps(said.ctx, LS_MISSING_ERROR, 2, NULL, &d), LS_ERR_DATA,
                 "t.csv:2:14: column 'b': empty cell where a number is needed; data.missing: mean fills it");
  assert_said("t.csv:3:12: column 'a': 'NA' is not a finite number; data.missing: mean fills it");

  static const char none[] = "a,y\n,1\nNA,2\n", target[] = "a,y\n1,1\n2,\n";
  const ls_data_want_t want = {.inputs = 1, .outputs = 1};
  ls_data_config_t config = {.kind = LS_DATA_CSV,
                             .path = file_make("n.csv", none, sizeof none - 1),
                             .target = NAMES("y"),
                             .missing = LS_MISSING_MEAN};
  said_clear();
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d), LS_ERR_CONFIG,
                 "data.missing: mean needs data.normalize: true");
  config.normalize = true;
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d), LS_ERR_DATA,
                 "n.csv: column 'a' has no value in the training part");
  config.path = file_make("m.csv", target, sizeof target - 1);
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d), LS_ERR_DATA,
                 "m.csv:3:3: column 'y': empty cell where a number is needed, and a target is never missing: "
                 "remove the row");
  static const char names[] = "a,y\n1,1\n2,oak\n";
  config.path = file_make("o.csv", names, sizeof names - 1);
  assert_refused(
      ls_dataset_open(said.ctx, &config, NULL, &want, 7, NULL, &d), LS_ERR_DATA,
      "o.csv:3:3: column 'y': 'oak' is not a finite number; with loss: cross-entropy texts of one target "
      "column are classes");
}

static void allocation_failures(void **state) {
  ls_data_config_t config = {.kind = LS_DATA_CSV,
                             .path = file_make("t.csv", text, sizeof text - 1),
                             .target = NAMES("y"),
                             .missing = LS_MISSING_INDICATOR,
                             .normalize = true};
  const ls_data_want_t want = {.inputs = 4, .outputs = 1};
  each_alloc_fails(dataset_attempt, &(dataset_attempt_t){&config, &want});
}

TESTS(said_open, said_close, gaps_are_the_mean_of_the_values, indicators_stand_behind_the_columns,
      indicators_of_columns_with_gaps, refusals, allocation_failures)
