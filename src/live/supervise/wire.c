/* Lines over TCP, both ways. */
#include "supervise/wire.h"

#include "base/clock.h"
#include "base/tcp.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TOKEN_BYTES = LS_WEB_TOKEN_BYTES - 1 };
#define AGE_NS_MAX INT64_C(1000000000000000000)

/* The next line that has arrived whole; NULL: none has. */
static const char *next_line(ls_wire_t *w) {
  char *begin = w->bytes + w->consumed, *end = memchr(begin, '\n', (size_t)(w->filled - w->consumed));
  if (!end) return NULL;
  *end = '\0';
  w->consumed = (int)(end + 1 - w->bytes);
  return begin;
}

ls_wire_received_t ls_wire_receive(ls_wire_t *w, const char *token, const char **message) {
  for (;;) {
    const char *line = next_line(w);
    if (line) {
      const bool rest = w->overlong;
      w->overlong = false;
      if (rest) continue;
      if (!ls_web_token_is(token, line) || line[TOKEN_BYTES] != ' ') return LS_WIRE_REFUSED;
      *message = line + TOKEN_BYTES + 1;
      return LS_WIRE_MESSAGE;
    }
    memmove(w->bytes, w->bytes + w->consumed, (size_t)(w->filled - w->consumed));
    w->filled -= w->consumed;
    w->consumed = 0;
    if (w->filled == LS_WIRE_BYTES) {
      const bool first = !w->overlong;
      w->overlong = true;
      w->filled = 0;
      if (first) return LS_WIRE_REFUSED;
    }
    const ssize_t got =
        w->fd < 0 ? 0 : recv(w->fd, w->bytes + w->filled, (size_t)(LS_WIRE_BYTES - w->filled), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return LS_WIRE_NOTHING;
    if (got <= 0) return LS_WIRE_CLOSED;
    w->filled += (int)got;
  }
}

bool ls_wire_send(const ls_wire_t *w, const char *token, const char *fmt, ...) {
  char line[LS_WIRE_BYTES];
  int len = snprintf(line, sizeof line, "%s ", token);
  va_list args;
  va_start(args, fmt);
  len += vsnprintf(line + len, sizeof line - (size_t)len, fmt, args);
  va_end(args);
  if (len > (int)sizeof line - 2) len = (int)sizeof line - 2; /* a long message is cut */
  line[len++] = '\n';
  const int64_t end_ns = ls_clock_ns() + w->wait_ms * INT64_C(1000000);
  for (int done = 0; w->fd >= 0 && done < len;) {
    const ssize_t put = send(w->fd, line + done, (size_t)(len - done), MSG_NOSIGNAL);
    if (put > 0) done += (int)put;
    if (done == len) return true;
    const bool later = put >= 0 || errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
    if (!later || !ls_tcp_ready(w->fd, POLLOUT, end_ns)) break;
  }
  return false;
}

void ls_wire_close(ls_wire_t *w) {
  if (w->fd >= 0) close(w->fd);
  w->fd = -1;
  w->filled = w->consumed = 0;
  w->overlong = false;
}

bool ls_wire_send_rank(const ls_wire_t *w, const char *token, const ls_wire_rank_t *r, int64_t now_ns) {
  const ls_page_look_t *k = &r->look;
  return ls_wire_send(w, token,
                      "rank %d %c %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %d %" PRId64
                      " %d %d",
                      r->rank,
                      r->ended     ? 'e'
                      : r->stopped ? 't'
                                   : 'r',
                      (int)k->phase, k->step, k->first, now_ns - k->since_ns, k->entered, k->left,
                      (int)k->error, now_ns - k->error_ns, k->pid, k->parent);
}

bool ls_wire_parse_rank(const char *message, int64_t now_ns, ls_wire_rank_t *r) {
  int phase, error, end = 0;
  int64_t age_ns, error_age_ns;
  char state;
  *r = (ls_wire_rank_t){.rank = -1};
  ls_page_look_t *k = &r->look;
  int got = sscanf(message,
                   "rank %d %c %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNu64 " %" SCNu64 " %d %" SCNd64
                   " %d %d%n",
                   &r->rank, &state, &phase, &k->step, &k->first, &age_ns, &k->entered, &k->left, &error,
                   &error_age_ns, &k->pid, &k->parent, &end);
  if (got != 12 || message[end] || phase < 0 || phase >= LS_PAGE_PHASES || age_ns < 0 || age_ns > now_ns ||
      error_age_ns < -AGE_NS_MAX || error_age_ns > AGE_NS_MAX)
    return false;
  k->phase = (ls_page_phase_t)phase;
  k->error = (ls_status_t)error;
  k->since_ns = now_ns - age_ns;
  k->error_ns = now_ns - error_age_ns;
  r->ended = state == 'e';
  r->stopped = state == 't';
  return true;
}

/* ---- speeds ---- */

bool ls_wire_send_speed(const ls_wire_t *w, const char *token, const ls_page_t *page, int rank,
                        ls_wire_speed_t *sent) {
  char times[LS_WIRE_BYTES] = "";
  size_t used = 0;
  ls_page_speed_look_t k;
  ls_page_speed_look(page, rank, LS_WIRE_SPEEDS, &k);
  if (k.limits == sent->limits && (k.timed < LS_WIRE_SPEEDS || k.timed == sent->timed)) return true;
  *sent = (ls_wire_speed_t){.timed = k.timed, .limits = k.limits};
  for (int i = 0; i < LS_WIRE_SPEEDS && used < sizeof times; i++)
    used += (size_t)snprintf(times + used, sizeof times - used, " %" PRId64 " %" PRId64, k.own_ns[i],
                             k.input_ns[i]);
  return ls_wire_send(w, token, "speed %d %" PRId64 " %d %.6f %.6f %d%s", rank, k.timed, k.limits,
                      k.clock_ratio, k.waiting_ratio, k.loop_ns, times);
}

static bool is_ratio(double value) {
  return value >= 0 && value <= 1000;
}

bool ls_wire_parse_speed(const char *message, int ranks, int *rank, ls_page_speed_look_t *k) {
  int end = 0;
  *k = (ls_page_speed_look_t){.timed = 0};
  if (sscanf(message, "speed %d %" SCNd64 " %d %lf %lf %d%n", rank, &k->timed, &k->limits, &k->clock_ratio,
             &k->waiting_ratio, &k->loop_ns, &end) != 6 ||
      *rank < 0 || *rank >= ranks || k->timed < 0 || !is_ratio(k->clock_ratio) ||
      !is_ratio(k->waiting_ratio) || k->loop_ns < 0)
    return false;
  const char *at = message + end;
  for (int i = 0; i < LS_WIRE_SPEEDS; i++) {
    int used = 0;
    if (sscanf(at, " %" SCNd64 " %" SCNd64 "%n", &k->own_ns[i], &k->input_ns[i], &used) != 2) return false;
    at += used;
  }
  return !*at;
}

/* ---- bytes ---- */

static void to_hex(const void *bytes, size_t count, char *text) {
  const unsigned char *from = bytes;
  for (size_t i = 0; i < count; i++)
    snprintf(text + 2 * i, 3, "%02x", from[i]);
}

/* How many bytes this is; -1: it is none, or more than `most`. */
static int from_hex(const char *text, void *bytes, size_t most) {
  unsigned char *to = bytes;
  size_t count = 0;
  for (; text[0] && text[1] && count < most; text += 2) {
    const char pair[3] = {text[0], text[1], '\0'};
    char *end;
    to[count++] = (unsigned char)strtoul(pair, &end, 16);
    if (*end || !strchr("0123456789abcdef", pair[0])) return -1;
  }
  return *text ? -1 : (int)count;
}

/* ---- rings ---- */

/* A moment travels as its age. Both directions are the same subtraction; 0, not ended, stays 0. */
static void swap_ages_and_moments(ls_ring_entry_t *e, int64_t now_ns) {
  const int64_t begin_ns = e->begin_ns, end_ns = e->end_ns;
  e->begin_ns = now_ns - begin_ns;
  e->end_ns = end_ns ? now_ns - end_ns + (now_ns == end_ns) : 0;
}

bool ls_wire_send_ring(const ls_wire_t *w, const char *token, ls_rings_t *rings, int rank, int64_t now_ns) {
  const ls_ring_t *ring = ls_rings_at(rings, rank);
  char text[2 * sizeof(ls_ring_entry_t) + 1];
  bool sent =
      ls_wire_send(w, token, "ring %d %" PRIu64 " %d", rank, (uint64_t)ring->count, (int)ring->device);
  for (int i = 0; i < LS_RING_ENTRIES && sent; i++) {
    ls_ring_entry_t e = ring->entry[i];
    if (e.number == 0) continue;
    swap_ages_and_moments(&e, now_ns);
    to_hex(&e, sizeof e, text);
    sent = ls_wire_send(w, token, "entry %d %d %s", rank, i, text);
  }
  return sent;
}

bool ls_wire_parse_ring(const char *message, int64_t now_ns, ls_rings_t *rings) {
  int rank, device, at, end = 0;
  uint64_t count;
  ls_ring_entry_t e;
  if (sscanf(message, "ring %d %" SCNu64 " %d%n", &rank, &count, &device, &end) == 3 && !message[end]) {
    if (rank < 0 || rank >= ls_rings_ranks(rings)) return false;
    ls_ring_t *ring = ls_rings_at(rings, rank);
    memset(ring->entry, 0, sizeof ring->entry);
    ring->count = count;
    ring->device = device != 0;
    return true;
  }
  if (sscanf(message, "entry %d %d %n", &rank, &at, &end) != 2 || rank < 0 || rank >= ls_rings_ranks(rings) ||
      at < 0 || at >= LS_RING_ENTRIES || from_hex(message + end, &e, sizeof e) != (int)sizeof e ||
      e.begin_ns < -AGE_NS_MAX || e.begin_ns > AGE_NS_MAX || e.end_ns < -AGE_NS_MAX || e.end_ns > AGE_NS_MAX)
    return false;
  swap_ages_and_moments(&e, now_ns);
  ls_rings_at(rings, rank)->entry[at] = e;
  return true;
}

/* ---- text ---- */

enum { PART_BYTES = (LS_WIRE_BYTES - TOKEN_BYTES) / 2 - 16 };

bool ls_wire_send_text(const ls_wire_t *w, const char *token, int question, const char *text) {
  char part[2 * PART_BYTES + 1];
  bool sent = true;
  for (size_t left = strlen(text), take; left > 0 && sent; text += take, left -= take) {
    take = left < PART_BYTES ? left : PART_BYTES;
    to_hex(text, take, part);
    sent = ls_wire_send(w, token, "part %d %s", question, part);
  }
  return sent;
}

int ls_wire_parse_part(const char *message, int *question, char text[LS_WIRE_BYTES]) {
  int end = 0;
  if (sscanf(message, "part %d %n", question, &end) != 1 || end == 0) return -1;
  return from_hex(message + end, text, LS_WIRE_BYTES);
}
