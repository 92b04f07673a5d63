/* Arena: zeroed, aligned, growing, and honest when memory is short. */
#include "capture.h"

static void zeroed_and_aligned(void **state) {
  capture_t *c = *state;
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  unsigned char *all[200];
  for (int i = 0; i < LS_COUNT(all); i++) {
    size_t size = (size_t)i * 37 + 1;
    all[i] = ls_arena_alloc(&arena, size);
    assert_non_null(all[i]);
    assert_int_equal((uintptr_t)all[i] % 16, 0);
    for (size_t k = 0; k < size; k++)
      assert_int_equal(all[i][k], 0);
    memset(all[i], i + 1, size);
  }
  for (int i = 0; i < LS_COUNT(all); i++) /* nobody wrote into a neighbour */
    for (size_t k = 0; k < (size_t)i * 37 + 1; k++)
      assert_int_equal(all[i][k], i + 1);
  ls_arena_release(&arena);
  assert_non_null(ls_arena_alloc(&arena, 1)); /* usable again */
  ls_arena_release(&arena);
}

static void texts(void **state) {
  capture_t *c = *state;
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  assert_string_equal(ls_arena_strdup(&arena, ""), "");
  assert_string_equal(ls_arena_strdup(&arena, "abc"), "abc");
  assert_string_equal(ls_arena_strndup(&arena, "abcdef", 2), "ab");
  assert_string_equal(ls_arena_printf(&arena, "%s-%d", "layers", 12), "layers-12");
  char *wide = ls_arena_printf(&arena, "%100000d", 7);
  assert_int_equal(strlen(wide), 100000);
  ls_arena_release(&arena);
}

static void sizes_that_overflow(void **state) {
  capture_t *c = *state;
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  assert_null(ls_arena_array(&arena, SIZE_MAX / 2, 3));
  assert_null(ls_arena_alloc(&arena, SIZE_MAX));
  assert_int_equal(ls_ctx_error_count(c->ctx), 2);
  assert_non_null(strstr(c->text, "out of memory"));
  ls_arena_release(&arena);
}

static ls_status_t use(capture_t *c) {
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  bool all = ls_arena_alloc(&arena, 10000) && ls_arena_alloc(&arena, 10000) &&
             ls_arena_alloc(&arena, 100000) && ls_arena_printf(&arena, "%20000d", 1);
  ls_arena_release(&arena);
  return all ? LS_OK : LS_ERR_MEMORY;
}

static void allocation_failures(void **state) {
  assert_int_equal(capture_fail_each_alloc(*state, use), 4);
}

TESTS(capture_setup, capture_teardown, zeroed_and_aligned, texts, sizes_that_overflow, allocation_failures)
