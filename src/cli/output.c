/* Prints tables and documents on stdout. */
#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SLOTS = 4 };

static const char *kept(ls_text_t text) {
  static ls_text_t slots[TEXT_SLOTS];
  static int slot;
  slot = (slot + 1) % TEXT_SLOTS;
  slots[slot] = text;
  return slots[slot].s;
}

/* A reader that has gone (head, a pager) knows why. */
ls_status_t cli_output_lost(ls_ctx_t *ctx) {
  struct pollfd out = {.fd = STDOUT_FILENO};
  int error = errno;
  if (poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP))) return LS_ERR_IO;
  errno = error;
  return ls_fail_errno(ctx, "cannot write the result to stdout");
}

static void end_short_of_memory(void) {
  fputs("lockstep: error: out of memory for the output\n", stderr);
  exit(ls_status_exit_code(LS_ERR_MEMORY));
}

int cli_print(const char *fmt, ...) {
  char *text = NULL, plain[LS_PLAIN_BYTES];
  va_list args;
  va_start(args, fmt);
  int len = vasprintf(&text, fmt, args);
  va_end(args);
  if (len < 0) end_short_of_memory();
  for (const char *c = text; *c;) {
    c += ls_text_plain(c, plain);
    fputs(plain, stdout);
  }
  free(text);
  return len;
}

void cli_print_json(json_t *document) {
  if (!document || json_object_set_new(document, "version", json_integer(CLI_JSON_VERSION)) != 0)
    end_short_of_memory();
  char *text = ls_json_dump(document, JSON_INDENT(2));
  if (text) puts(text);
  free(text);
  json_decref(document);
}

void cli_metrics_print(const ls_eval_metrics_t *m, const char *what, int name_width, int value_width) {
  for (int i = 0; i < m->count; i++) {
    const ls_eval_metric_t *v = &m->v[i];
    if (v->usual) continue;
    cli_print("  %s%-*s ", what, name_width - (int)strlen(what), v->name);
    if (v->share)
      cli_print("%*.2f %%\n", value_width ? value_width - 1 : 0, 100 * v->value);
    else
      cli_print("%*.6g%s\n", value_width, v->value, v->each ? " (mean of the targets)" : "");
    for (int o = 0; v->each && o < m->targets; o++)
      cli_print("    %-*s %*.6g\n", name_width - 2, m->target[o], value_width, v->of[o]);
  }
}

const char *cli_shown(const char *path) {
  static char text[TEXT_SLOTS][PATH_MAX * LS_PLAIN_BYTES];
  static int slot;
  slot = (slot + 1) % TEXT_SLOTS;
  return ls_text_shown(path, SIZE_MAX, text[slot], sizeof text[slot]);
}

const char *cli_count(int64_t value) {
  return kept(ls_text_whole(value));
}

const char *cli_bytes(int64_t bytes) {
  return kept(ls_text_bytes(bytes));
}

const char *cli_time(double ns) {
  return kept(ls_text_time(ns));
}
