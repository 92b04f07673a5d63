/* Copies between the devices of one process: one pair at a time, then all at once. Every pair is checked,
 * because training must not run over a link that is fast and wrong (an IOMMU in the way of peer access, for
 * example). */
#include "probe/probe.h"
#include "probe/samples.h"

#include <stdio.h>
#include <string.h>

enum { SIZES = 3, LARGEST = 64 << 20, CHECKED = 8 << 20, ROUNDS_MAX = 20, ROUNDS_MIN = 3 };
static const size_t sizes[SIZES] = {64 << 10, 2 << 20, LARGEST};

typedef struct {
  ls_device_t *device;
  ls_stream_t *stream;
  void *from, *to; /* LARGEST bytes each, of this device */
} end_t;

typedef struct {
  ls_ctx_t *ctx;
  const ls_backend_t *backend;
  end_t end[LS_GPU_MAX];
  int count;
  int staged;
  uint32_t *pattern, *got; /* CHECKED bytes each, of the host */
  ls_samples_t pair[LS_GPU_MAX][LS_GPU_MAX][SIZES], all;
} peers_t;

static void peers_release(peers_t *p) {
  for (int i = 0; i < p->count; i++) {
    end_t *end = &p->end[i];
    if (!end->device) continue;
    if (end->from) p->backend->buffer->free(end->device, LS_MEM_DEVICE, end->from);
    if (end->to) p->backend->buffer->free(end->device, LS_MEM_DEVICE, end->to);
    if (end->stream) p->backend->stream->destroy(end->stream);
    p->backend->device->close(end->device);
  }
  ls_free(p->pattern);
  ls_free(p->got);
}

static ls_status_t end_open(peers_t *p, int index) {
  end_t *end = &p->end[index];
  const ls_device_options_t options = {.index = index, .threads = 1};
  ls_status_t status = p->backend->device->open(p->ctx, &options, &end->device);
  if (status == LS_OK) status = p->backend->stream->create(end->device, LS_STREAM_ASYNC, &end->stream);
  if (status == LS_OK) status = p->backend->buffer->alloc(end->device, LS_MEM_DEVICE, LARGEST, &end->from);
  if (status == LS_OK) status = p->backend->buffer->alloc(end->device, LS_MEM_DEVICE, LARGEST, &end->to);
  return status;
}

static ls_status_t reach(peers_t *p, int i, int j) {
  if (!p->backend->device->reach) return LS_OK;
  bool direct = false;
  ls_status_t status = p->backend->device->reach(p->end[i].device, j, &direct);
  if (status == LS_OK && !direct) p->staged++;
  return status;
}

static ls_status_t prepare(peers_t *p) {
  p->pattern = ls_alloc(p->ctx, CHECKED);
  p->got = ls_alloc(p->ctx, CHECKED);
  if (!p->pattern || !p->got) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  for (int i = 0; i < p->count && status == LS_OK; i++)
    status = end_open(p, i);
  for (int i = 0; i < p->count && status == LS_OK; i++)
    for (int j = 0; j < p->count && status == LS_OK; j++)
      if (i != j) status = reach(p, i, j);
  return status;
}

static ls_status_t copy_and_wait(peers_t *p, const end_t *end, void *to, const void *from,
                                 size_t size_bytes) {
  ls_status_t status = p->backend->stream->copy(end->stream, to, from, size_bytes);
  return status == LS_OK ? p->backend->stream->sync(end->stream, 0) : status;
}

/* Sends a pattern that no other pair uses from i to j, and back to the host. */
static ls_status_t check_pair(peers_t *p, int i, int j, int *wrong) {
  for (uint32_t k = 0; k < CHECKED / 4; k++)
    p->pattern[k] = k * 2654435761u + (uint32_t)(i * LS_GPU_MAX + j);
  memset(p->got, 0xff, CHECKED);
  ls_status_t status = copy_and_wait(p, &p->end[i], p->end[i].from, p->pattern, CHECKED);
  if (status == LS_OK) status = copy_and_wait(p, &p->end[i], p->end[j].to, p->end[i].from, CHECKED);
  if (status == LS_OK) status = copy_and_wait(p, &p->end[j], p->got, p->end[j].to, CHECKED);
  if (status == LS_OK) *wrong += memcmp(p->pattern, p->got, CHECKED) != 0;
  return status;
}

static ls_status_t time_pair(peers_t *p, int i, int j) {
  ls_status_t status = LS_OK;
  for (int s = 0; s < SIZES && status == LS_OK; s++) {
    int64_t begin = ls_clock_ns();
    status = copy_and_wait(p, &p->end[i], p->end[j].to, p->end[i].from, sizes[s]);
    if (status == LS_OK) ls_samples_add(&p->pair[i][j][s], (double)(ls_clock_ns() - begin));
  }
  return status;
}

/* Every device sends to the next at once; the time ends when the last copy has arrived. */
static ls_status_t time_all(peers_t *p) {
  ls_status_t status = LS_OK;
  int64_t begin = ls_clock_ns();
  for (int i = 0; i < p->count && status == LS_OK; i++)
    status =
        p->backend->stream->copy(p->end[i].stream, p->end[(i + 1) % p->count].to, p->end[i].from, LARGEST);
  for (int i = 0; i < p->count && status == LS_OK; i++)
    status = p->backend->stream->sync(p->end[i].stream, 0);
  if (status == LS_OK) ls_samples_add(&p->all, (double)(ls_clock_ns() - begin));
  return status;
}

static ls_status_t measure(peers_t *p, int64_t budget_ns, int *wrong) {
  int64_t begin = ls_clock_ns();
  ls_status_t status = LS_OK;
  for (int i = 0; i < p->count; i++)
    for (int j = 0; j < p->count && status == LS_OK; j++)
      if (i != j) status = check_pair(p, i, j, wrong);
  for (int round = 0; round < ROUNDS_MAX && status == LS_OK; round++) {
    int64_t spent = ls_clock_ns() - begin;
    if (round > 0 && spent > budget_ns && (spent > 2 * budget_ns || round >= ROUNDS_MIN)) break;
    for (int i = 0; i < p->count; i++)
      for (int j = 0; j < p->count && status == LS_OK; j++)
        if (i != j) status = time_pair(p, i, j);
    if (status == LS_OK) status = time_all(p);
  }
  return status;
}

static ls_status_t report(const peers_t *p, ls_profile_t *profile) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_status_t status = LS_OK;
  for (int i = 0; i < p->count; i++)
    for (int j = 0; j < p->count && status == LS_OK; j++) {
      ls_curve_point_t points[SIZES];
      int count = 0;
      for (int s = 0; s < SIZES && i != j; s++) {
        points[count].bytes = (double)sizes[s];
        if (ls_samples_time(&p->pair[i][j][s], &points[count].time)) count++;
      }
      snprintf(key, sizeof key, "device-copy %s %d-%d", p->backend->name, i, j);
      if (count) status = ls_profile_put_curve(profile, key, points, count);
    }
  ls_time_t time;
  snprintf(key, sizeof key, "device-copy %s all", p->backend->name);
  if (status == LS_OK && ls_samples_time(&p->all, &time)) status = ls_profile_put(profile, key, &time);
  return status;
}

ls_status_t ls_probe_peers(ls_ctx_t *ctx, const ls_backend_t *backend, int count, int64_t budget_ns,
                           ls_profile_t *profile, int *wrong, int *staged) {
  if (count < 2 || count > LS_GPU_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "probe: copies need 2 to %d devices, not %d", LS_GPU_MAX, count);
  peers_t *p = ls_alloc(ctx, sizeof *p);
  if (!p) return LS_ERR_MEMORY;
  p->ctx = ctx;
  p->backend = backend;
  p->count = count;
  int found = 0;
  ls_status_t status = prepare(p);
  if (status == LS_OK) status = measure(p, budget_ns, &found);
  if (status == LS_OK) status = report(p, profile);
  if (status == LS_OK) {
    *wrong = found;
    *staged = p->staged;
  }
  peers_release(p);
  ls_free(p);
  return status;
}
