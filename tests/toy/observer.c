/* An observer of one file: counts what a run does, asks for a save after step 5, and tells the log at the end. The environment
 * variable TOY_OBSERVER switches it on. */
#include "train/loop.h"

#include <stdlib.h>

typedef struct {
  ls_trainer_t *t;
  int steps, evaluations, saves;
} own_t;

static bool wanted(const ls_trainer_t *t) {
  return t->training && getenv("TOY_OBSERVER");
}

static ls_status_t after_step(void *own, const ls_loop_t *loop) {
  (void)loop;
  ((own_t *)own)->steps++;
  return LS_OK;
}

static void evaluated(void *own, const ls_loop_t *loop) {
  (void)loop;
  ((own_t *)own)->evaluations++;
}

static void idle(void *own, const ls_loop_t *loop, ls_asks_t *asks) {
  (void)own;
  asks->save |= loop->t->run.step == 5;
}

static void saved(void *own, const ls_loop_t *loop, ls_save_when_t when, int64_t took_ns) {
  (void)loop, (void)when, (void)took_ns;
  ((own_t *)own)->saves++;
}

static void at_end(void *own, ls_status_t status) {
  const own_t *o = own;
  ls_log(o->t->ctx, LS_LOG_WARN, "toy: %d steps, %d evaluations, %d saves; %s", o->steps, o->evaluations,
         o->saves, ls_status_name(status));
}

static const ls_observer_t observer = {.name = "toy",
                                       .own_bytes = sizeof(own_t),
                                       .wanted = wanted,
                                       .after_step = after_step,
                                       .evaluated = evaluated,
                                       .idle = idle,
                                       .saved = saved,
                                       .at_end = at_end};

__attribute__((constructor)) static void add(void) {
  ls_observer_register(&observer);
}
