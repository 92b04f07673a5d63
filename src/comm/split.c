/* Groups of ranks. The members are found here, over the communicator's own run(); the transport then joins
 * them. All ranks of the communicator agree on every step, so that none waits for a rank that has failed. */
#include "comm/comm.h"

#include <stdio.h>

/* {color, key} of every rank. */
typedef struct {
  int32_t color, key;
} wish_t;

static bool precedes(const wish_t *wish, int a, int b) {
  return wish[a].key != wish[b].key ? wish[a].key < wish[b].key : a < b;
}

/* Members in the order of key, then rank. */
static void find_members(const wish_t *wish, int ranks, int rank, int *member, ls_split_t *split) {
  for (int r = 0; r < ranks; r++) {
    if (split->color < 0 || wish[r].color != split->color) continue;
    int at = split->size++;
    for (; at > 0 && precedes(wish, r, member[at - 1]); at--)
      member[at] = member[at - 1];
    member[at] = r;
  }
  while (split->rank < split->size && member[split->rank] != rank)
    split->rank++;
}

/* Tells all ranks whether all have succeeded. */
static ls_status_t conclude(ls_comm_t *comm, const ls_split_t *split, const char *name, ls_status_t status,
                            ls_comm_t *made, ls_comm_t **sub) {
  if (status == LS_OK || !comm->broken) status = ls_comm_agree(comm, split->name, status);
  if (status != LS_OK) {
    if (made) made->broken = true; /* so that nobody waits for the others */
    ls_comm_destroy(made);
    return status;
  }
  if (made) {
    snprintf(made->group, sizeof made->group, "%s", name);
    ls_comm_set_step(made, comm->step);
  }
  *sub = made;
  return LS_OK;
}

static const char *title(const char *name, char text[LS_SPLIT_NAME_BYTES]) {
  snprintf(text, LS_SPLIT_NAME_BYTES, "group %.*s", LS_GROUP_NAME_BYTES - 1, name);
  return text;
}

static ls_status_t none(const ls_comm_t *comm) {
  return ls_fail(comm->ctx, LS_ERR_UNSUPPORTED, "%s has no groups of ranks", comm->ops->name);
}

ls_status_t ls_comm_group(ls_comm_t *comm, const char *name, const int *ranks, int count, ls_comm_t **sub) {
  char text[LS_SPLIT_NAME_BYTES];
  ls_comm_t *made = NULL;
  if (!comm->ops->split) return none(comm);
  ls_split_t split = {.color = -1, .name = title(name, text), .member = ranks};
  while (split.rank < count && ranks[split.rank] != comm->rank)
    split.rank++;
  if (split.rank < count) {
    split.color = 0;
    split.key = split.rank;
    split.size = count;
  }
  ls_status_t status = comm->ops->split(comm, &split, &made);
  return conclude(comm, &split, name, status, made, sub);
}

static ls_status_t join(ls_comm_t *comm, ls_split_t *split, wish_t *wish, int *member, ls_comm_t **sub) {
  wish[comm->size] = (wish_t){split->color, split->key};
  ls_status_t status = ls_comm_gather(comm, split->name, &wish[comm->size], sizeof *wish, wish);
  if (status != LS_OK) return status;
  find_members(wish, comm->size, comm->rank, member, split);
  return comm->ops->split(comm, split, sub);
}

ls_status_t ls_comm_split(ls_comm_t *comm, int color, int key, const char *name, ls_comm_t **sub) {
  char text[LS_SPLIT_NAME_BYTES];
  if (!comm->ops->split) return none(comm);
  wish_t *wish = ls_alloc_array(comm->ctx, (size_t)comm->size + 1, sizeof *wish);
  int *member = ls_alloc_array(comm->ctx, (size_t)comm->size, sizeof *member);
  ls_split_t split = {.color = color, .key = key, .name = title(name, text), .member = member};
  ls_comm_t *made = NULL;
  ls_status_t status = ls_comm_agree(comm, text, wish && member ? LS_OK : LS_ERR_MEMORY);
  if (status == LS_OK) {
    status = join(comm, &split, wish, member, &made);
    status = conclude(comm, &split, name, status, made, sub);
  }
  ls_free(member);
  ls_free(wish);
  return status;
}
