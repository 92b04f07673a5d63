/* The page of `lockstep monitor --web`: one folder of files built into the program, the curves of a history, and a stream
 * of what is new (server-sent events). Whoever asks has to know the token, which is the first part of every address. Only
 * GET is answered; a foreign Host or Origin is refused, so that no other page in the same browser reads a run. */
#ifndef LS_MONITOR_WEB_H
#define LS_MONITOR_WEB_H

#include "base/expand.h"
#include "monitor/history.h"

enum { LS_WEB_TOKEN_BYTES = 33 };

extern const ls_embedded_t ls_web_files[];

/* Whether this build has a server. */
extern const bool ls_web_here;

/* The token that `path` holds, a file that its owner alone may read; a new one is written there if there is no file.
 * LS_ERR_CONFIG if others may read it. */
ls_status_t ls_web_token(ls_ctx_t *ctx, const char *path, char token[LS_WEB_TOKEN_BYTES]);
/* Whether `text` begins with it, in a time that tells nothing about the token. */
bool ls_web_token_is(const char token[LS_WEB_TOKEN_BYTES], const char *text);

typedef struct ls_web ls_web_t;
/* Listens on an IPv4 address; port 0: any free one. The history is borrowed until stop. */
ls_status_t ls_web_start(ls_ctx_t *ctx, const char *address, int port, const char *token,
                         ls_history_t *history, ls_web_t **web);
const char *ls_web_url(const ls_web_t *web);
/* Ends the history, too. */
void ls_web_stop(ls_web_t *web);

#endif
