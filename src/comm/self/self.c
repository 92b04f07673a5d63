/* One rank: every collective is at most a copy. */
#include "comm/host.h"

#include <string.h>

static ls_status_t execute(ls_host_comm_t *host, ls_channel_t channel, const ls_collective_t *c) {
  (void)host;
  (void)channel;
  if (c->kind != LS_BARRIER && c->count > 0)
    memmove(c->recv, c->send, (size_t)c->count * ls_dtype_bytes(c->dtype));
  return LS_OK;
}

static void destroy(ls_comm_t *comm) {
  ls_host_release((ls_host_comm_t *)comm);
  ls_free(comm);
}

static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub);

static const ls_comm_ops_t ops = {.name = "self",
                                  .enqueue = ls_host_enqueue,
                                  .run = ls_host_run,
                                  .poll = ls_host_poll,
                                  .split = split,
                                  .destroy = destroy};

static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub) {
  ls_status_t status = how->size ? ls_comm_self_create(comm->ctx, sub) : LS_OK;
  if (status == LS_OK && how->size) (*sub)->deadline_ns = comm->deadline_ns;
  return status;
}

ls_status_t ls_comm_self_create(ls_ctx_t *ctx, ls_comm_t **comm) {
  ls_host_comm_t *host = ls_alloc(ctx, sizeof *host);
  if (!host) return LS_ERR_MEMORY;
  ls_host_init(host, &ops, ctx, 0, 1, 0, execute);
  *comm = &host->base;
  return LS_OK;
}
