/* Signals that ask this process to end: every signal that comes from outside and by default ends a process; and SIGBUS.
 * This is the only module that installs handlers. Each handler runs on the alternate stack if the thread has
 * one. */
#ifndef LS_CLI_STOP_H
#define LS_CLI_STOP_H

#include "base/child.h"

typedef enum {
  CLI_STOP_NOW,  /* the process says so and ends with exit code 130 */
  CLI_STOP_ASK,  /* the signal only changes what the calls below return */
  CLI_STOP_TWICE /* as ASK; a second SIGINT, SIGTERM or SIGQUIT ends the process */
} cli_stop_t;

/* Once, in main: CLI_STOP_NOW (`silent`: without a word, because rank 0 or a launcher speaks). A SIGHUP that is ignored
 * stays so (nohup). SIGPIPE and SIGXFSZ are ignored from here on: writing then fails with EPIPE or EFBIG. SIGBUS of a
 * mapped data file becomes the error of whoever reads it (ls_data_fault). */
void cli_stop_install(bool silent);
/* Returns the mode before. */
cli_stop_t cli_stop_mode(cli_stop_t mode);
/* The first signal since cli_stop_install, 0 = none; and whether SIGINT, SIGTERM or SIGQUIT came twice. */
int cli_stop_requested(void);
bool cli_stop_forced(void);
void cli_stop_force(void);                    /* as if it had come twice */
const char *cli_stop_name(int signal_number); /* "SIGTERM" */

/* SIGTSTP (Ctrl-Z) from now on only sets what the second call returns, once; the caller must stop the
 * process. */
void cli_stop_take_pause(void);
bool cli_stop_paused(void);

/* ls_child_run in CLI_STOP_ASK mode: a stop request ends the child. */
bool cli_stop_run(ls_child_spec_t *spec, ls_child_end_t *end);

#endif
