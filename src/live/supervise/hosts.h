/* The supervisor's side of several hosts: starts an agent on each (agent.h), shows what the agents report on the supervisor's
 * own page, and says which host is lost. Inside supervise. */
#ifndef LS_SUPERVISE_HOSTS_H
#define LS_SUPERVISE_HOSTS_H

#include "monitor/ring.h"
#include "supervise/fault.h"

#include <jansson.h>

#define LS_HOSTS_TOKEN_NAME "hosts.token"

typedef struct ls_hosts ls_hosts_t;
/* Once for a run: the port, and the token in a file of spec->shared that its owner alone may read. */
ls_status_t ls_hosts_open(ls_ctx_t *ctx, const ls_supervise_t *spec, ls_hosts_t **hosts);
void ls_hosts_close(ls_hosts_t *hosts); /* NULL is allowed */

/* Starts an agent on each host that has places, for a life whose ranks are shown on `page` (borrowed until the end, as
 * places and rings; rings NULL: none). */
ls_status_t ls_hosts_begin(ls_hosts_t *hosts, const ls_places_t *places, ls_page_t *page, ls_rings_t *rings);
/* "LOCKSTEP_PAGE=DIR", for the environment of this life's ranks. */
const char *ls_hosts_environment(const ls_hosts_t *hosts);
const char *
ls_hosts_page_dir(const ls_hosts_t *hosts); /* DIR: on each host its agent makes it, and removes it */
int ls_hosts_fd(const ls_hosts_t *hosts);   /* readable when there is something to receive */
/* Receives what has arrived, sends heartbeats when they are due, and notices hosts that are silent for too long. */
void ls_hosts_serve(ls_hosts_t *hosts, int64_t now_ns);
bool ls_hosts_ready(ls_hosts_t *hosts); /* all of this life: its ranks may start */
/* Whether a host is lost, or has refused, which counts as lost once all were ready: fills kind, code, host, words and
 * noticed_ns. */
bool ls_hosts_lost(const ls_hosts_t *hosts, ls_fault_t *fault);
bool ls_hosts_rank_ended(const ls_hosts_t *hosts, int rank); /* its process */
bool ls_hosts_rank_stopped(const ls_hosts_t *hosts, int rank);
/* Stops the ranks on all hosts (Ctrl-Z), and lets them go on. */
void ls_hosts_pause(const ls_hosts_t *hosts, bool pause);

/* The report of a hang uses these. */
void ls_hosts_fetch_rings(ls_hosts_t *hosts); /* the ranks' last collectives; takes 2 s at most */
/* Looks at a rank's process on its host (ls_evidence_process). Takes 10 s at most. New reference. */
json_t *ls_hosts_fetch_process(ls_hosts_t *hosts, int rank);
void ls_hosts_abort_collectives(const ls_hosts_t *hosts); /* in which devices wait for each other */

/* Ends what is left of the ranks on every host, and the agents. A host that does not confirm it within
 * supervise.host_s is lost. */
void ls_hosts_end(ls_hosts_t *hosts);

#endif
