/* The progress of lockstep train on stderr: a line per epoch that stays, and one between them: on a terminal rewritten in
 * place and shortened to its width, elsewhere every ten seconds. */
#ifndef LS_CLI_PROGRESS_H
#define LS_CLI_PROGRESS_H

#include "cli/cli.h"

typedef struct {
  cli_messages_t *messages; /* which clear the line before they are printed */
  bool open;                /* the newest line of a terminal has no end yet */
  bool started;             /* a step was reported; the next fields are of the first one */
  int64_t first_step, first_running_ns;
  int64_t begin_ns;
  int64_t shown_ns, epoch; /* of the newest line */
  int64_t stays_ns;        /* when the newest one was shown that stays */
  int epoch_lines;         /* lines so far that an epoch's end has brought */
} cli_progress_t;

/* Before the run. `messages` is borrowed until the end. */
void cli_progress_begin(cli_progress_t *progress, cli_messages_t *messages);
/* The trainer's hook. */
void cli_progress_show(void *progress, const ls_progress_t *now);
/* After the run: what is printed next begins on a line of its own. */
void cli_progress_end(cli_progress_t *progress);

/* The line in at most `width` characters. Fields that do not fit are left out, the most important ones
 * are kept.
 * left_s is NAN while it is unknown. Pure. */
enum {
  CLI_PROGRESS_FIELDS = 32,
  CLI_PROGRESS_FIELD_BYTES = 64,
  CLI_PROGRESS_BYTES = CLI_PROGRESS_FIELDS * (CLI_PROGRESS_FIELD_BYTES + 2)
};
void cli_progress_format(const ls_progress_t *now, double elapsed_s, double left_s, int width,
                         char text[CLI_PROGRESS_BYTES]);

#endif
