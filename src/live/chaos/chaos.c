/* The order of the runs, and what is counted of them. */
#include "chaos/parts.h"
#include "stat/stat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which faults ---- */

/* Names the thing that the run lacks for this fault to happen to it; NULL: nothing. */
static const char *lacks(const ls_inject_kind_t *kind, const ls_parallel_config_t *parallel) {
  const ls_hosts_config_t *hosts = &parallel->hosts;
  const bool launcher = kind->whose == LS_INJECT_MPIRUN || kind->whose == LS_INJECT_LAUNCHER;
  const ls_strategy_t *strategy = ls_strategy_find(parallel->strategy);
  if (parallel->ranks == 1 && (kind->how == LS_INJECT_FLIP || kind->how == LS_INJECT_SLOW))
    return "several ranks (--ranks)";
  /* The gather at the end of each step overwrites a changed parameter, or hands it to all ranks. */
  if (strategy && strategy->shards && (kind->how == LS_INJECT_FLIP || kind->how == LS_INJECT_NAN))
    return "a copy of the parameters that each rank updates itself (parallel.shard: none)";
  if ((kind->how == LS_INJECT_HOST || launcher) && hosts->count < 2) return "several hosts (parallel.hosts)";
  if (hosts->count > 0 && kind->whose != LS_INJECT_OWN && !ls_hosts_is_here(hosts->host[0].name))
    return "this host as the first of parallel.hosts";
  return NULL;
}

static bool wanted(const ls_chaos_t *chaos, const ls_inject_kind_t *kind) {
  const size_t len = strlen(kind->name);
  for (const char *at = chaos->kinds; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (!strncmp(at, kind->name, len) && (at[len] == ',' || at[len] == '\0')) return true;
  return !chaos->kinds && !lacks(kind, &chaos->config->parallel);
}

static ls_status_t check_names(ls_ctx_t *ctx, const char *names) {
  char copy[512], all[512] = "";
  snprintf(copy, sizeof copy, "%s", names);
  for (int i = 0; i < LS_INJECT_KINDS; i++)
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", ls_inject_kinds[i].name);
  for (char *rest = copy, *name; (name = strsep(&rest, ","));)
    if (!ls_inject_find(name))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "--kinds: there is no fault \"%s\"; there are %s", name, all);
  return LS_OK;
}

ls_status_t ls_chaos_check(ls_ctx_t *ctx, const ls_chaos_t *chaos) {
  const ls_parallel_config_t *parallel = &chaos->config->parallel;
  ls_status_t status = chaos->kinds ? check_names(ctx, chaos->kinds) : LS_OK;
  if (status == LS_OK && parallel->automatic)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "chaos needs a strategy that stays the same: run lockstep plan, and write its choice");
  for (int i = 0; i < LS_INJECT_KINDS && status == LS_OK; i++) {
    const ls_inject_kind_t *kind = &ls_inject_kinds[i];
    if (wanted(chaos, kind) && lacks(kind, parallel))
      status = ls_fail(ctx, LS_ERR_ARGUMENT, "--kinds: %s needs %s", kind->name, lacks(kind, parallel));
  }
  return status;
}

/* ---- the runs of a kind ---- */

typedef struct {
  chaos_t c;
  const ls_chaos_t *request;
  json_t *rows;
  int runs, right;
} job_t;

static void median_and_most(double *values, int count, double out[2]) {
  out[0] = out[1] = NAN;
  if (count == 0) return;
  ls_stat_sort(values, count);
  out[0] = ls_stat_quantile(values, count, 0.5);
  out[1] = values[count - 1];
}

static json_t *outcome_json(const outcome_t *o) {
  return json_pack("{s:I, s:i, s:I, s:b, s:b, s:b, s:i, s:o, s:o, s:o}", "seed", (json_int_t)o->seed, "rank",
                   o->rank, "step", (json_int_t)o->step, "struck", o->struck, "same_bits", o->same,
                   "cause_named", o->cause, "exit_code", o->exit_code, "noticed_s",
                   ls_json_number(o->noticed_s), "first_step_s", ls_json_number(o->again_s), "text",
                   ls_json_text(o->text));
}

static void warn(const job_t *j, const ls_inject_kind_t *kind, const outcome_t *o) {
  ls_log(j->c.ctx, LS_LOG_WARN, "%s, seed %lld (rank %d, after step %lld): %s: exit code %d: %s", kind->name,
         (long long)o->seed, o->rank, (long long)o->step,
         !o->struck                  ? "the fault did not come"
         : !o->same                  ? "other bits than the undisturbed run's"
         : o->text[0] || !kind->ends ? "another cause was named"
                                     : "the request to end changed nothing",
         o->exit_code, o->text);
}

static bool stopped(const job_t *j) {
  return j->c.stop && j->c.stop();
}

static ls_status_t run_kind(job_t *j, const ls_inject_kind_t *kind) {
  const int64_t seeds = j->request->seeds;
  double *noticed = ls_alloc_array(j->c.ctx, (size_t)seeds, sizeof *noticed),
         *again = ls_alloc_array(j->c.ctx, (size_t)seeds, sizeof *again);
  ls_status_t status = noticed && again ? LS_OK : LS_ERR_MEMORY;
  ls_chaos_row_t row = {.kind = kind};
  int noticed_count = 0, again_count = 0;
  json_t *list = json_array();
  for (int64_t i = 0; i < seeds && status == LS_OK && !stopped(j); i++) {
    outcome_t o;
    status = chaos_one(&j->c, kind, j->request->first_seed + i, &o);
    if (status != LS_OK || stopped(j)) break;
    const bool right = o.struck && o.same && o.cause;
    row.runs++;
    row.same += o.same;
    row.named += o.cause && o.struck;
    j->right += right;
    if (!isnan(o.noticed_s)) noticed[noticed_count++] = o.noticed_s;
    if (!isnan(o.again_s)) again[again_count++] = o.again_s;
    if (!right) warn(j, kind, &o);
    json_array_append_new(list, outcome_json(&o));
  }
  j->runs += row.runs;
  if (noticed && again) {
    median_and_most(noticed, noticed_count, row.noticed_s);
    median_and_most(again, again_count, row.again_s);
  }
  if (row.runs > 0 && j->request->row) j->request->row(j->request->user, &row);
  json_array_append_new(j->rows,
                        json_pack("{s:s, s:i, s:i, s:i, s:o}", "kind", kind->name, "runs", row.runs,
                                  "same_bits", row.same, "cause_named", row.named, "outcomes", list));
  ls_free(noticed);
  ls_free(again);
  return status;
}

ls_status_t ls_chaos_run(ls_ctx_t *ctx, const ls_chaos_t *request, json_t **document) {
  job_t j = {.c = {.ctx = ctx,
                   .config = request->config,
                   .dir = request->dir,
                   .keep = request->keep,
                   .stop = request->stop},
             .request = request,
             .rows = json_array()};
  ls_status_t status = chaos_reference(&j.c);
  if (status == LS_OK && request->begin) request->begin(request->user, j.c.steps);
  for (int i = 0; i < LS_INJECT_KINDS && status == LS_OK && !stopped(&j); i++)
    if (wanted(request, &ls_inject_kinds[i])) status = run_kind(&j, &ls_inject_kinds[i]);
  if (stopped(&j)) status = LS_ERR_INTERRUPTED;
  if (status == LS_OK)
    *document = json_pack("{s:s, s:s, s:I, s:I, s:i, s:i, s:O}", "command", "chaos", "config", request->name,
                          "ranks", (json_int_t)request->config->parallel.ranks, "steps",
                          (json_int_t)j.c.steps, "runs", j.runs, "right", j.right, "kinds", j.rows);
  json_decref(j.rows);
  return status;
}
