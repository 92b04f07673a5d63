/* What servers of this module share, by libmicrohttpd. Inside monitor, in builds that have it. */
#ifndef LS_MONITOR_HTTP_H
#define LS_MONITOR_HTTP_H

#include "base/ctx.h"

#include <microhttpd.h>

/* Listens on an IPv4 address with a port, with threads that take no signals. `threads`: one for each connection, else one
 * for all. A failure is reported under `name`. */
ls_status_t ls_http_listen(ls_ctx_t *ctx, const char *name, const char *address, int64_t port, bool threads,
                           MHD_AccessHandlerCallback serve, void *user, struct MHD_Daemon **daemon);
/* GET, and HEAD if `head`; answers others itself. */
bool ls_http_method(struct MHD_Connection *connection, const char *method, bool head,
                    enum MHD_Result *result);
/* Takes the response; every answer says that its type is meant. */
enum MHD_Result ls_http_answer(struct MHD_Connection *connection, unsigned code,
                               struct MHD_Response *response, const char *type);
/* Copies the text. */
enum MHD_Result ls_http_text(struct MHD_Connection *connection, unsigned code, const char *text,
                             size_t size_bytes, const char *type);
enum MHD_Result ls_http_refuse(struct MHD_Connection *connection, unsigned code, const char *text);

#endif
