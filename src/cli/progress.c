/* The line that says where a run stands. */
#include "cli/progress.h"

#include "cli/cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROGRESS_EVERY_MS = 100 };

/* A line of the terminal; what does not fit is cut. */
typedef struct {
  char text[256];
  int len;
} line_t;

static void LS_PRINTF(2, 3) add(line_t *line, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int room = (int)sizeof line->text - line->len;
  int n = vsnprintf(line->text + line->len, (size_t)room, fmt, args);
  va_end(args);
  line->len += n < 0 ? 0 : n < room ? n : room - 1;
}

void cli_progress_begin(cli_progress_t *state) {
  *state = (cli_progress_t){.terminal = isatty(STDERR_FILENO) == 1 || getenv(CLI_ENV_TERMINAL)};
}

void cli_progress_show(void *user, const ls_progress_t *p) {
  cli_progress_t *state = user;
  int64_t now = ls_clock_ns();
  bool last = p->step == p->total_steps, epoch_done = p->epoch != state->epoch;
  if (!last && !(state->terminal ? now - state->shown_ns > PROGRESS_EVERY_MS * 1000000ll : epoch_done))
    return;
  state->shown_ns = now;
  state->epoch = p->epoch;
  line_t line = {.len = 0};
  add(&line, "step %lld/%lld", (long long)p->step, (long long)p->total_steps);
  if (p->total_epochs > 0) add(&line, "  epoch %lld/%lld", (long long)p->epoch, (long long)p->total_epochs);
  add(&line, "  loss %.4f", p->train_loss);
  if (isfinite(p->val_loss)) add(&line, "  val %.4f", p->val_loss);
  if (isfinite(p->val_accuracy)) add(&line, " (%.2f %%)", 100 * p->val_accuracy);
  add(&line, "  %s samples/s", cli_count((int64_t)p->samples_per_s));
  if (p->skipped_steps > 0) add(&line, "  skipped %lld", (long long)p->skipped_steps);
  if (!state->terminal) {
    fprintf(stderr, "%s\n", line.text);
    return;
  }
  fprintf(stderr, "\r%s%*s", line.text, state->width > line.len ? state->width - line.len : 0, "");
  state->width = line.len;
  if (last) fputc('\n', stderr);
}
