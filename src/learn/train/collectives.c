/* What a supervisor sees of this rank's collectives: counters in its line of the page, and the last ones in its ring. */
#include "train/trainer.h"

_Static_assert((int)LS_LINE_CONTROL == (int)LS_RING_CONTROL && (int)LS_LINE_DATA == (int)LS_RING_DATA &&
                   (int)LS_LINE_DEVICE == (int)LS_RING_DEVICE,
               "a ring has the lines of a communicator");

/* A device's own collectives are seen now and then: counters of two ranks would not agree. */
static uint64_t enter(void *user, const ls_comm_t *comm, const ls_collective_t *c, ls_comm_line_t line,
                      uint64_t number) {
  ls_trainer_t *t = user;
  if (line != LS_LINE_DEVICE) atomic_fetch_add_explicit(&t->line->entered, 1, memory_order_relaxed);
  if (!t->ring) return 0;
  if (line == LS_LINE_DEVICE) atomic_store_explicit(&t->ring->device, true, memory_order_relaxed);
  return ls_ring_enter(t->ring, (ls_ring_line_t)line, number, ls_collective_name(c->kind),
                       c->name ? c->name : "", comm->group, ls_collective_bytes(c), ls_clock_ns());
}

static void leave(void *user, ls_comm_line_t line, uint64_t mark) {
  ls_trainer_t *t = user;
  if (line != LS_LINE_DEVICE) atomic_fetch_add_explicit(&t->line->left, 1, memory_order_relaxed);
  if (t->ring) ls_ring_leave(t->ring, mark, ls_clock_ns());
}

static bool give_up(void *user) {
  const ls_trainer_t *t = user;
  return t->ring && atomic_load_explicit(&t->ring->give_up, memory_order_relaxed);
}

void ls_trainer_show_collectives(ls_trainer_t *t, const char *dir) {
  const ls_comm_t *comm = t->world->comm;
  t->rings = ls_rings_find(dir, comm->size);
  t->ring = t->rings ? ls_rings_at(t->rings, comm->rank) : NULL;
  t->watch = (ls_comm_watch_t){.enter = enter, .leave = leave, .give_up = give_up, .user = t};
  t->world->comm->watch = &t->watch;
}

void ls_trainer_hide_collectives(ls_trainer_t *t) {
  t->world->comm->watch = NULL;
  ls_rings_close(t->rings);
}
