/* Interprets the end of a launcher: the exit code, and the words that explain it. */
#include "cli/cli.h"
#include "cli/launcher.h"
#include "cli/stop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SIGNAL_CODES = 128, FILES_NEEDED = 64, FILE_BYTES_NEEDED = 64 << 20 };

/* The property of the environment that keeps mpirun from working; NULL = none that is known here. */
static const char *surroundings(ls_ctx_t *quiet) {
  char folder[4096];
  struct rlimit files;
  if (!getcwd(folder, sizeof folder)) return "the current folder has been deleted: change to one that exists";
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_NEEDED)
    return "too few files may be open: raise the limit (ulimit -n)";
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && files.rlim_cur < FILE_BYTES_NEEDED)
    return "files may not become large enough: raise the limit (ulimit -f)";
  char *temporary;
  if (ls_dir_temporary(quiet, "lockstep", &temporary) != LS_OK) return quiet ? ls_ctx_error(quiet) : NULL;
  ls_dir_remove(NULL, temporary);
  ls_free(temporary);
  return NULL;
}

/* No rank has said why the launcher failed. Where the environment shows a reason, another start would fail, too. Otherwise a
 * rank may have been killed before it could say anything, and all that the launcher said is shown. */
static int explain(ls_ctx_t *ctx, const char *launcher, const cli_noise_t *noise, int code) {
  char reason[256];
  ls_ctx_t *quiet = ls_ctx_create(NULL, NULL);
  const char *cause = surroundings(quiet);
  const ls_status_t status = cause ? LS_ERR_UNSUPPORTED : LS_ERR_COMM;
  cli_noise_reason(noise, reason);
  if (!cause && reason[0] && !noise->show_all) {
    fputs(noise->text, noise->to);
    fflush(noise->to);
  }
  if (!reason[0]) snprintf(reason, sizeof reason, "exit code %d", code);
  ls_fail(ctx, status, "mpirun (%s) could not run the ranks%s%s; it says: %s", launcher, cause ? ": " : "",
          cause ? cause : ", and none of them has said why", reason);
  ls_ctx_destroy(quiet);
  return ls_status_exit_code(status);
}

/* Open MPI ends with 128 and the signal of the first process that one has ended, but may not name that process. */
static bool any_signal(const cli_noise_t *noise, int code, int *rank, int *signal_number) {
  if (cli_noise_signal(noise, rank, signal_number)) return true;
  *rank = -1;
  *signal_number = code - SIGNAL_CODES;
  return *signal_number > 0 && *signal_number < NSIG && !noise->error_said;
}

static void log_signal(ls_ctx_t *ctx, int rank, int number) {
  char who[32] = "a rank";
  if (rank >= 0) snprintf(who, sizeof who, "rank %d", rank);
  ls_log(ctx, LS_LOG_ERROR, "%s was ended by signal %d (%s)", who, number, strsignal(number));
}

int cli_launcher_exit(ls_ctx_t *ctx, const char *launcher, const cli_noise_t *noise,
                      const ls_child_end_t *end, bool given_up) {
  int rank, number, code = end->code;
  char words[LS_CHILD_WORDS_BYTES];
  const int interrupted = ls_status_exit_code(LS_ERR_INTERRUPTED);
  bool of_the_signal = code == ls_status_exit_code(LS_ERR_INTERNAL) || code == SIGNAL_CODES + SIGUSR1 ||
                       code == SIGNAL_CODES + SIGTERM || code == interrupted;
  bool asked = cli_stop_requested() && (cli_stop_forced() || of_the_signal);
  if (asked && !noise->error_said)
    ls_fail(ctx, LS_ERR_INTERRUPTED, "interrupted by %s", cli_stop_name(cli_stop_requested()));
  if (asked || (of_the_signal && noise->interrupted_said)) return interrupted;
  if (given_up) return explain(ctx, launcher, noise, code);
  ls_child_words(end, words);
  if (end->signal)
    ls_log(ctx, LS_LOG_ERROR, "mpirun was %s", words);
  else if (code != 0 && code != interrupted && any_signal(noise, code, &rank, &number))
    log_signal(ctx, rank, number);
  else if (code != 0 && !noise->error_said)
    return explain(ctx, launcher, noise, code);
  return code;
}
