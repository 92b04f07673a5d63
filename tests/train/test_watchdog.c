/* The watchdog's decision, fed with samples, and its thread over waits that are dead. */
#include "train/observers/watchdog.h"

#include <string.h>

#include "unit.h"

#include "base/clock.h"

enum {
  STEP_3 = 3 * LS_DOINGS + LS_DOING_STEPS,
  STEP_4 = STEP_3 + LS_DOINGS,
  OFF = 3 * LS_DOINGS + LS_DOING_OTHER
};
static const int64_t second_ns = 1000000000, tick_ns = 1000000000, deadline_ns = 5000000000;

/* Samples a second apart, each with so much processor time in between; whether the last one ends the run. */
static bool after(ls_watchdog_state_t *s, int seconds, uint64_t beat, int64_t cpu_ns, bool running) {
  bool dead = false;
  for (int i = 0; i < seconds; i++) {
    const ls_watchdog_sample_t sample = {beat, s->last.now_ns + second_ns, s->last.cpu_ns + cpu_ns, running};
    dead = ls_watchdog_judge(s, &sample, tick_ns, deadline_ns);
  }
  return dead;
}

static void a_thread_that_dies_inside_a_lock_ends_the_wait(void **state) {
  (void)state;
  ls_watchdog_state_t s = {0};
  assert_false(after(&s, 5, STEP_3, 1000000, false)); /* the first sample begins the count */
  assert_true(after(&s, 1, STEP_3, 1000000, false));
}

static void a_long_computation_is_not_ended(void **state) {
  (void)state;
  ls_watchdog_state_t s = {0};
  assert_false(after(&s, 1000, STEP_3, second_ns, false));
  assert_false(after(&s, 1000, STEP_3, second_ns / 50, false));
  assert_false(after(&s, 1000, STEP_3, 0, true)); /* waits for a processor or a disk */
}

static void progress_and_what_is_not_watched_begin_the_count_anew(void **state) {
  (void)state;
  ls_watchdog_state_t s = {0};
  for (int i = 0; i < 100; i++) {
    assert_false(after(&s, 5, STEP_3, 0, false));
    assert_false(after(&s, 5, STEP_4, 0, false));
  }
  assert_false(after(&s, 1000, OFF, 0, false));
}

static void the_time_in_which_the_process_is_stopped_does_not_count(void **state) {
  (void)state;
  ls_watchdog_state_t s = {0};
  assert_false(after(&s, 5, STEP_3, 0, false));
  const ls_watchdog_sample_t woken = {STEP_3, s.last.now_ns + 3601 * second_ns, 0, false};
  assert_false(ls_watchdog_judge(&s, &woken, tick_ns, deadline_ns));
  assert_true(after(&s, 1, STEP_3, 0, false));
}

typedef struct {
  char message[1024];
  _Atomic int calls;
} heard_t;

static void hear(void *user, const char *message) {
  heard_t *heard = user;
  strncpy(heard->message, message, sizeof heard->message - 1);
  atomic_fetch_add(&heard->calls, 1);
}

static void a_dead_wait_is_reported_once_with_its_step_and_threads(void **state) {
  (void)state;
  heard_t heard = {0};
  ls_watchdog_t *w;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  const _Atomic uint64_t beat = ls_beat(12, LS_DOING_STEPS);
  assert_int_equal(ls_watchdog_start(ctx, &beat, second_ns / 5, hear, &heard, &w), LS_OK);
  const struct timespec look = {.tv_nsec = 20000000};
  for (int i = 0; i < 3000 && !atomic_load(&heard.calls); i++)
    nanosleep(&look, NULL);
  ls_watchdog_stop(w);
  assert_int_equal(heard.calls, 1);
  assert_non_null(strstr(heard.message, "step 12 waits for a thread that does not answer"));
  assert_non_null(strstr(heard.message, "Its threads: "));
  ls_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thread_that_dies_inside_a_lock_ends_the_wait),
      cmocka_unit_test(a_long_computation_is_not_ended),
      cmocka_unit_test(progress_and_what_is_not_watched_begin_the_count_anew),
      cmocka_unit_test(the_time_in_which_the_process_is_stopped_does_not_count),
      cmocka_unit_test(a_dead_wait_is_reported_once_with_its_step_and_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
