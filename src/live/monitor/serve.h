/* Serves the page of a run until it is told to stop: reads the event logs as lockstep monitor does on a terminal, and hands
 * what is new to the server (web.h). */
#ifndef LS_MONITOR_SERVE_H
#define LS_MONITOR_SERVE_H

#include "base/ctx.h"

typedef struct {
  const char *address; /* IPv4 */
  int port;            /* 0 = any free one */
  int (*stop)(void);   /* not 0: end */
  ls_status_t (*serving)(ls_ctx_t *ctx,
                         const char *url); /* called once, when the page can be opened; a failure ends it */
} ls_web_serve_t;

/* The token of the address stays the same: it is the file web.token of the run's folder. LS_ERR_UNSUPPORTED: this build has
 * no server. LS_ERR_NOT_FOUND: there is no run in `dir`. Local. */
ls_status_t ls_web_serve(ls_ctx_t *ctx, const char *dir, const ls_web_serve_t *serve);

#endif
