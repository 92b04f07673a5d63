/* One life of a supervised run: a child process, the ranks below it, and their lines on the page. */
#ifndef LS_SUPERVISE_LIFE_H
#define LS_SUPERVISE_LIFE_H

#include "supervise/hosts.h"
#include "supervise/returns.h"

#include <jansson.h>

#include <stdio.h>

typedef struct {
  ls_fault_t fault;
  json_t *evidence; /* of a hang (evidence.h); NULL: none. The caller's */
  ls_life_t steps;
  int ranks;
  int64_t start_ns;      /* when the child was started */
  int64_t first_step_ns; /* when a rank had finished the life's first step; 0: none did */
  int64_t ended_ns;      /* when no process of it was left */
} ls_life_end_t;

/* Lives it from its start to the end of its last process. `usual` goes on from earlier lives. `printed` receives its
 * stdout. `page` has a line for each rank. `hosts` NULL: this one. `returns` is asked
 * while the life has fewer ranks than the run. LS_ERR_UNSUPPORTED: it could not be started. */
ls_status_t ls_life_run(ls_ctx_t *ctx, const ls_supervise_t *spec, ls_hosts_t *hosts, ls_returns_t *returns,
                        ls_page_t *page, bool again, const ls_places_t *places, int64_t past_step,
                        ls_usual_t *usual, FILE *printed, ls_life_end_t *end);

#endif
