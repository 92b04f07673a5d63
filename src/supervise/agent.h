/* One host of a run: an agent, which is this program as the supervisor starts it there (lockstep --agent). It makes the page
 * of its host's ranks, sends what they show, at most ten times a second and at once when a process ends, and ends the
 * ranks when it is told to or hears nothing any more. It knows neither MPI nor a device. */
#ifndef LS_SUPERVISE_AGENT_H
#define LS_SUPERVISE_AGENT_H

#include "base/ctx.h"

#define LS_AGENT_FLAG "--agent"
#define LS_AGENT_ENVIRONMENT                                                                                 \
  "LOCKSTEP_PAGE" /* for ranks: the directory of their host's page, instead of monitor.dir */

/* What it has to know, as lines on its stdin: the token is on no command line. */
typedef struct {
  const char *token, *address; /* "-": where ssh came from */
  int port, host, ranks, silent_ms;
  const char *page, *token_file; /* the second: which the host sees if it sees the run's directory */
} ls_agent_t;
/* Writes them to a pipe. False: it cannot be written. */
bool ls_agent_tell(int fd, const ls_agent_t *agent);

/* On purpose, in a rank: ends all that this life has on this host, the agent too, as if the host had died. Returns where
 * there is no agent. */
void ls_agent_lose(void);

/* Runs until the supervisor ends it or is gone. Reads stdin. */
ls_status_t ls_agent_run(ls_ctx_t *ctx);

#endif
