/* Sockets that do not block, and poll(2). */
#include "base/tcp.h"

#include "base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KIND = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC };

bool ls_tcp_ready(int fd, short what, int64_t end_ns) {
  struct pollfd at = {.fd = fd, .events = what};
  for (int64_t left_ms; (left_ms = (end_ns - ls_clock_ns()) / 1000000) > 0;) {
    const int ready = poll(&at, 1, (int)left_ms);
    if (ready >= 0 || errno != EINTR) return ready == 1;
  }
  return false;
}

int ls_tcp_connect(const char *host, const char *port, int64_t end_ns, const char **why) {
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  int fd = -1, left = 0, error = getaddrinfo(host, port, &hints, &found);
  if (why && error) *why = gai_strerror(error);
  if (error) return -1;
  for (const struct addrinfo *a = found; a; a = a->ai_next)
    left++;
  for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next, left--) {
    const int64_t now_ns = ls_clock_ns(), share_ns = (end_ns - now_ns) / left;
    socklen_t size = sizeof error;
    fd = socket(a->ai_family, KIND, 0);
    const bool begun = fd >= 0 && (connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS);
    error = begun ? ETIMEDOUT : errno;
    if (begun && ls_tcp_ready(fd, POLLOUT, now_ns + share_ns))
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) break;
    if (why) *why = strerror(error);
    if (fd >= 0) close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  return fd;
}

/* Tries both versions of IP if the kernel has both. */
int ls_tcp_listen(int port, int backlog, int *bound) {
  const in_port_t number = htons((uint16_t)port);
  const struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = number};
  const struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = number};
  const struct sockaddr *const any[] = {(const struct sockaddr *)&six, (const struct sockaddr *)&four};
  const socklen_t bytes[] = {sizeof six, sizeof four};
  struct sockaddr_in6 at; /* both have the port at the same place */
  _Static_assert(offsetof(struct sockaddr_in6, sin6_port) == offsetof(struct sockaddr_in, sin_port), "port");
  for (int i = 0; i < 2; i++) {
    const int fd = socket(any[i]->sa_family, KIND, 0), no = 0, yes = 1;
    socklen_t size = sizeof at;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        (i > 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0) &&
        bind(fd, any[i], bytes[i]) == 0 && listen(fd, backlog) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &size) == 0) {
      *bound = ntohs(at.sin6_port);
      return fd;
    }
    const int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) break;
  }
  return -1;
}
