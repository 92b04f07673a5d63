/* lockstep monitor DIR: a run's monitor.dir, read while the run goes on or afterwards (monitor/screen.h). A terminal gets a
 * screen that is drawn again; anything else gets a line for every record. */
#include "cli/cli.h"
#include "cli/stop.h"
#include "monitor/screen.h"
#include "monitor/serve.h"

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

enum { LOOK_MS = 250, COLUMNS_USUAL = 80 };

/* ---- a terminal ---- */

typedef struct {
  ls_screen_t run;
  int columns;
  int lines; /* of the screen that is shown */
} terminal_t;

/* Prints the line up to its end or `columns` characters; returns the next line. */
static const char *print_line(const char *line, int columns) {
  size_t len = 0;
  for (int shown = 0; line[len] && line[len] != '\n'; len++) {
    const bool begins = (line[len] & 0xc0) != 0x80; /* not the middle of a character */
    if (begins && shown++ == columns) break;
  }
  cli_print("%.*s\n", (int)len, line);
  line += strcspn(line, "\n");
  return line + (*line == '\n');
}

/* Prints everything; `again` (a terminal) in the place of the screen before. Then it prints no more lines than fit, because
 * lines above the top cannot be drawn again. */
static void draw(terminal_t *t, bool again) {
  struct winsize size;
  char *text = ls_screen_text(&t->run);
  int most = INT_MAX;
  if (again && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) t->columns = size.ws_col;
    if (size.ws_row > 0) most = size.ws_row > 1 ? size.ws_row - 1 : 1;
  }
  if (again && t->lines > 0) printf("\033[%dA\r\033[J", t->lines);
  t->lines = 0;
  for (const char *at = text; at && *at && t->lines < most; t->lines++)
    at = print_line(at, again ? t->columns - 1 : INT_MAX);
  free(text);
  fflush(stdout);
}

/* ---- lines ---- */

static void print(char *text) {
  if (text) cli_print("%s", text);
  free(text);
}

static void print_event(void *user, int rank, const json_t *line) {
  (void)user;
  (void)rank;
  print(ls_screen_event(line));
}

/* ---- following ---- */

static ls_status_t follow(ls_ctx_t *ctx, terminal_t *t) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  ls_viewer_t *view = &t->run.view;
  bool silent = ls_viewer_state(view, NULL) == LS_VIEWER_SILENT;
  double shown_t = NAN;
  cli_stop_mode(CLI_STOP_ASK); /* Ctrl-C leaves */
  if (!terminal) {
    draw(t, false);
    view->seen = print_event;
  }
  for (;;) {
    int64_t lines;
    const ls_viewer_rank_t *first = ls_viewer_rank(view, 0);
    const bool was_silent = silent, record = first && first->any && first->newest.t > shown_t;
    silent = ls_viewer_state(view, NULL) == LS_VIEWER_SILENT;
    if (terminal) draw(t, true);
    if (!terminal && record) print(ls_screen_state(view, true));
    if (!terminal && silent && !was_silent) print(ls_screen_state(view, false));
    shown_t = first && first->any ? first->newest.t : 0;
    if (fflush(stdout) != 0) return cli_output_lost(ctx);
    if (cli_stop_requested() || (first && first->end)) return LS_OK;
    poll(NULL, 0, LOOK_MS);
    ls_status_t status = ls_viewer_update(view, &lines);
    if (status != LS_OK) return status;
  }
}

/* ---- the command ---- */

static ls_status_t serving(ls_ctx_t *ctx, const char *url) {
  cli_print("%s\n", url);
  return fflush(stdout) != 0 ? cli_output_lost(ctx) : LS_OK;
}

static ls_status_t run_web(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *address = args->extra[MONITOR_ADDRESS] ? args->extra[MONITOR_ADDRESS] : "127.0.0.1";
  if (args->extra[MONITOR_ONCE] || args->json)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep monitor: --web cannot be combined with --once or --json");
  if (!ls_monitor_is_address(address))
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep monitor: --address takes an IPv4 address such as 127.0.0.1, not \"%s\"",
                   address);
  cli_stop_mode(CLI_STOP_ASK); /* Ctrl-C ends it */
  const ls_web_serve_t serve = {.address = address,
                                .port = (int)args->whole[MONITOR_PORT],
                                .stop = cli_stop_requested,
                                .serving = serving};
  return ls_web_serve(ctx, args->operand[0], &serve);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  terminal_t t = {.columns = COLUMNS_USUAL};
  int64_t lines;
  if (args->extra[MONITOR_WEB]) return run_web(ctx, args);
  if (args->extra[MONITOR_PORT] || args->extra[MONITOR_ADDRESS])
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep monitor: --port and --address need --web");
  setlocale(LC_CTYPE, "");
  t.run.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
  ls_status_t status = ls_screen_open(ctx, args->operand[0], &t.run);
  if (status != LS_OK) return status;
  status = ls_viewer_update(&t.run.view, &lines);
  if (status == LS_OK && args->json)
    cli_print_json(ls_screen_json(&t.run));
  else if (status == LS_OK && args->extra[MONITOR_ONCE])
    draw(&t, false);
  else if (status == LS_OK)
    status = follow(ctx, &t);
  ls_screen_close(&t.run);
  return status;
}

static const cli_command_t command = {.name = "monitor",
                                      .place = 71,
                                      .summary = "Shows a running training: loss, ranks, GPUs, events.",
                                      .details =
                                          "DIR is the training's monitor.dir, or a folder that holds it as "
                                          "monitor (docs/monitor.md). Nothing is written there, "
                                          "and the training\ndoes not notice. On a terminal the screen is "
                                          "drawn again until the run ends or Ctrl-C. A bar is a "
                                          "rank's own speed, relative to the\nfastest rank's. Letters after "
                                          "a GPU say what limits its clock: P power, T heat, H a "
                                          "hardware brake.\nThe page of --web keeps its token in "
                                          "DIR/web.token, which only its owner may read: with it, the "
                                          "address stays the same.",
                                      .flags = CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
                                      .operands = "DIR",
                                      .operand_count = 1,
                                      .extra = flags,
                                      .run = run};
CLI_COMMAND(command)
