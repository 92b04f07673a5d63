/* The ladder of supervise/safety.h: the monitor's thread judges each record of this rank, and the loop hears the result between
 * steps. */
#include "supervise/safety.h"
#include "train/observers/observers.h"

enum { REST_MOST_NS = 1000000000, SHARES = 1000 };

typedef struct {
  ls_trainer_t *t;
  ls_safety_t ladder; /* of the monitor's thread */
  _Atomic int act, share;
  atomic_bool smaller;
} own_t;

/* Records come from the monitor alone. */
static bool wanted(const ls_trainer_t *t) {
  return t->training && t->config->monitor.dir && t->config->safety.count > 0;
}

static ls_status_t begin(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  const ls_config_t *config = loop->t->config;
  ls_safety_begin(&config->safety, config->train.smaller, &o->ladder);
  atomic_store(&o->act, LS_SAFETY_NONE);
  atomic_store(&o->share, SHARES);
  atomic_store(&o->smaller, config->train.smaller);
  return LS_OK;
}

static void tell(own_t *o, int rung, ls_safety_act_t act) {
  const ls_safety_rung_t *r = &o->t->config->safety.rung[rung];
  const ls_alert_t *a = &o->ladder.alert[rung];
  const char *what = a->raised ? "begins" : "ends";
  ls_log(o->t->ctx, a->raised ? LS_LOG_WARN : LS_LOG_INFO, "safety: %s: %s (%s): %s is %.6g", r->name, what,
         ls_safety_acts[r->act], a->raise.metric->name, a->value);
  ls_trainer_tell(o->t, "safety",
                  json_pack("{s:o?, s:s, s:s, s:o?, s:o?, s:s}", "rung", ls_json_text(r->name), "act",
                            ls_safety_acts[r->act], "status", what, "when", ls_json_text(r->when), "value",
                            ls_json_number(a->value), "now", ls_safety_acts[act]));
}

void ls_observers_judge(void *safety, const ls_monitor_sample_t *sample) {
  own_t *o = safety;
  ls_safety_now_t now;
  unsigned changed = ls_safety_judge(&o->ladder, sample, &now);
  atomic_store_explicit(&o->act, (int)now.act, memory_order_relaxed);
  atomic_store_explicit(&o->share, (int)(now.share * SHARES), memory_order_relaxed);
  atomic_store_explicit(&o->smaller, now.smaller, memory_order_relaxed);
  for (int i = 0; changed; i++, changed >>= 1)
    if (changed & 1) tell(o, i, now.act);
}

/* A duty cycle: a rest as long as the share of the time that the newest step took asks for. */
static int64_t rest_ns(const own_t *o, int64_t own_ns) {
  const int share = atomic_load_explicit(&o->share, memory_order_relaxed);
  if (share >= SHARES || own_ns <= 0) return 0;
  const int64_t ns = own_ns * (SHARES - share) / share;
  return ns < REST_MOST_NS ? ns : REST_MOST_NS;
}

static void idle(void *own, const ls_loop_t *loop, ls_asks_t *asks) {
  const own_t *o = own;
  const int act = atomic_load_explicit(&o->act, memory_order_relaxed);
  asks->pause |= act == LS_SAFETY_PAUSE;
  asks->end |= act == LS_SAFETY_END;
  asks->smaller = atomic_load_explicit(&o->smaller, memory_order_relaxed);
  asks->rest_ns = rest_ns(o, loop->own_ns);
}

const ls_observer_t ls_observer_safety = {
    .name = "safety", .own_bytes = sizeof(own_t), .wanted = wanted, .begin = begin, .idle = idle};
