/* mpirun of Open MPI, which starts the ranks of a run on several hosts. */
#ifndef LS_SUPERVISE_MPIRUN_H
#define LS_SUPERVISE_MPIRUN_H

#include "supervise/ranks.h"

typedef struct {
  const char *hosts; /* "a:2,b:1" */
  const char *agent; /* the command with which mpirun reaches a host */
  int ranks;
  const char *const *argv; /* of this program, ended by NULL; argv[0] is only its name */
  double patience_s;       /* as in ls_ranks_run */
} ls_mpirun_t;

/* For so many ranks, on the first of these hosts: "a:2,b:1"; and the command with which mpirun reaches them, made of the remote
 * shell. IPv6 addresses, which mpirun does not take, have another name there: "localhost", or "v6-..", which becomes the address
 * again in lockstep --shell COMMAND... */
const char *ls_mpirun_hosts(ls_arena_t *arena, const ls_hosts_config_t *hosts, int ranks);
ls_status_t ls_mpirun_agent(ls_ctx_t *ctx, ls_arena_t *arena, const ls_hosts_config_t *hosts,
                            const char *shell, const char **agent);
/* Runs that command in place of this process; returns if it cannot. */
#define LS_MPIRUN_SHELL_FLAG "--shell"
ls_status_t ls_mpirun_shell(ls_ctx_t *ctx, char **argv);

/* Runs it and returns when it has ended. Requests are passed on to it and to the ranks of this host. *code: the exit code, mpirun's, which is
 * that of the first rank that failed; LS_ERR_INTERRUPTED's after a request. mpirun's own words stand on stderr.
 * LS_ERR_UNSUPPORTED with the remedy when there is no mpirun, or none that can start ranks of this program. */
#define LS_MPIRUN_PARENT "LOCKSTEP_LAUNCHER" /* for ranks: the process that started mpirun */
ls_status_t ls_mpirun_run(ls_ctx_t *ctx, const ls_mpirun_t *spec, const ls_requests_t *requests, int *code);

#endif
