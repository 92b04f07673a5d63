/* Normalisation is measured on the training part alone, keeps constant columns at 0 and takes given values as
 * they are. */
#include "common.h"

#include <float.h>
#include <math.h>

enum { ROWS = 400, COLS = 5 };

typedef struct {
  float x[ROWS][COLS], y[ROWS][2];
} table_t;

/* Columns of very different size; the fourth does not vary. */
static table_t table_make(void) {
  table_t t;
  for (int i = 0; i < ROWS; i++) {
    float n[8];
    ls_rng_normal4(5, 6, (uint64_t)i * 2, n);
    ls_rng_normal4(5, 6, (uint64_t)i * 2 + 1, n + 4);
    t.x[i][0] = n[0];
    t.x[i][1] = 1e6f + n[1];
    t.x[i][2] = 1e-20f * n[2] + 3e-20f;
    t.x[i][3] = 0.1f;
    t.x[i][4] = 1e30f * n[3];
    t.y[i][0] = 50.0f + 10.0f * n[4];
    t.y[i][1] = 7.0f;
  }
  return t;
}

static ls_status_t open_table(ls_ctx_t *ctx, const table_t *t, double validation, bool normalize,
                              const ls_norm_t *norm, ls_dataset_t **d) {
  ls_data_memory_t memory = {
      .rows = ROWS, .inputs = COLS, .outputs = 2, .features = &t->x[0][0], .targets = &t->y[0][0]};
  ls_data_config_t config = {.kind = LS_DATA_MEMORY, .validation = validation, .normalize = normalize};
  ls_data_want_t want = {.inputs = COLS, .outputs = 2};
  return ls_dataset_open(ctx, &config, &memory, &want, 11, norm, d);
}

static void test_training_part_has_mean_0_deviation_1(void **state) {
  table_t t = table_make();
  ls_dataset_t *d;
  assert_int_equal(open_table(said.ctx, &t, 0.25, true, NULL, &d), LS_OK);
  assert_int_equal(d->train_count, 300);
  for (int c = 0; c < COLS; c++) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < d->train_count; i++) {
      double v = ((float *)d->features)[ls_dataset_row(d, LS_PART_TRAIN, i) * COLS + c];
      mean += v / 300;
      square += v * v / 300;
    }
    if (c == 3) {
      assert_true(mean == 0.0 && square == 0.0); /* exactly */
      assert_true(d->norm.scale[c] == 1.0f && d->norm.mean[c] == (double)0.1f);
      continue;
    }
    assert_true(fabs(mean) < 0.05); /* the mean of column 1 is rounded to f32 */
    assert_true(fabs(square - mean * mean - 1) < 1e-3);
  }
  assert_true(fabs(d->norm.target_mean[0] - 50.0) < 3.0);
  assert_true(fabsf(d->norm.target_scale[0] - 0.1f) < 0.02f);
  for (int64_t i = 0; i < ROWS; i++)
    assert_true(((float *)d->targets)[i * 2 + 1] == 0.0f);
  ls_dataset_close(d);
}

/* Changing held-out rows changes nothing about training rows. */
static void test_nothing_leaks(void **state) {
  table_t t = table_make();
  ls_dataset_t *a, *b;
  assert_int_equal(open_table(said.ctx, &t, 0.25, true, NULL, &a), LS_OK);
  for (int64_t i = 0; i < a->validation_count; i++)
    t.x[ls_dataset_row(a, LS_PART_VALIDATION, i)][0] = 1e9f;
  assert_int_equal(open_table(said.ctx, &t, 0.25, true, NULL, &b), LS_OK);
  assert_memory_equal(a->norm.mean, b->norm.mean, COLS * sizeof(double));
  assert_memory_equal(a->norm.scale, b->norm.scale, COLS * sizeof(float));
  int64_t row = ls_dataset_row(a, LS_PART_TRAIN, 0);
  assert_memory_equal((float *)a->features + row * COLS, (float *)b->features + row * COLS,
                      COLS * sizeof(float));
  ls_dataset_close(a);
  ls_dataset_close(b);
}

static void test_off_changes_nothing(void **state) {
  table_t t = table_make();
  ls_dataset_t *d;
  assert_int_equal(open_table(said.ctx, &t, 0.0, false, NULL, &d), LS_OK);
  assert_memory_equal(d->features, t.x, sizeof t.x);
  assert_memory_equal(d->targets, t.y, sizeof t.y);
  for (int c = 0; c < COLS; c++)
    assert_true(d->norm.mean[c] == 0.0 && d->norm.scale[c] == 1.0f);
  ls_dataset_close(d);
}

/* The values of a checkpoint give the same bits as computing them did. */
static void test_given_values(void **state) {
  table_t t = table_make();
  ls_dataset_t *a, *b;
  assert_int_equal(open_table(said.ctx, &t, 0.25, true, NULL, &a), LS_OK);
  assert_int_equal(open_table(said.ctx, &t, 0.25, false, &a->norm, &b), LS_OK);
  assert_memory_equal(a->features, b->features, sizeof t.x);
  assert_memory_equal(a->targets, b->targets, sizeof t.y);
  assert_memory_equal(a->norm.target_scale, b->norm.target_scale, 2 * sizeof(float));
  ls_norm_t other = a->norm;
  other.inputs = 4;
  ls_dataset_t *none = NULL;
  assert_refused(open_table(said.ctx, &t, 0.25, true, &other, &none), LS_ERR_MISMATCH,
                 "normalisation is for 4 and 2");
  float huge[COLS] = {FLT_MAX, 1, 1, 1, FLT_MAX};
  other = a->norm;
  other.scale = huge;
  assert_refused(open_table(said.ctx, &t, 0.25, true, &other, &none), LS_ERR_DATA, "is not finite");
  assert_null(none);
  ls_dataset_close(a);
  ls_dataset_close(b);
}

/* Columns at both ends of what f32 can hold: no overflow on the way. */
static void test_extremes(void **state) {
  float x[4][2] = {{FLT_MAX, 1e-45f}, {-FLT_MAX, 0}, {FLT_MAX, 1e-45f}, {-FLT_MAX, 0}}, y[4] = {1, 2, 3, 4};
  ls_data_memory_t memory = {.rows = 4, .inputs = 2, .outputs = 1, .features = &x[0][0], .targets = y};
  ls_data_config_t config = {.kind = LS_DATA_MEMORY, .normalize = true};
  ls_data_want_t want = {.inputs = 2, .outputs = 1};
  ls_dataset_t *d;
  assert_int_equal(ls_dataset_open(said.ctx, &config, &memory, &want, 1, NULL, &d), LS_OK);
  for (int i = 0; i < 4; i++) {
    assert_true(fabsf(fabsf(((float *)d->features)[i * 2]) - 1.0f) < 1e-3f);
    assert_true(isfinite(((float *)d->features)[i * 2 + 1]));
  }
  ls_dataset_close(d);
}

/* Data that f32 holds: the mean is f32 too, and the values are those of releases that read everything as f32.
 */
static void test_f32_data_keep_their_bits(void **state) {
  table_t t = table_make();
  ls_dataset_t *d;
  assert_int_equal(open_table(said.ctx, &t, 0.25, true, NULL, &d), LS_OK);
  for (int c = 0; c < COLS; c++) {
    double first = (double)t.x[ls_dataset_row(d, LS_PART_TRAIN, 0)][c], sum = 0, square = 0;
    for (int64_t i = 0; i < 300; i++)
      sum += (double)t.x[ls_dataset_row(d, LS_PART_TRAIN, i)][c] - first;
    double mean = first + sum / 300;
    for (int64_t i = 0; i < 300; i++) {
      double v = (double)t.x[ls_dataset_row(d, LS_PART_TRAIN, i)][c] - mean;
      square += v * v;
    }
    float scale = square > 0 ? (float)(1 / sqrt(square / 300)) : 1.0f;
    for (int i = 0; i < ROWS; i++) {
      float expected = (float)(((double)t.x[i][c] - (double)(float)mean) * (double)scale);
      assert_memory_equal(&((float *)d->features)[i * COLS + c], &expected, sizeof expected);
    }
  }
  ls_dataset_close(d);
}

/* A CSV file of `rows` rows t = offset + u, y = target_offset + 2 u, z = 1 throughout, with u = 0 .. 100. */
static ls_dataset_t *open_times(double offset, double target_offset, bool normalize, const ls_norm_t *norm) {
  char text[8192] = "t,z,y\n";
  size_t used = strlen(text);
  for (int u = 0; u <= 100; u++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%.1f,0.1,%.1f\n", offset + u,
                             target_offset + 2 * u);
  ls_data_config_t config = {.kind = LS_DATA_CSV,
                             .path = file_make("t.csv", text, used),
                             .target = NAMES("y"),
                             .validation = 0.2,
                             .normalize = normalize};
  ls_data_want_t want = {.inputs = 2, .outputs = 1};
  ls_dataset_t *d = NULL;
  assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &want, 3, norm, &d), LS_OK);
  return d;
}

/* Unix times, identifiers, prices in cents: their digits are there when the mean is subtracted. */
static void test_a_large_offset_loses_nothing(void **state) {
  ls_dataset_t *plain = open_times(0, 0, true, NULL), *far = open_times(1.7e9, 3e9, true, NULL);
  assert_string_equal(said.messages, "");
  for (int i = 0; i <= 100; i++) {
    assert_true(fabsf(((float *)plain->features)[i * 2] - ((float *)far->features)[i * 2]) < 1e-6f);
    assert_true(fabsf(((float *)plain->targets)[i] - ((float *)far->targets)[i]) < 1e-6f);
    assert_true(((float *)far->features)[i * 2 + 1] == 0.0f); /* does not vary, and is no f32 */
  }
  assert_true(fabs(far->norm.mean[0] - plain->norm.mean[0] - 1.7e9) < 1e-6);
  assert_true(far->norm.mean[1] == 0.1);
  ls_dataset_t *again = open_times(1.7e9, 3e9, false, &far->norm);
  assert_memory_equal(far->features, again->features, 202 * sizeof(float));
  assert_memory_equal(far->targets, again->targets, 101 * sizeof(float));
  ls_dataset_close(again);
  ls_dataset_close(plain);
  ls_dataset_close(far);
}

/* Without normalisation f32 has to hold the values themselves; columns that it cannot are named. */
static void test_columns_that_collapse_are_named(void **state) {
  ls_dataset_close(open_times(1.7e9, 3e9, false, NULL));
  assert_said("t.csv: feature column 't': 32-bit floats do not tell its values apart: 1700000000 and "
              "1700000001 both become 1700000000; use data.normalize: true");
  assert_said("t.csv: target column 'y'");
  assert_null(strstr(said.messages, "'z'"));
  said_clear();
  ls_dataset_close(open_times(1e5, 0.1, false, NULL)); /* rounded, but told apart */
  assert_string_equal(said.messages, "");
}

TESTS(said_open, said_close, test_training_part_has_mean_0_deviation_1, test_nothing_leaks,
      test_off_changes_nothing, test_given_values, test_extremes, test_f32_data_keep_their_bits,
      test_a_large_offset_loses_nothing, test_columns_that_collapse_are_named)
