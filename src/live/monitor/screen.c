/* The lines of a watched run: its state, the loss as a curve, a bar for each rank, its GPUs and newest events. */
#include "monitor/screen.h"

#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BAR_COLUMNS = 20, EVENTS_SHOWN = 5, CURVE_COLUMNS = 60 };

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the state of a run ---- */

static double number(const json_t *line, const char *name) {
  const json_t *value = json_object_get(line, name);
  return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *word(const json_t *line, const char *name) {
  const char *text = json_string_value(json_object_get(line, name));
  return text ? text : "";
}

static void phase_of(const ls_screen_t *s, int rank, char text[32]) {
  ls_page_look_t look;
  text[0] = '\0';
  if (!s->page || rank >= ls_page_ranks(s->page)) return;
  ls_page_look(s->page, rank, &look);
  snprintf(text, 32, "%s", ls_page_phase_name(look.phase));
}

/* Time of a step without the wait for other ranks. */
static double own_us(const ls_monitor_sample_t *r) {
  return isfinite(r->exposed_comm_us) ? r->step_time_us - r->exposed_comm_us : r->step_time_us;
}

/* ---- lines ---- */

static void put_shown(FILE *to, const char *text) {
  char shown[PATH_MAX];
  fputs(ls_text_shown(text, SIZE_MAX, shown, sizeof shown), to);
}

/* Every format takes one double. */
static void put_if(FILE *to, const char *fmt, double value) {
  if (isfinite(value)) fprintf(to, fmt, value);
}

static void put_numbers(FILE *to, const ls_monitor_sample_t *r) {
  put_if(to, "  loss %.5g", isfinite(r->loss_mean) ? r->loss_mean : r->loss);
  put_if(to, "  val %.5g", r->val_loss);
  put_if(to, " (%.2f %%)", 100 * r->val_accuracy);
  put_if(to, "  grad %.3g", r->grad_norm);
  put_if(to, "  lr %.3g", r->lr);
  if (isfinite(r->samples_per_s)) fprintf(to, "  %s samples/s", ls_text_whole((int64_t)r->samples_per_s).s);
  if (isfinite(r->step_time_us)) fprintf(to, "  %s per step", ls_text_time(1e3 * r->step_time_us).s);
  put_if(to, " (%.2f of usual)", r->step_time_ratio);
  if (r->skipped_steps > 0) fprintf(to, "  skipped %.0f", r->skipped_steps);
}

static void put_head(FILE *to, const ls_viewer_t *v) {
  char state[LS_VIEWER_STATE_BYTES];
  const ls_viewer_rank_t *first = ls_viewer_rank(v, 0);
  ls_viewer_state(v, state);
  put_shown(to, v->dir);
  fprintf(to, ": %s", state);
  if (!first) return;
  if (first->any) {
    const ls_monitor_sample_t *r = &first->newest;
    fprintf(to, ", step %s of %s (%.0f %%)", ls_text_whole((int64_t)r->step).s,
            ls_text_whole((int64_t)r->total_steps).s, 100 * r->step / fmax(1, r->total_steps));
  }
  if (first->start)
    fprintf(to, ", %.0f rank%s, %s, %s", number(first->start, "ranks"),
            LS_PLURAL(number(first->start, "ranks") > 1 ? 2 : 1), word(first->start, "strategy"),
            word(first->start, "device"));
}

/* The newest losses as a line of blocks, lowest to highest. */
static void put_curve(FILE *to, const ls_screen_t *s) {
  static const char *const blocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
  static const char *const letters[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
  const ls_viewer_t *v = &s->view;
  const int64_t shown = v->losses < CURVE_COLUMNS ? v->losses : CURVE_COLUMNS;
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = v->losses - shown; i < v->losses; i++) {
    low = fmin(low, v->loss[i % LS_VIEWER_LOSSES]);
    high = fmax(high, v->loss[i % LS_VIEWER_LOSSES]);
  }
  if (shown < 2) return;
  fprintf(to, "loss ");
  for (int64_t i = v->losses - shown; i < v->losses; i++) {
    double part = high > low ? (v->loss[i % LS_VIEWER_LOSSES] - low) / (high - low) : 0;
    int level = (int)(part * (LS_COUNT(blocks) - 1) + 0.5);
    fputs((s->utf8 ? blocks : letters)[level], to);
  }
  fprintf(to, " %.4g to %.4g\n", low, high);
}

/* A full bar is the fastest rank; a rank that computes twice as long has half of it. */
static void put_rank(FILE *to, const ls_screen_t *s, const ls_viewer_rank_t *r, double fastest_us,
                     double now) {
  char phase[32];
  const double own = own_us(&r->newest), speed = fastest_us / own;
  int filled = isfinite(speed) ? (int)(BAR_COLUMNS * fmin(1, speed) + 0.5) : 0;
  fprintf(to, "rank %-3d [", r->rank);
  for (int i = 0; i < BAR_COLUMNS; i++)
    fputc(i < filled ? '#' : '.', to);
  fprintf(to, "]");
  if (isfinite(speed)) fprintf(to, " %3.0f %%  %s own", 100 * speed, ls_text_time(1e3 * own).s);
  put_if(to, "  %.0f %% waits", 100 * r->newest.exposed_comm_us / r->newest.step_time_us);
  put_if(to, "  cpu %.2f", r->newest.cpu_ratio);
  if (isfinite(r->newest.memory_bytes)) fprintf(to, "  %s", ls_text_bytes((int64_t)r->newest.memory_bytes).s);
  phase_of(s, r->rank, phase);
  if (*phase && !r->end) fprintf(to, "  %s", phase);
  if (r->any && !r->end) fprintf(to, "  %.1f s ago", fmax(0, now - r->newest.t));
  fputc('\n', to);
}

/* Limits of the clock: P power, T temperature, H hardware brake. */
static void put_gpu(FILE *to, const ls_viewer_rank_t *r) {
  const ls_monitor_sample_t *g = &r->newest;
  if (!r->any || (isnan(g->gpu_ratio) && isnan(g->gpu_memory_bytes) && isnan(g->gpu_temperature_c))) return;
  fprintf(to, "gpu of rank %-3d", r->rank);
  put_if(to, "  %3.0f %%", 100 * g->gpu_ratio);
  if (isfinite(g->gpu_memory_bytes))
    fprintf(to, "  %s of %s", ls_text_bytes((int64_t)g->gpu_memory_bytes).s,
            ls_text_bytes((int64_t)g->gpu_memory_size_bytes).s);
  put_if(to, "  %.0f C", g->gpu_temperature_c);
  put_if(to, " (margin %.0f)", g->gpu_margin_c);
  put_if(to, "  %.0f W", g->gpu_power_w);
  put_if(to, "  %.0f MHz", g->gpu_clock_mhz);
  if (g->gpu_ecc_uncorrected > 0) fprintf(to, "  ECC %.0f", g->gpu_ecc_uncorrected);
  if (g->gpu_xid_errors > 0) fprintf(to, "  XID %.0f", g->gpu_xid);
  fprintf(to, "  %s%s%s\n", g->gpu_power_limited > 0 ? "P" : "", g->gpu_heat_limited > 0 ? "T" : "",
          g->gpu_brake_limited > 0 ? "H" : "");
}

/* One event. Members that only programs read are left out. */
static void put_event(FILE *to, const json_t *line) {
  static const char *const known[] = {"kind",   "t",     "rank",    "version",   "pid",
                                      "params", "batch", "every_s", "precision", "status"};
  char clock[16] = "";
  time_t at = (time_t)number(line, "t");
  struct tm parts;
  if (localtime_r(&at, &parts)) strftime(clock, sizeof clock, "%H:%M:%S", &parts);
  const char *name;
  json_t *value;
  fprintf(to, "%s rank %.0f %s", clock, number(line, "rank"), word(line, "kind"));
  if (*word(line, "summary")) {
    fputc(' ', to);
    put_shown(to, word(line, "summary"));
    fputc('\n', to);
    return;
  }
  json_object_foreach((json_t *)(uintptr_t)line, name, value) {
    bool hidden = json_is_null(value);
    for (int i = 0; i < LS_COUNT(known); i++)
      hidden |= !strcmp(name, known[i]);
    if (!hidden && json_is_integer(value))
      fprintf(to, "  %s %lld", name, (long long)json_integer_value(value));
    if (!hidden && json_is_real(value)) fprintf(to, "  %s %.6g", name, json_real_value(value));
    if (hidden || !json_is_string(value)) continue;
    fprintf(to, "  %s ", name);
    put_shown(to, json_string_value(value));
  }
  fputc('\n', to);
}

static void put_all(FILE *to, const ls_screen_t *s) {
  const ls_viewer_t *v = &s->view;
  const ls_viewer_rank_t *first = ls_viewer_rank(v, 0);
  const double now = now_s();
  double fastest_us = NAN;
  put_head(to, v);
  fputc('\n', to);
  if (first && first->any) {
    put_numbers(to, &first->newest);
    fputc('\n', to);
  }
  put_curve(to, s);
  for (int i = 0; i < v->count; i++)
    fastest_us = fmin(fastest_us, own_us(&v->rank[i].newest));
  for (int i = 0; i < v->count; i++)
    put_rank(to, s, &v->rank[i], fastest_us, now);
  for (int i = 0; i < v->count; i++)
    put_gpu(to, &v->rank[i]);
  size_t events = json_array_size(v->events), from = events > EVENTS_SHOWN ? events - EVENTS_SHOWN : 0;
  for (size_t i = from; i < events; i++)
    put_event(to, json_array_get(v->events, i));
}

/* ---- the room's calls ---- */

ls_status_t ls_screen_open(ls_ctx_t *ctx, const char *dir, ls_screen_t *s) {
  ls_status_t status = ls_viewer_open(ctx, dir, &s->view);
  ls_ctx_t *own = status == LS_OK ? ls_ctx_create(NULL, NULL) : NULL;
  if (!own) return status;
  const ls_status_t paged = ls_page_read(own, s->view.dir, &s->page);
  if (paged != LS_OK) s->page = NULL;
  if (paged != LS_OK && paged != LS_ERR_NOT_FOUND)
    ls_log(ctx, LS_LOG_WARN, "%s; the ranks' phases are not shown", ls_ctx_error(own));
  ls_ctx_destroy(own);
  return LS_OK;
}

void ls_screen_close(ls_screen_t *s) {
  ls_page_close(s->page);
  ls_viewer_close(&s->view);
}

char *ls_screen_text(const ls_screen_t *s) {
  char *text = NULL;
  size_t size_bytes;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  put_all(to, s);
  fclose(to);
  return text;
}

char *ls_screen_state(const ls_viewer_t *v, bool numbers) {
  char *text = NULL;
  size_t size_bytes;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  put_head(to, v);
  if (numbers) put_numbers(to, &ls_viewer_rank(v, 0)->newest);
  fputc('\n', to);
  fclose(to);
  return text;
}

char *ls_screen_event(const json_t *line) {
  char *text = NULL;
  size_t size_bytes;
  const bool shown = strcmp(word(line, "kind"), "record") != 0 && strcmp(word(line, "kind"), "timeline") != 0;
  FILE *to = shown ? open_memstream(&text, &size_bytes) : NULL;
  if (!to) return NULL;
  put_event(to, line);
  fclose(to);
  return text;
}

json_t *ls_screen_json(const ls_screen_t *s) {
  const ls_viewer_t *v = &s->view;
  const double now = now_s();
  char state[LS_VIEWER_STATE_BYTES], phase[32];
  json_t *ranks = json_array();
  for (int i = 0; i < v->count; i++) {
    const ls_viewer_rank_t *r = &v->rank[i];
    json_t *one = r->any ? json_object() : json_pack("{s:i}", "rank", r->rank);
    if (r->any) ls_monitor_sample_put(one, &r->newest);
    phase_of(s, r->rank, phase);
    if (*phase) json_object_set_new(one, "phase", json_string(phase));
    if (r->any) json_object_set_new(one, "age_s", json_real(round(1e3 * (now - r->newest.t)) * 1e-3));
    json_array_append_new(ranks, one);
  }
  const ls_viewer_rank_t *first = ls_viewer_rank(v, 0);
  ls_viewer_state(v, state);
  return json_pack("{s:s, s:o?, s:s, s:O?, s:o?, s:O?}", "command", "monitor", "dir", ls_json_text(v->dir),
                   "state", state, "start", first ? first->start : NULL, "ranks", ranks, "events", v->events);
}
