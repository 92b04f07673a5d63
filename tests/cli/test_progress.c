/* The progress line at every width of a terminal. */
#include "cli/progress.h"

#include <math.h>
#include <string.h>

#include "unit.h"

static const ls_progress_t middle = {.step = 905,
                                     .total_steps = 2400,
                                     .epoch = 5,
                                     .total_epochs = 12,
                                     .train_loss = 0.4004,
                                     .lr = 1e-3,
                                     .samples_per_s = 55088.6,
                                     .val_loss = 0.39,
                                     .val_accuracy = 0.881,
                                     .device_bytes = 27500000};

static void line_has_every_field(void **state) {
  (void)state;
  char text[CLI_PROGRESS_BYTES];
  cli_progress_format(&middle, 12.3, 17.9, 200, text);
  assert_string_equal(text, " 37 %  epoch 5/12  step 905/2400  loss 0.4004  val 0.3900 (88.10 %)  lr 0.001  "
                            "55,088 samples/s  27.50 MB  0:12 elapsed  0:17 left");
}

static void line_fits_every_width_and_keeps_what_matters(void **state) {
  (void)state;
  char text[CLI_PROGRESS_BYTES];
  size_t before = 0;
  for (int width = 40; width <= 200; width++) {
    cli_progress_format(&middle, 12.3, 17.9, width, text);
    assert_true(strlen(text) <= (size_t)width);
    assert_non_null(strstr(text, " 37 %"));
    assert_non_null(strstr(text, "loss 0.4004"));
    assert_non_null(strstr(text, "0:17 left"));
    assert_true(text[strlen(text) - 1] != ' ');
    assert_true(strlen(text) + 12 > before); /* more room is not less text, but for the size of one field */
    before = strlen(text);
  }
}

static void hundred_percent_only_at_the_end(void **state) {
  (void)state;
  char text[CLI_PROGRESS_BYTES];
  ls_progress_t p = middle;
  p.step = 199999;
  p.total_steps = 200000;
  cli_progress_format(&p, 1, 0.0001, 200, text);
  assert_memory_equal(text, " 99 %", 5);
  p.step = p.total_steps;
  cli_progress_format(&p, 3600, 0, 200, text);
  assert_memory_equal(text, "100 %", 5);
  assert_non_null(strstr(text, "1:00:00 elapsed"));
  assert_null(strstr(text, "left"));
}

static void run_given_in_steps_without_validation_names_its_epoch(void **state) {
  (void)state;
  char text[CLI_PROGRESS_BYTES];
  ls_progress_t p = middle;
  p.total_epochs = 0;
  p.val_loss = p.val_accuracy = NAN;
  p.train_loss = 8.5e-8;
  p.skipped_steps = 3;
  cli_progress_format(&p, 0, (double)NAN, 200, text);
  assert_string_equal(text,
                      " 37 %  epoch 5  step 905/2400  loss 8.500e-08  lr 0.001  55,088 samples/s  skipped 3  "
                      "27.50 MB  0:00 elapsed");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(line_has_every_field),
      cmocka_unit_test(line_fits_every_width_and_keeps_what_matters),
      cmocka_unit_test(hundred_percent_only_at_the_end),
      cmocka_unit_test(run_given_in_steps_without_validation_names_its_epoch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
