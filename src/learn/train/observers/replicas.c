/* Compares the parameters that all ranks hold alike. A rank whose memory or arithmetic went wrong is named before its
 * parameters reach a checkpoint. */
#include "train/observers/observers.h"

#include <stdio.h>
#include <string.h>

enum { HASH_BYTES = 33, NAMES_BYTES = 128 };
typedef char hash_t[HASH_BYTES];

typedef struct {
  ls_trainer_t *t;
  int64_t compared; /* after this step; -1: never */
} own_t;

static bool wanted(const ls_trainer_t *t) {
  return t->training && t->world->comm->size > 1 && t->config->train.replica_steps > 0;
}

static ls_status_t begin(void *own, const ls_loop_t *loop) {
  (void)loop;
  ((own_t *)own)->compared = -1;
  return LS_OK;
}

static bool due(void *own, int64_t step) {
  const own_t *o = own;
  return step % o->t->config->train.replica_steps == 0;
}

/* The hash that most ranks have. NULL: no two agree, or the two largest groups are of the same size. */
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

/* LS_ERR_DEVICE on the ranks whose parameters differ from those of most (reported by them), LS_ERR_COMM on the others;
 * LS_ERR_DIFFER on all (reported) where no majority agrees. */
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
        (long long)t->run.step);
  if (strcmp(hash[comm->rank], right) == 0) return LS_ERR_COMM;
  return ls_fail(
      t->ctx, LS_ERR_DEVICE,
      "after step %lld the parameters of rank%s %s differ from those of the other ranks: memory or "
      "arithmetic of its device went wrong since the last comparison",
      (long long)t->run.step, others > 1 ? "s" : "", names);
}

static ls_status_t check(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  ls_trainer_t *t = loop->t;
  ls_comm_t *comm = t->world->comm;
  if (o->compared == t->run.step || t->engine.table->row[LS_STATE_PARAMETERS].owner != LS_STATE_REPLICATED)
    return LS_OK;
  o->compared = t->run.step;
  hash_t hash = "", *all = ls_alloc_array(t->ctx, (size_t)comm->size, sizeof *all);
  if (!all) return LS_ERR_MEMORY;
  ls_status_t status = ls_trainer_hash(t, hash);
  if (status == LS_OK) status = ls_comm_gather(comm, "comparing replicas", hash, sizeof hash, all);
  if (status == LS_OK) status = judge(t, (const hash_t *)all);
  ls_trainer_failed(t, status);
  ls_free(all);
  return status;
}

const ls_observer_t ls_observer_replicas = {.name = "replicas",
                                            .own_bytes = sizeof(own_t),
                                            .wanted = wanted,
                                            .begin = begin,
                                            .due = due,
                                            .check = check};
