/* A transport: every rank gets what all ranks have, over the communicator that the ranks were started with, and adds
 * it up itself, in rank order. What is no sum goes that way as it is. */
#include "comm/host.h"
#include "toy.h"

typedef struct {
  ls_collective_t gather; /* over the control communicator */
  const ls_collective_t *c;
  void *all; /* NULL: nothing is to be added up */
} relayed_t;

typedef struct {
  ls_comm_t base;
  ls_comm_t *control;
  relayed_t **bound;
  int count;
} relay_t;

static ls_status_t bind(ls_comm_t *comm, ls_collective_t *c) {
  relay_t *relay = (relay_t *)comm;
  relayed_t **bound = ls_alloc_array(comm->ctx, (size_t)relay->count + 1, sizeof *bound);
  if (!bound) return LS_ERR_MEMORY;
  if (relay->count) memcpy(bound, relay->bound, (size_t)relay->count * sizeof *bound);
  ls_free(relay->bound);
  relay->bound = bound;
  relayed_t *r = bound[relay->count] = ls_alloc(comm->ctx, sizeof *r);
  if (!r) return LS_ERR_MEMORY;
  c->number = (uint32_t)relay->count++;
  r->c = c;
  r->gather = *c;
  if (c->kind == LS_ALL_REDUCE || c->kind == LS_REDUCE_SCATTER) {
    r->gather.kind = LS_ALL_GATHER;
    if (c->kind == LS_REDUCE_SCATTER) r->gather.count *= comm->size;
    ls_shape_t all = LS_SHAPE(c->dtype, comm->size, r->gather.count);
    r->all = r->gather.recv = ls_alloc(comm->ctx, ls_shape_bytes(&all));
    if (!r->all) return LS_ERR_MEMORY;
  }
  return ls_comm_bind(relay->control, &r->gather);
}

static ls_status_t add_up(void *arg) {
  const relayed_t *r = arg;
  const ls_comm_t *comm = r->c->comm;
  const ls_shape_t one = LS_SHAPE(r->c->dtype, 1), each = LS_SHAPE(r->c->dtype, r->gather.count);
  const char *all = r->all;
  const void *in[64];
  int64_t first = r->c->kind == LS_REDUCE_SCATTER ? comm->rank * r->c->count : 0;
  for (int i = 0; i < comm->size; i++)
    in[i] = all + (size_t)i * ls_shape_bytes(&each) + (size_t)first * ls_shape_bytes(&one);
  ls_comm_sum(r->c->dtype, r->c->recv, NULL, in, comm->size, r->c->count);
  return LS_OK;
}

static ls_status_t enqueue(ls_stream_t *stream, ls_collective_t *c) {
  relayed_t *r = ((relay_t *)c->comm)->bound[c->number];
  ls_status_t status = ls_comm_enqueue(stream, &r->gather);
  return status == LS_OK && r->all ? stream->device->backend->stream->call(stream, add_up, r) : status;
}

static ls_status_t run(ls_comm_t *comm, const ls_collective_t *c) {
  ls_comm_t *control = ((relay_t *)comm)->control;
  return control->ops->run(control, c);
}

static ls_status_t poll(ls_comm_t *comm) {
  ls_comm_t *control = ((relay_t *)comm)->control;
  return control->ops->poll(control);
}

static void destroy(ls_comm_t *comm) {
  relay_t *relay = (relay_t *)comm;
  for (int i = 0; i < relay->count; i++) {
    ls_free(relay->bound[i]->all);
    ls_free(relay->bound[i]);
  }
  ls_free(relay->bound);
  ls_free(relay);
}

static ls_status_t create(ls_ctx_t *ctx, ls_device_t *device, ls_comm_t *control, int64_t deadline_ns,
                          ls_comm_t **comm) {
  static const ls_comm_ops_t ops = {
      .name = TOY_TRANSPORT, .bind = bind, .enqueue = enqueue, .run = run, .poll = poll, .destroy = destroy};
  (void)device;
  relay_t *relay = ls_alloc(ctx, sizeof *relay);
  if (!relay) return LS_ERR_MEMORY;
  relay->base = *control;
  relay->base.ops = &ops;
  relay->base.deadline_ns = deadline_ns;
  relay->control = control;
  *comm = &relay->base;
  return LS_OK;
}

static const ls_transport_t transport = {
    .name = TOY_TRANSPORT, .help = "every rank gets everything and adds it up", .create = create};

__attribute__((constructor)) static void add(void) {
  ls_transport_register(&transport);
}
