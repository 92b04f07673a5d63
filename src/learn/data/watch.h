/* Mapped data files. The system raises SIGBUS in the thread that reads a mapped page which the file no longer has,
 * or which its storage cannot deliver. The library installs no handler, so the program's handler asks ls_data_fault
 * (lockstep/data.h) whether the address lies in one of these files. From then on the file reads as zeros. The
 * reader calls ls_watch_check, which turns the fault into an error before the zeros are used. The list belongs to
 * the process, as signals do; a lock guards it. */
#ifndef LS_DATA_WATCH_H
#define LS_DATA_WATCH_H

#include "base/ctx.h"

typedef struct ls_watch ls_watch_t;

/* `bytes` of the file at `path` have just been mapped at `at`. The caller ends the watch before it unmaps them. LS_ERR_MEMORY. */
ls_status_t ls_watch_begin(ls_ctx_t *ctx, const char *path, void *at, size_t bytes, ls_watch_t **watch);
void ls_watch_end(ls_watch_t *watch);
/* Whether the file has faulted, at any time since its watch began. NULL: no file, which never does. One atomic load while no
 * file of the process has. */
bool ls_watch_failed(const ls_watch_t *watch);
/* LS_ERR_IO, reported with the name of the file, if it has. */
ls_status_t ls_watch_check(const ls_watch_t *watch);
/* The same, and also if the file is shorter now: the rest of its last page reads as zeros without a fault. Asks the system. */
ls_status_t ls_watch_check_size(const ls_watch_t *watch);
bool ls_watch_is_shorter(const ls_watch_t *watch);

#endif
