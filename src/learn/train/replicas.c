/* Compares the parameters that all ranks hold alike. A rank whose memory or arithmetic went wrong is named before its
 * parameters reach a checkpoint. */
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

enum { HASH_BYTES = 33, NAMES_BYTES = 128 };
typedef char hash_t[HASH_BYTES];

/* The hash that most ranks have; NULL: no two agree, or two groups of the same size stand against each other. */
static const char *majority(const hash_t *hash, int size) {
  int most = 0, second = 0, best = 0;
  for (int i = 0; i < size; i++) {
    int count = 0;
    bool first = true;
    for (int k = 0; k < size; k++) {
      bool same = strcmp(hash[i], hash[k]) == 0;
      count += same;
      first = first && !(same && k < i);
    }
    if (!first) continue;
    if (count > most)
      second = most, most = count, best = i;
    else if (count > second)
      second = count;
  }
  return most > second && most > 1 ? hash[best] : NULL;
}

static ls_status_t judge(ls_trainer_t *t, const hash_t *hash) {
  const ls_comm_t *comm = t->world->comm;
  const char *right = majority(hash, comm->size);
  char names[NAMES_BYTES] = "";
  int others = 0;
  for (int r = 0; r < comm->size; r++) {
    if (strcmp(hash[r], right ? right : hash[0]) == 0) continue;
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%d", others++ ? ", " : "", r);
  }
  if (others == 0) return LS_OK;
  if (!right)
    return ls_fail(
        t->ctx, LS_ERR_DIFFER,
        "after step %lld the ranks' parameters differ, and no majority says whose are right: three "
        "ranks or more could tell; --resume goes on from the newest good checkpoint",
        (long long)t->step);
  if (strcmp(hash[comm->rank], right) == 0) return LS_ERR_COMM;
  return ls_fail(
      t->ctx, LS_ERR_DEVICE,
      "after step %lld the parameters of rank%s %s differ from those of the other ranks: memory or "
      "arithmetic of its device went wrong since the last comparison",
      (long long)t->step, others > 1 ? "s" : "", names);
}

ls_status_t ls_trainer_compare_replicas(ls_trainer_t *t) {
  ls_comm_t *comm = t->world->comm;
  if (comm->size == 1 || ls_ckpt_sharded(t->engine.table)) return LS_OK;
  hash_t own = "", *all = ls_alloc_array(t->ctx, (size_t)comm->size, sizeof *all);
  if (!all) return LS_ERR_MEMORY;
  ls_status_t status = ls_trainer_hash(t, own);
  if (status == LS_OK) status = ls_comm_gather(comm, "comparing replicas", own, sizeof own, all);
  if (status == LS_OK) status = judge(t, (const hash_t *)all);
  ls_page_fail(t->line, status);
  ls_free(all);
  return status;
}
