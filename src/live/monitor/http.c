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

enum { CONNECTIONS_MAX = 32, TIMEOUT_S = 10 };

ls_status_t ls_http_listen(ls_ctx_t *ctx, const char *name, const char *address, int64_t port, bool threads,
                           MHD_AccessHandlerCallback serve, void *user, struct MHD_Daemon **daemon) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (port < 0 || port > UINT16_MAX || inet_pton(AF_INET, address, &place.sin_addr) != 1)
    return ls_fail(ctx, LS_ERR_CONFIG, "%s: \"%s\" port %lld is no IPv4 address and port", name,
                   LS_SHOWN(address), (long long)port);
  sigset_t before;
  ls_signals_block(&before); /* for the server's threads, which inherit the mask */
  *daemon = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | (threads ? MHD_USE_THREAD_PER_CONNECTION : 0) | MHD_USE_AUTO,
      (uint16_t)port, NULL, NULL, serve, user, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&place,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)TIMEOUT_S, MHD_OPTION_END);
  int error = errno;
  ls_signals_restore(&before);
  errno = error;
  return *daemon ? LS_OK
                 : ls_fail_errno(ctx, "%s: cannot listen on %s port %lld", name, address, (long long)port);
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
  struct MHD_Daemon *daemon;
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
                                      config->http_port + run->rank, false, serve, h, &h->daemon);
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
  MHD_stop_daemon(h->daemon);
  pthread_mutex_destroy(&h->lock);
  free(h->text);
  ls_free(h);
}

const ls_sink_t ls_sink_http = {"http", false, http_open, http_put, http_close};

#else
const bool ls_http_here = false;
const ls_sink_t ls_sink_http = {.name = "http"}; /* the configuration refuses it */
#endif
