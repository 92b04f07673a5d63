/* Connections wait in places until they have identified themselves. A stranger that says nothing keeps its place for a second
 * at most when others want one. */
#include "supervise/listener.h"

#include "base/base.h"
#include "base/tcp.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PLACES_MORE = 16 };
static const int64_t place_ns = 1000000000;

typedef struct {
  ls_wire_t wire;
  int64_t since_ns;
} unidentified_t;

struct ls_listener {
  ls_ctx_t *ctx;
  const char *token;
  int socket, port, epoll;
  int refused_count,
      refused_log_at; /* messages without the token; the count at which the next one is logged */
  int places;
  unidentified_t place[];
};

ls_status_t ls_listener_open(ls_ctx_t *ctx, int port, int hosts, const char *token, ls_listener_t **out) {
  const int places = hosts + PLACES_MORE;
  ls_listener_t *l = ls_alloc(ctx, sizeof *l + (size_t)places * sizeof l->place[0]);
  if (!l) return LS_ERR_MEMORY;
  l->ctx = ctx;
  l->token = token;
  l->places = places;
  for (int i = 0; i < places; i++)
    l->place[i].wire.fd = -1;
  l->epoll = epoll_create1(EPOLL_CLOEXEC);
  l->socket = ls_tcp_listen(port, places, &l->port);
  if (l->epoll >= 0 && l->socket >= 0) {
    ls_listener_watch(l, l->socket);
    *out = l;
    return LS_OK;
  }
  const ls_status_t status =
      ls_fail_errno(ctx, "supervise.port: the other hosts cannot be heard at port %d", port);
  ls_listener_close(l);
  return status;
}

void ls_listener_close(ls_listener_t *l) {
  if (!l) return;
  for (int i = 0; i < l->places; i++)
    ls_wire_close(&l->place[i].wire);
  if (l->socket >= 0) close(l->socket);
  if (l->epoll >= 0) close(l->epoll);
  ls_free(l);
}

int ls_listener_port(const ls_listener_t *l) {
  return l->port;
}

int ls_listener_epoll(const ls_listener_t *l) {
  return l->epoll;
}

void ls_listener_watch(const ls_listener_t *l, int fd) {
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event);
}

/* Logs the 1st, 10th, 100th, so that nobody can fill the log. */
static void log_refused(ls_listener_t *l) {
  if (++l->refused_count < l->refused_log_at) return;
  l->refused_log_at = l->refused_count * 10;
  ls_log(l->ctx, LS_LOG_WARN, "a message without this run's token came to port %d: dropped (%d so far)",
         l->port, l->refused_count);
}

/* True: it has identified itself, and its place is free. Otherwise it stays if it is still to say something. */
static bool identify(ls_listener_t *l, unidentified_t *place, int64_t now_ns, int64_t silent_ns,
                     ls_hello_t *hello) {
  const char *message;
  if (place->wire.fd < 0) return false;
  const ls_wire_received_t received = ls_wire_receive(&place->wire, l->token, &message);
  hello->life = 0;
  if (received == LS_WIRE_MESSAGE &&
      sscanf(message, "hello %d %d %d", &hello->version, &hello->host, &hello->life) >= 2) {
    hello->wire = place->wire;
    place->wire.fd = -1;
    return true;
  }
  if (received == LS_WIRE_REFUSED) log_refused(l);
  if (received != LS_WIRE_NOTHING || now_ns - place->since_ns > silent_ns) ls_wire_close(&place->wire);
  return false;
}

/* A free place, or that of the connection that has been silent longest. NULL: all of them have just come. */
static unidentified_t *find_place(ls_listener_t *l, int64_t now_ns) {
  unidentified_t *place = &l->place[0];
  for (int i = 1; i < l->places && place->wire.fd >= 0; i++)
    if (l->place[i].wire.fd < 0 || l->place[i].since_ns < place->since_ns) place = &l->place[i];
  return place->wire.fd < 0 || now_ns - place->since_ns > place_ns ? place : NULL;
}

bool ls_listener_next(ls_listener_t *l, int64_t now_ns, int64_t silent_ns, ls_hello_t *hello) {
  for (int i = 0; i < l->places; i++)
    if (identify(l, &l->place[i], now_ns, silent_ns, hello)) return true;
  for (unidentified_t *place; (place = find_place(l, now_ns));) {
    const int fd = accept4(l->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return false;
    ls_wire_close(&place->wire);
    *place = (unidentified_t){.wire.fd = fd, .since_ns = now_ns};
    ls_listener_watch(l, fd);
    if (identify(l, place, now_ns, silent_ns, hello)) return true;
  }
  return false;
}
