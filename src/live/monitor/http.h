/* Shared by the servers of this room, in builds that have libmicrohttpd. */
#ifndef LS_MONITOR_HTTP_H
#define LS_MONITOR_HTTP_H

#include "base/ctx.h"

#include <microhttpd.h>

typedef struct ls_http ls_http_t;
/* Listens on an IPv4 address with a port, with threads that take no signals. `threads`: one for each connection, else one
 * for all. A failure is reported under `name`. A connection is a stranger's until ls_http_trust. Strangers that say nothing for
 * 2 s are dropped, and where too many are there the oldest is, so that a new one is always taken. */
ls_status_t ls_http_listen(ls_ctx_t *ctx, const char *name, const char *address, int64_t port, bool threads,
                           MHD_AccessHandlerCallback serve, void *user, ls_http_t **http);
int ls_http_port(const ls_http_t *http);
void ls_http_stop(ls_http_t *http);
/* Whoever asks has shown that he may: new connections do not drop this one, and it may be silent for 10 s. False: as many as
 * possible are trusted already. */
bool ls_http_trust(ls_http_t *http, struct MHD_Connection *connection);
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
