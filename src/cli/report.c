/* lockstep report DIR: one HTML file of a run after the fact, from its event logs. The report tool (tools/report) makes it;
 * this side reads the logs and thins records, so that the file of a run of days stays small. */
#include "cli/cli.h"

#include "base/json.h"
#include "monitor/read.h"

#include <stdlib.h>
#include <string.h>

enum { REPORT_OUTPUT, REPORT_FLAG_COUNT };
static const cli_extra_t flags[] = {
    [REPORT_OUTPUT] = {"--output", "FILE", "Where to write the report (default DIR/report.html)."},
    [REPORT_FLAG_COUNT] = {NULL, NULL, NULL}};

enum { LINES_MAX = 4096, RANKS_MAX = 1024 };

/* What comes so often that it is thinned; of `stride` lines of each kind one is kept. */
enum { RECORDS, EVALUATIONS, THINNED };

typedef struct {
  json_t *lines;    /* records and events in their order */
  json_t *last;     /* the newest record, if it was left out */
  json_t *best;     /* the newest evaluation that was the best so far, borrowed: it stays */
  json_t *timeline; /* the newest one: the others are alike */
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

/* Every second one goes. The last record before an event stays, because sums end there, and the best evaluation. */
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

/* What a supervisor has written beside the logs; NULL: the run had none. */
static json_t *supervised(const char *dir) {
  enum { BYTES_MAX = 1 << 26 };
  json_t *json = NULL;
  char *path = ls_path_join(NULL, dir, "supervise.json");
  if (path && ls_path_exists(path) && ls_json_read(NULL, path, BYTES_MAX, LS_ERR_DATA, "", &json) != LS_OK)
    json = NULL;
  ls_free(path);
  return json;
}

/* Takes what the logs hold. NULL: memory is short. */
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
  return json_pack("{s:s, s:i, s:o?, s:o?, s:o?}", "command", "report", "version", CLI_JSON_VERSION, "dir",
                   ls_json_text(dir), "ranks", ranks, "supervised", lives ? lives : json_null());
}

static ls_status_t make(ls_ctx_t *ctx, const char *dir, logs_t *logs, const char *output) {
  char *made = NULL;
  json_t *document = document_of(logs, dir);
  char *text = document ? ls_json_dump(document, JSON_COMPACT) : NULL;
  json_decref(document);
  ls_status_t status = text ? cli_report_make(ctx, "run", text, &made)
                            : ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the report");
  free(text);
  if (status == LS_OK) status = ls_file_replace(ctx, output, made, strlen(made));
  if (status == LS_OK) cli_print("%s\n", cli_shown(output));
  ls_free(made);
  return status;
}

static bool any_line(const logs_t *logs) {
  for (int i = 0; i < RANKS_MAX; i++)
    if (logs->rank[i].lines) return true;
  return false;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *dir = args->operand[0], *given = args->extra[REPORT_OUTPUT];
  ls_viewer_t view = {0};
  int64_t lines;
  logs_t *logs = ls_alloc(ctx, sizeof *logs);
  char *output = given ? ls_strdup(ctx, given) : ls_path_join(ctx, dir, "report.html");
  ls_status_t status = logs && output ? ls_viewer_open(ctx, dir, &view) : LS_ERR_MEMORY;
  if (status == LS_OK) status = cli_report_ready(ctx, "lockstep report", "");
  if (status == LS_OK) status = cli_file_spares(ctx, given, NULL, NULL);
  view.seen = take;
  view.user = logs;
  if (status == LS_OK) status = ls_viewer_update(&view, &lines);
  if (status == LS_OK && !any_line(logs))
    status = ls_fail(
        ctx, LS_ERR_DATA,
        "%s: the event logs have no line of a training: it has not begun yet, or these are not its files",
        view.dir);
  if (status == LS_OK) status = make(ctx, view.dir, logs, output);
  ls_viewer_close(&view);
  ls_free(output);
  ls_free(logs);
  return status;
}

static const cli_command_t command = {
    .name = "report",
    .place = 72,
    .summary = "Makes one HTML file of a watched training: curves, parts, restarts.",
    .details = "DIR is the training's monitor.dir (docs/monitor.md). Needs python3.",
    .flags = CLI_FLAG_VERBOSE,
    .operands = "DIR",
    .operand_count = 1,
    .extra = flags,
    .run = run};
CLI_COMMAND(command)
