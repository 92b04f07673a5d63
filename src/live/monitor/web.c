/* Requests for the page: who may ask, and what is answered. */
#include "monitor/web.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_token(const char *text) {
  return strlen(text) == LS_WEB_TOKEN_BYTES - 1 && text[strspn(text, "0123456789abcdef")] == '\0';
}

static ls_status_t read_token(ls_ctx_t *ctx, int fd, const char *path, char token[LS_WEB_TOKEN_BYTES]) {
  struct stat about;
  if (fstat(fd, &about) != 0) return ls_fail_errno(ctx, "%s: cannot be read", path);
  if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "%s: others can read or have written this token; remove the file, and a new one is made",
                   path);
  ssize_t n = read(fd, token, LS_WEB_TOKEN_BYTES - 1);
  token[n > 0 ? n : 0] = '\0';
  if (is_token(token)) return LS_OK;
  return ls_fail(ctx, LS_ERR_CONFIG, "%s: holds no token; remove the file, and a new one is made", path);
}

ls_status_t ls_web_token(ls_ctx_t *ctx, const char *path, char token[LS_WEB_TOKEN_BYTES]) {
  unsigned char bytes[(LS_WEB_TOKEN_BYTES - 1) / 2];
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno != ENOENT) return ls_fail_errno(ctx, "%s: cannot be read", path);
  if (fd >= 0) {
    ls_status_t status = read_token(ctx, fd, path, token);
    close(fd);
    return status;
  }
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    return ls_fail_errno(ctx, "no random bytes for a token");
  for (size_t i = 0; i < sizeof bytes; i++)
    snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool written = fd >= 0 && dprintf(fd, "%s\n", token) == LS_WEB_TOKEN_BYTES;
  int error = errno;
  if (fd >= 0 && close(fd) != 0) written = false;
  if (written) return LS_OK;
  if (fd >= 0) unlink(path);
  errno = error;
  return ls_fail_errno(ctx, "%s: the token cannot be kept here", path);
}

bool ls_web_token_is(const char token[LS_WEB_TOKEN_BYTES], const char *text) {
  unsigned wrong = 0;
  if (strnlen(text, LS_WEB_TOKEN_BYTES - 1) < LS_WEB_TOKEN_BYTES - 1) return false;
  for (int i = 0; i < LS_WEB_TOKEN_BYTES - 1; i++)
    wrong |= (unsigned)((unsigned char)text[i] ^ (unsigned char)token[i]);
  return wrong == 0;
}

#ifdef LS_HAVE_MICROHTTPD
#include "monitor/http.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdlib.h>

const bool ls_web_here = true;

enum { PING_MS = 4000, POINTS_USUAL = 1200, POINTS_MAX = 20000, URL_BYTES = 128, CHUNK_BYTES = 1 << 15 };

struct ls_web {
  ls_http_t *server;
  ls_history_t *history;
  char token[LS_WEB_TOKEN_BYTES], url[URL_BYTES];
};

/* A name can be made to point here by whoever owns it (DNS rebinding); an address and localhost cannot. */
static bool host_is_here(const char *host) {
  char name[INET6_ADDRSTRLEN + 1];
  struct in6_addr unused;
  if (!host) return false;
  const bool six = host[0] == '[';
  const char *begin = host + six, *end = begin + strcspn(begin, six ? "]" : ":"), *port = end + six;
  if ((six && !*end) || (size_t)(end - begin) >= sizeof name) return false;
  if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")])) return false;
  snprintf(name, sizeof name, "%.*s", (int)(end - begin), begin);
  return !strcmp(name, "localhost") || inet_pton(six ? AF_INET6 : AF_INET, name, &unused) == 1;
}

static bool origin_is_own(const char *origin, const char *host) {
  return !origin || (!strncmp(origin, "http://", 7) && !strcmp(origin + 7, host));
}

static bool knows_token(const ls_web_t *web, const char *url) {
  return url[0] == '/' && ls_web_token_is(web->token, url + 1) && url[LS_WEB_TOKEN_BYTES] == '/';
}

/* ---- the stream ---- */

typedef struct {
  ls_history_t *history;
  char id[LS_HISTORY_ID_BYTES];
  char *text; /* what is not sent yet */
  size_t used, size_bytes;
} stream_t;

/* One message. False: there is no more. */
static bool next_message(stream_t *s) {
  char *news = ls_history_news(s->history, s->id, PING_MS);
  free(s->text);
  s->text = NULL;
  s->used = 0;
  FILE *to = news ? open_memstream(&s->text, &s->size_bytes) : NULL;
  if (to) {
    if (*news)
      fprintf(to, "id: %s\ndata: %s\n\n", s->id, news);
    else
      fputs(": nothing new\n\n", to); /* so that a reader that has gone is noticed */
    fclose(to);
  }
  free(news);
  return s->text != NULL;
}

/* Blocks in its connection's own thread. */
static ssize_t read_stream(void *user, uint64_t at, char *to, size_t size) {
  stream_t *s = user;
  (void)at;
  if (s->used == s->size_bytes && !next_message(s)) return MHD_CONTENT_READER_END_OF_STREAM;
  size_t n = s->size_bytes - s->used < size ? s->size_bytes - s->used : size;
  memcpy(to, s->text + s->used, n);
  s->used += n;
  return (ssize_t)n;
}

static void free_stream(void *user) {
  stream_t *s = user;
  free(s->text);
  free(s);
}

/* Everything here depends on the moment, and no other page may have it. */
static void add_rules(struct MHD_Response *response) {
  static const char *const rules[][2] = {
      {"Cache-Control", "no-store"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
       "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"}};
  for (int i = 0; response && i < LS_COUNT(rules); i++)
    MHD_add_response_header(response, rules[i][0], rules[i][1]);
}

static enum MHD_Result send_stream(ls_web_t *web, struct MHD_Connection *connection) {
  const char *id = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");
  stream_t *s = calloc(1, sizeof *s);
  if (!s) return MHD_NO;
  s->history = web->history;
  snprintf(s->id, sizeof s->id, "%s", id ? id : "");
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, CHUNK_BYTES, read_stream, s, free_stream);
  if (!response) free_stream(s);
  add_rules(response);
  return ls_http_answer(connection, MHD_HTTP_OK, response, "text/event-stream");
}

/* ---- the rest ---- */

static double asked(struct MHD_Connection *connection, const char *name, double usual) {
  const char *text = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
  char *end;
  const double value = text ? strtod(text, &end) : usual;
  return text && (*end || !isfinite(value)) ? usual : value;
}

static enum MHD_Result send_curves(ls_web_t *web, struct MHD_Connection *connection) {
  const double from = asked(connection, "from", -INFINITY), to = asked(connection, "to", INFINITY);
  const double points = fmin(POINTS_MAX, fmax(2, asked(connection, "points", POINTS_USUAL)));
  const double rank = fmin(1e6, fmax(0, asked(connection, "rank", 0)));
  char *text = ls_history_curves(web->history, (int)rank, from, to, (int)points);
  struct MHD_Response *response =
      text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
  if (!response) free(text);
  add_rules(response);
  return ls_http_answer(connection, MHD_HTTP_OK, response, "application/json");
}

static const char *type_of(const char *name) {
  static const char *const types[][2] = {{".html", "text/html; charset=utf-8"},
                                         {".css", "text/css; charset=utf-8"},
                                         {".js", "text/javascript; charset=utf-8"}};
  const char *ending = strrchr(name, '.');
  int i = 0;
  while (i + 1 < LS_COUNT(types) && (!ending || strcmp(types[i][0], ending) != 0))
    i++;
  return types[i][1];
}

static enum MHD_Result send_file(struct MHD_Connection *connection, const char *name) {
  for (const ls_embedded_t *f = ls_web_files; f->name; f++) {
    if (strcmp(f->name, *name ? name : "index.html") != 0) continue;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(f->size_bytes, (void *)(uintptr_t)f->bytes, MHD_RESPMEM_PERSISTENT);
    add_rules(response);
    return ls_http_answer(connection, MHD_HTTP_OK, response, type_of(f->name));
  }
  return ls_http_refuse(connection, MHD_HTTP_NOT_FOUND, "there is no such file\n");
}

static enum MHD_Result serve(void *user, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload, size_t *upload_size,
                             void **seen) {
  ls_web_t *web = user;
  const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
  const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
  enum MHD_Result result;
  (void)version;
  (void)upload;
  (void)upload_size;
  (void)seen;
  if (!ls_http_method(connection, method, false, &result)) return result;
  if (!host_is_here(host))
    return ls_http_refuse(connection, MHD_HTTP_FORBIDDEN,
                          "ask by localhost or by an address, not by a name\n");
  if (!origin_is_own(origin, host))
    return ls_http_refuse(connection, MHD_HTTP_FORBIDDEN, "another page may not read this\n");
  if (!knows_token(web, url))
    return ls_http_refuse(connection, MHD_HTTP_FORBIDDEN,
                          "the address that lockstep monitor has printed begins with a token\n");
  if (!ls_http_trust(web->server, connection))
    return ls_http_refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many pages of this run are open\n");
  const char *name = url + LS_WEB_TOKEN_BYTES + 1;
  if (!strcmp(name, "news")) return send_stream(web, connection);
  if (!strcmp(name, "curves")) return send_curves(web, connection);
  return send_file(connection, name);
}

ls_status_t ls_web_start(ls_ctx_t *ctx, const char *address, int port, const char *token,
                         ls_history_t *history, ls_web_t **web) {
  ls_web_t *w = ls_alloc(ctx, sizeof *w);
  if (!w) return LS_ERR_MEMORY;
  w->history = history;
  snprintf(w->token, sizeof w->token, "%s", token);
  ls_status_t status =
      ls_http_listen(ctx, "lockstep monitor --web", address, port, true, serve, w, &w->server);
  if (status != LS_OK) {
    ls_free(w);
    return status;
  }
  snprintf(w->url, sizeof w->url, "http://%s:%d/%s/", address, ls_http_port(w->server), token);
  *web = w;
  return LS_OK;
}

const char *ls_web_url(const ls_web_t *web) {
  return web->url;
}

void ls_web_stop(ls_web_t *w) {
  ls_history_end(w->history);
  ls_http_stop(w->server);
  ls_free(w);
}

#else
const bool ls_web_here = false;

ls_status_t ls_web_start(ls_ctx_t *ctx, const char *address, int port, const char *token,
                         ls_history_t *history, ls_web_t **web) {
  (void)address;
  (void)port;
  (void)token;
  (void)history;
  (void)web;
  return ls_fail(ctx, LS_ERR_UNSUPPORTED, "lockstep monitor --web: this build has no libmicrohttpd");
}
const char *ls_web_url(const ls_web_t *web) {
  (void)web;
  return "";
}
void ls_web_stop(ls_web_t *web) {
  (void)web;
}
#endif
