/* Inside lockstep probe: the results, and the functions that measure and print them. */
#ifndef LS_CLI_PROBE_H
#define LS_CLI_PROBE_H

#include "cli/cli.h"
#include "machine/profile.h"
#include "probe/doctor.h"
#include "probe/probe.h"

enum {
  CLI_PROBE_OUTPUT,
  CLI_PROBE_MACHINE,
  CLI_PROBE_QUICK,
  CLI_PROBE_RANKS,
  CLI_PROBE_WORLD,
  CLI_PROBE_FRESH
}; /* rows of its own flags */
enum { CLI_PROBE_NOTES_MAX = 16, CLI_PROBE_RANKS_MAX = 8 };

typedef struct {
  ls_ctx_t *ctx; /* for warnings */
  ls_machine_t machine;
  ls_profile_t *profile; /* NULL: a recorded machine without measurements */
  ls_finding_t finding[LS_FINDINGS_MAX];
  int finding_count;
  char note[CLI_PROBE_NOTES_MAX][256]; /* what was not measured, and why */
  int note_count;
  int wrong_copies;
  char *path;       /* of the profile, NULL = not saved */
  const char *kept; /* entries that an older profile had and this one keeps, NULL = none */
  double wall_s;
  char *dir; /* of the children's files */
} cli_probe_t;

void cli_probe_note(cli_probe_t *probe, const char *fmt, ...) LS_PRINTF(2, 3);

/* Returns the next number of ranks to try, 0 = no further one. The first is 1; then powers of two, and all that
 * exist, up to CLI_PROBE_RANKS_MAX. */
int cli_probe_next(int ranks, int most);
/* Starts this program again with these arguments, ended by NULL, and a time limit. A failure becomes a note that
 * begins with `what`, and a warning, because plan shows no notes. */
bool cli_probe_child(cli_probe_t *probe, const char *const *argv, const char *stdout_path, const char *what);
/* probe_ranks.c. Starts the ranks of this program once per world size and adds the ranks' measurements;
 * failures become notes. */
void cli_probe_worlds(bool quick, int gpus, cli_probe_t *probe);
/* probe_memory.c: memory of libraries in a rank's process, per backend and number of ranks. */
void cli_probe_memory(bool quick, int gpus, cli_probe_t *probe);
/* Runs for --ranks-into and --world: starts the ranks, each of which measures; rank 0 writes the file. */
ls_status_t cli_probe_rank(ls_ctx_t *ctx, const cli_args_t *args);

/* probe_show.c */
void cli_probe_show(const cli_probe_t *probe);
void cli_probe_json(const cli_probe_t *probe);

#endif
