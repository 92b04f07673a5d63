/* The ladder of supervise/safety.h in a run: the monitor's thread judges each record of this rank, the loop asks between
 * steps. */
#include "train/trainer.h"

#include "base/json.h"

#include <time.h>

enum { REST_MOST_NS = 1000000000, SHARES = 1000 };

void ls_trainer_safety_begin(ls_trainer_t *t) {
  ls_safety_begin(&t->config->safety, t->config->train.smaller, &t->safety.ladder);
  atomic_store(&t->safety.act, LS_SAFETY_NONE);
  atomic_store(&t->safety.share, SHARES);
  atomic_store(&t->safety.smaller, t->config->train.smaller);
}

static void tell(ls_trainer_t *t, int rung, ls_safety_act_t act) {
  const ls_safety_rung_t *r = &t->config->safety.rung[rung];
  const ls_alert_t *a = &t->safety.ladder.alert[rung];
  const char *what = a->raised ? "begins" : "ends";
  ls_log(t->ctx, a->raised ? LS_LOG_WARN : LS_LOG_INFO, "safety: %s: %s (%s): %s is %.6g", r->name, what,
         ls_safety_acts[r->act], a->raise.metric->name, a->value);
  ls_monitor_event(t->monitor, "safety",
                   json_pack("{s:o?, s:s, s:s, s:o?, s:o?, s:s}", "rung", ls_json_text(r->name), "act",
                             ls_safety_acts[r->act], "status", what, "when", ls_json_text(r->when), "value",
                             ls_json_number(a->value), "now", ls_safety_acts[act]));
}

void ls_trainer_safety_record(void *user, const ls_monitor_sample_t *sample) {
  ls_trainer_t *t = user;
  ls_safety_now_t now;
  unsigned changed = ls_safety_judge(&t->safety.ladder, sample, &now);
  atomic_store_explicit(&t->safety.act, (int)now.act, memory_order_relaxed);
  atomic_store_explicit(&t->safety.share, (int)(now.share * SHARES), memory_order_relaxed);
  atomic_store_explicit(&t->safety.smaller, now.smaller, memory_order_relaxed);
  for (int i = 0; changed; i++, changed >>= 1)
    if (changed & 1) tell(t, i, now.act);
}

ls_safety_act_t ls_trainer_safety(const ls_trainer_t *t) {
  return (ls_safety_act_t)atomic_load_explicit(&t->safety.act, memory_order_relaxed);
}

bool ls_trainer_safety_smaller(const ls_trainer_t *t) {
  return atomic_load_explicit(&t->safety.smaller, memory_order_relaxed);
}

/* The micro-batches of a step once the ranks want the other size; 0: there is none. No rank gets a micro-batch
 * without a row. */
int64_t ls_trainer_safety_resized(const ls_trainer_t *t, bool smaller) {
  const ls_train_config_t *train = &t->config->train;
  if (smaller == train->smaller) return 0;
  if (!smaller) return train->accumulate / 2;
  const int64_t twice = 2 * train->accumulate;
  if (twice > LS_ACCUMULATE_MAX) return 0;
  return ls_engine_cut(train->batch, twice, t->world->comm->size).empty == 0 ? twice : 0;
}

void ls_trainer_wait(int64_t ns) {
  const struct timespec wait = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  nanosleep(&wait, NULL);
}

int64_t ls_trainer_safety_rest_ns(const ls_trainer_t *t, int64_t own_ns) {
  const int share = atomic_load_explicit(&t->safety.share, memory_order_relaxed);
  if (share >= SHARES || own_ns <= 0) return 0;
  const int64_t ns = own_ns * (SHARES - share) / share;
  return ns < REST_MOST_NS ? ns : REST_MOST_NS;
}
