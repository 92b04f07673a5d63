/* Shows a supervisor where this rank is: its line of the page in monitor.dir, counters of its collectives in that line, and
 * the newest collectives in the rank's ring. */
#include "monitor/page.h"
#include "monitor/ring.h"
#include "supervise/agent.h"
#include "train/observers/observers.h"

#include <stdlib.h>

typedef struct {
  ls_trainer_t *t;
  ls_page_t *page;
  ls_page_line_t *line;
  ls_rings_t *rings; /* of a supervised run, else NULL, as */
  ls_ring_t *ring;   /* this rank's */
  ls_comm_watch_t watch;
  ls_page_phase_t shown; /* between evaluations and saves */
  ls_doing_t doing;
} own_t;

_Static_assert((int)LS_LINE_CONTROL == (int)LS_RING_CONTROL && (int)LS_LINE_DATA == (int)LS_RING_DATA &&
                   (int)LS_LINE_DEVICE == (int)LS_RING_DEVICE,
               "a ring has the lines of a communicator");

/* Not every collective of a device is seen, so counters of two ranks would not agree. */
static uint64_t enter(void *user, const ls_comm_t *comm, const ls_collective_t *c, ls_comm_line_t line,
                      uint64_t number) {
  own_t *o = user;
  if (line != LS_LINE_DEVICE) atomic_fetch_add_explicit(&o->line->entered, 1, memory_order_relaxed);
  if (!o->ring) return 0;
  if (line == LS_LINE_DEVICE) atomic_store_explicit(&o->ring->device, true, memory_order_relaxed);
  return ls_ring_enter(o->ring, (ls_ring_line_t)line, number, ls_collective_name(c->kind),
                       c->name ? c->name : "", comm->group, ls_collective_bytes(c), ls_clock_ns());
}

static void leave(void *user, ls_comm_line_t line, uint64_t mark) {
  own_t *o = user;
  if (line != LS_LINE_DEVICE) atomic_fetch_add_explicit(&o->line->left, 1, memory_order_relaxed);
  if (o->ring) ls_ring_leave(o->ring, mark, ls_clock_ns());
}

static bool give_up(void *user) {
  const own_t *o = user;
  return o->ring && atomic_load_explicit(&o->ring->give_up, memory_order_relaxed);
}

static void show_collectives(own_t *o, const char *dir) {
  const ls_comm_t *comm = o->t->world->comm;
  o->rings = ls_rings_find(dir, comm->size);
  o->ring = o->rings ? ls_rings_at(o->rings, comm->rank) : NULL;
  o->watch = (ls_comm_watch_t){.enter = enter, .leave = leave, .give_up = give_up, .user = o};
  o->t->world->comm->watch = &o->watch;
}

/* Rank 0 makes the page, the others find it. The agent of each of several hosts makes the page there. */
static bool wanted(const ls_trainer_t *t) {
  return t->training && t->config->monitor.dir;
}

/* Rank 0 makes the page, the others find it. The agent of each of several hosts makes the page there. */
static ls_status_t open_own(void *own, const ls_trainer_options_t *options) {
  (void)options;
  own_t *o = own;
  ls_ctx_t *ctx = o->t->ctx;
  ls_comm_t *comm = o->t->world->comm;
  const char *agents = getenv(LS_AGENT_ENVIRONMENT), *dir = agents ? agents : o->t->config->monitor.dir;
  ls_status_t status = comm->rank == 0 ? ls_page_open(ctx, dir, comm->size, &o->page) : LS_OK;
  status = ls_comm_agree(comm, "opening the monitor directory", status);
  if (status == LS_OK && comm->rank > 0) status = ls_page_open(ctx, dir, comm->size, &o->page);
  if (status == LS_OK) {
    o->line = ls_page_line(o->page, comm->rank);
    ls_page_begin(o->line, ls_clock_ns());
    show_collectives(o, dir);
  }
  return ls_comm_agree(comm, "opening the monitor directory", status);
}

/* The world's communicator outlives the page. */
static void close_own(void *own) {
  own_t *o = own;
  o->t->world->comm->watch = NULL;
  ls_rings_close(o->rings);
  if (o->line && o->line->error == LS_OK) ls_page_enter(o->line, LS_PAGE_GONE, ls_clock_ns());
  ls_page_close(o->page);
}

static ls_status_t begin(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  o->shown = LS_PAGE_START;
  ls_page_first(o->line, loop->t->run.step);
  return LS_OK;
}

/* A pause is shown as a save: the rank lives, but does no steps. */
static void doing(void *own, ls_doing_t doing) {
  own_t *o = own;
  if (!o->line || doing == LS_DOING_OTHER || doing == LS_DOING_CLOSE ||
      (doing == LS_DOING_STEPS && o->doing == doing))
    return;
  o->doing = doing;
  if (doing == LS_DOING_STEPS && o->shown == LS_PAGE_START) o->shown = LS_PAGE_FIRST_STEP;
  if (doing == LS_DOING_END) o->shown = LS_PAGE_END;
  const ls_page_phase_t phase = doing == LS_DOING_EVALUATION                        ? LS_PAGE_EVALUATE
                                : doing == LS_DOING_SAVE || doing == LS_DOING_PAUSE ? LS_PAGE_SAVE
                                                                                    : o->shown;
  ls_page_enter(o->line, phase, ls_clock_ns());
}

static ls_status_t after_step(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  const ls_engine_t *e = &o->t->engine;
  o->shown = LS_PAGE_STEP;
  ls_page_step(o->line, o->t->run.step, e->done_ns);
  if (e->took)
    ls_page_timed(o->page, o->t->world->comm->rank, loop->own_ns,
                  loop->parts.measured ? loop->parts.input_ns : loop->waited_ns);
  return LS_OK;
}

static void failed(void *own, ls_status_t status) {
  const own_t *o = own;
  if (o->line) ls_page_fail(o->line, status);
}

ls_page_t *ls_observers_page(const ls_trainer_t *t) {
  const own_t *o = ls_observers_own(t, &ls_observer_page);
  return o ? o->page : NULL;
}

const ls_observer_t ls_observer_page = {.name = "page",
                                        .own_bytes = sizeof(own_t),
                                        .wanted = wanted,
                                        .open = open_own,
                                        .close = close_own,
                                        .doing = doing,
                                        .failed = failed,
                                        .begin = begin,
                                        .after_step = after_step};
