/* The set-up of every test of a file: a context, the small network with further YAML lines, and a profile
 * that holds nothing yet. */
#ifndef TESTS_PLAN_SETUP_H
#define TESTS_PLAN_SETUP_H

#include "base/context.h"
#include "support.h"

static ls_config_t *config;
static ls_profile_t *profile;

static inline int setup(void **state) {
  context_setup(state);
  config = small_config(ctx, *state);
  profile = small_profile(ctx);
  return 0;
}

static inline int teardown(void **state) {
  ls_profile_destroy(profile);
  ls_config_destroy(config);
  return context_teardown(state);
}

/* `more` is the set-up's initial state, so not const. */
#define PLAN_TEST(name, more)                                                                                \
  cmocka_unit_test_prestate_setup_teardown(name, setup, teardown, (void *)(uintptr_t)(more))

#endif
