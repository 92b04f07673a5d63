/* Wishes between two steps: hears them, and obeys. */
#include "train/loop.h"

#include <time.h>

enum { STOP_CHECK_STEPS_MAX = 256, STOP_CHECK_NS = 50000000 };

static ls_asks_t asked_of(const double *votes) {
  return (ls_asks_t){.stop = votes[0] > 0,
                     .save = votes[1] > 0,
                     .pause = votes[3] > 0,
                     .end = votes[4] > 0,
                     .smaller = votes[5] > 0};
}

/* *asked: the wishes of all ranks. The ranks of a world agree from time to time, all at the same step. The mean step time of
 * all ranks says when they agree next. */
static ls_status_t hear(ls_loop_t *loop, int64_t step, ls_asks_t *asked) {
  ls_trainer_t *t = loop->t;
  ls_comm_t *comm = t->world->comm;
  const int64_t done = t->run.step - loop->first_step;
  ls_asks_t own = {.smaller = t->config->train.smaller};
  if (loop->hooks->stop) {
    const ls_doing_t before = ls_trainer_do(t, LS_DOING_OTHER);
    own.stop = loop->hooks->stop(loop->hooks->user);
    ls_trainer_do(t, before);
  }
  LS_OBSERVERS(o, t, idle) o->row->idle(o->own, loop, &own);
  loop->rest_ns = own.rest_ns;
  *asked = own;
  if (comm->size == 1) return LS_OK;
  *asked = (ls_asks_t){.smaller = t->config->train.smaller};
  if (step < loop->agree_step) return LS_OK;
  /* whole numbers: their sum is exact, so that all ranks choose the same step */
  double votes[] = {own.stop,  own.save, done > 0 ? (double)(loop->loop_ns / done) : 0,
                    own.pause, own.end,  own.smaller};
  ls_status_t status = ls_comm_sum_f64(comm, "stop request", votes, LS_COUNT(votes));
  int64_t step_ns = (int64_t)(votes[2] / comm->size) + 1, wait = STOP_CHECK_NS / step_ns;
  loop->agree_step = step + (wait < 1 ? 1 : wait > STOP_CHECK_STEPS_MAX ? STOP_CHECK_STEPS_MAX : wait);
  *asked = asked_of(votes);
  return status;
}

static void wait_ns(int64_t ns) {
  const struct timespec wait = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  nanosleep(&wait, NULL);
}

/* Saves, and waits until no rank asks for a pause, or somebody asks for an end. */
static ls_status_t stand_still(ls_loop_t *loop, ls_asks_t *asked) {
  enum { LOOK_NS = 50000000 };
  ls_trainer_t *t = loop->t;
  ls_status_t status = t->config->checkpoint.dir ? ls_loop_save(loop, LS_SAVE_BESIDE) : LS_OK;
  if (t->world->comm->rank == 0)
    ls_log(t->ctx, LS_LOG_WARN, "safety: paused after step %lld", (long long)t->run.step);
  const int64_t begin_ns = ls_clock_ns();
  const ls_doing_t before = ls_trainer_do(t, LS_DOING_PAUSE);
  while (status == LS_OK && asked->pause && !asked->stop && !asked->end) {
    wait_ns(LOOK_NS);
    ls_trainer_do(t, LS_DOING_PAUSE);
    loop->agree_step = 0;
    status = hear(loop, t->run.step, asked);
  }
  ls_trainer_do(t, before);
  ls_loop_leave_out(loop, ls_clock_ns() - begin_ns);
  if (t->world->comm->rank == 0 && status == LS_OK && !asked->pause)
    ls_log(t->ctx, LS_LOG_INFO, "safety: goes on after %.1f s", (double)(ls_clock_ns() - begin_ns) * 1e-9);
  return status;
}

/* The rest of a duty cycle. No step is in flight, or a device would compute meanwhile. */
static ls_status_t rest(ls_loop_t *loop) {
  if (loop->rest_ns == 0) return LS_OK;
  const ls_status_t status = ls_loop_finish_steps(loop, 0);
  const int64_t begin_ns = ls_clock_ns();
  wait_ns(loop->rest_ns);
  ls_loop_leave_out(loop, ls_clock_ns() - begin_ns);
  return status;
}

int64_t ls_loop_resized(const ls_trainer_t *t, bool smaller) {
  const ls_train_config_t *train = &t->config->train;
  if (smaller == train->smaller) return 0;
  if (!smaller) return train->accumulate / 2;
  const int64_t twice = 2 * train->accumulate;
  if (twice > LS_ACCUMULATE_MAX) return 0;
  return ls_engine_cut(train->batch, twice, t->world->comm->size).empty == 0 ? twice : 0;
}

ls_status_t ls_loop_obey(ls_loop_t *loop, int64_t step) {
  ls_trainer_t *t = loop->t;
  ls_asks_t asked;
  ls_status_t status = hear(loop, step, &asked);
  if (status != LS_OK) return status;
  loop->resized = ls_loop_resized(t, asked.smaller);
  if (asked.stop || asked.save || asked.pause || asked.end || loop->resized)
    status = ls_loop_finish_steps(loop, 0);
  if (status == LS_OK && asked.pause && !asked.stop && !asked.end) status = stand_still(loop, &asked);
  if (asked.stop || asked.end) loop->resized = 0;
  if (status == LS_OK && (asked.stop || asked.end || loop->resized)) {
    status = ls_trainer_saved(t);
    return status != LS_OK ? status : asked.stop ? LS_ERR_INTERRUPTED : LS_ERR_AGAIN;
  }
  if (status == LS_OK && asked.save) status = ls_loop_save(loop, LS_SAVE_BESIDE);
  return status == LS_OK ? rest(loop) : status;
}
