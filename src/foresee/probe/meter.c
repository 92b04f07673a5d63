/* Timing: the loop over all items, calibration, one sample. */
#include "probe/meter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REPEATS_MAX = 64, ROUNDS_MIN = 3 };
static const double sample_ns = 150e3; /* time up to which short items are repeated */
static const double warm_ns = 3e6; /* shorter ones run once untimed before a sample: others used the caches */

ls_status_t ls_meter_create(ls_ctx_t *ctx, ls_device_t *device, int threads, ls_meter_t **out) {
  ls_meter_t *b = ls_alloc(ctx, sizeof *b);
  if (!b) return LS_ERR_MEMORY;
  *b = (ls_meter_t){.ctx = ctx, .device = device, .backend = device->backend, .threads = threads};
  ls_arena_init(&b->arena, ctx);
  const ls_stream_ops_t *stream = b->backend->stream;
  ls_status_t status = LS_ERR_MEMORY;
  b->items = ls_arena_array(&b->arena, LS_METER_ITEMS_MAX, sizeof *b->items);
  if (b->items) status = stream->create(device, LS_STREAM_INLINE, &b->stream);
  if (status == LS_OK) status = stream->create(device, LS_STREAM_ASYNC, &b->other);
  if (status == LS_OK) status = stream->event_create(device, true, &b->from);
  if (status == LS_OK) status = stream->event_create(device, true, &b->to);
  if (status == LS_OK) status = stream->event_create(device, false, &b->there);
  if (status == LS_OK) status = stream->event_create(device, false, &b->back);
  if (status != LS_OK) {
    ls_meter_destroy(b);
    return status;
  }
  *out = b;
  return LS_OK;
}

void ls_meter_destroy(ls_meter_t *b) {
  if (!b) return;
  const ls_backend_t *backend = b->backend;
  ls_event_t *const events[] = {b->from, b->to, b->there, b->back};
  for (int i = 0; i < b->count; i++)
    if (b->items[i].exec) backend->capture->destroy(b->items[i].exec);
  for (int i = 0; i < LS_COUNT(events); i++)
    if (events[i]) backend->stream->event_destroy(events[i]);
  if (b->other) backend->stream->destroy(b->other);
  if (b->stream) backend->stream->destroy(b->stream);
  for (int i = 0; i < b->memory_count; i++)
    backend->buffer->free(b->device, LS_MEM_DEVICE, b->memory[i]);
  for (int i = 0; i < b->pinned_count; i++)
    backend->buffer->free(b->device, LS_MEM_HOST, b->pinned[i]);
  ls_arena_release(&b->arena);
  ls_free(b);
}

static ls_status_t issue_all(ls_meter_t *b, const ls_meter_item_t *item) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < item->repeats && status == LS_OK; i++)
    status = item->issue(b, item->arg);
  return status;
}

static ls_status_t capture(ls_meter_t *b, ls_meter_item_t *item) {
  ls_status_t status = b->backend->capture->begin(b->stream);
  if (status != LS_OK) return status;
  status = issue_all(b, item);
  ls_status_t end = b->backend->capture->end(b->stream, &item->exec); /* in any case: it must not stay open */
  return status != LS_OK ? status : end;
}

static ls_status_t once(ls_meter_t *b, ls_meter_item_t *item, int64_t *ns) {
  const ls_stream_ops_t *stream = b->backend->stream;
  ls_status_t status = stream->record(b->stream, b->from);
  if (status == LS_OK)
    status = item->exec ? b->backend->capture->launch(item->exec, b->stream) : issue_all(b, item);
  if (status == LS_OK) status = stream->record(b->stream, b->to);
  if (status == LS_OK) status = stream->sync(b->stream, 0);
  if (status == LS_OK) status = stream->elapsed(b->from, b->to, ns);
  return status;
}

/* The first run warms up (pages, generated code, clocks). The shortest of up to three runs determines the
 * repetitions of a sample: another program's turn in one of them would let a short item look long. A long item
 * needs no third. */
static ls_status_t calibrate(ls_meter_t *b, ls_meter_item_t *item) {
  int64_t ns = INT64_MAX, run_ns;
  item->repeats = 1;
  for (int run = 0; run < 3 && (run < 2 || (double)ns < 10 * warm_ns); run++) {
    ls_status_t status = once(b, item, &run_ns);
    if (status != LS_OK) return status;
    if (run_ns < ns) ns = run_ns;
  }
  ls_status_t status = LS_OK;
  double wanted = sample_ns / (ns > 0 ? (double)ns : 1);
  item->repeats = wanted < 1 ? 1 : wanted > REPEATS_MAX ? REPEATS_MAX : (int)wanted;
  item->warm = (double)ns < warm_ns;
  if (b->backend->capture && !item->eager) status = capture(b, item);
  if (status == LS_OK && item->exec) status = once(b, item, &ns);
  return status;
}

ls_status_t ls_meter_sample(ls_meter_t *b, ls_meter_item_t *item, double *out) {
  int64_t ns = 0;
  ls_status_t status = item->repeats ? LS_OK : calibrate(b, item);
  if (status == LS_OK && item->warm) status = item->issue(b, item->arg);
  if (status == LS_OK) status = once(b, item, &ns);
  if (status == LS_OK) *out = (double)ns / item->repeats;
  return status;
}

static bool too_slow(const ls_meter_t *b, const ls_meter_item_t *item) {
  return b->flops_per_ns > 0 && item->flops > LS_METER_ISSUE_MAX_S * 1e9 * b->flops_per_ns;
}

int ls_meter_left_out(const ls_meter_t *b) {
  int count = 0;
  for (int i = 0; i < b->count; i++)
    count += b->items[i].samples.count == 0 && too_slow(b, &b->items[i]);
  return count;
}

/* Gives every item its share of rounds within the budget. A machine so slow that few rounds take more than half
 * again as long keeps the samples it has. */
ls_status_t ls_meter_run(ls_meter_t *b, int64_t budget_ns) {
  int64_t begin = ls_clock_ns();
  for (int round = 0;; round++) {
    for (int i = 0; i < b->count; i++) {
      double ns;
      int64_t spent = ls_clock_ns() - begin;
      if (round > 0 && spent > budget_ns && (spent > budget_ns + budget_ns / 2 || round >= ROUNDS_MIN))
        return LS_OK;
      if (too_slow(b, &b->items[i])) continue;
      ls_status_t status = ls_meter_sample(b, &b->items[i], &ns);
      if (status != LS_OK) return status;
      ls_samples_add(&b->items[i].samples, ns);
      if (ns > 0) b->flops_per_ns = fmax(b->flops_per_ns, b->items[i].flops / ns);
    }
    if (b->count == 0 || round >= LS_SAMPLES_MAX) return LS_OK;
  }
}

/* Items of one curve stand together, ascending. */
static ls_status_t report_curve(const ls_meter_t *b, int first, int end, ls_profile_t *profile) {
  ls_curve_point_t points[LS_METER_ITEMS_MAX];
  int count = 0;
  for (int i = first; i < end; i++) {
    points[count].bytes = b->items[i].bytes;
    if (ls_samples_time(&b->items[i].samples, &points[count].time)) count++;
  }
  return count ? ls_profile_put_curve(profile, b->items[first].key, points, count) : LS_OK;
}

ls_status_t ls_meter_report(const ls_meter_t *b, ls_profile_t *profile) {
  ls_status_t status = LS_OK;
  for (int i = 0, end; i < b->count && status == LS_OK; i = end) {
    ls_time_t time;
    end = i + 1;
    if (b->items[i].bytes < 0) {
      if (ls_samples_time(&b->items[i].samples, &time))
        status = ls_profile_put(profile, b->items[i].key, &time);
      continue;
    }
    while (end < b->count && b->items[end].bytes >= 0 && !strcmp(b->items[end].key, b->items[i].key))
      end++;
    status = report_curve(b, i, end, profile);
  }
  return status;
}
