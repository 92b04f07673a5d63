/* What tests of the probe share: an empty profile of a machine that nobody knows. */
#ifndef TESTS_PROBE_SUPPORT_H
#define TESTS_PROBE_SUPPORT_H

#include "base/capture.h"
#include "machine/profile.h"

static inline ls_profile_t *profile_of(capture_t *c) {
  static ls_machine_t machine;
  ls_profile_t *profile = NULL;
  ls_machine_clear(&machine);
  assert_int_equal(ls_profile_create(c->ctx, &machine, &profile), LS_OK);
  return profile;
}

#endif
