/* The progress line at every width of a terminal. */
#include "cli/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

static const ls_progress_t middle = {.step = 905,
                                     .total_steps = 2400,
                                     .epoch = 5,
                                     .in_epoch = 6,
                                     .total_epochs = 12,
                                     .train_loss = 9,
                                     .train_loss_mean = 0.4004,
                                     .lr = 1e-3,
                                     .samples_per_s = 55088.6,
                                     .val_loss = 0.39,
                                     .val_accuracy = 0.881,
                                     .device_bytes = 27500000};

static void line_has_every_field(void **state) {
  char text[CLI_PROGRESS_BYTES];
  cli_progress_format(&middle, 12.3, 17.9, 200, text);
  assert_string_equal(text, " 37 %  epoch 6/12  step 905/2400  loss 0.4004  val 0.39 (88.10 %)  lr 0.001  "
                            "55,088 samples/s  memory 27.50 MB  0:12 elapsed  0:17 left");
}

static void line_fits_every_width_and_keeps_what_matters(void **state) {
  char text[CLI_PROGRESS_BYTES];
  size_t before = 0;
  for (int width = 40; width <= 200; width++) {
    cli_progress_format(&middle, 12.3, 17.9, width, text);
    assert_true(strlen(text) <= (size_t)width);
    assert_non_null(strstr(text, " 37 %"));
    assert_non_null(strstr(text, "loss 0.4004"));
    assert_non_null(strstr(text, "0:17 left"));
    assert_true(text[strlen(text) - 1] != ' ');
    assert_true(strlen(text) + 16 > before); /* more room is not less text, but for the size of one field */
    before = strlen(text);
  }
}

static void hundred_percent_only_at_the_end(void **state) {
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
  char text[CLI_PROGRESS_BYTES];
  ls_progress_t p = middle;
  p.total_epochs = 0;
  p.val_loss = p.val_accuracy = NAN;
  p.train_loss_mean = 8.5e-8;
  p.skipped_steps = 3;
  cli_progress_format(&p, 0, (double)NAN, 200, text);
  assert_string_equal(text,
                      " 37 %  epoch 6  step 905/2400  loss 8.5e-08  lr 0.001  55,088 samples/s  skipped 3  "
                      "memory 27.50 MB  0:00 elapsed");
}

/* A mean absolute error of 1.01123e+09 was shown as 1: the numbers behind a loss of sixteen digits were cut. */
static void no_number_is_cut(void **state) {
  static const double values[] = {1.01123e9, -2459.58, 1371279173091328.0, 1e-300, -1.79769e308, 32761000};
  char text[CLI_PROGRESS_BYTES], number[32];
  ls_progress_t p = middle;
  p.train_loss_mean = p.val_loss = -1.79769e308;
  p.step = p.total_steps = INT64_MAX;
  p.samples_per_s = 1e18;
  p.val_metrics.count = LS_EVAL_METRICS_MAX;
  for (int i = 0; i < LS_EVAL_METRICS_MAX; i++)
    p.val_metrics.v[i] = (ls_eval_metric_t){.name = "mae", .value = values[i % LS_COUNT(values)]};
  cli_progress_format(&p, 0, (double)NAN, CLI_PROGRESS_BYTES, text);
  assert_non_null(strstr(text, "loss -1.79769e+308  val -1.79769e+308 (88.10 %)"));
  const char *at = text;
  for (int i = 0; i < LS_EVAL_METRICS_MAX; i++) {
    snprintf(number, sizeof number, "  mae %.6g  ", values[i % LS_COUNT(values)]);
    if (!(at = strstr(at, number))) fail_msg("no%s in %s", number, text);
    at += strlen(number) - 2;
  }
  for (int width = 20; width < (int)strlen(text); width++) { /* nor does a narrow terminal cut one */
    char narrow[CLI_PROGRESS_BYTES], whole[CLI_PROGRESS_BYTES + 4];
    cli_progress_format(&p, 0, (double)NAN, width, narrow);
    snprintf(whole, sizeof whole, "  %s  ", text);
    char *rest = narrow;
    for (char *field; (field = strstr(rest, "  ")); rest = field + 2) {
      char part[80];
      snprintf(part, sizeof part, "%.*s  ", (int)(field - rest), rest);
      assert_non_null(strstr(whole, part));
    }
  }
}

TESTS(NULL, NULL, line_has_every_field, line_fits_every_width_and_keeps_what_matters,
      hundred_percent_only_at_the_end, no_number_is_cut,
      run_given_in_steps_without_validation_names_its_epoch)
