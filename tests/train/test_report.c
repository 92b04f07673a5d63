/* Statistics over the steps of a run: what is printed side by side is of the same steps. */
#include "train/step_log.h"

#include <math.h>
#include <string.h>

#include "unit.h"

enum { WARMUP = 10, FIRST_US = 5000, STEP_US = 100 };

static double sum_us(const ls_step_parts_t *p) {
  return (double)(p->input_ns + p->forward_ns + p->backward_ns + p->comm_ns + p->optimizer_ns + p->rest_ns) *
         1e-3;
}

/* Steps of which the first ones take long; 90 % of each are in its parts. */
static void run(int64_t steps, int64_t capacity, ls_train_report_t *report) {
  ls_step_log_t log;
  ls_step_parts_t parts;
  assert_int_equal(ls_step_log_create(NULL, capacity, &log), LS_OK);
  for (int64_t i = 0; i < steps; i++) {
    int64_t step_ns = (i < WARMUP ? FIRST_US : STEP_US + i % 3) * INT64_C(1000);
    const int64_t parts_ns[LS_PHASE_STEP_COUNT] = {0, step_ns / 2,  step_ns / 5,
                                                   0, step_ns / 10, step_ns / 10};
    ls_step_log_add(&log, step_ns, parts_ns, 1, true, &parts);
    assert_true(fabs(sum_us(&parts) - (double)step_ns * 1e-3) < 0.01);
  }
  memset(report, 0, sizeof *report);
  ls_step_log_report(&log, report);
  ls_step_log_release(&log);
}

static void parts_add_up_to_the_mean_step_without_the_first_steps(void **state) {
  (void)state;
  ls_train_report_t r;
  run(100, 100, &r);
  assert_int_equal(r.step_time_count, 100 - WARMUP);
  assert_true(r.step_time_mean_us > STEP_US && r.step_time_mean_us < STEP_US + 3);
  assert_true(fabs(sum_us(&r.parts) - r.step_time_mean_us) < 0.01);
  assert_true(r.parts.measured && r.parts.forward_ns < (STEP_US + 3) * 500);
}

static void steps_beyond_the_log_count_in_neither(void **state) {
  (void)state;
  ls_train_report_t r;
  run(1000, 50, &r);
  assert_int_equal(r.step_time_count, 50 - WARMUP);
  assert_true(fabs(sum_us(&r.parts) - r.step_time_mean_us) < 0.01);
}

static void a_short_run_counts_every_step(void **state) {
  (void)state;
  ls_train_report_t r;
  run(20, 20, &r);
  assert_int_equal(r.step_time_count, 20);
  assert_true(r.step_time_mean_us > FIRST_US / 2.0);
  assert_true(fabs(sum_us(&r.parts) - r.step_time_mean_us) < 0.01);
  assert_int_equal(r.train_loss_steps, 20);
}

/* The mean that the progress line shows is the table's, with every digit also after a loss that was huge. */
static void the_mean_loss_is_of_the_last_hundred_steps(void **state) {
  (void)state;
  ls_step_log_t log;
  ls_step_parts_t parts;
  double loss[450];
  assert_int_equal(ls_step_log_create(NULL, 1, &log), LS_OK);
  assert_true(isnan(ls_step_log_loss(&log)));
  for (int i = 0; i < LS_COUNT(loss); i++) {
    loss[i] = i == 130 ? 1e38 : 1.0 / (i + 3);
    ls_step_log_add(&log, 1000, NULL, (double)NAN, false, &parts); /* skipped steps do not count */
    ls_step_log_add(&log, 1000, NULL, loss[i], true, &parts);
    double sum = 0;
    const int first = i < LS_LOSS_RING ? 0 : i + 1 - LS_LOSS_RING;
    for (int k = first; k <= i; k++)
      sum += loss[k];
    const double mean = sum / (i + 1 - first);
    if (!(fabs(ls_step_log_loss(&log) - mean) <= 1e-12 * mean)) fail_msg("after %d steps", i + 1);
  }
  ls_step_log_release(&log);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_add_up_to_the_mean_step_without_the_first_steps),
      cmocka_unit_test(steps_beyond_the_log_count_in_neither),
      cmocka_unit_test(a_short_run_counts_every_step),
      cmocka_unit_test(the_mean_loss_is_of_the_last_hundred_steps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
