/* How long the process was stopped (Ctrl-Z), so that clocks can leave it out. Somebody looks at the clock at least every
 * LS_STOPS_LOOK_MS. A look holds the milliseconds of all stops in its upper 32 bits and those of the clock in its lower 32. */
#ifndef LS_TRAIN_STOPS_H
#define LS_TRAIN_STOPS_H

#include "base/clock.h"

#include <stdatomic.h>

enum { LS_STOPS_LOOK_MS = 100, LS_STOPS_MS_NS = 1000000, LS_STOPS_SECOND_NS = 1000000000 };

/* The next look. A gap of more than a second is a stop, known to a tenth of a second. Pure. */
static inline uint64_t ls_stops_look(uint64_t look, int64_t now_ns) {
  const uint32_t now_ms = (uint32_t)(now_ns / LS_STOPS_MS_NS), passed_ms = now_ms - (uint32_t)look;
  uint64_t stopped_ms = look >> 32;
  if (passed_ms > LS_STOPS_SECOND_NS / LS_STOPS_MS_NS + LS_STOPS_LOOK_MS)
    stopped_ms += passed_ms - LS_STOPS_LOOK_MS;
  return stopped_ms << 32 | now_ms;
}

/* Total time of all stops. NULL: nobody looks. */
static inline int64_t ls_stops_ns(const _Atomic uint64_t *look) {
  if (!look) return 0;
  return (int64_t)(ls_stops_look(atomic_load_explicit(look, memory_order_relaxed), ls_clock_ns()) >> 32) *
         LS_STOPS_MS_NS;
}

#endif
