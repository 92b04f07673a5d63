/* lockstep monitor DIR --web. Inside cli. */
#ifndef LS_CLI_MONITOR_WEB_H
#define LS_CLI_MONITOR_WEB_H

#include "cli/cli.h"
#include "monitor/page.h"
#include "monitor/read.h"

/* Serves the page until a signal asks to end. `page` may be NULL. */
ls_status_t cli_monitor_web(ls_ctx_t *ctx, ls_viewer_t *view, const char *address, int port);

#endif
