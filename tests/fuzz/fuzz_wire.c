/* Fuzz target: what comes to a supervisor's port, and the words of a rank in it. What is accepted is the same after another way
 * over the wire. */
#include "supervise/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char token[] = "0123456789abcdef0123456789abcdef";
static const int64_t now_ns = 1000000;

static void check(bool holds) {
  if (!holds) abort();
}

static void read_rank(const char *words) {
  ls_wire_rank_t rank, again;
  const char *sent;
  int fd[2];
  if (!ls_wire_read_rank(words, now_ns, &rank)) return;
  check(rank.look.since_ns >= 0 && rank.look.since_ns <= now_ns && rank.look.phase < LS_PAGE_PHASES);
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
  ls_wire_t from = {.fd = fd[0]}, to = {.fd = fd[1]};
  check(ls_wire_send_rank(&from, token, &rank, now_ns));
  check(ls_wire_take(&to, token, &sent) == LS_WIRE_LINE && ls_wire_read_rank(sent, now_ns, &again));
  check(memcmp(&rank.look, &again.look, sizeof rank.look) == 0 && rank.rank == again.rank);
  check(rank.gone == again.gone && rank.stopped == again.stopped);
  ls_wire_close(&from);
  ls_wire_close(&to);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char text[LS_WIRE_BYTES];
  const char *words;
  int fd[2];
  ls_wire_got_t got;
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
  ls_wire_t wire = {.fd = fd[0]};
  check(write(fd[1], bytes, size) == (ssize_t)size);
  close(fd[1]);
  while ((got = ls_wire_take(&wire, token, &words)) != LS_WIRE_CLOSED) {
    check(got == LS_WIRE_LINE || got == LS_WIRE_REFUSED);
    if (got == LS_WIRE_LINE) read_rank(words);
  }
  ls_wire_close(&wire);
  size = size < sizeof text ? size : sizeof text - 1;
  memcpy(text, bytes, size);
  text[size] = '\0';
  read_rank(text);
  return 0;
}
