/* A run after the fact: its event logs as one document for the report tool, thinned so that a run of days stays small. */
#ifndef LS_MONITOR_PAST_H
#define LS_MONITOR_PAST_H

#include "base/ctx.h"

#include <jansson.h>

/* {command, version, dir, ranks [{rank, lines}], supervised} of the logs in `dir` (ls_viewer_open). *document: new reference.
 * LS_ERR_NOT_FOUND: there is no log. LS_ERR_DATA: the logs have no line of a training. Local. */
ls_status_t ls_past_read(ls_ctx_t *ctx, const char *dir, json_t **document);

#endif
