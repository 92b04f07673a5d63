/* Inside the machine module: the sources of a machine. Each fills the fields that it knows and leaves the
 * others unknown; none can fail. */
#ifndef LS_MACHINE_PARTS_H
#define LS_MACHINE_PARTS_H

#include "machine/machine.h"

/* host.c: hwloc, /proc, /sys. */
void ls_machine_read_host(ls_machine_t *machine);
/* limit.c: the smallest memory limit of this process's control groups; INT64_MAX = no limit. `root` is put
 * before /proc and /sys: "" or, in tests, a folder. */
int64_t ls_machine_memory_limit(const char *root);
/* library.c: versions of MPI and of the BLAS that computes. */
void ls_machine_read_libraries(ls_machine_t *machine);
/* gpu.c: NVML and NCCL, opened at run time. */
void ls_machine_read_gpus(ls_machine_t *machine);

#endif
