/* The launcher that starts the ranks: which mpirun is on PATH, and its command line. Also separates its
 * output from that of the ranks. */
#ifndef LS_CLI_LAUNCHER_H
#define LS_CLI_LAUNCHER_H

#include "base/base.h"
#include "base/child.h"

#include <stdio.h>

enum { CLI_LAUNCHER_ARGS = 8 };

typedef struct {
  const char *name;  /* "Open MPI 5" */
  const char *match; /* in what `mpirun --version` prints; the first row that matches counts */
  const char *args[CLI_LAUNCHER_ARGS]; /* before the number of ranks; ended by NULL */
  const char *remedy;                  /* not NULL: it cannot start ranks of this program */
} cli_launcher_t;

/* Runs `mpirun --version`. LS_ERR_UNSUPPORTED with the remedy when there is none, or none that can start
 * ranks. */
ls_status_t cli_launcher_find(ls_ctx_t *ctx, int ranks, const cli_launcher_t **launcher);

/* Lines of the launcher in the stderr that it shares with the ranks: between rules of dashes, or beginning
 * with "[host:pid]" or with its name. They are held back; the ranks' output passes at once, even without a
 * line end. A progress line that a rank rewrites on a terminal loses the line end behind it. */
enum { CLI_NOISE_BYTES = 16384, CLI_NOISE_LINE_BYTES = 1024 };
typedef struct {
  FILE *to;              /* where ranks' lines go */
  bool show_all;         /* the launcher's lines, too */
  bool passing;          /* the line that has begun is a rank's */
  bool ruled;            /* between two rules */
  bool terminal;         /* the ranks rewrite a progress line in place */
  bool rewritten;        /* the last bytes ended such a progress line */
  bool held;             /* the last line was the launcher's, and so are empty ones after it */
  bool error_said;       /* a rank has reported an error */
  bool interrupted_said; /* its only error: training was interrupted, which is reported once everything is
                          * saved */
  int line_bytes, text_bytes;
  char line[CLI_NOISE_LINE_BYTES];
  char text[CLI_NOISE_BYTES]; /* the launcher's lines; what does not fit is dropped */
} cli_noise_t;

void cli_noise_add(cli_noise_t *noise, const char *bytes, size_t size_bytes);
void cli_noise_end(cli_noise_t *noise); /* a last line without an end */
/* The rank that a signal ended, and the signal, if the launcher names them; else false. */
bool cli_noise_signal(const cli_noise_t *noise, int *rank, int *signal_number);
/* The launcher's last paragraph in one line. "" = none. */
void cli_noise_reason(const cli_noise_t *noise, char reason[256]);

/* launcher_exit.c: the exit code of the whole: mpirun's, which is that of the first rank that failed;
 * reported where no rank has done so. After a signal, also one to mpirun alone, what mpirun or a rank that was not ready made of it (1,
 * or the signal itself) is no failure but an interruption; after a second one anything is.
 * given_up: mpirun hung and was ended. */
int cli_launcher_exit(ls_ctx_t *ctx, const char *launcher, const cli_noise_t *noise,
                      const ls_child_end_t *end, bool given_up);

#endif
