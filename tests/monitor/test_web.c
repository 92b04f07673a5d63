/* The history behind the page, and who may ask its server. Where the build has no server, the test says so. */
#include "base/file.h"
#include "monitor/sink.h"
#include "monitor/web.h"

#include "unit.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ANSWER_BYTES = 1 << 20, DAY_S = 86400 };

static void add(ls_history_t *h, int rank, double t, double loss) {
  json_t *line = json_pack("{s:s, s:f, s:i, s:f, s:f}", "kind", "record", "t", t, "rank", rank, "step", t,
                           "loss_mean", loss);
  ls_history_take(h, rank, line);
  json_decref(line);
}

static void begin(ls_history_t *h, int rank, double t, json_t *resumed_from) {
  json_t *line =
      json_pack("{s:s, s:f, s:i, s:o}", "kind", "start", "t", t, "rank", rank, "resumed_from", resumed_from);
  ls_history_take(h, rank, line);
  json_decref(line);
}

static void evaluate(ls_history_t *h, double t, double loss) {
  json_t *line = json_pack("{s:s, s:f, s:i, s:f}", "kind", "evaluation", "t", t, "rank", 0, "val_loss", loss);
  ls_history_take(h, 0, line);
  json_decref(line);
}

static json_t *parsed(char *text) {
  assert_non_null(text);
  json_t *json = json_loads(text, 0, NULL);
  assert_non_null(json);
  free(text);
  return json;
}

static json_t *news(ls_history_t *h, char id[LS_HISTORY_ID_BYTES]) {
  return parsed(ls_history_news(h, id, 0));
}

static int64_t rows_in(const json_t *said) {
  return (int64_t)json_array_size(json_object_get(said, "rows"));
}

static void a_reader_gets_what_it_has_missed_and_no_more(void **state) {
  ls_history_t *h;
  char id[LS_HISTORY_ID_BYTES] = "", old[LS_HISTORY_ID_BYTES];
  assert_int_equal(ls_history_create(NULL, &h), LS_OK);
  begin(h, 0, 1, json_null());
  for (int i = 2; i < 10; i++)
    add(h, 0, i, i);
  json_t *said = news(h, id);
  assert_true(json_is_true(json_object_get(said, "fresh")) && !json_object_get(said, "rows"));
  const json_t *first = json_array_get(json_object_get(said, "ranks"), 0);
  assert_true(json_number_value(json_object_get(json_object_get(first, "record"), "step")) == 9);
  assert_int_equal(json_array_size(json_object_get(said, "events")), 1);
  json_decref(said);
  char *nothing = ls_history_news(h, id, 0);
  assert_string_equal(nothing, "");
  free(nothing);
  memcpy(old, id, sizeof id);
  add(h, 0, 10, 1);
  add(h, 1, 10.5, 2);
  said = news(h, id);
  assert_true(json_is_false(json_object_get(said, "fresh")));
  assert_int_equal(rows_in(said), 2);
  assert_true(json_number_value(json_array_get(json_array_get(json_object_get(said, "rows"), 0), 1)) == 10);
  json_decref(said);
  add(h, 0, 11, 1);
  said = news(h, old); /* from an older message: all of it, in order */
  assert_int_equal(rows_in(said), 3);
  json_decref(said);
  snprintf(old, sizeof old, "another-1");
  said = news(h, old);
  assert_true(json_is_true(json_object_get(said, "fresh")));
  json_decref(said);
  ls_history_end(h);
  assert_null(ls_history_news(h, id, 1000));
  ls_history_destroy(h);
}

/* Each evaluation once, at its own time and not among the events; of very many the newest are all there. */
static void evaluations_are_points_of_their_own(void **state) {
  enum { MANY = 5000, KEPT = 2048 };
  ls_history_t *h;
  char id[LS_HISTORY_ID_BYTES] = "";
  assert_int_equal(ls_history_create(NULL, &h), LS_OK);
  begin(h, 0, 1, json_null());
  evaluate(h, 1.5, 4);
  add(h, 0, 2, 3);
  json_t *said = news(h, id);
  assert_int_equal(json_array_size(json_object_get(said, "evaluations")), 1);
  assert_int_equal(json_array_size(json_object_get(said, "events")), 1);
  json_decref(said);
  evaluate(h, 3, 2);
  said = news(h, id);
  const json_t *point = json_array_get(json_object_get(said, "evaluations"), 0);
  assert_int_equal(json_array_size(json_object_get(said, "evaluations")), 1);
  assert_true(json_number_value(json_object_get(point, "t")) == 3 &&
              json_number_value(json_object_get(point, "val_loss")) == 2);
  json_decref(said);
  begin(h, 0, 4, json_integer(2)); /* resumed */
  for (int i = 0; i < MANY; i++)
    evaluate(h, 5 + i, i);
  id[0] = '\0';
  said = news(h, id);
  const json_t *all = json_object_get(said, "evaluations");
  const int count = (int)json_array_size(all);
  assert_in_range(count, KEPT / 2, KEPT);
  assert_true(json_number_value(json_object_get(json_array_get(all, 0), "val_loss")) == 4);
  for (int i = 1; i <= KEPT / 4; i++)
    assert_true(json_number_value(json_object_get(json_array_get(all, (size_t)(count - i)), "val_loss")) ==
                MANY - i);
  json_decref(said);
  begin(h, 0, MANY + 10, json_null());
  said = news(h, id);
  assert_int_equal(json_array_size(json_object_get(said, "evaluations")), 0);
  json_decref(said);
  ls_history_destroy(h);
}

static void a_new_run_forgets_the_old_one_and_a_resumed_one_does_not(void **state) {
  ls_history_t *h;
  assert_int_equal(ls_history_create(NULL, &h), LS_OK);
  begin(h, 0, 1, json_null());
  add(h, 0, 2, 5);
  begin(h, 0, 3, json_integer(2));
  add(h, 0, 4, 4);
  json_t *curves = parsed(ls_history_curves(h, 0, -INFINITY, INFINITY, 100));
  assert_int_equal(json_array_size(json_object_get(curves, "t")), 2);
  json_decref(curves);
  begin(h, 0, 5, json_null());
  add(h, 0, 6, 3);
  curves = parsed(ls_history_curves(h, 0, -INFINITY, INFINITY, 100));
  assert_int_equal(json_array_size(json_object_get(curves, "t")), 1);
  json_decref(curves);
  ls_history_destroy(h);
}

/* A day of records with one high and one low value, which no thinning may lose. */
static void a_day_is_thinned_without_losing_a_peak(void **state) {
  ls_history_t *h;
  assert_int_equal(ls_history_create(NULL, &h), LS_OK);
  for (int i = 0; i < DAY_S; i++)
    add(h, 0, i, i == 43210 ? 9 : i == 43211 ? -9 : i % 2);
  json_t *curves = parsed(ls_history_curves(h, 0, -INFINITY, INFINITY, 1000));
  const json_t *t = json_object_get(curves, "t"),
               *loss = json_array_get(json_object_get(curves, "values"), 1);
  const size_t count = json_array_size(t);
  assert_true(count > 900 && count <= 1002 && json_array_size(loss) == count);
  assert_int_equal(json_integer_value(json_object_get(curves, "rows")), DAY_S);
  int high = -1, low = -1;
  for (size_t i = 0; i < count; i++) {
    double value = json_number_value(json_array_get(loss, i));
    assert_true(i == 0 ||
                json_number_value(json_array_get(t, i)) > json_number_value(json_array_get(t, i - 1)));
    if (value == 9) high = (int)i;
    if (value == -9) low = (int)i;
  }
  assert_true(high >= 0 && low == high + 1);
  json_decref(curves);
  /* a part of it is whole; unknown values stay unknown; a rank that is not there has none */
  curves = parsed(ls_history_curves(h, 0, 100, 110, 1000));
  assert_int_equal(json_array_size(json_object_get(curves, "t")), 10);
  assert_true(json_is_null(json_array_get(json_array_get(json_object_get(curves, "values"), 2), 0)));
  json_decref(curves);
  curves = parsed(ls_history_curves(h, 7, -INFINITY, INFINITY, 1000));
  assert_int_equal(json_array_size(json_object_get(curves, "t")), 0);
  json_decref(curves);
  ls_history_destroy(h);
}

static void a_token_is_kept_for_its_owner_alone(void **state) {
  char *dir, path[512], token[LS_WEB_TOKEN_BYTES], again[LS_WEB_TOKEN_BYTES];
  struct stat about;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(ls_dir_temporary(NULL, "lockstep-token", &dir), LS_OK);
  snprintf(path, sizeof path, "%s/web.token", dir);
  assert_int_equal(ls_web_token(ctx, path, token), LS_OK);
  assert_int_equal(strlen(token), 32);
  assert_int_equal(stat(path, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0600);
  assert_int_equal(ls_web_token(ctx, path, again), LS_OK);
  assert_string_equal(token, again);
  chmod(path, 0640);
  assert_int_equal(ls_web_token(ctx, path, again), LS_ERR_CONFIG);
  assert_non_null(strstr(ls_ctx_error(ctx), "web.token: others can read"));
  ls_ctx_clear(ctx);
  unlink(path);
  assert_int_equal(symlink("/dev/null", path), 0);
  assert_int_not_equal(ls_web_token(ctx, path, again), LS_OK);
  ls_ctx_clear(ctx);
  unlink(path);
  FILE *file = fopen(path, "w");
  fputs("1234\n", file);
  fclose(file);
  chmod(path, 0600);
  assert_int_equal(ls_web_token(ctx, path, again), LS_ERR_CONFIG);
  ls_ctx_destroy(ctx);
  ls_dir_remove(NULL, dir);
  ls_free(dir);
}

/* ---- the server ---- */

static int port;
static const char token[] = "0123456789abcdef0123456789abcdef";

static int connected(void) {
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

/* The status; the whole answer is in *answer. */
static int ask(const char *method, const char *path, const char *headers, char answer[ANSWER_BYTES]) {
  char request[1024];
  size_t used = 0;
  ssize_t n;
  int code = 0, fd = connected();
  snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nConnection: close\r\n%s\r\n", method, path, headers);
  assert_true(ls_write_all(fd, request, strlen(request)));
  while ((n = read(fd, answer + used, ANSWER_BYTES - 1 - used)) > 0)
    used += (size_t)n;
  answer[used] = '\0';
  close(fd);
  sscanf(answer, "HTTP/1.1 %d", &code);
  return code;
}

static void only_who_knows_the_token_and_asks_by_address_is_answered(void **state) {
  static char answer[ANSWER_BYTES];
  static const struct {
    const char *method, *path, *headers;
    int code;
  } cases[] = {
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: 127.0.0.1:1\r\n", 200},
      {"GET", "/0123456789abcdef0123456789abcdef/page.js", "Host: localhost\r\n", 200},
      {"GET", "/0123456789abcdef0123456789abcdef/curves", "Host: [::1]:80\r\n", 200},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: localhost:7\r\nOrigin: http://localhost:7\r\n",
       200},
      {"GET", "/0123456789abcdef0123456789abcdef/none", "Host: localhost\r\n", 404},
      {"GET", "/0123456789abcdef0123456789abcdef/../web.c", "Host: localhost\r\n", 404},
      {"POST", "/0123456789abcdef0123456789abcdef/", "Host: localhost\r\nContent-Length: 0\r\n", 405},
      {"HEAD", "/0123456789abcdef0123456789abcdef/", "Host: localhost\r\n", 405},
      {"GET", "/0123456789abcdef0123456789abcdee/", "Host: localhost\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcdef", "Host: localhost\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcde/", "Host: localhost\r\n", 403},
      {"GET", "/", "Host: localhost\r\n", 403},
      {"GET", "/page.js", "Host: localhost\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: evil.example\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: localhost.evil.example:80\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: 127.0.0.1.nip.io\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: localhost:80@evil.example\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: [::1\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: localhost\r\nOrigin: http://evil.example\r\n",
       403},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: localhost\r\nOrigin: https://localhost\r\n", 403},
      {"GET", "/0123456789abcdef0123456789abcdef/", "Host: localhost:80\r\nOrigin: http://localhost:81\r\n",
       403},
      {"GET", "/0123456789abcdef0123456789abcdef/news", "Host: localhost\r\nOrigin: null\r\n", 403},
  };
  ls_history_t *h;
  ls_web_t *web, *second;
  if (!ls_web_here) skip();
  assert_int_equal(ls_history_create(NULL, &h), LS_OK);
  assert_int_equal(ls_web_start(NULL, "127.0.0.1", 0, token, h, &web), LS_OK);
  assert_int_equal(sscanf(ls_web_url(web), "http://127.0.0.1:%d/0123456789abcdef0123456789abcdef/", &port),
                   1);
  for (int i = 0; i < LS_COUNT(cases); i++) {
    int code = ask(cases[i].method, cases[i].path, cases[i].headers, answer);
    if (code != cases[i].code)
      fail_msg("%s %s %s: %d", cases[i].method, cases[i].path, cases[i].headers, code);
    assert_true(code == 200 || !strstr(answer, "columns"));
  }
  ask("GET", "/0123456789abcdef0123456789abcdef/", "Host: localhost\r\n", answer);
  assert_non_null(strstr(answer, "Content-Security-Policy: default-src 'none'; script-src 'self';"));
  assert_non_null(strstr(answer, "Referrer-Policy: no-referrer"));
  assert_non_null(strstr(answer, "Content-Type: text/html; charset=utf-8"));
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL); /* the port is taken */
  assert_int_not_equal(ls_web_start(ctx, "127.0.0.1", port, token, h, &second), LS_OK);
  assert_non_null(strstr(ls_ctx_error(ctx), "cannot listen on 127.0.0.1 port"));
  ls_ctx_destroy(ctx);
  ls_web_stop(web);
  ls_history_destroy(h);
}

/* Reads until the text is there. */
static void read_until(int fd, const char *text, char answer[ANSWER_BYTES]) {
  size_t used = strlen(answer);
  while (!strstr(answer, text)) {
    ssize_t n = read(fd, answer + used, ANSWER_BYTES - 1 - used);
    assert_true(n > 0);
    used += (size_t)n;
    answer[used] = '\0';
  }
}

static void a_stream_goes_on_where_it_was_broken_off(void **state) {
  static char answer[ANSWER_BYTES];
  char request[512], id[LS_HISTORY_ID_BYTES];
  ls_history_t *h;
  ls_web_t *web;
  if (!ls_web_here) skip();
  assert_int_equal(ls_history_create(NULL, &h), LS_OK);
  assert_int_equal(ls_web_start(NULL, "127.0.0.1", 0, token, h, &web), LS_OK);
  assert_int_equal(sscanf(ls_web_url(web), "http://127.0.0.1:%d/", &port), 1);
  add(h, 0, 1, 7);
  snprintf(request, sizeof request, "GET /%s/news HTTP/1.1\r\nHost: localhost\r\n\r\n", token);
  int fd = connected();
  answer[0] = '\0';
  assert_true(ls_write_all(fd, request, strlen(request)));
  read_until(fd, "\n\n", answer);
  assert_non_null(strstr(answer, "Content-Type: text/event-stream"));
  assert_non_null(strstr(answer, "\"fresh\":true"));
  assert_int_equal(sscanf(strstr(answer, "id: "), "id: %63s", id), 1);
  answer[0] = '\0';
  add(h, 0, 2, 6); /* it waits, and hears of it */
  ls_history_now(h, NULL);
  read_until(fd, "[0,2.000,2,6,", answer);
  close(fd);
  add(h, 0, 3, 5);
  snprintf(request, sizeof request, "GET /%s/news HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: %s\r\n\r\n",
           token, id);
  fd = connected();
  answer[0] = '\0';
  assert_true(ls_write_all(fd, request, strlen(request)));
  read_until(fd, "\n\n", answer);
  assert_non_null(strstr(answer, "\"fresh\":false"));
  assert_non_null(strstr(answer, "\"rows\":[[0,2.000,2,6,"));
  assert_non_null(strstr(answer, "[0,3.000,3,5,"));
  ls_web_stop(web); /* while a reader is there */
  close(fd);
  ls_history_destroy(h);
}

/* Requests of others that never end kept the owner out: with 32 of them the page answered nobody. */
static void half_sent_requests_of_strangers_keep_nobody_out(void **state) {
  enum { STRANGERS = 64, TIMES = 24 };
  static char answer[ANSWER_BYTES], stream[ANSWER_BYTES];
  char half[128], path[64];
  int stranger[STRANGERS + TIMES];
  ls_history_t *h;
  ls_web_t *web;
  if (!ls_web_here) skip();
  assert_int_equal(ls_history_create(NULL, &h), LS_OK);
  assert_int_equal(ls_web_start(NULL, "127.0.0.1", 0, token, h, &web), LS_OK);
  assert_int_equal(sscanf(ls_web_url(web), "http://127.0.0.1:%d/", &port), 1);
  snprintf(path, sizeof path, "/%s/", token);
  snprintf(half, sizeof half, "GET /%s/news HTTP/1.1\r\nHost: localhost\r\n\r\n", token);
  int fd = connected();
  assert_true(ls_write_all(fd, half, strlen(half)));
  stream[0] = '\0';
  read_until(fd, "\r\n\r\n", stream);
  for (int i = 0; i < STRANGERS + TIMES; i++) {
    stranger[i] = connected();
    ls_write_all(stranger[i], half, (size_t)(i % 40)); /* nothing, or a part of a good request */
    if (i < STRANGERS) continue;
    const int code = ask("GET", path, "Host: localhost\r\n", answer);
    if (code != 200) fail_msg("time %d: %d", i - STRANGERS, code);
  }
  for (int i = 0; i < STRANGERS + TIMES; i++)
    close(stranger[i]);
  add(h, 0, 1, 7); /* the owner's stream is still there */
  ls_history_now(h, NULL);
  read_until(fd, "\"record\"", stream);
  ls_web_stop(web);
  close(fd);
  ls_history_destroy(h);
}

TESTS(NULL, NULL, evaluations_are_points_of_their_own, a_reader_gets_what_it_has_missed_and_no_more,
      a_new_run_forgets_the_old_one_and_a_resumed_one_does_not, a_day_is_thinned_without_losing_a_peak,
      a_token_is_kept_for_its_owner_alone, only_who_knows_the_token_and_asks_by_address_is_answered,
      a_stream_goes_on_where_it_was_broken_off, half_sent_requests_of_strangers_keep_nobody_out)
