/* A life that runs: its state, and what is seen of it. Inside supervise. */
#ifndef LS_SUPERVISE_LIFE_LOOK_H
#define LS_SUPERVISE_LIFE_LOOK_H

#include "supervise/life.h"
#include "supervise/ranks.h"
#include "supervise/session.h"

#include <poll.h>

enum { LS_LIFE_LINE_BYTES = 1024 };
/* Places in `poll`: streams, hosts, then the processes of ranks. */
enum { LS_LIFE_STDOUT, LS_LIFE_STDERR, LS_LIFE_HOSTS, LS_LIFE_FIXED };

typedef struct {
  ls_ctx_t *ctx;
  const ls_supervise_t *spec;
  ls_hosts_t *hosts; /* NULL: one */
  ls_returns_t *returns;
  bool grows; /* the ranks are asked to end, so that more go on */
  ls_page_t *page;
  ls_rings_t *rings; /* NULL: they could not be made */
  ls_usual_t *usual;
  FILE *printed;
  ls_life_end_t *end;
  ls_ranks_t own; /* processes of this one: the ranks, or with several hosts one that starts mpirun */
  bool again;
  const ls_places_t *places;
  int64_t past_step;
  int ranks;
  /* [ranks], but poll: LS_LIFE_FIXED streams and hosts, the ranks' processes */
  ls_page_look_t *look;
  bool *stopped, *gone, *early; /* its process was stopped; has ended; has ended before it was done */
  struct pollfd *poll;
  pid_t launcher;                           /* a process of it that is stopped; 0: none */
  int64_t launcher_ns, launcher_stopped_ns; /* the last look at it; since when it is stopped */
  int64_t begin_ns, looked_ns;              /* since when a rank counts as silent; the last look */
  int64_t kills;                            /* of the system for want of memory, before */
  ls_end_t seen;
  int64_t dead_ns;                  /* first end of a rank */
  int64_t stop_asked_ns, forced_ns; /* when they were last asked to end; when they were forced to */
  ls_session_t session;
  char line[LS_LIFE_LINE_BYTES]; /* of stderr, as far as it has come */
  int line_bytes;
} ls_life_run_t;

static inline bool ls_life_started(const ls_life_run_t *l) {
  return l->own.count > 0;
}
/* Takes what has arrived on the stream: stdout is kept, stderr passes at once. */
void ls_life_take_output(ls_life_run_t *l, int stream);
/* The ranks' lines on the page, and what follows from them. */
void ls_life_look_at_page(ls_life_run_t *l, int64_t now_ns);
/* A rank that ends before it has left its trainer, or with an error, is a fault; the first one is the cause. The page must have
 * been looked at after the ranks' processes: what a rank shows last comes before its end. */
void ls_life_see_ends(ls_life_run_t *l, int64_t now_ns);
/* Whether a rank, or the launcher, shows nothing for too long; fills the life's fault. */
bool ls_life_hangs(ls_life_run_t *l, int64_t now_ns);
/* The broken GPU of a rank is the cause of whatever this fault is. */
void ls_life_look_at_gpus(const ls_life_run_t *l, ls_fault_t *fault);
/* Processes that the kernel has ended because memory ran out, since it runs. */
int64_t ls_life_system_kills(void);

#endif
