/* Monotonic time. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t ls_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* For waits that look at least every 100 ms. Moves *start_ns forward by the time in which the process was
 * stopped (Ctrl-Z), so that this time does not count against a deadline. *looked_ns is the time of the last
 * look, 0 at first. Returns the current time. */
static inline int64_t ls_clock_look(int64_t *looked_ns, int64_t *start_ns) {
  const int64_t stopped_ns = 1000000000, now_ns = ls_clock_ns();
  if (*looked_ns > 0 && now_ns - *looked_ns > stopped_ns) *start_ns += now_ns - *looked_ns;
  *looked_ns = now_ns;
  return now_ns;
}

#endif
