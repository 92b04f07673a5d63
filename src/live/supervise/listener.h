/* The port to which agents connect. Whoever connects is unidentified until a message with the run's token says which host it
 * is; until then it occupies one of a limited number of places. Inside supervise. */
#ifndef LS_SUPERVISE_LISTENER_H
#define LS_SUPERVISE_LISTENER_H

#include "supervise/wire.h"

typedef struct ls_listener ls_listener_t;
/* port 0: any. Room for `hosts` agents that connect at the same time. `token` is borrowed. */
ls_status_t ls_listener_open(ls_ctx_t *ctx, int port, int hosts, const char *token, ls_listener_t **listener);
void ls_listener_close(ls_listener_t *listener); /* NULL is allowed */
int ls_listener_port(const ls_listener_t *listener);
/* Readable when something has arrived on the port, on a connection that came through it, or on a descriptor that
 * ls_listener_watch has added. */
int ls_listener_epoll(const ls_listener_t *listener);
void ls_listener_watch(const ls_listener_t *listener, int fd);

/* An agent's first message, and its connection. */
typedef struct {
  int version, host, life; /* host: unchecked; life: as in its settings */
  ls_wire_t wire;          /* becomes the caller's */
} ls_hello_t;
/* The next agent that has identified itself; false: there is none at the moment. Connections that stay silent for
 * `silent_ns` are closed, messages without the token are logged. */
bool ls_listener_next(ls_listener_t *listener, int64_t now_ns, int64_t silent_ns, ls_hello_t *hello);

#endif
