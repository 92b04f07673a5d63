/* Lines over TCP, both ways. */
#include "supervise/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TOKEN_BYTES = LS_WEB_TOKEN_BYTES - 1 };
#define AGE_NS_MAX INT64_C(1000000000000000000)

/* The line that is whole; NULL: none is yet. */
static const char *whole_line(ls_wire_t *w) {
  char *begin = w->bytes + w->taken, *end = memchr(begin, '\n', (size_t)(w->used - w->taken));
  if (!end) return NULL;
  *end = '\0';
  w->taken = (int)(end + 1 - w->bytes);
  return begin;
}

ls_wire_got_t ls_wire_take(ls_wire_t *w, const char *token, const char **words) {
  for (;;) {
    const char *line = whole_line(w);
    if (line) {
      const bool rest = w->overlong;
      w->overlong = false;
      if (rest) continue;
      if (!ls_web_token_is(token, line) || line[TOKEN_BYTES] != ' ') return LS_WIRE_REFUSED;
      *words = line + TOKEN_BYTES + 1;
      return LS_WIRE_LINE;
    }
    memmove(w->bytes, w->bytes + w->taken, (size_t)(w->used - w->taken));
    w->used -= w->taken;
    w->taken = 0;
    if (w->used == LS_WIRE_BYTES) {
      const bool first = !w->overlong;
      w->overlong = true;
      w->used = 0;
      if (first) return LS_WIRE_REFUSED;
    }
    const ssize_t got = w->fd < 0 ? 0 : recv(w->fd, w->bytes + w->used, (size_t)(LS_WIRE_BYTES - w->used), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return LS_WIRE_NOTHING;
    if (got <= 0) return LS_WIRE_CLOSED;
    w->used += (int)got;
  }
}

bool ls_wire_send(const ls_wire_t *w, const char *token, const char *fmt, ...) {
  char line[LS_WIRE_BYTES];
  int len = snprintf(line, sizeof line, "%s ", token);
  va_list args;
  va_start(args, fmt);
  len += vsnprintf(line + len, sizeof line - (size_t)len, fmt, args);
  va_end(args);
  if (len > (int)sizeof line - 2) len = (int)sizeof line - 2; /* of long words the end is left out */
  line[len++] = '\n';
  return w->fd >= 0 && send(w->fd, line, (size_t)len, MSG_NOSIGNAL) == len;
}

void ls_wire_close(ls_wire_t *w) {
  if (w->fd >= 0) close(w->fd);
  w->fd = -1;
  w->used = w->taken = 0;
  w->overlong = false;
}

bool ls_wire_send_rank(const ls_wire_t *w, const char *token, const ls_wire_rank_t *r, int64_t now_ns) {
  const ls_page_look_t *k = &r->look;
  return ls_wire_send(
      w, token, "rank %d %c %d %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %d %" PRId64 " %d %d", r->rank,
      r->gone      ? 'e'
      : r->stopped ? 't'
                   : 'r',
      (int)k->phase, k->step, now_ns - k->since_ns, k->entered, k->left, (int)k->error, now_ns - k->error_ns,
      k->pid, k->parent);
}

bool ls_wire_read_rank(const char *words, int64_t now_ns, ls_wire_rank_t *r) {
  int phase, error, end = 0;
  int64_t age_ns, error_age_ns;
  char state;
  *r = (ls_wire_rank_t){.rank = -1};
  ls_page_look_t *k = &r->look;
  int got =
      sscanf(words, "rank %d %c %d %" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNu64 " %d %" SCNd64 " %d %d%n",
             &r->rank, &state, &phase, &k->step, &age_ns, &k->entered, &k->left, &error, &error_age_ns,
             &k->pid, &k->parent, &end);
  if (got != 11 || words[end] || phase < 0 || phase >= LS_PAGE_PHASES || age_ns < 0 || age_ns > now_ns ||
      error_age_ns < -AGE_NS_MAX || error_age_ns > AGE_NS_MAX)
    return false;
  k->phase = (ls_page_phase_t)phase;
  k->error = (ls_status_t)error;
  k->since_ns = now_ns - age_ns;
  k->error_ns = now_ns - error_age_ns;
  r->gone = state == 'e';
  r->stopped = state == 't';
  return true;
}
