/* Facts about this process and others, most of them from /proc. */
#ifndef LS_BASE_PROCESS_H
#define LS_BASE_PROCESS_H

#include "base/ctx.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The peak resident memory of this process (VmHWM of /proc/self/status): its own pages, touched pages of
 * library files, and shared pages. 0 = not readable. */
int64_t ls_process_peak_bytes(void);
/* Returns free memory of the heap to the system, and resets the peak. False: this system cannot. */
bool ls_process_peak_reset(void);

/* Bytes of the heap that are in use. */
int64_t ls_process_heap_bytes(void);

/* LS_ERR_MEMORY if a limit of address space (ulimit -v) leaves less than so many bytes. For libraries that crash or wait
 * for ever instead of saying that they get no memory; `what` names them. */
ls_status_t ls_process_room(ls_ctx_t *ctx, int64_t bytes, const char *what);

/* The same for all processes that may reach each other through /proc: they share the running system and its
 * numbering of processes. Where that cannot be read: of `unique` alone. */
int64_t ls_process_node(int unique);

/* The program that this process runs. False: errno says why. */
bool ls_process_program(char path[PATH_MAX]);

/* The build id of the program or library that this code is in, in hexadecimal; "" = the linker gave it none. */
enum { LS_PROCESS_BUILD_BYTES = 65 };
void ls_process_build(char id[LS_PROCESS_BUILD_BYTES]);

/* The user's home directory: $HOME, else what the user database says. False: neither knows one. */
bool ls_process_home(char path[PATH_MAX]);

/* A descriptor that becomes readable when another process ends; -1: it has ended (errno ESRCH), or this kernel has none. */
int ls_process_watch(pid_t pid);
/* Whether there is none of this number, or one that has ended and that its parent has not waited for (a zombie). */
bool ls_process_ended(pid_t pid);
/* Whether it is stopped (SIGSTOP, a debugger). */
bool ls_process_stopped(pid_t pid);
/* One that its main thread has started; 0: there is none, or this kernel does not list them. */
pid_t ls_process_child(pid_t pid);
/* Its parent; 0: there is no such process. */
pid_t ls_process_parent(pid_t pid);

#endif
