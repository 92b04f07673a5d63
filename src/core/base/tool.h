/* Starts the report tool (tools/report), which needs python3. */
#ifndef LS_BASE_TOOL_H
#define LS_BASE_TOOL_H

#include "base/ctx.h"

/* Checks that the tool can run here, which `flag` asks for; call it before anything is measured. LS_ERR_UNSUPPORTED names the
 * remedy, with `instead` as its end; LS_ERR_NOT_FOUND: the tool is not installed. */
ls_status_t ls_tool_ready(ls_ctx_t *ctx, const char *flag, const char *instead);
/* Gives a document (text ended by NUL) to the tool. tools/report/__main__.py lists the forms. *made is text, too; the caller
 * frees it (ls_free). */
ls_status_t ls_tool_make(ls_ctx_t *ctx, const char *form, const char *document, char **made);

#endif
