/* The supervisor's side of several hosts: starts an agent on each (agent.h), takes what they say over TCP, shows it on the
 * supervisor's own page, and says which host is lost. Inside supervise. */
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
int ls_hosts_fd(const ls_hosts_t *hosts); /* readable when there is something to take */
/* Takes what has come and says what is due. */
void ls_hosts_serve(ls_hosts_t *hosts, int64_t now_ns);
bool ls_hosts_ready(const ls_hosts_t *hosts); /* all of this life: its ranks may start */
/* Whether a host is lost, or has refused: fills kind, code, host, words and noticed_ns. */
bool ls_hosts_lost(const ls_hosts_t *hosts, ls_fault_t *fault);
/* Of a hang: copies the ranks' last collectives into the rings (2 s at most); what can be seen of a rank's process on its
 * host (ls_evidence_process, 8 s at most; new reference); asks devices that wait for each other to give up. */
void ls_hosts_take_rings(ls_hosts_t *hosts);
json_t *ls_hosts_look(ls_hosts_t *hosts, int rank);
void ls_hosts_give_up(const ls_hosts_t *hosts);
void ls_hosts_hold(const ls_hosts_t *hosts, bool hold);
bool ls_hosts_gone(const ls_hosts_t *hosts, int rank); /* its process has ended */
bool ls_hosts_stopped(const ls_hosts_t *hosts, int rank);
/* Ends what is left of the ranks on every host, and the agents. A host that does not confirm it is lost. */
void ls_hosts_end(ls_hosts_t *hosts);

#endif
