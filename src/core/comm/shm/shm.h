/* The shm transport: ranks that this program starts itself, all on one host, meet in a file without a name
 * (memfd_create(2)) that they inherit. No other library takes part, and nothing is left when they have ended. */
#ifndef LS_COMM_SHM_SHM_H
#define LS_COMM_SHM_SHM_H

#include "comm/comm.h"

/* ---- whoever starts the ranks ---- */

/* The memory of `size` ranks. Each rank inherits `file` and finds it by ls_comm_shm_name. */
typedef struct ls_shm_head ls_shm_head_t;
typedef struct {
  int file, size;
  ls_shm_head_t *head;
} ls_shm_world_t;
ls_status_t ls_comm_shm_prepare(ls_ctx_t *ctx, int size, ls_shm_world_t *world);
void ls_comm_shm_release(ls_shm_world_t *world);
/* "LOCKSTEP_RANK=..", for the environment of a rank. */
enum { LS_SHM_NAME_BYTES = 64 };
void ls_comm_shm_name(const ls_shm_world_t *world, int rank, char variable[LS_SHM_NAME_BYTES]);
/* Whether the rank has joined the others, and whether it has left them, which it does before it ends well. */
bool ls_comm_shm_joined(const ls_shm_world_t *world, int rank);
bool ls_comm_shm_left(const ls_shm_world_t *world, int rank);
/* The exit code with which the first rank aborted (ls_comm_abort); 0: none did. */
int ls_comm_shm_aborted(const ls_shm_world_t *world);

/* ---- a rank ---- */

/* Whether this process is such a rank, by its environment. */
bool ls_comm_shm_started(int *rank, int *size);
/* Once per process. LS_ERR_COMM if the environment names no such memory. */
ls_status_t ls_comm_shm_create(ls_ctx_t *ctx, int64_t deadline_ns, ls_comm_t **comm);

#endif
