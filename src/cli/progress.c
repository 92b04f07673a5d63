/* The progress line. */
#include "cli/progress.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A terminal shows "^C" at the end of the line: room for it keeps the line from wrapping. */
enum {
  TERMINAL_EVERY_MS = 100,
  LINE_EVERY_MS = 10000,
  EPOCH_EVERY_MS =
      2000, /* a file gets a line for each epoch; after the first epochs only if epochs are longer than this */
  EPOCHS_FIRST = 20,
  NS_PER_MS = 1000000,
  ECHO_COLUMNS = 3
};

/* Fields in the order of the line. Each figure of an evaluation is a field of its own. */
enum {
  PERCENT,
  EPOCH,
  STEP,
  LOSS,
  VALIDATION,
  METRIC,
  RATE = METRIC + LS_EVAL_METRICS_MAX,
  SPEED,
  SKIPPED,
  MEMORY,
  ELAPSED,
  LEFT,
  FIELD_COUNT
};

/* The fields that a narrow terminal shows: of these, in this order, each that still fits; a METRIC stands for all. */
static const int most_wanted[] = {PERCENT, LOSS,  LEFT,  SKIPPED, STEP,    VALIDATION,
                                  METRIC,  SPEED, EPOCH, RATE,    ELAPSED, MEMORY};
static_assert(LS_COUNT(most_wanted) - 1 + LS_EVAL_METRICS_MAX == FIELD_COUNT, "every field has its place");

typedef char fields_t[FIELD_COUNT][CLI_PROGRESS_FIELD_BYTES];
static_assert((int)FIELD_COUNT <= (int)CLI_PROGRESS_FIELDS, "all fields fit with what is between them");

/* A field that has no room is left out as a whole: nobody reads half a number. */
static void LS_PRINTF(2, 3) put(char field[CLI_PROGRESS_FIELD_BYTES], const char *fmt, ...) {
  size_t len = strlen(field), room = CLI_PROGRESS_FIELD_BYTES - len;
  va_list args;
  va_start(args, fmt);
  if (vsnprintf(field + len, room, fmt, args) >= (int)room) field[0] = '\0';
  va_end(args);
}

/* "0:07", "12:34", "1:00:00" */
static void put_time(char field[CLI_PROGRESS_FIELD_BYTES], double seconds, const char *what) {
  long long s = seconds < 1e12 ? (long long)seconds : (long long)1e12;
  if (s >= 3600)
    put(field, "%lld:%02lld:%02lld %s", s / 3600, s / 60 % 60, s % 60, what);
  else
    put(field, "%lld:%02lld %s", s / 60, s % 60, what);
}

/* Numbers as in the table at the end. */
static void fill(fields_t f, const ls_progress_t *p, double elapsed_s, double left_s) {
  long long step = p->step, total = p->total_steps > 0 ? p->total_steps : 1;
  put(f[PERCENT], "%3d %%", (int)(100.0 * (double)step / (double)total));
  put(f[EPOCH], "epoch %lld", (long long)p->in_epoch);
  if (p->total_epochs > 0) put(f[EPOCH], "/%lld", (long long)p->total_epochs);
  put(f[STEP], "step %lld/%lld", step, (long long)p->total_steps);
  put(f[LOSS], "loss %.6g", isnan(p->train_loss_mean) ? p->train_loss : p->train_loss_mean);
  if (isfinite(p->val_loss)) put(f[VALIDATION], "val %.6g", p->val_loss);
  if (isfinite(p->val_accuracy)) put(f[VALIDATION], " (%.2f %%)", 100 * p->val_accuracy);
  for (int i = 0; i < p->val_metrics.count; i++)
    if (!p->val_metrics.v[i].usual && isfinite(p->val_metrics.v[i].value))
      put(f[METRIC + i], "%s %.6g", p->val_metrics.v[i].name, p->val_metrics.v[i].value);
  put(f[RATE], "lr %.3g", p->lr);
  put(f[SPEED], "%s samples/s", cli_count((int64_t)p->samples_per_s));
  if (p->skipped_steps > 0) put(f[SKIPPED], "skipped %lld", (long long)p->skipped_steps);
  if (p->device_bytes > 0) put(f[MEMORY], "memory %s", cli_bytes(p->device_bytes));
  put_time(f[ELAPSED], elapsed_s, "elapsed");
  if (isfinite(left_s) && step < p->total_steps) put_time(f[LEFT], left_s, "left");
}

void cli_progress_format(const ls_progress_t *p, double elapsed_s, double left_s, int width,
                         char text[CLI_PROGRESS_BYTES]) {
  fields_t fields = {{0}};
  fill(fields, p, elapsed_s, left_s);
  int used = 0, len = 0;
  for (int i = 0; i < LS_COUNT(most_wanted); i++)
    for (int k = 0; k < (most_wanted[i] == METRIC ? LS_EVAL_METRICS_MAX : 1); k++) {
      char *field = fields[most_wanted[i] + k];
      int more = (int)strlen(field) + 2 * (used > 0);
      if (used + more > width) field[0] = '\0';
      if (field[0]) used += more;
    }
  text[0] = '\0';
  for (int i = 0; i < FIELD_COUNT; i++)
    if (fields[i][0])
      len += snprintf(text + len, (size_t)(CLI_PROGRESS_BYTES - len), "%s%s", len ? "  " : "", fields[i]);
}

/* From the time in which the process ran: a pause (Ctrl-Z) makes no step longer. */
static double left_s(const cli_progress_t *state, const ls_progress_t *p) {
  int64_t done = p->step - state->first_step;
  return done > 0 ? (double)(p->running_ns - state->first_running_ns) * 1e-9 / (double)done *
                        (double)(p->total_steps - p->step)
                  : (double)NAN;
}

void cli_progress_begin(cli_progress_t *state, cli_messages_t *messages) {
  *state = (cli_progress_t){.messages = messages, .begin_ns = ls_clock_ns()};
}

void cli_progress_show(void *user, const ls_progress_t *p) {
  cli_progress_t *state = user;
  int64_t now = ls_clock_ns();
  bool terminal = state->messages->columns > 0, last = p->step == p->total_steps;
  if (!state->started) {
    state->started = true;
    state->first_step = p->step;
    state->epoch = p->in_epoch - 1;
    state->first_running_ns = p->running_ns;
    if (!terminal) state->shown_ns = now; /* a terminal shows the first step at once */
  }
  const bool epoch = p->epoch != state->epoch; /* one has ended: its line stays, on a terminal as well */
  const int epoch_ms = state->epoch_lines < EPOCHS_FIRST ? 0 : EPOCH_EVERY_MS;
  const bool stays = last || (epoch && now - state->stays_ns >= (int64_t)epoch_ms * NS_PER_MS);
  const int every_ms = terminal ? TERMINAL_EVERY_MS : LINE_EVERY_MS;
  if (!stays && now - state->shown_ns < (int64_t)every_ms * NS_PER_MS) return;
  state->shown_ns = now;
  if (stays || !terminal) state->stays_ns = now;
  state->epoch = p->epoch;
  state->epoch_lines += epoch;
  char text[CLI_PROGRESS_BYTES];
  int width = terminal ? cli_terminal_columns() - ECHO_COLUMNS : CLI_PROGRESS_BYTES;
  cli_progress_format(p, (double)(now - state->begin_ns) * 1e-9, left_s(state, p), width, text);
  if (terminal) fprintf(stderr, "\r%s\033[K", text);
  if (!terminal) fputs(text, stderr);
  if (stays || !terminal) fputc('\n', stderr);
  state->messages->line = terminal; /* below a line that stays may be the terminal's "^C" */
  state->open = !stays;
}

void cli_progress_end(cli_progress_t *state) {
  if (state->messages->line) fputs(state->open ? "\n" : "\r\033[K", stderr);
  state->messages->line = false;
}
