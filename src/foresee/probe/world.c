/* Curves of collectives. All ranks walk the same list of points in the same order. The time of a point is the
 * slowest rank's, so starts and ends are sent to all ranks, which then make the same decisions. */
#include "probe/probe.h"
#include "probe/samples.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
  SIZE_MIN = 64,
  SIZE_MAX_BYTES = 64 << 20,
  SIZE_STEP = 4,
  SIZES = 11, /* 64 B, 256 B, .. 64 MB */
  KINDS = 4,
  POINTS = SIZES * KINDS,
  REPEATS_MAX = 32,
  LARGE_BYTES = 2 << 20, /* larger ones are measured in one round of LARGE_EVERY */
  LARGE_EVERY = 4,
  ROUNDS_MIN = 2 * LARGE_EVERY + 1,
  ROUNDS_MAX = LS_SAMPLES_MAX
};
static const double sample_ns = 300e3; /* time up to which short ones are repeated */
static const ls_collective_kind_t kinds[KINDS] = {LS_ALL_REDUCE, LS_REDUCE_SCATTER, LS_ALL_GATHER,
                                                  LS_BROADCAST};

typedef struct {
  ls_collective_t c;
  double bytes; /* as nccl-tests counts: the larger of the whole result and the whole input */
  int repeats;
  ls_exec_t *exec;
  ls_samples_t samples;
} point_t;

typedef struct {
  ls_ctx_t *ctx;
  ls_comm_t *control, *comm;
  ls_device_t *device;
  const ls_backend_t *backend;
  ls_stream_t *stream;
  ls_event_t *from, *to;
  void *whole, *part; /* SIZE_MAX_BYTES each, zeros: sums stay zero */
  point_t *points;
  int64_t *span;  /* (POINTS, 2) start and end on this rank */
  int64_t *spans; /* (ranks, POINTS, 2) */
} world_t;

/* Counts are multiples of the number of ranks where parts are scattered or gathered. */
static ls_status_t points_fill(world_t *w) {
  const int size = w->comm->size;
  ls_status_t status = LS_OK;
  for (int k = 0; k < KINDS; k++)
    for (int i = 0; i < SIZES && status == LS_OK; i++) {
      point_t *p = &w->points[k * SIZES + i];
      int64_t whole = (int64_t)SIZE_MIN << (2 * i) >> 2; /* elements of 4 bytes */
      int64_t part = whole / size > 0 ? whole / size : 1;
      bool parts = kinds[k] == LS_REDUCE_SCATTER || kinds[k] == LS_ALL_GATHER;
      p->bytes = 4.0 * (double)(parts ? part * size : whole);
      p->repeats = 1;
      p->c = (ls_collective_t){
          .kind = kinds[k], .name = "probe", .count = parts ? part : whole, .dtype = LS_F32};
      p->c.send = kinds[k] == LS_ALL_GATHER ? w->part : w->whole;
      p->c.recv = kinds[k] == LS_REDUCE_SCATTER ? w->part : w->whole;
      status = ls_comm_bind(w->comm, &p->c);
    }
  return status;
}

static void world_release(world_t *w) {
  const ls_backend_t *b = w->backend;
  for (int i = 0; w->points && i < POINTS; i++)
    if (w->points[i].exec) b->capture->destroy(w->points[i].exec);
  if (w->from) b->stream->event_destroy(w->from);
  if (w->to) b->stream->event_destroy(w->to);
  if (w->whole) b->buffer->free(w->device, LS_MEM_DEVICE, w->whole);
  if (w->part) b->buffer->free(w->device, LS_MEM_DEVICE, w->part);
  if (w->stream) b->stream->destroy(w->stream);
  ls_free(w->points);
  ls_free(w->span);
  ls_free(w->spans);
}

static ls_status_t world_prepare(world_t *w) {
  const ls_backend_t *b = w->backend;
  const size_t cells = (size_t)POINTS * 2, bytes = SIZE_MAX_BYTES + 4 * (size_t)w->comm->size;
  w->points = ls_alloc_array(w->ctx, POINTS, sizeof *w->points);
  w->span = ls_alloc_array(w->ctx, cells, sizeof *w->span);
  w->spans = ls_alloc_array(w->ctx, cells * (size_t)w->comm->size, sizeof *w->spans);
  if (!w->points || !w->span || !w->spans) return LS_ERR_MEMORY;
  ls_status_t status = b->stream->create(w->device, LS_STREAM_INLINE, &w->stream);
  if (status == LS_OK) status = b->stream->event_create(w->device, true, &w->from);
  if (status == LS_OK) status = b->stream->event_create(w->device, true, &w->to);
  if (status == LS_OK) status = b->buffer->alloc(w->device, LS_MEM_DEVICE, bytes, &w->whole);
  if (status == LS_OK) status = b->buffer->alloc(w->device, LS_MEM_DEVICE, bytes, &w->part);
  if (status == LS_OK) status = points_fill(w);
  return status;
}

static ls_status_t enqueue(world_t *w, point_t *p) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < p->repeats && status == LS_OK; i++)
    status = ls_comm_enqueue(w->stream, &p->c);
  return status;
}

static ls_status_t capture(world_t *w, point_t *p) {
  if (p->exec) w->backend->capture->destroy(p->exec);
  p->exec = NULL;
  ls_status_t status = w->backend->capture->begin(w->stream);
  if (status != LS_OK) return status;
  status = enqueue(w, p);
  ls_status_t end = w->backend->capture->end(w->stream, &p->exec); /* in any case: it must not stay open */
  return status != LS_OK ? status : end;
}

/* Start and end on this rank: by the host's clock, and on a device of its own by events there. */
static ls_status_t once(world_t *w, point_t *p, int64_t span[2]) {
  const ls_stream_ops_t *stream = w->backend->stream;
  ls_status_t status = ls_comm_barrier(w->control, "probe");
  span[0] = ls_clock_ns();
  if (status == LS_OK && !w->backend->synchronous) status = stream->record(w->stream, w->from);
  if (status == LS_OK) status = p->exec ? w->backend->capture->launch(p->exec, w->stream) : enqueue(w, p);
  if (status == LS_OK && !w->backend->synchronous) status = stream->record(w->stream, w->to);
  if (status == LS_OK) status = stream->sync(w->stream, w->comm->deadline_ns);
  span[1] = ls_clock_ns();
  if (status != LS_OK || w->backend->synchronous) return status;
  span[0] = 0;
  return stream->elapsed(w->from, w->to, &span[1]);
}

/* The slowest rank's time per collective. Ranks of one node share the clock: from the last start to the last
 * end. */
static double cost(const world_t *w, int point) {
  bool shared = w->backend->synchronous && w->control->local_size == w->control->size;
  int64_t start = INT64_MIN, end = INT64_MIN, longest = 0;
  for (int r = 0; r < w->comm->size; r++) {
    const int64_t *span = &w->spans[((int64_t)r * POINTS + point) * 2];
    if (span[0] > start) start = span[0];
    if (span[1] > end) end = span[1];
    if (span[1] - span[0] > longest) longest = span[1] - span[0];
  }
  int64_t ns = shared ? end - start : longest;
  return (double)(ns > 0 ? ns : 0) / w->points[point].repeats;
}

static bool in_round(const point_t *p, int round) {
  return p->bytes <= LARGE_BYTES || round % LARGE_EVERY == 0;
}

/* One round over all points. Afterwards every rank has every rank's spans. */
static ls_status_t walk(world_t *w, int round) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < POINTS && status == LS_OK; i++)
    if (in_round(&w->points[i], round)) status = once(w, &w->points[i], &w->span[(size_t)i * 2]);
  if (status != LS_OK) return status;
  return ls_comm_gather(w->control, "probe: times", w->span, POINTS * 2 * sizeof *w->span, w->spans);
}

static ls_status_t capture_all(world_t *w) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < POINTS && status == LS_OK && w->backend->capture; i++)
    status = capture(w, &w->points[i]);
  return status;
}

/* Two rounds of single runs. The first warms up the short items, the second all of them, and tells how often a
 * sample repeats. These runs are captured too: work outside of graphs makes later graphs of the process slower
 * (docs/results.md). */
static ls_status_t calibrate(world_t *w) {
  ls_status_t status = capture_all(w);
  if (status == LS_OK) status = walk(w, 1);
  if (status == LS_OK) status = walk(w, 0);
  for (int i = 0; i < POINTS && status == LS_OK; i++) {
    double wanted = sample_ns / (cost(w, i) + 1);
    w->points[i].repeats = wanted < 1 ? 1 : wanted > REPEATS_MAX ? REPEATS_MAX : (int)wanted;
  }
  return status == LS_OK ? capture_all(w) : status;
}

static ls_status_t rounds(world_t *w, int64_t budget_ns) {
  int64_t begin = ls_clock_ns();
  ls_status_t status = calibrate(w);
  for (int round = 0; round < ROUNDS_MAX && status == LS_OK; round++) {
    int64_t spent = ls_clock_ns() - begin;
    char stop = round > 0 && spent > budget_ns && (spent > 2 * budget_ns || round >= ROUNDS_MIN);
    status = ls_comm_broadcast(w->control, "probe: go on", &stop, 1, 0);
    if (status != LS_OK || stop) break;
    status = walk(w, round);
    for (int i = 0; i < POINTS && status == LS_OK; i++)
      if (in_round(&w->points[i], round)) ls_samples_add(&w->points[i].samples, cost(w, i));
  }
  return status;
}

static ls_status_t report(const world_t *w, const char *transport, ls_profile_t *profile) {
  ls_status_t status = LS_OK;
  for (int k = 0; k < KINDS && status == LS_OK; k++) {
    ls_curve_point_t points[SIZES];
    char key[LS_PROFILE_KEY_BYTES];
    int count = 0;
    for (int i = 0; i < SIZES; i++) {
      const point_t *p = &w->points[k * SIZES + i];
      points[count].bytes = p->bytes;
      if (ls_samples_time(&p->samples, &points[count].time)) count++;
    }
    ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, transport, ls_collective_name(kinds[k]),
                                           w->comm->size, 0});
    if (count) status = ls_profile_put_curve(profile, key, points, count);
  }
  return status;
}

ls_status_t ls_probe_collectives(ls_ctx_t *ctx, ls_comm_t *control, ls_comm_t *comm, const char *transport,
                                 ls_device_t *device, int64_t budget_ns, ls_profile_t *profile) {
  static_assert((int64_t)SIZE_MIN << (2 * (SIZES - 1)) == SIZE_MAX_BYTES && SIZE_STEP == 4,
                "the last size is the largest");
  world_t w = {.ctx = ctx, .control = control, .comm = comm, .device = device, .backend = device->backend};
  ls_status_t status = ls_comm_agree(control, "probe: preparing", world_prepare(&w));
  if (status == LS_OK) status = rounds(&w, budget_ns);
  if (status == LS_OK) status = report(&w, transport, profile);
  world_release(&w);
  return status;
}
