/* TCP by name or address, by either version of IP. Every wait ends at end_ns, a moment of ls_clock_ns, except for the lookup of a
 * name: the system's resolver limits that one (resolv.conf), and an address needs none. */
#ifndef LS_BASE_TCP_H
#define LS_BASE_TCP_H

#include <stdbool.h>
#include <stdint.h>

/* A connection that does not block. Tries the addresses of a name in turn, each for an equal share of the time left.
 * -1: *why says so (may be NULL). */
int ls_tcp_connect(const char *host, const char *port, int64_t end_ns, const char **why);
/* Listens on all addresses of this host, without blocking; port 0: any. *bound: the port. -1: errno. */
int ls_tcp_listen(int port, int backlog, int *bound);
/* Waits until it can be read (POLLIN) or written (POLLOUT). */
bool ls_tcp_ready(int fd, short what, int64_t end_ns);

#endif
