/* The share of the processors that other programs take during a measurement. */
#ifndef LS_MACHINE_LOAD_H
#define LS_MACHINE_LOAD_H

#include "base/ctx.h"

#define LS_LOAD_DISTURBING 0.1 /* share of the processors' time; an idle system takes a few hundredths */

/* Ticks of the kernel's clock since the system started, of the processors that this process may use. */
typedef struct {
  int64_t busy_ticks, all_ticks; /* all_ticks 0: not known */
  int64_t own_ns; /* ticks of this process, all of its threads, and its children that have ended */
} ls_load_t;

/* Reads the per-processor lines of `path`, NULL = /proc/stat (proc(5)). Everything but idle and iowait counts as
 * busy. Steal (time that a hypervisor gave to others) counts too, because it disturbs in the same way. */
void ls_load_read(const char *path, ls_load_t *load);
/* The share of the processors' time, 0 to 1, that other programs took between two readings; NAN = not known.
 */
double ls_load_others(const ls_load_t *begin, const ls_load_t *end);

#endif
