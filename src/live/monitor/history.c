/* Rows of numbers by rank, and JSON made of them. */
#include "monitor/history.h"

#include "base/clock.h"
#include "base/json.h"
#include "monitor/record.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Columns of the curves. Evaluations are separate points. */
static const char *const columns[] = {"step",         "loss_mean",       "grad_norm",         "lr",
                                      "step_time_us", "samples_per_s",   "input_us",          "forward_us",
                                      "backward_us",  "exposed_comm_us", "optimizer_us",      "rest_us",
                                      "cpu_ratio",    "gpu_ratio",       "gpu_temperature_c", "gpu_power_w"};
enum {
  COLUMNS = LS_COUNT(columns),
  EVENTS_MAX = 200,
  EVALUATIONS_MAX = 2048,
  ROWS_MAX = 1 << 18,
  NEWS_ROWS_MAX = 2000
};

typedef struct {
  double t;
  int64_t number; /* of its line */
  float value[COLUMNS];
} row_t;

/* A line that is kept until a newer one of its kind. */
typedef struct {
  json_t *line;
  int64_t number;
} kept_t;

enum { START, RECORD, TIMELINE, END, KINDS };
static const char *const kinds[KINDS] = {"start", "record", "timeline", "end"};

typedef struct {
  int rank;
  kept_t kept[KINDS];
  row_t *row;
  int64_t count, capacity;
} rank_t;

struct ls_history {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  char instance[24];
  int64_t number; /* of the newest line */
  rank_t *rank;   /* in the order of ranks */
  int count;
  kept_t evaluation[EVALUATIONS_MAX]; /* oldest first */
  int evaluations;
  kept_t event[EVENTS_MAX]; /* a ring */
  int64_t events;
  kept_t now;
  bool ended;
};

ls_status_t ls_history_create(ls_ctx_t *ctx, ls_history_t **history) {
  ls_history_t *h = ls_alloc(ctx, sizeof *h);
  if (!h) return LS_ERR_MEMORY;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&h->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&h->lock, NULL);
  snprintf(h->instance, sizeof h->instance, "%llx", (unsigned long long)ls_clock_ns() ^ (unsigned)getpid());
  *history = h;
  return LS_OK;
}

static void forget(rank_t *r) {
  for (int i = 0; i < KINDS; i++) {
    json_decref(r->kept[i].line);
    r->kept[i] = (kept_t){0};
  }
  r->count = 0;
}

static void forget_evaluations(ls_history_t *h) {
  for (int i = 0; i < h->evaluations; i++)
    json_decref(h->evaluation[i].line);
  h->evaluations = 0;
}

void ls_history_destroy(ls_history_t *h) {
  if (!h) return;
  for (int i = 0; i < h->count; i++) {
    forget(&h->rank[i]);
    free(h->rank[i].row);
  }
  for (int i = 0; i < EVENTS_MAX; i++)
    json_decref(h->event[i].line);
  forget_evaluations(h);
  json_decref(h->now.line);
  free(h->rank);
  pthread_cond_destroy(&h->changed);
  pthread_mutex_destroy(&h->lock);
  ls_free(h);
}

static rank_t *find(ls_history_t *h, int rank) {
  for (int i = 0; i < h->count; i++)
    if (h->rank[i].rank == rank) return &h->rank[i];
  return NULL;
}

/* NULL: memory is short. */
static rank_t *find_or_add(ls_history_t *h, int rank) {
  rank_t *found = find(h, rank);
  if (found) return found;
  rank_t *grown = realloc(h->rank, (size_t)(h->count + 1) * sizeof *grown);
  if (!grown) return NULL;
  int at = h->count++;
  for (h->rank = grown; at > 0 && grown[at - 1].rank > rank; at--)
    grown[at] = grown[at - 1];
  grown[at] = (rank_t){.rank = rank};
  return &grown[at];
}

static void keep(ls_history_t *h, kept_t *kept, json_t *line) {
  json_decref(kept->line);
  *kept = (kept_t){json_incref(line), h->number};
}

/* Days of a run: of older rows every second one goes. */
static void thin(rank_t *r) {
  int64_t kept = 0;
  for (int64_t i = 0; i < r->count; i++)
    if (i % 2 == 0 || i >= r->count / 2) r->row[kept++] = r->row[i];
  r->count = kept;
}

/* Adds an evaluation. If there are too many, every second older one is dropped. */
static void add_evaluation(ls_history_t *h, json_t *line) {
  int kept = 0;
  for (int i = 0; h->evaluations == EVALUATIONS_MAX && i < EVALUATIONS_MAX; i++)
    if (i % 2 == 0 || i >= EVALUATIONS_MAX / 2)
      h->evaluation[kept++] = h->evaluation[i];
    else
      json_decref(h->evaluation[i].line);
  if (kept > 0) h->evaluations = kept;
  h->evaluation[h->evaluations++] = (kept_t){json_incref(line), h->number};
}

static void add_row(ls_history_t *h, rank_t *r, const json_t *line) {
  if (r->count == ROWS_MAX) thin(r);
  if (r->count == r->capacity) {
    int64_t capacity = r->capacity > 0 ? 2 * r->capacity : 256;
    row_t *grown = realloc(r->row, (size_t)capacity * sizeof *grown);
    if (!grown) return;
    r->row = grown;
    r->capacity = capacity;
  }
  row_t *row = &r->row[r->count++];
  row->t = json_number_value(json_object_get(line, "t"));
  row->number = h->number;
  for (int i = 0; i < COLUMNS; i++) {
    const json_t *value = json_object_get(line, columns[i]);
    row->value[i] = json_is_number(value) ? (float)json_number_value(value) : NAN;
  }
}

void ls_history_take(ls_history_t *h, int rank, const json_t *line) {
  const char *kind = json_string_value(json_object_get(line, "kind"));
  json_t *own = (json_t *)(uintptr_t)line;
  int which = 0;
  if (!kind) return;
  while (which < KINDS && strcmp(kind, kinds[which]) != 0)
    which++;
  pthread_mutex_lock(&h->lock);
  h->number++;
  rank_t *r = find_or_add(h, rank);
  if (r && which == START && !json_is_number(json_object_get(line, "resumed_from"))) {
    forget(r);
    if (rank == 0) forget_evaluations(h);
  }
  if (r && which == START) {
    json_decref(r->kept[END].line);
    r->kept[END] = (kept_t){NULL, h->number};
  }
  if (r && which == RECORD) add_row(h, r, line);
  if (r && which < KINDS) keep(h, &r->kept[which], own);
  const bool evaluation = !strcmp(kind, "evaluation");
  if (evaluation) add_evaluation(h, own);
  if (which != RECORD && which != TIMELINE && !evaluation) keep(h, &h->event[h->events++ % EVENTS_MAX], own);
  pthread_mutex_unlock(&h->lock);
}

void ls_history_now(ls_history_t *h, json_t *now) {
  pthread_mutex_lock(&h->lock);
  if (now && !(h->now.line && json_equal(h->now.line, now))) {
    h->number++;
    keep(h, &h->now, now);
  }
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
  json_decref(now);
}

void ls_history_end(ls_history_t *h) {
  pthread_mutex_lock(&h->lock);
  h->ended = true;
  pthread_cond_broadcast(&h->changed);
  pthread_mutex_unlock(&h->lock);
}

/* ---- texts; all under the lock ---- */

static void put_number(FILE *to, double value) {
  if (isfinite(value))
    fprintf(to, "%.7g", value);
  else
    fputs("null", to);
}

/* With the comma between members or elements. */
static void put_next(FILE *to, bool *first) {
  if (!*first) fputc(',', to);
  *first = false;
}

static void put_json(FILE *to, const json_t *json) {
  char *text = json ? ls_json_dump(json, JSON_COMPACT) : NULL;
  fputs(text ? text : "null", to);
  free(text);
}

static void put_names(FILE *to) {
  fputs("\"columns\":[", to);
  for (int i = 0; i < COLUMNS; i++)
    fprintf(to, "%s\"%s\"", i > 0 ? "," : "", columns[i]);
  fputs("]", to);
}

static int64_t rows_since(const rank_t *r, int64_t number) {
  int64_t at = r->count;
  while (at > 0 && r->row[at - 1].number > number)
    at--;
  return at;
}

static void put_rows(FILE *to, const ls_history_t *h, int64_t since) {
  bool first = true;
  fputs(",\"rows\":[", to);
  for (int i = 0; i < h->count; i++)
    for (int64_t k = rows_since(&h->rank[i], since); k < h->rank[i].count; k++) {
      const row_t *row = &h->rank[i].row[k];
      put_next(to, &first);
      fprintf(to, "[%d,%.3f", h->rank[i].rank, row->t);
      for (int c = 0; c < COLUMNS; c++) {
        fputc(',', to);
        put_number(to, (double)row->value[c]);
      }
      fputc(']', to);
    }
  fputs("]", to);
}

static void put_kept(FILE *to, const ls_history_t *h, int64_t since) {
  bool first = true;
  fputs(",\"ranks\":[", to);
  for (int i = 0; i < h->count; i++) {
    const rank_t *r = &h->rank[i];
    put_next(to, &first);
    fprintf(to, "{\"rank\":%d", r->rank);
    for (int k = 0; k < KINDS; k++)
      if (r->kept[k].number > since) {
        fprintf(to, ",\"%s\":", kinds[k]);
        put_json(to, r->kept[k].line);
      }
    fputc('}', to);
  }
  fputs("],\"evaluations\":[", to);
  first = true;
  for (int i = 0; i < h->evaluations; i++) {
    if (h->evaluation[i].number <= since) continue;
    put_next(to, &first);
    put_json(to, h->evaluation[i].line);
  }
  fputs("],\"events\":[", to);
  first = true;
  for (int64_t i = h->events < EVENTS_MAX ? 0 : h->events - EVENTS_MAX; i < h->events; i++) {
    const kept_t *event = &h->event[i % EVENTS_MAX];
    if (event->number <= since) continue;
    put_next(to, &first);
    put_json(to, event->line);
  }
  fputs("]", to);
}

/* The number in an id of this history; -1: another history's. */
static int64_t number_of(const ls_history_t *h, const char *id) {
  const size_t len = strlen(h->instance);
  char *end;
  if (strncmp(id, h->instance, len) != 0 || id[len] != '-') return -1;
  long long number = strtoll(id + len + 1, &end, 10);
  return *end || number > h->number ? -1 : number;
}

static char *compose(const ls_history_t *h, int64_t since) {
  char *text = NULL;
  size_t size_bytes;
  int64_t rows = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  for (int i = 0; i < h->count; i++)
    rows += h->rank[i].count - rows_since(&h->rank[i], since);
  const bool fresh = since < 0 || rows > NEWS_ROWS_MAX;
  if (fresh) since = -1;
  fprintf(to, "{\"fresh\":%s,", fresh ? "true" : "false");
  put_names(to);
  if (h->now.number > since) {
    fputs(",\"now\":", to);
    put_json(to, h->now.line);
  }
  put_kept(to, h, since);
  if (!fresh) put_rows(to, h, since);
  fputc('}', to);
  fclose(to);
  return text;
}

static struct timespec in_ms(int ms) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  int64_t ns = at.tv_nsec + INT64_C(1000000) * ms;
  at.tv_sec += ns / 1000000000;
  at.tv_nsec = (long)(ns % 1000000000);
  return at;
}

char *ls_history_news(ls_history_t *h, char id[LS_HISTORY_ID_BYTES], int limit_ms) {
  const struct timespec until = in_ms(limit_ms);
  char *text = NULL;
  pthread_mutex_lock(&h->lock);
  const int64_t since = number_of(h, id);
  int waited = 0;
  while (!h->ended && since >= 0 && since == h->number && waited == 0)
    waited = pthread_cond_timedwait(&h->changed, &h->lock, &until);
  if (!h->ended) {
    text = since >= 0 && since == h->number ? strdup("") : compose(h, since);
    snprintf(id, LS_HISTORY_ID_BYTES, "%s-%lld", h->instance, (long long)h->number);
  }
  pthread_mutex_unlock(&h->lock);
  return text;
}

/* ---- curves ---- */

/* The first row at or after t. */
static int64_t row_at(const rank_t *r, double t) {
  int64_t low = 0, high = r->count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (r->row[middle].t < t)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Rows from `begin` to `end` as one or two points of a column: its lowest and highest value in their order. */
static void extremes(const rank_t *r, int64_t begin, int64_t end, int column, double point[2]) {
  int64_t low = -1, high = -1;
  for (int64_t i = begin; i < end; i++) {
    const float value = r->row[i].value[column];
    if (isnan(value)) continue;
    if (low < 0 || value < r->row[low].value[column]) low = i;
    if (high < 0 || value > r->row[high].value[column]) high = i;
  }
  const int64_t first = low < high ? low : high, second = low < high ? high : low;
  point[0] = first < 0 ? (double)NAN : (double)r->row[first].value[column];
  point[1] = second < 0 ? (double)NAN : (double)r->row[second].value[column];
}

/* The ends of the stretches; the last one is the end of all. */
static int64_t *stretches(const rank_t *r, int64_t begin, int64_t end, int points, int64_t *count) {
  const int64_t rows = end - begin, most = rows <= points ? rows : points / 2;
  int64_t *stop = malloc((size_t)(most + 1) * sizeof *stop);
  *count = 0;
  if (!stop || rows == 0) return stop;
  const double from = r->row[begin].t, width = (r->row[end - 1].t - from) / (double)(most > 0 ? most : 1);
  for (int64_t i = begin, k = 1; i < end && k <= most; k++) {
    const int64_t before = i;
    if (rows == most)
      i++;
    else
      while (i < end && (k == most || r->row[i].t < from + width * (double)k))
        i++;
    if (i > before) stop[(*count)++] = i;
  }
  return stop;
}

static void put_curves(FILE *to, const rank_t *r, int64_t begin, const int64_t *stop, int64_t count) {
  fputs(",\"t\":[", to);
  bool first = true;
  for (int64_t k = 0, at = begin; k < count; at = stop[k++]) {
    put_next(to, &first);
    fprintf(to, "%.3f", r->row[at].t);
    if (stop[k] - at > 1) fprintf(to, ",%.3f", r->row[stop[k] - 1].t);
  }
  fputs("],\"values\":[", to);
  for (int c = 0; c < COLUMNS; c++) {
    fputs(c > 0 ? ",[" : "[", to);
    first = true;
    for (int64_t k = 0, at = begin; k < count; at = stop[k++]) {
      double point[2];
      extremes(r, at, stop[k], c, point);
      for (int i = 0; i < (stop[k] - at > 1 ? 2 : 1); i++) {
        put_next(to, &first);
        put_number(to, point[i]);
      }
    }
    fputc(']', to);
  }
  fputc(']', to);
}

char *ls_history_curves(ls_history_t *h, int rank, double from, double to_s, int points) {
  char *text = NULL;
  size_t size_bytes;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  fputc('{', to);
  put_names(to);
  pthread_mutex_lock(&h->lock);
  const rank_t none = {.rank = rank}, *r = find(h, rank);
  if (!r) r = &none;
  int64_t begin = row_at(r, from), end = row_at(r, to_s), count;
  if (end < begin) end = begin;
  int64_t *stop = stretches(r, begin, end, points, &count);
  fprintf(to, ",\"rank\":%d,\"rows\":%lld", rank, (long long)(end - begin));
  put_curves(to, r, begin, stop, stop ? count : 0);
  free(stop);
  pthread_mutex_unlock(&h->lock);
  fputc('}', to);
  fclose(to);
  return text;
}
