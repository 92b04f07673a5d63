/* One rank: every collective is at most a copy. */
#include "comm/host.h"

static ls_status_t copy(ls_host_channel_t *channel, const ls_collective_t *c) {
  (void)channel;
  if (c->kind != LS_BARRIER) ls_host_copy(c->recv, c->send, c->count * (int64_t)ls_dtype_bytes(c->dtype));
  return LS_OK;
}

static const ls_host_way_t way = {.execute = copy};

static void destroy(ls_comm_t *comm) {
  ls_host_release((ls_host_comm_t *)comm);
  ls_free(comm);
}

static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub) {
  ls_status_t status = how->size ? ls_comm_self_create(comm->ctx, sub) : LS_OK;
  if (status == LS_OK && how->size) (*sub)->deadline_ns = comm->deadline_ns;
  return status;
}

static const ls_comm_ops_t ops = {.name = "self", LS_HOST_OPS, .split = split, .destroy = destroy};

ls_status_t ls_comm_self_create(ls_ctx_t *ctx, ls_comm_t **comm) {
  ls_host_comm_t *host = ls_alloc(ctx, sizeof *host);
  if (!host) return LS_ERR_MEMORY;
  ls_status_t status = ls_host_init(host, &ops, ctx, 0, 1, 0);
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    host->channel[i].way = &way;
  if (status == LS_OK)
    *comm = &host->base;
  else
    destroy(&host->base);
  return status;
}
