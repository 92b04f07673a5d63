/* Real files, where they are present: the 10,000 digits of MNIST and twenty years of the S&P 500. */
#include "common.h"

#include <math.h>

enum { SKIPPED = 77 };

static void test_mnist(void **state) {
  (void)state;
  char features[600], targets[600];
  snprintf(features, sizeof features, "%s", real_file("mnist/images-idx3-ubyte.gz"));
  snprintf(targets, sizeof targets, "%s", real_file("mnist/labels-idx1-ubyte.gz"));
  said_t said;
  said_open(&said);
  ls_data_config_t config = {
      .kind = LS_DATA_IDX, .features = features, .targets = targets, .validation = 0.2, .normalize = true};
  ls_data_want_t want = {784, 10, true};
  ls_dataset_t *d;
  if (ls_dataset_open(said.ctx, &config, NULL, &want, 42, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  assert_int_equal(d->rows, 10000);
  assert_int_equal(d->train_count, 8000);
  static const int32_t first[] = {7, 2, 1, 0, 4};
  assert_memory_equal(d->labels, first, sizeof first);
  assert_true(fabsf(d->norm.mean[0] - 33.8f) < 0.5f); /* of 255 */
  assert_true(fabsf(1.0f / d->norm.scale[0] - 79.0f) < 0.6f);
  ls_dataset_close(d);
  said_close(&said);
}

static void test_sp500(void **state) {
  (void)state;
  said_t said;
  said_open(&said);
  ls_data_config_t config = {
      .kind = LS_DATA_CSV, .path = real_file("series/sp500-2000.csv"), .target = {1, {"close"}}};
  ls_data_want_t want = {5, 1, false};
  ls_dataset_t *d;
  if (ls_dataset_open(said.ctx, &config, NULL, &want, 42, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  assert_said(&said, "column 'date' holds dates and is left out");
  assert_int_equal(d->rows, 5105);
  static const float first[] = {1469.25f, 1478.0f, 1438.359985f, 1455.219971f, 931800000.0f};
  assert_memory_equal(d->features, first, sizeof first);
  assert_true(d->targets[0] == 1455.219971f);
  ls_dataset_close(d);
  config.target.v[0] = "clsoe";
  assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &want, 42, NULL, &d), LS_ERR_DATA);
  assert_said(&said, "sp500-2000.csv:1:1: there is no column 'clsoe'; did you mean 'close'?");
  said_close(&said);
}

int main(void) {
  if (!real_file("mnist/images-idx3-ubyte.gz") || !real_file("series/sp500-2000.csv")) {
    printf("skipped: no real data in ../shared/data or $LOCKSTEP_DATA\n");
    return SKIPPED;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mnist), cmocka_unit_test(test_sp500)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
