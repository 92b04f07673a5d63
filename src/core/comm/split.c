/* Groups of ranks. The transport joins the members; then all ranks of the communicator agree, so that none waits
 * for a rank that has failed. */
#include "comm/comm.h"

#include <stdio.h>

ls_status_t ls_comm_group(ls_comm_t *comm, const char *name, const int *ranks, int count, ls_comm_t **sub) {
  char title[LS_SPLIT_NAME_BYTES];
  ls_comm_t *made = NULL;
  if (!comm->ops->split)
    return ls_fail(comm->ctx, LS_ERR_UNSUPPORTED, "%s has no groups of ranks", comm->ops->name);
  snprintf(title, sizeof title, "group %.*s", LS_GROUP_NAME_BYTES - 1, name);
  ls_split_t split = {.name = title, .member = ranks};
  while (split.rank < count && ranks[split.rank] != comm->rank)
    split.rank++;
  if (split.rank < count) split.size = count;
  ls_status_t status = comm->ops->split(comm, &split, &made);
  if (status == LS_OK || !comm->broken) status = ls_comm_agree(comm, title, status);
  if (status != LS_OK) {
    if (made) made->broken = true; /* so that nobody waits for the others */
    ls_comm_destroy(made);
    return status;
  }
  if (made) {
    snprintf(made->group, sizeof made->group, "%s", name);
    ls_comm_set_step(made, comm->step);
    made->watch = comm->watch;
  }
  *sub = made;
  return LS_OK;
}
