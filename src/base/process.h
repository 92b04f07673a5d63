/* What /proc says about this process. */
#ifndef LS_BASE_PROCESS_H
#define LS_BASE_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The most memory that this process has had resident so far (VmHWM of /proc/self/status): its own pages,
 * those of the libraries' files that were touched, and shared pages. 0 = cannot be read. */
int64_t ls_process_peak_bytes(void);

/* The program that it runs. False: errno says why. */
bool ls_process_program(char path[PATH_MAX]);

#endif
