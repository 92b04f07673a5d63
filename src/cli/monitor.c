/* lockstep monitor DIR: what a run shows in its monitor.dir, read while it goes on or afterwards. A terminal gets a screen
 * that is drawn again; anything else gets a line for every record. */
#include "cli/monitor_web.h"
#include "cli/stop.h"

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MONITOR_ONCE, MONITOR_WEB, MONITOR_PORT, MONITOR_ADDRESS, MONITOR_FLAG_COUNT };
static const cli_extra_t flags[] = {
    [MONITOR_ONCE] = {"--once", NULL, "Show the present state and end."},
    [MONITOR_WEB] = {"--web", NULL,
                     "Show it in a browser: prints the page's address, and serves it until Ctrl-C. Not with "
                     "--once or --json."},
    [MONITOR_PORT] = {"--port", "N", "With --web: the port (default 7480); 0 = any free one.",
                      CLI_NUMBER(0, UINT16_MAX, 7480)},
    [MONITOR_ADDRESS] = {"--address", "A",
                         "With --web: the IPv4 address to listen on (default 127.0.0.1, only this host)."},
    [MONITOR_FLAG_COUNT] = {NULL, NULL, NULL}};

enum { LOOK_MS = 250, BAR_COLUMNS = 20, EVENTS_SHOWN = 5, CURVE_COLUMNS = 60, COLUMNS_USUAL = 80 };

typedef struct {
  ls_viewer_t view;
  ls_page_t *page; /* NULL: there is none */
  bool utf8;
  int columns;
  int lines; /* of the screen that is shown */
} screen_t;

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

static void phase_of(const screen_t *s, int rank, char text[32]) {
  ls_page_look_t look;
  text[0] = '\0';
  if (!s->page || rank >= ls_page_ranks(s->page)) return;
  ls_page_look(s->page, rank, &look);
  snprintf(text, 32, "%s", ls_page_phase_name(look.phase));
}

/* Time of a step in which the rank computed itself: without the wait for others. */
static double own_us(const ls_monitor_sample_t *r) {
  return isfinite(r->exposed_comm_us) ? r->step_time_us - r->exposed_comm_us : r->step_time_us;
}

/* ---- lines ---- */

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
  if (isfinite(r->samples_per_s)) fprintf(to, "  %s samples/s", cli_count((int64_t)r->samples_per_s));
  if (isfinite(r->step_time_us)) fprintf(to, "  %s per step", cli_time(1e3 * r->step_time_us));
  put_if(to, " (%.2f of usual)", r->step_time_ratio);
  if (r->skipped_steps > 0) fprintf(to, "  skipped %.0f", r->skipped_steps);
}

static void put_head(FILE *to, const ls_viewer_t *v) {
  char state[LS_VIEWER_STATE_BYTES];
  const ls_viewer_rank_t *first = ls_viewer_rank(v, 0);
  ls_viewer_state(v, state);
  fprintf(to, "%s: %s", cli_shown(v->dir), state);
  if (!first) return;
  if (first->any) {
    const ls_monitor_sample_t *r = &first->newest;
    fprintf(to, ", step %s of %s (%.0f %%)", cli_count((int64_t)r->step), cli_count((int64_t)r->total_steps),
            100 * r->step / fmax(1, r->total_steps));
  }
  if (first->start)
    fprintf(to, ", %.0f rank%s, %s, %s", number(first->start, "ranks"),
            LS_PLURAL(number(first->start, "ranks") > 1 ? 2 : 1), word(first->start, "strategy"),
            word(first->start, "device"));
}

/* The newest losses as a line of blocks, lowest to highest. */
static void put_curve(FILE *to, const screen_t *s) {
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
static void put_rank(FILE *to, const screen_t *s, const ls_viewer_rank_t *r, double fastest_us, double now) {
  char phase[32];
  const double own = own_us(&r->newest), speed = fastest_us / own;
  int filled = isfinite(speed) ? (int)(BAR_COLUMNS * fmin(1, speed) + 0.5) : 0;
  fprintf(to, "rank %-3d [", r->rank);
  for (int i = 0; i < BAR_COLUMNS; i++)
    fputc(i < filled ? '#' : '.', to);
  fprintf(to, "]");
  if (isfinite(speed)) fprintf(to, " %3.0f %%  %s own", 100 * speed, cli_time(1e3 * own));
  put_if(to, "  %.0f %% waits", 100 * r->newest.exposed_comm_us / r->newest.step_time_us);
  put_if(to, "  cpu %.2f", r->newest.cpu_ratio);
  if (isfinite(r->newest.memory_bytes)) fprintf(to, "  %s", cli_bytes((int64_t)r->newest.memory_bytes));
  phase_of(s, r->rank, phase);
  if (*phase && !r->end) fprintf(to, "  %s", phase);
  if (r->any && !r->end) fprintf(to, "  %.1f s ago", fmax(0, now - r->newest.t));
  fputc('\n', to);
}

/* P power, T heat (temperature), H hardware brake. */
static void put_gpu(FILE *to, const ls_viewer_rank_t *r) {
  const ls_monitor_sample_t *g = &r->newest;
  if (!r->any || (isnan(g->gpu_ratio) && isnan(g->gpu_memory_bytes) && isnan(g->gpu_temperature_c))) return;
  fprintf(to, "gpu of rank %-3d", r->rank);
  put_if(to, "  %3.0f %%", 100 * g->gpu_ratio);
  if (isfinite(g->gpu_memory_bytes))
    fprintf(to, "  %s of %s", cli_bytes((int64_t)g->gpu_memory_bytes),
            cli_bytes((int64_t)g->gpu_memory_size_bytes));
  put_if(to, "  %.0f C", g->gpu_temperature_c);
  put_if(to, " (margin %.0f)", g->gpu_margin_c);
  put_if(to, "  %.0f W", g->gpu_power_w);
  put_if(to, "  %.0f MHz", g->gpu_clock_mhz);
  if (g->gpu_ecc_uncorrected > 0) fprintf(to, "  ECC %.0f", g->gpu_ecc_uncorrected);
  if (g->gpu_xid_errors > 0) fprintf(to, "  XID %.0f", g->gpu_xid);
  fprintf(to, "  %s%s%s\n", g->gpu_power_limited > 0 ? "P" : "", g->gpu_heat_limited > 0 ? "T" : "",
          g->gpu_brake_limited > 0 ? "H" : "");
}

/* The members of an event that people want to read, in the order of the line. */
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
    fprintf(to, " %s\n", cli_shown(word(line, "summary")));
    return;
  }
  json_object_foreach((json_t *)(uintptr_t)line, name, value) {
    bool hidden = json_is_null(value);
    for (int i = 0; i < LS_COUNT(known); i++)
      hidden |= !strcmp(name, known[i]);
    if (!hidden && json_is_integer(value))
      fprintf(to, "  %s %lld", name, (long long)json_integer_value(value));
    if (!hidden && json_is_real(value)) fprintf(to, "  %s %.6g", name, json_real_value(value));
    if (!hidden && json_is_string(value)) fprintf(to, "  %s %s", name, cli_shown(json_string_value(value)));
  }
  fputc('\n', to);
}

static char *compose(const screen_t *s) {
  const ls_viewer_t *v = &s->view;
  const ls_viewer_rank_t *first = ls_viewer_rank(v, 0);
  const double now = now_s();
  char *text = NULL;
  size_t size_bytes;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  put_head(to, v);
  fputc('\n', to);
  if (first && first->any) {
    put_numbers(to, &first->newest);
    fputc('\n', to);
  }
  put_curve(to, s);
  double fastest_us = NAN;
  for (int i = 0; i < v->count; i++)
    fastest_us = fmin(fastest_us, own_us(&v->rank[i].newest));
  for (int i = 0; i < v->count; i++)
    put_rank(to, s, &v->rank[i], fastest_us, now);
  for (int i = 0; i < v->count; i++)
    put_gpu(to, &v->rank[i]);
  size_t events = json_array_size(v->events), from = events > EVENTS_SHOWN ? events - EVENTS_SHOWN : 0;
  for (size_t i = from; i < events; i++)
    put_event(to, json_array_get(v->events, i));
  fclose(to);
  return text;
}

/* ---- showing ---- */

/* Prints the line up to its end or `columns` characters; returns what is behind it. */
static const char *print_line(const char *line, int columns) {
  size_t len = 0;
  for (int shown = 0; line[len] && line[len] != '\n'; len++) {
    bool begins = (line[len] & 0xc0) != 0x80; /* not the middle of a character */
    if (begins && shown++ == columns) break;
  }
  cli_print("%.*s\n", (int)len, line);
  line += strcspn(line, "\n");
  return line + (*line == '\n');
}

/* On a terminal: no more lines than fit, since those above its top could not be drawn again. */
static void draw(screen_t *s, bool again) {
  struct winsize size;
  char *text = compose(s);
  int most = INT_MAX;
  if (again && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) s->columns = size.ws_col;
    if (size.ws_row > 0) most = size.ws_row > 1 ? size.ws_row - 1 : 1;
  }
  if (again && s->lines > 0) printf("\033[%dA\r\033[J", s->lines);
  s->lines = 0;
  for (const char *at = text; at && *at && s->lines < most; s->lines++)
    at = print_line(at, again ? s->columns - 1 : INT_MAX);
  free(text);
  fflush(stdout);
}

/* Where stdout is no terminal: the newest record of rank 0, and every event. */
static void print_event(void *user, int rank, const json_t *line) {
  char *text = NULL;
  size_t size_bytes;
  const bool shown = strcmp(word(line, "kind"), "record") != 0 && strcmp(word(line, "kind"), "timeline") != 0;
  FILE *to = shown ? open_memstream(&text, &size_bytes) : NULL;
  (void)user;
  (void)rank;
  if (!to) return;
  put_event(to, line);
  fclose(to);
  cli_print("%s", text);
  free(text);
}

static void print_state(const ls_viewer_t *v, bool numbers) {
  char *text = NULL;
  size_t size_bytes;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return;
  put_head(to, v);
  if (numbers) put_numbers(to, &ls_viewer_rank(v, 0)->newest);
  fclose(to);
  cli_print("%s\n", text);
  free(text);
}

static bool is_silent(const ls_viewer_t *v) {
  return ls_viewer_state(v, NULL) == LS_VIEWER_SILENT;
}

static ls_status_t follow(ls_ctx_t *ctx, screen_t *s) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  bool silent = is_silent(&s->view);
  double shown_t = NAN;
  cli_stop_mode(CLI_STOP_ASK); /* Ctrl-C is how one leaves */
  if (!terminal) {
    draw(s, false);
    s->view.seen = print_event;
  }
  for (;;) {
    int64_t lines;
    const ls_viewer_rank_t *first = ls_viewer_rank(&s->view, 0);
    if (terminal) draw(s, true);
    if (!terminal && first && first->any && first->newest.t > shown_t) print_state(&s->view, true);
    const bool was_silent = silent;
    silent = is_silent(&s->view);
    if (!terminal && silent && !was_silent) print_state(&s->view, false);
    shown_t = first && first->any ? first->newest.t : 0;
    if (fflush(stdout) != 0) return cli_output_lost(ctx);
    if (cli_stop_requested() || (first && first->end)) return LS_OK;
    poll(NULL, 0, LOOK_MS);
    ls_status_t status = ls_viewer_update(&s->view, &lines);
    if (status != LS_OK) return status;
  }
}

static void print_json(const screen_t *s) {
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
  cli_print_json(json_pack("{s:s, s:o?, s:s, s:O?, s:o?, s:O?}", "command", "monitor", "dir",
                           ls_json_text(v->dir), "state", state, "start", first ? first->start : NULL,
                           "ranks", ranks, "events", v->events));
}

static ls_status_t run_web(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_viewer_t view;
  const char *address = args->extra[MONITOR_ADDRESS] ? args->extra[MONITOR_ADDRESS] : "127.0.0.1";
  ls_status_t status = LS_OK;
  if (args->extra[MONITOR_ONCE] || args->json)
    status =
        ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep monitor: --web cannot be combined with --once or --json");
  if (status == LS_OK && !ls_monitor_is_address(address))
    status =
        ls_fail(ctx, LS_ERR_ARGUMENT,
                "lockstep monitor: --address takes an IPv4 address such as 127.0.0.1, not \"%s\"", address);
  if (status == LS_OK) status = ls_viewer_open(ctx, args->operand[0], &view);
  if (status != LS_OK) return status;
  status = cli_monitor_web(ctx, &view, address, (int)args->whole[MONITOR_PORT]);
  ls_viewer_close(&view);
  return status;
}

/* Without it the ranks' phases are not shown; a run in one process has none. */
static void open_page(ls_ctx_t *ctx, screen_t *s) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  const ls_status_t status = own ? ls_page_read(own, s->view.dir, &s->page) : LS_ERR_MEMORY;
  if (status != LS_OK) s->page = NULL;
  if (own && status != LS_OK && status != LS_ERR_NOT_FOUND)
    ls_log(ctx, LS_LOG_WARN, "%s; the ranks' phases are not shown", ls_ctx_error(own));
  ls_ctx_destroy(own);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  screen_t s = {.columns = COLUMNS_USUAL};
  int64_t lines;
  if (args->extra[MONITOR_WEB]) return run_web(ctx, args);
  if (args->extra[MONITOR_PORT] || args->extra[MONITOR_ADDRESS])
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep monitor: --port and --address need --web");
  setlocale(LC_CTYPE, "");
  s.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
  ls_status_t status = ls_viewer_open(ctx, args->operand[0], &s.view);
  if (status != LS_OK) return status;
  open_page(ctx, &s);
  status = ls_viewer_update(&s.view, &lines);
  if (status == LS_OK && args->json)
    print_json(&s);
  else if (status == LS_OK && args->extra[MONITOR_ONCE])
    draw(&s, false);
  else if (status == LS_OK)
    status = follow(ctx, &s);
  ls_page_close(s.page);
  ls_viewer_close(&s.view);
  return status;
}

static const cli_command_t command = {.name = "monitor",
                                      .place = 71,
                                      .summary = "Shows a running training: loss, ranks, GPUs, events.",
                                      .details = "DIR is the training's monitor.dir, or a folder in which "
                                                 "that is called monitor (docs/monitor.md). Nothing "
                                                 "is written there, and the training does not "
                                                 "notice.\nOn a terminal the screen is drawn again until the "
                                                 "run ends or Ctrl-C. A bar is a rank's own speed "
                                                 "beside the fastest\nrank's. Letters behind a GPU say what "
                                                 "limits its clock: P power, T heat, H a hardware "
                                                 "brake.\nThe page of --web keeps its token in "
                                                 "DIR/web.token, which only its owner may read: with it, "
                                                 "the address stays the same.",
                                      .flags = CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
                                      .operands = "DIR",
                                      .operand_count = 1,
                                      .extra = flags,
                                      .run = run};
CLI_COMMAND(command)
