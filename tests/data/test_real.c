/* Real files: 2,000 digits of MNIST and twenty years of the S&P 500 in the repository, and all 10,000 digits
 * where they are present. */
#include "common.h"

#include <math.h>

static void digits_open(const char *features, const char *targets, int64_t rows) {
  said_clear();
  ls_data_config_t config = {
      .kind = LS_DATA_IDX, .features = features, .targets = targets, .validation = 0.2, .normalize = true};
  ls_data_want_t want = {784, 10, true};
  ls_dataset_t *d;
  if (ls_dataset_open(said.ctx, &config, NULL, &want, 42, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  assert_int_equal(d->rows, rows);
  assert_int_equal(d->train_count, rows * 4 / 5);
  static const int32_t first[] = {7, 2, 1, 0, 4};
  assert_memory_equal(d->targets, first, sizeof first);
  const float mean = rows == 10000 ? 33.8f : 30.8f, spread = rows == 10000 ? 79.0f : 75.6f; /* of 255 */
  assert_true(fabs(d->norm.mean[0] - (double)mean) < 0.5);
  assert_true(fabsf(1.0f / d->norm.scale[0] - spread) < 0.6f);
  ls_dataset_close(d);
}

#define DIGITS "examples/data/mnist-2000-"

static void the_digits_of_the_repository(void **state) {
  digits_open(DIGITS "images-idx3-ubyte.gz", DIGITS "labels-idx1-ubyte.gz", 2000);
}

static void all_digits(void **state) {
  char features[600], targets[600];
  const char *dir = getenv("LOCKSTEP_DATA");
  if (!dir) dir = "../shared/data";
  snprintf(features, sizeof features, "%s/mnist/images-idx3-ubyte.gz", dir);
  snprintf(targets, sizeof targets, "%s/mnist/labels-idx1-ubyte.gz", dir);
  if (!ls_path_exists(features)) skip();
  digits_open(features, targets, 10000);
}

static void test_sp500(void **state) {
  ls_data_config_t config = {
      .kind = LS_DATA_CSV, .path = "examples/data/sp500-2000.csv.gz", .target = NAMES("close")};
  ls_data_want_t want = {5, 1, false};
  ls_dataset_t *d;
  if (ls_dataset_open(said.ctx, &config, NULL, &want, 42, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  assert_said("column 'date' holds dates and is left out");
  assert_int_equal(d->rows, 5105);
  static const float first[] = {1469.25f, 1478.0f, 1438.359985f, 1455.219971f, 931800000.0f};
  assert_memory_equal(d->features, first, sizeof first);
  assert_true(((float *)d->targets)[0] == 1455.219971f);
  ls_dataset_close(d);
  config.target = (ls_strings_t)NAMES("clsoe");
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 42, NULL, &d), LS_ERR_DATA,
                 "sp500-2000.csv.gz:1:1: there is no column 'clsoe'; did you mean 'close'?");
}

TESTS(said_open, said_close, the_digits_of_the_repository, all_digits, test_sp500)
