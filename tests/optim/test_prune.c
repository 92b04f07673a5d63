/* Masks: exactly as many as asked for, the smallest magnitudes, the first of equals; and the schedule. */
#include "unit.h"

#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>

static int64_t counts[LS_PRUNE_COUNTS];

static void the_smallest_go(void **state) {
  enum { COUNT = 1001 };
  float w[COUNT], mask[COUNT];
  for (int i = 0; i < COUNT; i++)
    w[i] = (i % 2 ? -1.0f : 1.0f) * (float)((i * 37) % COUNT + 1) * 0x1p-20f; /* every magnitude once */
  for (int wanted = 0; wanted < COUNT; wanted += 125) {
    assert_int_equal(ls_prune_mask(COUNT, (wanted + 0.5) / COUNT, w, mask, counts), wanted);
    for (int i = 0; i < COUNT; i++)
      assert_true((mask[i] == 0) == (fabsf(w[i]) <= (float)wanted * 0x1p-20f));
  }
}

static void of_equals_the_first_go(void **state) {
  const float w[] = {2, -1, 1, 0, -0.0f, 1, 3};
  float mask[7];
  const float want[] = {1, 0, 0, 0, 0, 1, 1};
  assert_int_equal(ls_prune_mask(7, 4.5 / 7, w, mask, counts), 4);
  assert_memory_equal(mask, want, sizeof want);
  assert_int_equal(ls_prune_mask(1, 0.9, w, mask, counts), 0);
  assert_true(mask[0] == 1);
}

static void grows_to_the_end(void **state) {
  const ls_prune_config_t c = {.sparsity = 0.8, .begin = 100, .end = 250, .every = 40};
  int due = 0;
  for (int64_t step = 0; step < 400; step++)
    due += ls_prune_due(&c, step);
  assert_int_equal(due, 5); /* 100, 140, 180, 220 and the end */
  assert_true(ls_prune_due(&c, 250) && !ls_prune_due(&c, 260) && !ls_prune_due(&c, 60));
  assert_true(ls_prune_at(&c, 100) == 0 && ls_prune_at(&c, 250) == 0.8);
  assert_true(fabs(ls_prune_at(&c, 175) - 0.8 * (1 - 0.125)) < 1e-15);
  const ls_prune_config_t off = {.every = 1};
  assert_false(ls_prune_due(&off, 0));
}

TESTS(NULL, NULL, the_smallest_go, of_equals_the_first_go, grows_to_the_end)
