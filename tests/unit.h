/* cmocka, after the headers that it needs; a test program is its tests and TESTS(setup, teardown, test, ..). */
#ifndef LS_TESTS_UNIT_H
#define LS_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of tests without a state */

/* `names`: of the functions, with commas between. */
static inline int tests_run(char *names, const CMUnitTestFunction *function, size_t count,
                            CMFixtureFunction setup, CMFixtureFunction teardown) {
  enum { TESTS_MAX = 64 };
  struct CMUnitTest tests[TESTS_MAX] = {{0}};
  assert_in_range(count, 1, TESTS_MAX);
  for (size_t i = 0; i < count; i++)
    tests[i] = (struct CMUnitTest){strtok(i == 0 ? names : NULL, ", \n"), function[i], setup, teardown, NULL};
  return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}

/* main, which runs the tests, each between its set-up and its tear-down (NULL: none). */
#define TESTS(setup, teardown, ...)                                                                          \
  int main(void) {                                                                                           \
    static const CMUnitTestFunction test_functions[] = {__VA_ARGS__};                                        \
    static char test_names[] = #__VA_ARGS__;                                                                 \
    return tests_run(test_names, test_functions, sizeof test_functions / sizeof test_functions[0], setup,    \
                     teardown);                                                                              \
  }

#endif
