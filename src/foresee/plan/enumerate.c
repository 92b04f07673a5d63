/* The candidates of a plan: numbers of devices, strategies, transports, what strategies propose, and threads. */
#include "plan/candidate.h"

#include <string.h>

enum { ALL_UP_TO = 8 };

/* Every number up to eight, then powers of two, and all of them; or the requested numbers. */
bool ls_plan_asked_for(int n, const ls_plan_options_t *options) {
  for (int i = 0; i < options->only_count; i++)
    if (options->only[i] == n) return true;
  return false;
}

static bool worth_trying(int n, int most, const ls_plan_options_t *options) {
  if (options->only_count > 0) return ls_plan_asked_for(n, options);
  return n <= ALL_UP_TO || n == most || (n & (n - 1)) == 0;
}

/* Whether the same ranks run the same step by the same transport. */
static bool same_step(const ls_candidate_t *a, const ls_candidate_t *b) {
  return a->schedule == b->schedule && ls_candidate_threads(a) == ls_candidate_threads(b) &&
         a->transport == b->transport;
}

/* The proposals, limited by the arena's memory. */
typedef struct {
  const ls_planner_t *p;
  ls_plan_t *plan;
  int capacity;
  ls_candidate_t c; /* as configured */
} enumeration_t;

static ls_status_t add(enumeration_t *e, ls_candidate_t c) {
  ls_plan_t *plan = e->plan;
  ls_status_t status = ls_candidate_fit(e->p, &c);
  for (int i = 0; i < plan->count && status == LS_OK; i++)
    if (same_step(&plan->candidate[i], &c)) return LS_OK;
  if (status == LS_OK) status = ls_candidate_name(e->p, &c);
  if (plan->count == e->capacity) {
    int more = e->capacity ? 2 * e->capacity : 64;
    ls_candidate_t *list = ls_arena_array(&plan->arena, (size_t)more, sizeof *list);
    if (!list) return LS_ERR_MEMORY;
    if (plan->count) memcpy(list, plan->candidate, (size_t)plan->count * sizeof *list);
    plan->candidate = list;
    e->capacity = more;
  }
  if (status == LS_OK) plan->candidate[plan->count++] = c;
  return status;
}

static ls_status_t add_proposal(void *user, const ls_strategy_options_t *options) {
  enumeration_t *e = user;
  ls_candidate_t c = e->c;
  c.config.parallel.options = *options;
  c.config.parallel.own[ls_strategy_index(ls_strategy_find(c.config.parallel.strategy))] = options->own;
  return add(e, c);
}

/* Small steps do not gain from threads, so each attempt has a quarter of the threads; 0: no further
 * attempt. */
static int fewer_threads(const ls_planner_t *p, int threads) {
  bool open = p->backend->threaded && !p->replay && p->config->parallel.threads == 0;
  return !open || threads == 1 ? 0 : threads < 8 ? 1 : threads / 4;
}

/* Adds what one strategy proposes for so many devices, by one transport. */
static ls_status_t enumerate_strategy(enumeration_t *e, const ls_strategy_t *strategy) {
  const ls_planner_t *p = e->p;
  const ls_strategy_options_t configured = ls_config_strategy(p->config, strategy);
  const ls_proposal_t proposal = {.ranks = ls_candidate_devices(&e->c),
                                  .timed = !p->replay,
                                  .backend = p->backend,
                                  .configured = &configured,
                                  .arena = &e->plan->arena,
                                  .emit = add_proposal,
                                  .user = e};
  ls_status_t status = ls_strategy_propose(strategy, &proposal);
  ls_candidate_t c = e->c;
  while (status == LS_OK && (c.config.parallel.threads = fewer_threads(p, ls_candidate_threads(&c))) > 0)
    status = add(e, c);
  return status;
}

/* A transport that is neither configured nor the default is tried if its collectives were measured. */
static bool measured(const ls_planner_t *p, const ls_transport_t *transport, int devices) {
  char key[LS_PROFILE_KEY_BYTES], name[LS_TRANSPORT_KEY_BYTES];
  const ls_curve_point_t *unused;
  const char *kind = ls_collective_name(LS_ALL_REDUCE);
  ls_transport_key(transport, name);
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, name, kind, devices});
  return ls_profile_curve(p->profile, key, &unused) > 0;
}

static ls_status_t enumerate_transports(enumeration_t *e, int devices, const ls_strategy_t *strategy) {
  const ls_planner_t *p = e->p;
  const ls_candidate_t usual = e->c = ls_candidate_make(p, devices, strategy);
  ls_status_t status = enumerate_strategy(e, strategy);
  bool open = devices > 1 && !ls_transport_find(p->config->parallel.transport);
  for (int i = 0; open && ls_transports[i] && status == LS_OK; i++) {
    const ls_transport_t *other = ls_transports[i];
    if (other == usual.transport || !ls_transport_fits(other, p->backend) || !measured(p, other, devices))
      continue;
    e->c = usual;
    e->c.transport = other;
    e->c.config.parallel.transport = other->name;
    status = enumerate_strategy(e, strategy);
  }
  return status;
}

/* parallel.shard may leave out strategies of several ranks. */
static bool is_meant(const ls_planner_t *p, const ls_strategy_t *strategy) {
  const int shard = p->config->parallel.options.shard;
  return !strategy->distributed || shard == LS_SHARD_AUTO || strategy->shards == (shard != LS_SHARD_NONE);
}

static ls_status_t enumerate_devices(enumeration_t *e, int devices) {
  ls_status_t status = LS_OK;
  for (int i = 0; ls_strategies[i] && status == LS_OK; i++)
    if (ls_strategies[i]->distributed == (devices > 1) && is_meant(e->p, ls_strategies[i]))
      status = enumerate_transports(e, devices, ls_strategies[i]);
  return status;
}

ls_status_t ls_plan_enumerate(const ls_planner_t *p, const ls_plan_options_t *options, ls_plan_t *plan) {
  enumeration_t e = {.p = p, .plan = plan};
  ls_status_t status = LS_OK;
  for (int n = 1; n <= p->devices && status == LS_OK; n++)
    if (worth_trying(n, p->devices, options) && ls_engine_can_share(ls_config_batching(p->config), n))
      status = enumerate_devices(&e, n);
  return status;
}
