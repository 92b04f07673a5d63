/* Connections and waits of TCP: every address of a name is tried, and a signal ends no wait. */
#include "base/tcp.h"

#include "base/base.h"
#include "base/clock.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "unit.h"

static const int64_t second_ns = 1000000000;

/* Replaces the C library's resolver: a name has the addresses of these two listeners. */
static struct sockaddr_in address[2];
static struct addrinfo entry[2];

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
  (void)name, (void)service, (void)hints;
  for (int i = 0; i < 2; i++)
    entry[i] = (struct addrinfo){.ai_family = AF_INET,
                                 .ai_addr = (struct sockaddr *)&address[i],
                                 .ai_addrlen = sizeof address[i],
                                 .ai_next = i == 0 ? &entry[1] : NULL};
  *found = entry;
  return 0;
}

void freeaddrinfo(struct addrinfo *found) {
  (void)found;
}

static int listener(int i, int backlog) {
  socklen_t size = sizeof address[i];
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  address[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  assert_int_equal(bind(fd, (struct sockaddr *)&address[i], size), 0);
  assert_int_equal(listen(fd, backlog), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address[i], &size), 0);
  return fd;
}

/* Linux drops whoever calls while a listener's queue is full. */
static void an_address_that_drops_packets_leaves_time_for_the_next(void **state) {
  const int full = listener(0, 0), good = listener(1, 1);
  const int waits = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in peer;
  socklen_t size = sizeof peer;
  assert_int_equal(connect(waits, (struct sockaddr *)&address[0], sizeof address[0]), 0);
  const char *why = "";
  const int fd = ls_tcp_connect("both", "1", ls_clock_ns() + 2 * second_ns, &why);
  if (fd < 0) fail_msg("no connection: %s", why);
  assert_int_equal(getpeername(fd, (struct sockaddr *)&peer, &size), 0);
  assert_int_equal(peer.sin_port, address[1].sin_port);
  const int fds[] = {full, good, waits, fd};
  for (int i = 0; i < LS_COUNT(fds); i++)
    close(fds[i]);
}

static int ends[2];

static void third_signal_writes(int number) {
  static volatile sig_atomic_t count;
  (void)number;
  if (++count == 3 && write(ends[1], "x", 1) != 1) _exit(1);
}

static void a_signal_ends_no_wait(void **state) {
  const struct sigaction act = {.sa_handler = third_signal_writes};
  const struct itimerval every = {{.tv_usec = 20000}, {.tv_usec = 20000}}, never = {0};
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
  assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
  const bool ready = ls_tcp_ready(ends[0], POLLIN, ls_clock_ns() + 30 * second_ns);
  assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
  assert_true(ready);
  close(ends[0]);
  close(ends[1]);
}

TESTS(NULL, NULL, an_address_that_drops_packets_leaves_time_for_the_next, a_signal_ends_no_wait)
