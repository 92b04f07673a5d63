/* Reads the event logs of all ranks and thins records and evaluations. */
#include "monitor/past.h"

#include "base/json.h"
#include "monitor/read.h"

#include <string.h>

enum { VERSION = 1, LINES_MAX = 4096, RANKS_MAX = 1024 };

/* Kinds of lines that are thinned because they come often. Of `stride` lines of each kind one is kept. */
enum { RECORDS, EVALUATIONS, THINNED };

typedef struct {
  json_t *lines;    /* records and events in their order */
  json_t *last;     /* the newest record, if it was left out */
  json_t *best;     /* the newest evaluation that was the best so far, borrowed: it stays */
  json_t *timeline; /* the newest one; the others look the same */
  int64_t count[THINNED], stride;
} series_t;

typedef struct {
  series_t rank[RANKS_MAX];
} logs_t;

static bool is_kind(const json_t *line, const char *which) {
  const char *kind = json_string_value(json_object_get(line, "kind"));
  return kind && !strcmp(kind, which);
}

static int thinned(const json_t *line) {
  return is_kind(line, "record") ? RECORDS : is_kind(line, "evaluation") ? EVALUATIONS : THINNED;
}

/* Removes every second line of these kinds. The last record before an event stays, because sums end there; so does the best
 * evaluation. */
static void thin(series_t *s) {
  json_t *kept = json_array();
  bool odd[THINNED] = {false};
  int next = THINNED; /* what follows the line, but for evaluations */
  for (size_t i = json_array_size(s->lines); kept && i-- > 0;) {
    json_t *line = json_array_get(s->lines, i);
    const int kind = thinned(line);
    const bool may_go = kind == RECORDS ? next == RECORDS : kind == EVALUATIONS && line != s->best;
    if (kind != EVALUATIONS) next = kind;
    if (kind < THINNED) odd[kind] = may_go && !odd[kind];
    if (kind == THINNED || !odd[kind]) json_array_insert(kept, 0, line);
  }
  if (!kept) return;
  json_decref(s->lines);
  s->lines = kept;
  s->stride *= 2;
}

static void take(void *user, int rank, const json_t *line) {
  logs_t *logs = user;
  if (rank >= RANKS_MAX) return;
  series_t *s = &logs->rank[rank];
  json_t *own = (json_t *)(uintptr_t)line;
  if (!s->lines) *s = (series_t){.lines = json_array(), .stride = 1};
  if (is_kind(line, "timeline")) {
    json_decref(s->timeline);
    s->timeline = json_incref(own);
    return;
  }
  const int kind = thinned(line);
  const bool best = kind == EVALUATIONS && json_is_true(json_object_get(line, "best"));
  const bool left_out = kind < THINNED && !best && s->count[kind]++ % s->stride != 0;
  if (best) s->best = own;
  if (kind == THINNED && s->last) json_array_append(s->lines, s->last);
  if (kind != EVALUATIONS) {
    json_decref(s->last);
    s->last = left_out ? json_incref(own) : NULL;
  }
  if (!left_out) json_array_append(s->lines, own);
  if (json_array_size(s->lines) > LINES_MAX) thin(s);
}

/* The supervisor's document in the same folder; NULL: the run had none. */
static json_t *supervised(const char *dir) {
  enum { BYTES_MAX = 1 << 26 };
  json_t *json = NULL;
  char *path = ls_path_join(NULL, dir, "supervise.json");
  if (path && ls_path_exists(path) && ls_json_read(NULL, path, BYTES_MAX, LS_ERR_DATA, "", &json) != LS_OK)
    json = NULL;
  ls_free(path);
  return json;
}

/* Takes the lines. NULL: memory is short. */
static json_t *document_of(logs_t *logs, const char *dir) {
  json_t *ranks = json_array();
  for (int i = 0; i < RANKS_MAX; i++) {
    series_t *s = &logs->rank[i];
    if (s->last) json_array_append(s->lines, s->last);
    json_decref(s->last);
    if (s->timeline) json_array_append_new(s->lines, s->timeline);
    if (s->lines) json_array_append_new(ranks, json_pack("{s:i, s:o}", "rank", i, "lines", s->lines));
  }
  json_t *lives = supervised(dir);
  return json_pack("{s:s, s:i, s:o?, s:o?, s:o?}", "command", "report", "version", VERSION, "dir",
                   ls_json_text(dir), "ranks", ranks, "supervised", lives ? lives : json_null());
}

static bool any_line(const logs_t *logs) {
  for (int i = 0; i < RANKS_MAX; i++)
    if (logs->rank[i].lines) return true;
  return false;
}

ls_status_t ls_past_read(ls_ctx_t *ctx, const char *dir, json_t **document) {
  ls_viewer_t view = {0};
  int64_t lines;
  logs_t *logs = ls_alloc(ctx, sizeof *logs);
  ls_status_t status = logs ? ls_viewer_open(ctx, dir, &view) : LS_ERR_MEMORY;
  view.seen = take;
  view.user = logs;
  if (status == LS_OK) status = ls_viewer_update(&view, &lines);
  if (status == LS_OK && !any_line(logs))
    status = ls_fail(
        ctx, LS_ERR_DATA,
        "%s: the event logs have no line of a training: it has not begun yet, or these are not its files",
        view.dir);
  if (status == LS_OK) {
    *document = document_of(logs, view.dir);
    if (!*document) status = ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the report");
  }
  ls_viewer_close(&view);
  ls_free(logs);
  return status;
}
