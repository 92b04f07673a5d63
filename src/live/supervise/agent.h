/* One host of a run: an agent, which is this program as the supervisor starts it there (lockstep --agent). It makes the page
 * of its host's ranks, reports what they show, at most ten times a second and at once when a process ends, and kills the
 * ranks when the supervisor says so or has been silent for too long. It knows neither MPI nor a device. */
#ifndef LS_SUPERVISE_AGENT_H
#define LS_SUPERVISE_AGENT_H

#include "supervise/supervise.h"

#define LS_AGENT_FLAG "--agent"
#define LS_AGENT_ENVIRONMENT                                                                                 \
  "LOCKSTEP_PAGE" /* for ranks: the directory of their host's page, instead of monitor.dir */

/* Its settings, which it reads as lines from its stdin, so that the token is on no command line. */
typedef struct {
  const char *token;
  const char *address; /* of the supervisor; "-": where ssh came from */
  int port, host, life, ranks, silent_ms;
  const char *page_dir;
  const char *token_file; /* the host can read it if it sees the run's directory */
} ls_agent_settings_t;

/* The supervisor's side: starts an agent on a host of `spec` through spec->remote_shell, or directly where the host is this
 * one, with these settings and the address at which it finds the supervisor. The caller closes the two pipes. */
ls_status_t ls_agent_start(ls_ctx_t *ctx, const ls_supervise_t *spec, const ls_agent_settings_t *settings,
                           int *agent_stdin, int *agent_stderr);

/* The host's side: runs until the supervisor ends it or is gone. Reads stdin. */
ls_status_t ls_agent_run(ls_ctx_t *ctx);

/* A planted fault, called in a rank: kills all processes of this life on this host, the agent too, as if the host had
 * died. Returns where there is no agent. */
void ls_agent_kill_host(void);

#endif
