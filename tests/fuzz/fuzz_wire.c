/* Fuzz target: what comes to a supervisor's port, and the message of a rank in it. What is accepted is the same after another way
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

static void parse_rank(const char *message) {
  ls_wire_rank_t rank, again;
  const char *sent;
  int fd[2];
  if (!ls_wire_parse_rank(message, now_ns, &rank)) return;
  check(rank.look.since_ns >= 0 && rank.look.since_ns <= now_ns && rank.look.phase < LS_PAGE_PHASES);
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
  ls_wire_t from = {.fd = fd[0]}, to = {.fd = fd[1]};
  check(ls_wire_send_rank(&from, token, &rank, now_ns));
  check(ls_wire_receive(&to, token, &sent) == LS_WIRE_MESSAGE && ls_wire_parse_rank(sent, now_ns, &again));
  check(memcmp(&rank.look, &again.look, sizeof rank.look) == 0 && rank.rank == again.rank);
  check(rank.ended == again.ended && rank.stopped == again.stopped);
  ls_wire_close(&from);
  ls_wire_close(&to);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char text[LS_WIRE_BYTES];
  const char *message;
  int fd[2];
  ls_wire_received_t received;
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
  ls_wire_t wire = {.fd = fd[0]};
  check(write(fd[1], bytes, size) == (ssize_t)size);
  close(fd[1]);
  while ((received = ls_wire_receive(&wire, token, &message)) != LS_WIRE_CLOSED) {
    check(received == LS_WIRE_MESSAGE || received == LS_WIRE_REFUSED);
    if (received == LS_WIRE_MESSAGE) parse_rank(message);
  }
  ls_wire_close(&wire);
  size = size < sizeof text ? size : sizeof text - 1;
  memcpy(text, bytes, size);
  text[size] = '\0';
  parse_rank(text);
  return 0;
}
