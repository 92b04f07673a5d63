/* What the supervisor and its agents on the hosts of a run say to each other: lines over TCP, each beginning with the
 * token of the run. A line without it, or a longer one than LS_WIRE_BYTES, is refused whole. Inside supervise.
 *
 *   agent to supervisor                          supervisor to agent
 *   hello VERSION HOST    its first line         beat     it is there; the answer is beat
 *   refuse WORDS          it cannot begin        hold, go Ctrl-Z: stops the host's ranks, and lets them go on
 *   ready                 its page is open       end      kills what is left of the ranks; the answer is bye
 *   rank ..               what a rank shows
 *   speed ..              its own times        speed .. from other hosts, for the page of rank 0
 *   ring .., entry .., told rings              rings    the last collectives of the host's ranks
 *   part HEX .., told look R                   look R   the threads and stacks of rank R
 *   beat, bye                                  give up  ends what the host's devices wait for */
#ifndef LS_SUPERVISE_WIRE_H
#define LS_SUPERVISE_WIRE_H

#include "monitor/page.h"
#include "monitor/ring.h"
#include "monitor/web.h"

enum { LS_WIRE_VERSION = 3, LS_WIRE_BYTES = 1024, LS_WIRE_SPEEDS = 20 };

typedef struct {
  int fd;      /* non-blocking; -1: closed */
  int wait_ms; /* how long sending may wait for the other side */
  int used, taken;
  bool overlong; /* the rest of a line that was too long is still to come */
  char bytes[LS_WIRE_BYTES];
} ls_wire_t;
typedef enum { LS_WIRE_NOTHING, LS_WIRE_LINE, LS_WIRE_REFUSED, LS_WIRE_CLOSED } ls_wire_got_t;

/* The next line that has come; *words: what stands behind its token, until the next call. */
ls_wire_got_t ls_wire_take(ls_wire_t *wire, const char *token, const char **words);
/* Sends one line. False: the other side does not take it. */
bool ls_wire_send(const ls_wire_t *wire, const char *token, const char *fmt, ...) LS_PRINTF(3, 4);
void ls_wire_close(ls_wire_t *wire);

/* A rank as its host sees it. Clocks differ: moments travel as ages. */
typedef struct {
  int rank;
  ls_page_look_t look;
  bool gone, stopped; /* its process has ended; is stopped */
} ls_wire_rank_t;
bool ls_wire_send_rank(const ls_wire_t *wire, const char *token, const ls_wire_rank_t *rank, int64_t now_ns);
/* False: these words are no rank's. The rank is the caller's to check. */
bool ls_wire_read_rank(const char *words, int64_t now_ns, ls_wire_rank_t *rank);

/* The newest LS_WIRE_SPEEDS own times of a rank and its limits, from one page to another, where they are newer than `sent`,
 * which is brought up to date; other limits at once, since a rank whose GPU breaks times no more steps. Read: false: these
 * words are no speed of it. */
typedef struct {
  int64_t timed;
  int limits;
} ls_wire_speed_t;
bool ls_wire_send_speed(const ls_wire_t *wire, const char *token, const ls_page_t *page, int rank,
                        ls_wire_speed_t *sent);
bool ls_wire_read_speed(const char *words, ls_page_t *page);
/* A rank's ring, a line for each collective: from one host's rings to another's. */
bool ls_wire_send_ring(const ls_wire_t *wire, const char *token, ls_rings_t *rings, int rank, int64_t now_ns);
bool ls_wire_read_ring(const char *words, int64_t now_ns, ls_rings_t *rings);
/* Text of any length, as parts. Read: of one part, into `text`; returns its bytes, -1: these words are no part. */
bool ls_wire_send_text(const ls_wire_t *wire, const char *token, const char *text);
int ls_wire_read_part(const char *words, char text[LS_WIRE_BYTES]);

#endif
