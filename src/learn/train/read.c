/* Reads the data once per node: the first rank of each node reads and parses, the others map its samples. While
 * a rank reads, all ranks meet again and again, so that no wait is longer than the deadline however long reading
 * takes. */
#include "train/trainer.h"

#include "base/process.h"
#include "base/signals.h"
#include "base/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS_PER_DEADLINE = 4 };

typedef struct {
  ls_ctx_t *ctx;
  const ls_train_source_t *source;
  ls_dataset_t *dataset;
  ls_status_t status;
  ls_signal_t done; /* once: the two above are written */
} reading_t;

static void *read_now(void *arg) {
  reading_t *r = arg;
  const ls_train_source_t *s = r->source;
  r->status = ls_dataset_open(r->ctx, s->config, s->memory, &s->want, s->seed, s->norm, &r->dataset);
  ls_signal_add(&r->done);
  return NULL;
}

/* The ranks that `read` do so, and all wait for them. Collective. */
static ls_status_t read_and_meet(ls_trainer_t *t, const ls_train_source_t *source, bool reads) {
  ls_comm_t *comm = t->world->comm;
  reading_t r = {.ctx = t->ctx, .source = source};
  pthread_t thread;
  bool beside = reads && ls_signals_thread(&thread, "ls reader", read_now, &r) == 0;
  if (reads && !beside) read_now(&r);
  ls_status_t met;
  double ready;
  do {
    ready = !reads || ls_signal_sleep(&r.done, 1, comm->deadline_ns / ROUNDS_PER_DEADLINE);
    met = ls_comm_sum_f64(comm, "reading the data", &ready, 1);
  } while (met == LS_OK && ready < comm->size);
  if (beside) pthread_join(thread, NULL);
  if (reads) t->dataset = r.dataset;
  return met == LS_OK ? ls_comm_agree_silently(comm, "reading the data", r.status) : met;
}

/* Every rank tells the others this. */
typedef struct {
  int64_t node, process, fd;
  char data[1024]; /* that it is to read, for comparison */
} given_t;

/* Files with their sizes, or the samples in memory. */
static void describe(const ls_train_source_t *source, char *text, size_t size) {
  const ls_data_config_t *c = source->config;
  const char *const files[] = {c->features,           c->targets,        c->path, c->validation_features,
                               c->validation_targets, c->validation_path};
  const ls_data_memory_t *m = source->memory;
  size_t used = 0;
  text[0] = '\0';
  if (m) snprintf(text, size, "%" PRId64 " samples of %" PRId64 " features in memory", m->rows, m->inputs);
  for (int i = 0; !m && i < LS_COUNT(files) && used < size; i++) {
    struct stat file = {0};
    if (!files[i]) continue;
    bool there = stat(files[i], &file) == 0;
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", files[i]);
    if (there && used < size)
      used += (size_t)snprintf(text + used, size - used, " (%lld bytes)", (long long)file.st_size);
  }
}

/* One copy serves all ranks of a node, so all have to mean the same data. */
static ls_status_t check_same(const ls_trainer_t *t, const given_t *all, int first) {
  const char *own = all[t->world->comm->rank].data;
  if (!strcmp(own, all[first].data)) return LS_OK;
  return ls_fail(
      t->ctx, LS_ERR_CONFIG,
      "this rank is to read %s, but rank %d on the same node reads %s; ranks of a node share one copy "
      "of the samples: give all of them the same data",
      own, first, all[first].data);
}

/* The first rank that is on this rank's node, and how many are. */
static int first_of_node(const ls_comm_t *comm, const given_t *all, int *count) {
  int first = comm->rank;
  *count = 0;
  for (int r = comm->size - 1; r >= 0; r--)
    if (all[r].node == all[comm->rank].node) {
      first = r;
      ++*count;
    }
  return first;
}

/* Finds the first rank's samples. False: this process may not look into that one. */
static bool find(ls_trainer_t *t, const given_t *given, char path[64]) {
  if (given->fd < 0) return false; /* it has said so */
  snprintf(path, 64, "/proc/%" PRId64 "/fd/%" PRId64, given->process, given->fd);
  if (access(path, R_OK) == 0) return true;
  ls_log(t->ctx, LS_LOG_WARN,
         "rank %d reads the samples for itself and keeps a copy: those of process %" PRId64
         " cannot be reached",
         t->world->comm->rank, given->process);
  return false;
}

static ls_status_t share(ls_trainer_t *t, const ls_train_source_t *source, int first, given_t *all) {
  ls_comm_t *comm = t->world->comm;
  bool reads = first == comm->rank;
  char path[64];
  int fd = -1;
  ls_status_t status = LS_OK;
  if (reads && t->sharing > 1) status = ls_dataset_share(t->ctx, t->dataset, &fd);
  const given_t mine = {.process = getpid(), .fd = fd};
  status = ls_comm_agree_silently(comm, "sharing the samples", status);
  if (status == LS_OK) status = ls_comm_gather(comm, "shared samples", &mine, sizeof mine, all);
  bool found = status == LS_OK && !reads && find(t, &all[first], path);
  if (found) status = ls_dataset_map(t->ctx, path, &t->dataset);
  double alone = !reads && !found;
  status = ls_comm_agree(comm, "mapping the samples", status); /* all have them open */
  if (fd >= 0) close(fd);
  if (fd < 0 && reads) t->sharing = 1;
  if (alone > 0) t->sharing = 1;
  if (status == LS_OK) status = ls_comm_sum_f64(comm, "own samples", &alone, 1);
  if (status != LS_OK || alone == 0) return status;
  return read_and_meet(t, source, !reads && !found);
}

ls_status_t ls_trainer_read(ls_trainer_t *t, const ls_train_source_t *source, ls_status_t status) {
  ls_comm_t *comm = t->world->comm;
  t->sharing = 1;
  if (comm->size == 1)
    return status == LS_OK ? ls_dataset_open(t->ctx, source->config, source->memory, &source->want,
                                             source->seed, source->norm, &t->dataset)
                           : status;
  given_t *all = ls_alloc_array(t->ctx, (size_t)comm->size, sizeof *all), mine = {0};
  int first = 0;
  mine.node = ls_process_node(comm->rank);
  describe(source, mine.data, sizeof mine.data);
  if (status == LS_OK && !all) status = LS_ERR_MEMORY;
  status = ls_comm_agree(comm, "before reading the data", status);
  if (status == LS_OK) status = ls_comm_gather(comm, "nodes", &mine, sizeof mine, all);
  if (status == LS_OK) first = first_of_node(comm, all, &t->sharing);
  if (status == LS_OK) status = ls_comm_agree(comm, "comparing the data", check_same(t, all, first));
  if (status == LS_OK) status = read_and_meet(t, source, first == comm->rank);
  if (status == LS_OK) status = share(t, source, first, all);
  ls_free(all);
  return status;
}
