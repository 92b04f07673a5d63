/* The peak of a process's memory: it counts what was freed before, until it starts over. */
#include "capture.h"

#include "base/process.h"

#include <stdint.h>
#include <sys/mman.h>

static void the_peak_starts_over(void **state) {
  enum { SIZE_BYTES = 64 << 20 };
  (void)state;
  void *block = mmap(NULL, SIZE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(block, MAP_FAILED);
  memset(block, 1, SIZE_BYTES);
  munmap(block, SIZE_BYTES);
  const int64_t with_block_bytes = ls_process_peak_bytes();
  if (with_block_bytes == 0) skip(); /* no /proc */
  assert_in_range(with_block_bytes, SIZE_BYTES, INT64_MAX);
  if (!ls_process_peak_restart()) skip(); /* the system does not let it */
  assert_in_range(ls_process_peak_bytes(), 1, with_block_bytes - SIZE_BYTES / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_peak_starts_over)};
  return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
