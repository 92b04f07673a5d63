/* See worlds.h. */
#include "worlds.h"

#include <stdio.h>
#include <string.h>

enum { RANKS_MOST = 8, ALLOCATIONS_MOST = 100 };
static const int64_t short_ns = 200000000;
static const int all[RANKS_MOST] = {0, 1, 2, 3, 4, 5, 6, 7};

static const char *with_stream(ls_comm_t *comm, char *text,
                               const char *(*fn)(ls_comm_t *comm, ls_stream_t *stream, char *text)) {
  const ls_backend_t *backend = &ls_backend_ref;
  ls_device_t *device;
  ls_stream_t *stream;
  if (backend->device->open(comm->ctx, &(ls_device_options_t){.threads = 1}, &device) != LS_OK)
    return "device";
  if (backend->stream->create(device, LS_STREAM_ASYNC, &stream) != LS_OK) return "stream";
  const char *wrong = fn(comm, stream, text);
  backend->stream->destroy(stream);
  backend->device->close(device);
  return wrong;
}

const char *world_sums(ls_comm_t *comm, char *text) {
  const char *wrong = cases_run(comm, NULL, text);
  if (!wrong) wrong = cases_bits(comm, text);
  return wrong ? wrong : with_stream(comm, text, cases_run);
}

const char *world_overlap(ls_comm_t *comm, char *text) {
  return with_stream(comm, text, cases_overlap);
}

const char *world_groups(ls_comm_t *comm, char *text) {
  return with_stream(comm, text, cases_groups);
}

const char *world_agreement(ls_comm_t *comm, char *text) {
  (void)text;
  const int bad = comm->size - 1;
  if (ls_comm_agree(comm, "start", comm->rank == bad ? LS_ERR_DATA : LS_OK) != LS_ERR_DATA)
    return "not the cause, at every rank";
  if (comm->rank != bad && !strstr(ls_ctx_error(comm->ctx), "has failed")) return "no word of it";
  ls_ctx_clear(comm->ctx);
  return ls_comm_agree(comm, "go on", LS_OK) == LS_OK ? NULL : "it does not go on";
}

static ls_status_t sum(ls_comm_t *comm) {
  float x[8] = {0};
  const ls_collective_t c = {.kind = LS_ALL_REDUCE, .name = "gradients 3", .send = x, .recv = x, .count = 8};
  return comm->ops->run(comm, &c);
}

const char *world_late_member(ls_comm_t *comm, char *text) {
  (void)text;
  ls_comm_t *group = NULL;
  const char *wrong = NULL;
  if (ls_comm_group(comm, "tail", all + 1, comm->size - 1, &group) != LS_OK) return "no group";
  if (group && group->rank < group->size - 1) {
    group->deadline_ns = short_ns;
    if (sum(group) != LS_ERR_TIMEOUT) wrong = "nobody is late";
    if (!strstr(ls_ctx_error(comm->ctx), "of group \"tail\", step 0, all-reduce \"gradients 3\""))
      wrong = "other words";
    ls_ctx_clear(comm->ctx);
  }
  if (sum(comm) != LS_OK) wrong = "the ranks do not go on";
  if (group && group->size > 1) group->broken = true;
  ls_comm_destroy(group);
  return wrong;
}

const char *world_late_rank(ls_comm_t *comm, char *text) {
  const int absent = comm->size - 1;
  char late[64];
  ls_comm_set_step(comm, 7);
  comm->deadline_ns = short_ns;
  if (comm->size == 1 || comm->rank == absent) return NULL;
  if (sum(comm) != LS_ERR_TIMEOUT) return "nobody is late";
  snprintf(text, CASES_TEXT_BYTES, "%s", ls_ctx_error(comm->ctx));
  snprintf(late, sizeof late, "rank %d did not ", absent);
  if (!strstr(text, "step 7, all-reduce \"gradients 3\"") || (comm->size == 2 && !strstr(text, late)))
    return text;
  const bool broken = sum(comm) == LS_ERR_COMM && comm->ops->poll(comm) == LS_ERR_COMM;
  return broken && ls_ctx_error_count(comm->ctx) == 1 ? NULL : "it goes on after a timeout";
}

const char *world_allocations(ls_comm_t *comm, char *text) {
  (void)text;
  ls_comm_t *group = NULL;
  ls_status_t status = LS_ERR_MEMORY;
  for (int n = 1; status != LS_OK; n++) {
    if (n > ALLOCATIONS_MOST) return "a group is never made";
    ls_ctx_fail_alloc(comm->ctx, comm->rank == 0 ? n : 0);
    status = ls_comm_group(comm, "all", all, comm->size, &group);
    ls_ctx_fail_alloc(comm->ctx, 0);
    if (ls_comm_barrier(comm, "still whole") != LS_OK) return "the ranks have lost each other";
    if ((status == LS_OK) != (group != NULL)) return "a group beside an error";
    if (status != LS_OK && status != LS_ERR_COMM && status != LS_ERR_MEMORY) return "another error";
  }
  ls_comm_destroy(group);
  return NULL;
}
