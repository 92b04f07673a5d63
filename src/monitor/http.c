/* GET /metrics for Prometheus, by libmicrohttpd. The newest record is kept as text; a request copies it and never
 * reaches the training. */
#include "monitor/sink.h"

#ifdef LS_HAVE_MICROHTTPD
#include "base/signals.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const bool ls_http_here = true;

enum { CONNECTIONS_MAX = 16, TIMEOUT_S = 10 };

typedef struct {
  struct MHD_Daemon *daemon;
  pthread_mutex_t lock; /* of text */
  char *text;
  size_t size_bytes;
} http_t;

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *text, size_t size,
                              const char *type) {
  struct MHD_Response *response =
      MHD_create_response_from_buffer(size, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
  if (!response) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  enum MHD_Result result = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned code, const char *text) {
  return answer(connection, code, text, strlen(text), "text/plain; charset=utf-8");
}

static enum MHD_Result serve(void *user, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload, size_t *upload_size,
                             void **seen) {
  http_t *h = user;
  (void)version;
  (void)upload;
  (void)upload_size;
  (void)seen;
  if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
    return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
  if (strcmp(url, "/metrics") != 0) return refuse(connection, MHD_HTTP_NOT_FOUND, "only /metrics is here\n");
  pthread_mutex_lock(&h->lock);
  enum MHD_Result result =
      h->text ? answer(connection, MHD_HTTP_OK, h->text, h->size_bytes,
                       "text/plain; version=0.0.4; charset=utf-8")
              : refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "nothing is measured yet\n");
  pthread_mutex_unlock(&h->lock);
  return result;
}

static ls_status_t http_open(ls_ctx_t *ctx, const ls_monitor_config_t *config, const ls_monitor_run_t *run,
                             void **state) {
  const int64_t port = config->http_port + run->rank;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (port > UINT16_MAX || inet_pton(AF_INET, config->http_address, &address.sin_addr) != 1)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "monitor.http_address, http_port: \"%s\" port %lld is no IPv4 address and port",
                   LS_SHOWN(config->http_address), (long long)port);
  http_t *h = ls_alloc(ctx, sizeof *h);
  if (!h) return LS_ERR_MEMORY;
  pthread_mutex_init(&h->lock, NULL);
  sigset_t before;
  ls_signals_block(&before); /* for the server's thread, which inherits the mask */
  h->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, (uint16_t)port, NULL, NULL,
                               serve, h, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
                               MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                               MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_END);
  int error = errno;
  ls_signals_restore(&before);
  errno = error;
  if (h->daemon) {
    *state = h;
    return LS_OK;
  }
  ls_status_t status = ls_fail_errno(ctx, "monitor.http_port: cannot listen on %s port %lld",
                                     config->http_address, (long long)port);
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
