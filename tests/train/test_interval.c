/* How often a run saves by itself: near the square root of twice cost times failures, less than that where saving is
 * dear, and never rarer than failures come. */
#include "train/observers/observers.h"
#include "unit.h"

static const int64_t second = 1000000000, hour = 3600 * (int64_t)1000000000;

static void test_interval(void **state) {
  (void)state;
  /* sqrt(2 x 1 s x 24 h) = 415.7 s; the higher orders add 0.08 % of it, the cost is taken off */
  assert_in_range(ls_save_interval_ns(second, 24 * hour), 414 * second, 416 * second);
  assert_in_range(ls_save_interval_ns(second / 1000, 24 * hour), 13 * second, 14 * second);
  assert_int_equal(ls_save_interval_ns(3 * second, second), second);
  for (int64_t cost = 1; cost < 10 * hour; cost *= 7)
    assert_true(ls_save_interval_ns(cost * 7, hour) >= ls_save_interval_ns(cost, hour) ||
                cost * 7 > hour / 4);
  assert_true(ls_save_interval_ns(0, hour) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_interval)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
