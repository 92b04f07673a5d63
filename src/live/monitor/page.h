/* The place of every rank of a run: a mapped file, `ranks.page` in the run's monitor directory, with one line of 64 bytes
 * per rank. Each rank writes its own line with relaxed stores; a supervisor or a terminal may read all lines at any time
 * without disturbing the run. Each number of a line is whole, but two numbers may be of different moments.
 *
 * Times are of CLOCK_MONOTONIC of the ranks' host. */
#ifndef LS_MONITOR_PAGE_H
#define LS_MONITOR_PAGE_H

#include "base/ctx.h"

#include <stdatomic.h>

#define LS_PAGE_NAME "ranks.page"

/* The phase of a rank. */
typedef enum {
  LS_PAGE_NONE,       /* it has not begun: the process starts, or there is none */
  LS_PAGE_START,      /* opens device, data and checkpoint */
  LS_PAGE_FIRST_STEP, /* the first step of this life, which may compile and connect */
  LS_PAGE_STEP,
  LS_PAGE_EVALUATE,
  LS_PAGE_SAVE,
  LS_PAGE_END,  /* after the last step: reports, hashes, closes */
  LS_PAGE_GONE, /* has left its trainer properly: its process may end */
  LS_PAGE_PHASES
} ls_page_phase_t;

typedef struct {
  _Atomic int64_t step;           /* steps done */
  _Atomic int64_t since_ns;       /* when it entered its phase, or finished its newest step */
  _Atomic uint64_t entered, left; /* collectives; one is under way while they differ */
  _Atomic int64_t error_ns;       /* when `error` was written */
  _Atomic uint32_t first;         /* the step at which this life began, modulo 2^32 */
  _Atomic int16_t error;          /* ls_status_t with which this rank failed; LS_OK: it has not */
  _Atomic uint16_t phase;         /* ls_page_phase_t */
  _Atomic int32_t pid, parent;    /* the rank's process and its launcher; 0: none yet */
  _Atomic int64_t timed;          /* steps whose own time stands in its speed */
} ls_page_line_t;
_Static_assert(sizeof(ls_page_line_t) == 64, "a line is one cache line, as a mapping begins with one");

/* The speed of a rank; these follow the lines, one for each rank. The rank's loop writes the times of its newest steps, the
 * thread that watches it writes the rest, once per record. */
enum { LS_PAGE_STEPS = 64, LS_LIMIT_HEAT = 1, LS_LIMIT_POWER = 2, LS_LIMIT_BROKEN = 4 };
typedef struct {
  _Atomic int64_t
      own_ns[LS_PAGE_STEPS]; /* without waiting for other ranks; step n (from 0) at n % LS_PAGE_STEPS */
  _Atomic int64_t input_ns[LS_PAGE_STEPS]; /* waiting for samples; part of it */
  _Atomic int32_t limits;                  /* what limits its clock, or its GPU is broken: bits LS_LIMIT_ */
  _Atomic int32_t clock_ppm;               /* of its highest clock; 0: not known */
  _Atomic int32_t waiting_ppm; /* share of the time in which it was ready to run and had no processor */
  _Atomic int32_t loop_ns;     /* a fixed piece of arithmetic on its processor; 0: not known */
  int32_t unused[12];
} ls_page_speed_t;
_Static_assert(sizeof(ls_page_speed_t) % 64 == 0, "no two ranks write to one cache line");

typedef struct ls_page ls_page_t;

/* Opens DIR/ranks.page to write. A file that is missing, or is not a page of `ranks` lines, is replaced by an empty
 * one, together with `dir`; readers of the old file keep it. Local: of several processes one opens it first.
 * LS_ERR_IO, LS_ERR_NO_SPACE. */
ls_status_t ls_page_open(ls_ctx_t *ctx, const char *dir, int ranks, ls_page_t **page);
/* The same to read only. LS_ERR_NOT_FOUND without a file, LS_ERR_CORRUPT if it is no page. */
ls_status_t ls_page_read(ls_ctx_t *ctx, const char *dir, ls_page_t **page);
void ls_page_close(ls_page_t *page); /* NULL is allowed */
int ls_page_ranks(const ls_page_t *page);
/* The line of a rank, of a page that is open for writing. */
ls_page_line_t *ls_page_line(ls_page_t *page, int rank);
ls_page_speed_t *ls_page_speed(ls_page_t *page, int rank);

/* A moment of a line. */
typedef struct {
  int64_t step, first; /* steps done, now and when this life began (fewer than 2^32 ago) */
  int64_t since_ns;
  uint64_t entered, left;
  int64_t error_ns;
  ls_status_t error;
  ls_page_phase_t phase; /* LS_PAGE_NONE if the file holds another number */
  int pid, parent;
} ls_page_look_t;
void ls_page_look(const ls_page_t *page, int rank, ls_page_look_t *look);
/* Makes a line show this, for a rank whose own page is on another host. Leaves `timed` (ls_page_speed_put). */
void ls_page_put(ls_page_line_t *line, const ls_page_look_t *look);
const char *ls_page_phase_name(ls_page_phase_t phase); /* "step" */

/* A rank's speed: its newest `steps` steps (at most LS_PAGE_STEPS / 2: others are written meanwhile), newest first. */
typedef struct {
  int64_t timed; /* how many steps it has timed in all */
  int64_t own_ns[LS_PAGE_STEPS / 2], input_ns[LS_PAGE_STEPS / 2];
  int limits;
  double clock_ratio, waiting_ratio;
  int loop_ns;
} ls_page_speed_look_t;
void ls_page_speed_look(const ls_page_t *page, int rank, int steps, ls_page_speed_look_t *look);
/* Makes a page that is open to write show this, for a rank whose own page is on another host. */
void ls_page_speed_put(ls_page_t *page, int rank, int steps, const ls_page_speed_look_t *look);

/* The rank's own side. `line` is never NULL: a rank without a page writes a line of its own. */
void ls_page_begin(ls_page_line_t *line,
                   int64_t now_ns);       /* an empty line of this process, in LS_PAGE_START */
void ls_page_clear(ls_page_line_t *line); /* of no process */
void ls_page_fail(ls_page_line_t *line, ls_status_t error); /* the first error stays */
static inline void ls_page_enter(ls_page_line_t *line, ls_page_phase_t phase, int64_t now_ns) {
  atomic_store_explicit(&line->since_ns, now_ns, memory_order_relaxed);
  atomic_store_explicit(&line->phase, (uint16_t)phase, memory_order_relaxed);
}
/* Before the first phase in which a life does something. */
static inline void ls_page_first(ls_page_line_t *line, int64_t step) {
  atomic_store_explicit(&line->first, (uint32_t)step, memory_order_relaxed);
  atomic_store_explicit(&line->step, step, memory_order_relaxed);
}
static inline void ls_page_step(ls_page_line_t *line, int64_t step, int64_t now_ns) {
  atomic_store_explicit(&line->step, step, memory_order_relaxed);
  ls_page_enter(line, LS_PAGE_STEP, now_ns);
}
/* The own time of the step that has just ended. */
static inline void ls_page_timed(ls_page_t *page, int rank, int64_t own_ns, int64_t input_ns) {
  ls_page_line_t *line = ls_page_line(page, rank);
  ls_page_speed_t *speed = ls_page_speed(page, rank);
  const int64_t n = atomic_load_explicit(&line->timed, memory_order_relaxed);
  atomic_store_explicit(&speed->own_ns[n % LS_PAGE_STEPS], own_ns, memory_order_relaxed);
  atomic_store_explicit(&speed->input_ns[n % LS_PAGE_STEPS], input_ns, memory_order_relaxed);
  atomic_store_explicit(&line->timed, n + 1, memory_order_release);
}

#endif
