/* Servers by libmicrohttpd: what they share, and GET /metrics for Prometheus. The newest record is kept as text; a request
 * copies it and never reaches the training. */
#include "monitor/sink.h"

#ifdef LS_HAVE_MICROHTTPD
#include "base/signals.h"
#include "monitor/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const bool ls_http_here = true;

/* Limits of connections. There is extra room for connections that are being dropped. */
enum { STRANGERS_MAX = 32, TRUSTED_MAX = 32, GUESTS_MAX = 192, STRANGER_S = 2, TRUSTED_S = 10 };

typedef struct {
  int64_t number; /* in the order of arrival; 0: nobody */
  int fd;
  bool trusted, dropped;
} guest_t;

struct ls_http {
  struct MHD_Daemon *daemon;
  pthread_mutex_t lock; /* of what follows */
  guest_t guest[GUESTS_MAX];
  int64_t arrived;
};

/* Drops the stranger that has waited longest if there are too many. Strangers that are being dropped do not count. */
static void drop_oldest(ls_http_t *h) {
  guest_t *oldest = NULL;
  int strangers = 0;
  for (guest_t *g = h->guest; g < h->guest + GUESTS_MAX; g++) {
    if (g->number == 0 || g->trusted || g->dropped) continue;
    strangers++;
    if (!oldest || g->number < oldest->number) oldest = g;
  }
  if (strangers <= STRANGERS_MAX) return;
  oldest->dropped = true;
  shutdown(oldest->fd, SHUT_RDWR); /* its owner finds the end, and closes it */
}

static void come_and_go(void *user, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code) {
  ls_http_t *h = user;
  guest_t *g = *context;
  pthread_mutex_lock(&h->lock);
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    for (g = h->guest; g < h->guest + GUESTS_MAX - 1 && g->number != 0;)
      g++;
    *g = (guest_t){.number = ++h->arrived,
                   .fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd};
    *context = g;
    drop_oldest(h);
  } else if (g) {
    g->number = 0;
  }
  pthread_mutex_unlock(&h->lock);
}

bool ls_http_trust(ls_http_t *h, struct MHD_Connection *connection) {
  guest_t *g = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
  int trusted = 0;
  pthread_mutex_lock(&h->lock);
  for (int i = 0; i < GUESTS_MAX; i++)
    trusted += h->guest[i].number != 0 && h->guest[i].trusted && &h->guest[i] != g;
  g->trusted = trusted < TRUSTED_MAX;
  pthread_mutex_unlock(&h->lock);
  if (trusted < TRUSTED_MAX)
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)TRUSTED_S);
  return trusted < TRUSTED_MAX;
}

int ls_http_port(const ls_http_t *h) {
  return MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void ls_http_stop(ls_http_t *h) {
  MHD_stop_daemon(h->daemon);
  pthread_mutex_destroy(&h->lock);
  ls_free(h);
}

ls_status_t ls_http_listen(ls_ctx_t *ctx, const char *name, const char *address, int64_t port, bool threads,
                           MHD_AccessHandlerCallback serve, void *user, ls_http_t **http) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (port < 0 || port > UINT16_MAX || inet_pton(AF_INET, address, &place.sin_addr) != 1)
    return ls_fail(ctx, LS_ERR_CONFIG, "%s: \"%s\" port %lld is no IPv4 address and port", name,
                   LS_SHOWN(address), (long long)port);
  ls_http_t *h = ls_alloc(ctx, sizeof *h);
  if (!h) return LS_ERR_MEMORY;
  pthread_mutex_init(&h->lock, NULL);
  *http = h; /* the first request may come at once */
  sigset_t before;
  ls_signals_block(&before); /* for the server's threads, which inherit the mask */
  h->daemon = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | (threads ? MHD_USE_THREAD_PER_CONNECTION : 0) | MHD_USE_AUTO,
      (uint16_t)port, NULL, NULL, serve, user, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&place,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)GUESTS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)STRANGER_S,
      MHD_OPTION_NOTIFY_CONNECTION, come_and_go, h, MHD_OPTION_END);
  int error = errno;
  ls_signals_restore(&before);
  if (h->daemon) return LS_OK;
  pthread_mutex_destroy(&h->lock);
  ls_free(h);
  errno = error;
  return ls_fail_errno(ctx, "%s: cannot listen on %s port %lld", name, address, (long long)port);
}

enum MHD_Result ls_http_answer(struct MHD_Connection *connection, unsigned code,
                               struct MHD_Response *response, const char *type) {
  if (!response) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  enum MHD_Result result = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return result;
}

enum MHD_Result ls_http_text(struct MHD_Connection *connection, unsigned code, const char *text,
                             size_t size_bytes, const char *type) {
  return ls_http_answer(
      connection, code,
      MHD_create_response_from_buffer(size_bytes, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY), type);
}

enum MHD_Result ls_http_refuse(struct MHD_Connection *connection, unsigned code, const char *text) {
  return ls_http_text(connection, code, text, strlen(text), "text/plain; charset=utf-8");
}

bool ls_http_method(struct MHD_Connection *connection, const char *method, bool head,
                    enum MHD_Result *result) {
  static const char text[] = "this address can only be read\n";
  if (!strcmp(method, "GET") || (head && !strcmp(method, "HEAD"))) return true;
  struct MHD_Response *response =
      MHD_create_response_from_buffer(sizeof text - 1, (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
  if (response) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, head ? "GET, HEAD" : "GET");
  *result = ls_http_answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, response, "text/plain; charset=utf-8");
  return false;
}

/* ---- metrics ---- */

typedef struct {
  ls_http_t *server;
  pthread_mutex_t lock; /* of text */
  char *text;
  size_t size_bytes;
} http_t;

static enum MHD_Result serve(void *user, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload, size_t *upload_size,
                             void **seen) {
  http_t *h = user;
  enum MHD_Result result;
  (void)version;
  (void)upload;
  (void)upload_size;
  (void)seen;
  if (!ls_http_method(connection, method, true, &result)) return result;
  if (strcmp(url, "/metrics") != 0)
    return ls_http_refuse(connection, MHD_HTTP_NOT_FOUND, "only /metrics is here\n");
  pthread_mutex_lock(&h->lock);
  result = h->text ? ls_http_text(connection, MHD_HTTP_OK, h->text, h->size_bytes,
                                  "text/plain; version=0.0.4; charset=utf-8")
                   : ls_http_refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "nothing is measured yet\n");
  pthread_mutex_unlock(&h->lock);
  return result;
}

static ls_status_t http_open(ls_ctx_t *ctx, const ls_monitor_config_t *config, const ls_monitor_run_t *run,
                             void **state) {
  http_t *h = ls_alloc(ctx, sizeof *h);
  if (!h) return LS_ERR_MEMORY;
  pthread_mutex_init(&h->lock, NULL);
  ls_status_t status = ls_http_listen(ctx, "monitor.http_port", config->http_address,
                                      config->http_port + run->rank, false, serve, h, &h->server);
  if (status == LS_OK) {
    *state = h;
    return LS_OK;
  }
  pthread_mutex_destroy(&h->lock);
  ls_free(h);
  return status;
}

static bool http_put(void *state, const ls_monitor_sample_t *sample) {
  http_t *h = state;
  size_t size_bytes = 0;
  char *text = ls_prometheus_text(sample, &size_bytes), *old;
  if (!text) return false;
  pthread_mutex_lock(&h->lock);
  old = h->text;
  h->text = text;
  h->size_bytes = size_bytes;
  pthread_mutex_unlock(&h->lock);
  free(old);
  return true;
}

static void http_close(void *state) {
  http_t *h = state;
  ls_http_stop(h->server);
  pthread_mutex_destroy(&h->lock);
  free(h->text);
  ls_free(h);
}

const ls_sink_t ls_sink_http = {"http", false, http_open, http_put, http_close};

#else
const bool ls_http_here = false;
const ls_sink_t ls_sink_http = {.name = "http"}; /* the configuration refuses it */
#endif
