/* The protocol between the supervisor and its agents, one on each host of a run: lines over TCP. A line is the token of the
 * run, a space and a message. A line without the token, or one longer than LS_WIRE_BYTES, is refused whole. Inside supervise.
 *
 *   agent to supervisor                         supervisor to agent
 *   hello VERSION HOST LIFE  its first message  beat             it is alive; the agent answers beat
 *   refuse REASON        it cannot begin        pause            stops the host's ranks (Ctrl-Z)
 *   ready                its page is open       continue         lets them go on
 *   rank ..              what a rank shows      abort            ends the collectives in which the host's devices wait
 *   speed ..             a rank's step times    speed ..         those of other hosts' ranks, for the page of rank 0
 *   ring .., entry ..,                          ask N rings      question N: the last collectives of the host's ranks
 *     answered N
 *   part N HEX ..,                              ask N process R  the threads and stacks of rank R
 *     answered N
 *   beat, bye                                   end              kills what is left of the ranks; the agent answers bye */
#ifndef LS_SUPERVISE_WIRE_H
#define LS_SUPERVISE_WIRE_H

#include "monitor/page.h"
#include "monitor/ring.h"
#include "monitor/web.h"

enum { LS_WIRE_VERSION = 6, LS_WIRE_BYTES = 1024, LS_WIRE_SPEEDS = 20 };

typedef struct {
  int fd;               /* non-blocking; -1: closed */
  int wait_ms;          /* how long sending may wait for the other side */
  int filled, consumed; /* of bytes */
  bool overlong;        /* the rest of a line that was too long is still to come */
  char bytes[LS_WIRE_BYTES];
} ls_wire_t;
typedef enum { LS_WIRE_NOTHING, LS_WIRE_MESSAGE, LS_WIRE_REFUSED, LS_WIRE_CLOSED } ls_wire_received_t;

/* The next line that has arrived; *message: what follows its token, until the next call. */
ls_wire_received_t ls_wire_receive(ls_wire_t *wire, const char *token, const char **message);
/* Sends one line. False: the other side does not take it. */
bool ls_wire_send(const ls_wire_t *wire, const char *token, const char *fmt, ...) LS_PRINTF(3, 4);
void ls_wire_close(ls_wire_t *wire);

/* A rank as its host sees it. The hosts' clocks differ, so moments travel as ages. */
typedef struct {
  int rank;
  ls_page_look_t look;
  bool ended, stopped; /* its process has ended; is stopped */
} ls_wire_rank_t;
bool ls_wire_send_rank(const ls_wire_t *wire, const char *token, const ls_wire_rank_t *rank, int64_t now_ns);
/* False: the message is not a rank's. The caller checks the rank's number. */
bool ls_wire_parse_rank(const char *message, int64_t now_ns, ls_wire_rank_t *rank);

/* A rank's newest LS_WIRE_SPEEDS step times and what limits it, copied from one page to another. They are sent when there are
 * newer times than in `sent`, which is then updated. A changed limit is sent at once, because a rank whose GPU breaks
 * times no more steps. Parsing: false if the message is not a speed of a page with so many `ranks`. */
typedef struct {
  int64_t timed;
  int limits;
} ls_wire_speed_t;
bool ls_wire_send_speed(const ls_wire_t *wire, const char *token, const ls_page_t *page, int rank,
                        ls_wire_speed_t *sent);
bool ls_wire_parse_speed(const char *message, int ranks, int *rank, ls_page_speed_look_t *speed);
/* A rank's ring, a line for each collective: from one host's rings to another's. */
bool ls_wire_send_ring(const ls_wire_t *wire, const char *token, ls_rings_t *rings, int rank, int64_t now_ns);
bool ls_wire_parse_ring(const char *message, int64_t now_ns, ls_rings_t *rings);
/* Text of any length, in parts, for an answer. Parsing one part writes it into `text` and returns its bytes; -1: the message
 * is no part. */
bool ls_wire_send_text(const ls_wire_t *wire, const char *token, int question, const char *text);
int ls_wire_parse_part(const char *message, int *question, char text[LS_WIRE_BYTES]);

#endif
