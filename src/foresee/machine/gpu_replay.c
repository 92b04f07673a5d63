/* A recorded GPU: the lines of an event log that say something of it. */
#include "base/file.h"
#include "base/json.h"
#include "machine/gpu_live.h"

#include <string.h>

enum { FILE_BYTES_MAX = 1 << 28 };

typedef struct {
  double t;
  ls_gpu_now_t now;
} moment_t;

struct ls_gpu_replay {
  moment_t *moment;
  int64_t count;
};

static const ls_field_t rows[] = {
#define ROW(field_) LS_FIELD_AS(ls_gpu_now_t, field_, "gpu_" #field_, .min = -1e300),
    LS_GPU_NOW_TABLE(ROW)
#undef ROW
};
const ls_record_t ls_gpu_now_record = LS_RECORD(rows);

/* False: the line says nothing of this rank's GPU. */
static bool take(const json_t *line, int local_rank, moment_t *moment) {
  const ls_field_source_t source = {.name = "recorded GPU", .status = LS_ERR_CORRUPT};
  const json_t *t = json_object_get(line, "t");
  bool says = false;
  for (int i = 0; i < LS_COUNT(rows); i++)
    says |= json_is_number(json_object_get(line, rows[i].name));
  if (!says || !json_is_number(t) || json_integer_value(json_object_get(line, "rank")) != local_rank)
    return false;
  moment->t = json_number_value(t);
  ls_record_clear(&ls_gpu_now_record, &moment->now);
  return ls_record_read(&source, &ls_gpu_now_record, line, &moment->now) == LS_OK;
}

ls_status_t ls_gpu_replay_open(ls_ctx_t *ctx, const char *path, int local_rank, ls_gpu_replay_t **replay) {
  char *text;
  size_t size_bytes;
  int64_t lines = 1;
  ls_status_t status = ls_file_read(ctx, path, FILE_BYTES_MAX, &text, &size_bytes);
  if (status != LS_OK) return status;
  for (size_t i = 0; i < size_bytes; i++)
    lines += text[i] == '\n';
  ls_gpu_replay_t *r = ls_alloc(ctx, sizeof *r);
  if (r) r->moment = ls_alloc_array(ctx, (size_t)lines, sizeof *r->moment);
  if (!r || !r->moment) status = LS_ERR_MEMORY;
  for (char *at = text, *const end = text + size_bytes; status == LS_OK && at < end;) {
    char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t len = (size_t)((stop ? stop : end) - at);
    json_t *line = json_loadb(at, len, 0, NULL);
    moment_t *moment = &r->moment[r->count];
    if (line && take(line, local_rank, moment) && (r->count == 0 || moment->t >= r->moment[r->count - 1].t))
      r->count++;
    json_decref(line);
    at += len + 1;
  }
  ls_free(text);
  if (status == LS_OK && r->count == 0)
    status = ls_fail(ctx, LS_ERR_CONFIG,
                     "%s: no line has t and gpu_.. of rank %d; " LS_GPU_REPLAY_ENVIRONMENT
                     " names the event log of a run that was watched on a GPU",
                     path, local_rank);
  if (status == LS_OK)
    *replay = r;
  else
    ls_gpu_replay_close(r);
  return status;
}

void ls_gpu_replay_close(ls_gpu_replay_t *r) {
  if (r) ls_free(r->moment);
  ls_free(r);
}

void ls_gpu_replay_at(const ls_gpu_replay_t *r, double at_s, ls_gpu_now_t *now) {
  int64_t low = 0, high = r->count - 1; /* the last moment that is not later */
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (r->moment[middle].t - r->moment[0].t <= at_s)
      low = middle;
    else
      high = middle - 1;
  }
  *now = r->moment[low].now;
}
