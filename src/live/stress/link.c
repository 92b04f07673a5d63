/* Transfers between ranks through the transport that training uses: each ordered pair alone, then an all-reduce of all.
 * The time is the receiver's, from a barrier on. */
#include "comm/transport.h"
#include "stress/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HOST_BYTES = 16 << 20, DEVICE_BYTES = 64 << 20, REPEATS = 3, PLANTED_TIMES = 8, NUMBERS = 4096 };

typedef struct {
  double ns; /* the quickest; 0 = none yet */
  int64_t count, wrong;
} seen_t;

struct ls_links {
  ls_ctx_t *ctx;
  ls_comm_t *control, *comm; /* comm: carries the device's memory; may be control */
  ls_device_t *device;
  const ls_backend_t *backend;
  ls_stream_t *stream;
  ls_event_t *from, *to;
  void *out, *in; /* of the device, `bytes` each */
  uint32_t *host; /* pinned */
  int64_t bytes, round;
  const ls_stress_options_t *options;
  ls_comm_t **group;                 /* [size]: this rank and that one */
  ls_collective_t *send, *recv, all; /* [size]: to and from each rank */
  seen_t *seen;                      /* [ls_links_count]: of the pairs that this rank receives */
};

int ls_links_count(int ranks) {
  return ranks > 1 ? ranks * (ranks - 1) + 1 : 0;
}

/* Row of the pair; the all-reduce has the last. */
static int row_of(int from, int to, int ranks) {
  return from * (ranks - 1) + to - (to > from);
}

/* ---- data ---- */

static uint32_t word(int64_t i, int rank, int64_t round) {
  return (uint32_t)(i + 1) * 2654435761u + (uint32_t)rank * 40503u + (uint32_t)round * 97u;
}

/* Whole numbers whose sums over ranks are exact. */
static float number(int64_t i, int rank, int64_t round) {
  return (float)((i + 7 * rank + 13 * round) % NUMBERS);
}

static ls_status_t copy(ls_links_t *l, void *to, const void *from) {
  ls_status_t status = l->backend->stream->copy(l->stream, to, from, (size_t)l->bytes);
  return status == LS_OK ? l->backend->stream->sync(l->stream, l->control->deadline_ns) : status;
}

static ls_status_t put(ls_links_t *l, bool numbers) {
  const int rank = l->control->rank;
  for (int64_t i = 0; i < l->bytes / 4; i++) {
    float value = number(i, rank, l->round);
    if (numbers)
      memcpy(&l->host[i], &value, sizeof value);
    else
      l->host[i] = word(i, rank, l->round);
  }
  return copy(l, l->out, l->host);
}

static ls_status_t check(ls_links_t *l, int from, bool plant, seen_t *seen) {
  int64_t wrong = 0;
  ls_status_t status = copy(l, l->host, l->in);
  if (status != LS_OK) return status;
  if (plant) l->host[l->bytes / 8] ^= 1u << 3;
  for (int64_t i = 0; i < l->bytes / 4; i++) {
    float sum = 0, got;
    if (from >= 0) {
      wrong += l->host[i] != word(i, from, l->round);
      continue;
    }
    for (int r = 0; r < l->control->size; r++)
      sum += number(i, r, l->round);
    memcpy(&got, &l->host[i], sizeof got);
    wrong += got != sum;
  }
  seen->wrong += wrong > 0;
  return LS_OK;
}

/* ---- transfers ---- */

static ls_status_t timed(ls_links_t *l, ls_collective_t *c, int times, int64_t *ns) {
  const ls_stream_ops_t *stream = l->backend->stream;
  ls_status_t status = ls_comm_barrier(l->control, "stress");
  const int64_t begin = ls_clock_ns();
  if (!c) return status;
  if (status == LS_OK) status = stream->record(l->stream, l->from);
  for (int i = 0; i < times && status == LS_OK; i++)
    status = ls_comm_enqueue(l->stream, c);
  if (status == LS_OK) status = stream->record(l->stream, l->to);
  if (status == LS_OK) status = stream->sync(l->stream, l->control->deadline_ns);
  *ns = ls_clock_ns() - begin;
  return status == LS_OK && !l->backend->synchronous ? stream->elapsed(l->from, l->to, ns) : status;
}

static void keep(seen_t *seen, int64_t ns) {
  if (seen->count++ == 0 || (double)ns < seen->ns) seen->ns = (double)ns;
}

static ls_status_t pair(ls_links_t *l, int from, int to) {
  const ls_plant_t *p = &l->options->plant;
  const int rank = l->control->rank;
  bool planted = p->a == from && p->b == to;
  int times = planted && p->kind == LS_PLANT_LINK ? PLANTED_TIMES : 1;
  ls_collective_t *c = rank == from ? &l->send[to] : rank == to ? &l->recv[from] : NULL;
  seen_t *seen = &l->seen[row_of(from, to, l->control->size)];
  ls_status_t status = LS_OK;
  for (int i = 0; i < REPEATS && status == LS_OK; i++) {
    int64_t ns = 0;
    status = timed(l, c, times, &ns);
    if (status == LS_OK && rank == to) keep(seen, ns);
  }
  if (status != LS_OK || rank != to) return status;
  return check(l, from, planted && p->kind == LS_PLANT_TRANSFER && l->round == 1, seen);
}

ls_status_t ls_links_round(ls_links_t *l) {
  const int size = l->control->size;
  seen_t *all = &l->seen[ls_links_count(size) - 1];
  int64_t ns;
  l->round++;
  ls_status_t status = put(l, false);
  for (int i = 0; i < size && status == LS_OK; i++)
    for (int j = 0; j < size && status == LS_OK; j++)
      if (i != j) status = pair(l, i, j);
  if (status == LS_OK) status = put(l, true);
  if (status == LS_OK) status = timed(l, &l->all, 1, &ns);
  if (status != LS_OK) return status;
  keep(all, ns);
  return check(l, -1, false, all);
}

/* ---- the whole ---- */

static ls_status_t bind(ls_links_t *l) {
  const int rank = l->control->rank;
  ls_status_t status = LS_OK;
  for (int r = 0; r < l->control->size && status == LS_OK; r++) {
    if (r == rank) continue;
    const ls_collective_t c = {
        .name = "stress", .send = l->out, .recv = l->in, .count = l->bytes / 4, .dtype = LS_F32};
    l->send[r] = l->recv[r] = c;
    l->send[r].kind = LS_SEND;
    l->recv[r].kind = LS_RECV;
    status = ls_comm_bind(l->group[r], &l->send[r]);
    if (status == LS_OK) status = ls_comm_bind(l->group[r], &l->recv[r]);
  }
  l->all = (ls_collective_t){.kind = LS_ALL_REDUCE,
                             .name = "stress",
                             .send = l->out,
                             .recv = l->in,
                             .count = l->bytes / 4,
                             .dtype = LS_F32};
  return status == LS_OK ? ls_comm_bind(l->comm, &l->all) : status;
}

/* A group for each pair. Collective. */
static ls_status_t groups(ls_links_t *l) {
  const int size = l->control->size, rank = l->control->rank;
  ls_status_t status = LS_OK;
  for (int i = 0; i < size; i++)
    for (int j = i + 1; j < size && status == LS_OK; j++) {
      char name[LS_SPLIT_NAME_BYTES];
      ls_comm_t *sub;
      snprintf(name, sizeof name, "pair %d-%d", i, j);
      status = ls_comm_group(l->comm, name, (const int[]){i, j}, 2, &sub);
      if (status == LS_OK && sub) l->group[rank == i ? j : i] = sub;
    }
  return status;
}

static ls_status_t prepare(ls_links_t *l) {
  const ls_backend_t *b = l->backend;
  const size_t size = (size_t)l->control->size, bytes = (size_t)l->bytes;
  l->group = ls_alloc_array(l->ctx, size, sizeof(ls_comm_t *));
  l->send = ls_alloc_array(l->ctx, size, sizeof *l->send);
  l->recv = ls_alloc_array(l->ctx, size, sizeof *l->recv);
  l->seen = ls_alloc_array(l->ctx, (size_t)ls_links_count((int)size), sizeof *l->seen);
  if (!l->group || !l->send || !l->recv || !l->seen) return LS_ERR_MEMORY;
  ls_status_t status = b->stream->create(l->device, LS_STREAM_INLINE, &l->stream);
  if (status == LS_OK) status = b->stream->event_create(l->device, true, &l->from);
  if (status == LS_OK) status = b->stream->event_create(l->device, true, &l->to);
  if (status == LS_OK) status = b->buffer->alloc(l->device, LS_MEM_DEVICE, bytes, &l->out);
  if (status == LS_OK) status = b->buffer->alloc(l->device, LS_MEM_DEVICE, bytes, &l->in);
  if (status == LS_OK) status = b->buffer->alloc(l->device, LS_MEM_HOST, bytes, (void **)&l->host);
  return status;
}

ls_status_t ls_links_open(ls_ctx_t *ctx, ls_comm_t *control, ls_device_t *device,
                          const ls_stress_options_t *o, ls_links_t **out) {
  ls_links_t *l = ls_alloc(ctx, sizeof *l);
  ls_status_t status = l ? LS_OK : LS_ERR_MEMORY;
  if (l) {
    *l = (ls_links_t){
        .ctx = ctx, .control = control, .device = device, .backend = device->backend, .options = o};
    l->bytes = device->backend->host_memory ? HOST_BYTES : DEVICE_BYTES;
    status = prepare(l);
  }
  status = ls_comm_agree(control, "stress: transfers", status);
  if (status == LS_OK) status = ls_transport_connect(ctx, o->transport, device, control, &l->comm);
  if (status == LS_OK) status = groups(l);
  if (status == LS_OK) status = ls_comm_agree(control, "stress: transfers", bind(l));
  if (status == LS_OK)
    *out = l;
  else
    ls_links_close(l);
  return status;
}

void ls_links_close(ls_links_t *l) {
  if (!l) return;
  const ls_backend_t *b = l->backend;
  for (int r = 0; l->group && r < l->control->size; r++)
    ls_comm_destroy(l->group[r]);
  ls_free(l->group);
  if (l->comm != l->control) ls_comm_destroy(l->comm);
  if (l->from) b->stream->event_destroy(l->from);
  if (l->to) b->stream->event_destroy(l->to);
  if (l->stream) b->stream->destroy(l->stream);
  b->buffer->free(l->device, LS_MEM_DEVICE, l->out);
  b->buffer->free(l->device, LS_MEM_DEVICE, l->in);
  b->buffer->free(l->device, LS_MEM_HOST, l->host);
  ls_free(l->send);
  ls_free(l->recv);
  ls_free(l->seen);
  ls_free(l);
}

/* A transfer is what a broadcast between two ranks is. */
static double wanted(const ls_links_t *l, ls_collective_kind_t kind, int ranks) {
  char key[LS_PROFILE_KEY_BYTES], transport[LS_TRANSPORT_KEY_BYTES];
  const ls_transport_t *t = strcmp(l->options->transport, "auto") ? ls_transport_find(l->options->transport)
                                                                  : ls_transport_default(l->backend);
  ls_time_t time;
  if (!l->options->profile || !t) return NAN;
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, ls_transport_key(t, transport),
                                         ls_collective_name(kind), ranks, 0});
  return ls_profile_interpolate(l->options->profile, key, (double)l->bytes, &time) ? time.ns : (double)NAN;
}

ls_status_t ls_links_report(ls_links_t *l, ls_stress_link_t *list) {
  const int size = l->control->size, count = ls_links_count(size);
  seen_t *all = ls_alloc_array(l->ctx, (size_t)(count * size), sizeof *all);
  ls_status_t status = ls_comm_agree(l->control, "stress: results", all ? LS_OK : LS_ERR_MEMORY);
  if (status == LS_OK)
    status =
        ls_comm_gather(l->control, "stress: results", l->seen, (int64_t)((size_t)count * sizeof *all), all);
  for (int i = 0; i < size && status == LS_OK; i++)
    for (int j = 0; j < size; j++) {
      if (i == j) continue;
      const int row = row_of(i, j, size);
      const seen_t *s = &all[j * count + row];
      double want = wanted(l, LS_BROADCAST, 2);
      list[row] =
          (ls_stress_link_t){i, j, (double)l->bytes, s->ns, want, !isnan(want), s->count, s->wrong, LS_SOUND};
    }
  if (status == LS_OK) {
    seen_t s = all[count - 1];
    for (int r = 1; r < size; r++) {
      const seen_t *other = &all[r * count + count - 1];
      s.ns = fmax(s.ns, other->ns);
      s.wrong += other->wrong;
    }
    double want = wanted(l, LS_ALL_REDUCE, size);
    list[count - 1] =
        (ls_stress_link_t){-1, -1, (double)l->bytes, s.ns, want, !isnan(want), s.count, s.wrong, LS_SOUND};
  }
  ls_free(all);
  return status;
}
