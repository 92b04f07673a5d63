/* Follows the event logs of a folder. */
#include "monitor/read.h"

#include "monitor/events.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 16, LINE_BYTES_MAX = 1 << 20, LATE_RECORDS = 3 };

const ls_viewer_rank_t *ls_viewer_rank(const ls_viewer_t *v, int rank) {
  for (int i = 0; i < v->count; i++)
    if (v->rank[i].rank == rank) return &v->rank[i];
  return NULL;
}

static ls_status_t add_rank(ls_viewer_t *v, int rank) {
  ls_viewer_rank_t *grown = ls_realloc_array(v->ctx, v->rank, (size_t)v->count + 1, sizeof *grown);
  if (!grown) return LS_ERR_MEMORY;
  v->rank = grown;
  int at = v->count++;
  for (; at > 0 && grown[at - 1].rank > rank; at--)
    grown[at] = grown[at - 1];
  grown[at] = (ls_viewer_rank_t){.rank = rank, .fd = -1};
  ls_record_clear(&ls_monitor_sample_record, &grown[at].newest);
  return LS_OK;
}

static ls_status_t find_ranks(ls_viewer_t *v) {
  char **names;
  int count, rank;
  int64_t number;
  ls_status_t status = ls_dir_list(v->ctx, v->dir, &names, &count);
  if (status != LS_OK) return status;
  for (int i = 0; i < count && status == LS_OK; i++)
    if (ls_events_name(names[i], &rank, &number) && !ls_viewer_rank(v, rank)) status = add_rank(v, rank);
  ls_free(names);
  return status;
}

/* A supervised run that names no monitor.dir has it in its folder. */
static ls_status_t look_inside(ls_viewer_t *v) {
  char *inside = ls_path_join(v->ctx, v->dir, "monitor");
  if (!inside) return LS_ERR_MEMORY;
  if (!ls_path_exists(inside)) {
    ls_free(inside);
    return LS_OK;
  }
  ls_free(v->dir);
  v->dir = inside;
  return find_ranks(v);
}

static ls_status_t nothing_shown(ls_ctx_t *ctx, const char *dir, const char *lacks) {
  return ls_fail(ctx, LS_ERR_NOT_FOUND,
                 "%s: there is no %s; name the folder that a training has as monitor.dir, or, of one with "
                 "--supervise, as train.checkpoint.dir. A training with neither shows nothing: start it with "
                 "--set monitor.dir=DIR",
                 dir, lacks);
}

ls_status_t ls_viewer_open(ls_ctx_t *ctx, const char *dir, ls_viewer_t *view) {
  struct stat about;
  if (stat(dir, &about) != 0 ? errno == ENOENT : !S_ISDIR(about.st_mode))
    return nothing_shown(ctx, dir, "such folder");
  ls_viewer_t v = {.ctx = ctx, .dir = ls_strdup(ctx, dir), .events = json_array()};
  ls_status_t status = v.dir && v.events ? find_ranks(&v) : LS_ERR_MEMORY;
  if (status == LS_OK && v.count == 0) status = look_inside(&v);
  if (status == LS_OK && v.count == 0) status = nothing_shown(ctx, dir, "events.jsonl");
  if (status == LS_OK)
    *view = v;
  else
    ls_viewer_close(&v);
  return status;
}

void ls_viewer_close(ls_viewer_t *v) {
  for (int i = 0; i < v->count; i++) {
    json_decref(v->rank[i].start);
    json_decref(v->rank[i].end);
    ls_free(v->rank[i].text);
    if (v->rank[i].fd >= 0) close(v->rank[i].fd);
  }
  json_decref(v->events);
  ls_free(v->rank);
  ls_free(v->dir);
}

static void keep(json_t **kept, json_t *line) {
  json_decref(*kept);
  *kept = json_incref(line);
}

static void take_record(ls_viewer_t *v, ls_viewer_rank_t *r, const json_t *line) {
  const ls_field_source_t source = {.name = "record", .status = LS_ERR_CORRUPT};
  ls_monitor_sample_t s;
  ls_record_clear(&ls_monitor_sample_record, &s);
  if (ls_record_read(&source, &ls_monitor_sample_record, line, &s) != LS_OK) return; /* of another version */
  if (isnan(s.step_time_us))
    s.step_time_us = r->newest.step_time_us; /* nothing new: the last one is still true */
  r->newest = s;
  r->any = true;
  if (r->rank == 0 && isfinite(s.loss_mean)) v->loss[v->losses++ % LS_VIEWER_LOSSES] = s.loss_mean;
}

static double time_of(const json_t *line) {
  return json_number_value(json_object_get(line, "t"));
}

static void take_event(ls_viewer_t *v, ls_viewer_rank_t *r, const char *kind, json_t *line) {
  if (!strcmp(kind, "timeline") || !strcmp(kind, "evaluation"))
    return; /* long, and nothing to read; in the records */
  if (!strcmp(kind, "start")) {
    keep(&r->start, line);
    keep(&r->end, NULL);
    ls_record_clear(&ls_monitor_sample_record, &r->newest);
    r->any = false;
  }
  if (!strcmp(kind, "end")) keep(&r->end, line);
  size_t at = json_array_size(v->events); /* by time: logs are read one after the other */
  while (at > 0 && time_of(json_array_get(v->events, at - 1)) > time_of(line))
    at--;
  json_array_insert(v->events, at, line);
  if (json_array_size(v->events) > LS_VIEWER_EVENTS) json_array_remove(v->events, 0);
}

/* False: it is none. */
static bool take_line(ls_viewer_t *v, ls_viewer_rank_t *r, const char *text, size_t len) {
  json_t *line = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
  const char *kind = json_string_value(json_object_get(line, "kind"));
  if (kind && !strcmp(kind, "continue")) { /* where the line "start" is gone, this is one */
    kind = r->start ? NULL : "start";
    if (kind) json_object_set_new(line, "kind", json_string(kind));
  }
  if (kind && v->seen) v->seen(v->user, r->rank, line);
  if (kind && !strcmp(kind, "record"))
    take_record(v, r, line);
  else if (kind)
    take_event(v, r, kind, line);
  json_decref(line);
  return kind != NULL;
}

static int64_t take_lines(ls_viewer_t *v, ls_viewer_rank_t *r) {
  int64_t lines = 0;
  char *at = r->text, *const end = r->text + r->used;
  for (char *stop; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1)
    lines += take_line(v, r, at, (size_t)(stop - at));
  r->used = (size_t)(end - at);
  if (r->used > LINE_BYTES_MAX) r->used = 0; /* no line of ours */
  memmove(r->text, at, r->used);
  return lines;
}

/* Whether there is nothing to read but what is appended to this file. */
static bool is_newest(const ls_viewer_t *v, const ls_viewer_rank_t *r) {
  char path[PATH_MAX];
  struct stat open_one, named;
  if (r->fd < 0 || r->number > 0) return false;
  ls_events_path(v->dir, r->rank, 0, path);
  if (fstat(r->fd, &open_one) != 0 || stat(path, &named) != 0)
    return true; /* nothing has taken its place yet */
  return named.st_ino == open_one.st_ino && named.st_dev == open_one.st_dev &&
         named.st_size >= r->offset_bytes;
}

static bool is_file(const ls_viewer_t *v, const ls_viewer_rank_t *r, int64_t number) {
  char path[PATH_MAX];
  struct stat open_one, named;
  ls_events_path(v->dir, r->rank, number, path);
  return r->fd >= 0 && fstat(r->fd, &open_one) == 0 && stat(path, &named) == 0 &&
         named.st_ino == open_one.st_ino && named.st_dev == open_one.st_dev;
}

/* Finds the number of the file that follows the open one, which may have got a number meanwhile; 0: the newest. */
static ls_status_t find_next(const ls_viewer_t *v, ls_viewer_rank_t *r, int64_t *next) {
  char **names;
  int count, rank;
  int64_t number;
  ls_status_t status = ls_dir_list(v->ctx, v->dir, &names, &count);
  if (status != LS_OK) return status;
  if (r->number > 0) r->done = r->number;
  for (int i = 0; i < count; i++)
    if (ls_events_name(names[i], &rank, &number) && rank == r->rank && number > 0 && r->number == 0 &&
        is_file(v, r, number))
      r->done = number;
  *next = 0;
  for (int i = 0; i < count; i++)
    if (ls_events_name(names[i], &rank, &number) && rank == r->rank && number > r->done &&
        (*next == 0 || number < *next))
      *next = number;
  ls_free(names);
  return LS_OK;
}

/* *moved: there is another file to read. The newest is opened before others are looked for: what it is called then does not
 * matter. */
static ls_status_t move_on(const ls_viewer_t *v, ls_viewer_rank_t *r, bool *moved) {
  char path[PATH_MAX];
  int64_t next;
  int fd = -1;
  ls_events_path(v->dir, r->rank, 0, path);
  *moved = false;
  ls_status_t status = ls_path_exists(path) ? ls_file_open(v->ctx, path, &fd) : LS_OK;
  if (status == LS_OK) status = find_next(v, r, &next);
  if (status == LS_OK && next > 0) {
    if (fd >= 0) close(fd);
    fd = -1;
    ls_events_path(v->dir, r->rank, next, path);
    if (ls_path_exists(path)) status = ls_file_open(v->ctx, path, &fd); /* else it was just removed */
  }
  if (status != LS_OK || fd < 0) {
    if (fd >= 0) close(fd);
    return status;
  }
  if (r->fd >= 0) close(r->fd);
  r->fd = fd;
  r->number = next;
  r->offset_bytes = 0;
  r->used = 0;
  *moved = true;
  return LS_OK;
}

/* To the end that the file has now: it may grow as fast as it is read. */
static ls_status_t read_file(ls_viewer_t *v, ls_viewer_rank_t *r, int64_t *lines) {
  struct stat about;
  if (r->fd < 0 || fstat(r->fd, &about) != 0) return LS_OK;
  while (r->offset_bytes < about.st_size) {
    if (r->capacity - r->used < CHUNK_BYTES) {
      char *grown = ls_realloc_array(v->ctx, r->text, r->used + 2 * CHUNK_BYTES, 1);
      if (!grown) return LS_ERR_MEMORY;
      r->text = grown;
      r->capacity = r->used + 2 * CHUNK_BYTES;
    }
    ssize_t n = pread(r->fd, r->text + r->used, CHUNK_BYTES, (off_t)r->offset_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ls_fail_errno(v->ctx, "%s: the event log of rank %d cannot be read", v->dir, r->rank);
    if (n == 0) return LS_OK;
    r->offset_bytes += n;
    r->used += (size_t)n;
    *lines += take_lines(v, r);
  }
  return LS_OK;
}

/* A file that is not the newest any more gets no line after this was seen, so it is read once more before the next. */
static ls_status_t update_rank(ls_viewer_t *v, ls_viewer_rank_t *r, int64_t *lines) {
  for (;;) {
    const bool newest = is_newest(v, r);
    bool moved;
    ls_status_t status = read_file(v, r, lines);
    if (status != LS_OK || newest) return status;
    status = move_on(v, r, &moved);
    if (status != LS_OK || !moved) return status;
  }
}

ls_status_t ls_viewer_update(ls_viewer_t *v, int64_t *lines) {
  *lines = 0;
  ls_status_t status = find_ranks(v);
  for (int i = 0; i < v->count && status == LS_OK; i++)
    status = update_rank(v, &v->rank[i], lines);
  return status;
}

ls_viewer_state_t ls_viewer_state(const ls_viewer_t *v, char *text) {
  struct timespec now;
  const ls_viewer_rank_t *first = ls_viewer_rank(v, 0);
  const json_t *every = json_object_get(first ? first->start : NULL, "every_s");
  const double last = !first ? (double)NAN : first->any ? first->newest.t : time_of(first->start);
  clock_gettime(CLOCK_REALTIME, &now);
  const double silent_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - last;
  const char *end = json_string_value(json_object_get(first ? first->end : NULL, "text"));
  const bool late = json_is_number(every) && silent_s > LATE_RECORDS * json_number_value(every) + 1;
  const ls_viewer_state_t state = first && first->end                     ? LS_VIEWER_ENDED
                                  : first && !first->any && !first->start ? LS_VIEWER_UNREADABLE
                                  : late                                  ? LS_VIEWER_SILENT
                                                                          : LS_VIEWER_RUNNING;
  char shown[LS_VIEWER_STATE_BYTES];
  if (state == LS_VIEWER_ENDED)
    snprintf(shown, sizeof shown, "ended (%s)", end ? end : "");
  else if (state == LS_VIEWER_SILENT)
    snprintf(shown, sizeof shown, "silent for %.0f s", silent_s);
  else
    snprintf(shown, sizeof shown, "%s",
             state == LS_VIEWER_RUNNING ? "running" : "the log has no record that can be read");
  if (text) memcpy(text, shown, sizeof shown);
  return state;
}
