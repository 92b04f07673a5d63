/* Says when to save, if checkpoint.every_steps leaves it to the run, and that a save has failed in its thread. Rank 0. */
#include "train/observers/observers.h"

#include <math.h>

typedef struct {
  ls_trainer_t *t;
  bool spoke; /* it was said when the next save is due */
} own_t;

int64_t ls_save_interval_ns(int64_t cost_ns, int64_t failure_ns) {
  double cost = (double)cost_ns, failure = (double)failure_ns;
  if (cost >= 2 * failure) return failure_ns;
  double ratio = cost / (2 * failure);
  return (int64_t)(sqrt(2 * cost * failure) * (1 + sqrt(ratio) / 3 + ratio / 9) - cost);
}

static bool wanted(const ls_trainer_t *t) {
  return t->training && t->world->comm->rank == 0 && t->config->checkpoint.dir;
}

static bool chooses(const ls_trainer_t *t) {
  return t->config->checkpoint.every_steps < 0;
}

/* Until the next save: Daly's estimate, but nine times as long as the disk was busy with the last one at least. */
static int64_t wait_ns(const own_t *o, const ls_loop_t *loop) {
  enum { FIRST_COST_NS = 1000000000 };
  const int64_t failure_ns = (int64_t)(o->t->config->checkpoint.failure_hours * 3600e9),
                cost_ns = loop->saves > 0 ? loop->save_ns / loop->saves : FIRST_COST_NS,
                daly_ns = ls_save_interval_ns(cost_ns, failure_ns),
                apart_ns = LS_WRITES_APART * o->t->saver.took_ns;
  return daly_ns > apart_ns ? daly_ns : apart_ns;
}

/* The ranks hear why a save failed when they agree to stop. */
static void idle(void *own, const ls_loop_t *loop, ls_asks_t *asks) {
  const own_t *o = own;
  asks->stop |= ls_beside_failed(o->t);
  asks->save |= chooses(o->t) && ls_loop_clock_ns(loop) - loop->saved_ns >= wait_ns(o, loop);
}

static void saved(void *own, const ls_loop_t *loop, ls_save_when_t when, int64_t took_ns) {
  own_t *o = own;
  if (when != LS_SAVE_BESIDE || o->spoke || !chooses(o->t)) return;
  o->spoke = true;
  ls_log(o->t->ctx, LS_LOG_INFO,
         "the run stood still for %.3g s to save: the next checkpoint is made in %.3g s or later "
         "(checkpoint.every_steps: -1, checkpoint.failure_hours: %g)",
         (double)took_ns * 1e-9, (double)wait_ns(o, loop) * 1e-9, o->t->config->checkpoint.failure_hours);
}

const ls_observer_t ls_observer_saving = {
    .name = "saving", .own_bytes = sizeof(own_t), .wanted = wanted, .idle = idle, .saved = saved};
