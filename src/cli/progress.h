/* What lockstep train says on stderr while a run goes on: one line, rewritten in place on a terminal, a line
 * per epoch elsewhere. */
#ifndef LS_CLI_PROGRESS_H
#define LS_CLI_PROGRESS_H

#include <lockstep/train.h>

typedef struct {
  bool terminal; /* stderr is one: the line is rewritten in place */
  int64_t shown_ns;
  int64_t epoch;
  int width; /* of the line on the screen */
} cli_progress_t;

void cli_progress_begin(cli_progress_t *progress);
void cli_progress_show(void *progress, const ls_progress_t *now); /* the trainer's hook */

#endif
