/* How much of the processors other programs take while something is measured. */
#ifndef LS_MACHINE_LOAD_H
#define LS_MACHINE_LOAD_H

#include "base/ctx.h"

#define LS_LOAD_DISTURBING 0.1 /* of the processors' time; an idle system takes a few hundredths */

/* Since the system started: of the processors that this process may use, in ticks of the kernel's clock. */
typedef struct {
  int64_t busy_ticks, all_ticks; /* all_ticks 0: not known */
  int64_t own_ns; /* of which this process, all of its threads, and its children that have ended */
} ls_load_t;

/* Reads the per-processor lines of `path`, NULL = /proc/stat (proc(5)). Busy is everything but idle and
 * iowait; time that a hypervisor gave to others (steal) counts, for it disturbs as well. */
void ls_load_read(const char *path, ls_load_t *load);
/* The share of the processors' time, 0 to 1, that other programs took between two readings; NAN = not known.
 */
double ls_load_others(const ls_load_t *begin, const ls_load_t *end);

#endif
