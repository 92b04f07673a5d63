/* Metrics over HTTP, asked by a socket of the test. Where the build has no server, the test says so. */
#include "base/file.h"
#include "monitor/sink.h"

#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES = 1 << 16 };

static struct sockaddr_in loopback(int port) {
  return (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* A port that nobody listens on: the kernel's choice. */
static int free_port(void) {
  struct sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

static void ask(int port, const char *request, char answer[ANSWER_BYTES]) {
  const struct sockaddr_in address = loopback(port);
  size_t used = 0;
  ssize_t n;
  const struct timeval most = {.tv_sec = 8}; /* less than an idle client is given */
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most), 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
  assert_true(ls_write_all(fd, request, strlen(request)));
  while ((n = read(fd, answer + used, ANSWER_BYTES - 1 - used)) > 0)
    used += (size_t)n;
  answer[used] = '\0';
  close(fd);
}

static void metrics_are_served_and_nothing_else_is(void **state) {
  static char answer[ANSWER_BYTES];
  char *dir;
  if (!ls_http_here) skip();
  assert_int_equal(ls_dir_temporary(NULL, "lockstep-http", &dir), LS_OK);
  const ls_monitor_run_t run = {.rank = 1,
                                .ranks = 2,
                                .total_steps = 9,
                                .resumed_from = -1,
                                .strategy = "",
                                .backend = "",
                                .precision = "",
                                .device = "",
                                .gpu = -1};
  const int port = free_port();
  const ls_monitor_config_t config = {
      .dir = dir, .every_s = 3600, .http_port = port - 1, .http_address = "127.0.0.1"};
  void *server, *second;
  assert_int_equal(ls_sink_http.open(NULL, &config, &run, &server), LS_OK);
  ask(port, "GET /metrics HTTP/1.0\r\n\r\n", answer);
  assert_non_null(strstr(answer, " 503 "));
  ls_monitor_sample_t s;
  ls_record_clear(&ls_monitor_sample_record, &s);
  s.rank = 1;
  s.step = 42;
  assert_true(ls_sink_http.put(server, &s));
  ask(port, "GET /metrics HTTP/1.0\r\n\r\n", answer);
  assert_non_null(strstr(answer, " 200 "));
  assert_non_null(strstr(answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  assert_non_null(strstr(answer, "\nlockstep_train_step_total{rank=\"1\"} 42\n"));
  const struct sockaddr_in address = loopback(port); /* half-sent requests keep nobody out */
  int half[64];
  for (int i = 0; i < LS_COUNT(half); i++) {
    half[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(half[i], (const struct sockaddr *)&address, sizeof address), 0);
    assert_true(ls_write_all(half[i], "GET", 3));
  }
  ask(port, "GET / HTTP/1.0\r\n\r\n", answer);
  assert_non_null(strstr(answer, " 404 "));
  for (int i = 0; i < LS_COUNT(half); i++)
    close(half[i]);
  ask(port, "POST /metrics HTTP/1.0\r\nContent-Length: 0\r\n\r\n", answer);
  assert_non_null(strstr(answer, " 405 "));
  assert_null(strstr(answer, "lockstep_"));
  /* the port is taken; there is no such port */
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_not_equal(ls_sink_http.open(ctx, &config, &run, &second), LS_OK);
  assert_non_null(strstr(ls_ctx_error(ctx), "monitor.http_port: cannot listen on 127.0.0.1 port "));
  ls_ctx_clear(ctx);
  const ls_monitor_config_t beyond = {.dir = dir, .http_port = 65535, .http_address = "127.0.0.1"};
  assert_int_equal(ls_sink_http.open(ctx, &beyond, &run, &second), LS_ERR_CONFIG);
  ls_ctx_destroy(ctx);
  ls_sink_http.close(server);
  ls_dir_remove(NULL, dir);
  ls_free(dir);
}

TESTS(NULL, NULL, metrics_are_served_and_nothing_else_is)
