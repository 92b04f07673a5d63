/* Predictions beside measurements: a plan's candidates (lockstep plan --json) put into the variants that they
 * mean. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

/* A field of the candidate, else of the whole plan. */
static double number_of(const json_t *plan, const json_t *candidate, const char *key) {
  double own = ls_bench_number(candidate, key);
  return isfinite(own) ? own : ls_bench_number(plan, key);
}

static const char *text_of(const json_t *plan, const json_t *candidate, const char *key) {
  const char *own = json_string_value(json_object_get(candidate, key));
  return own ? own : json_string_value(json_object_get(plan, key));
}

/* Both say it, and the same. */
static bool same_text(const json_t *plan, const json_t *candidate, const json_t *variant, const char *key) {
  const char *x = text_of(plan, candidate, key), *y = json_string_value(json_object_get(variant, key));
  return x && y && !strcmp(x, y);
}

/* The same network (by its number of parameters) on the same backend in the same precision, with the same
 * batch, devices and strategy; threads and peer access only where both say them. */
static bool fits(const json_t *plan, const json_t *candidate, const json_t *variant) {
  static const char *const texts[] = {"backend", "precision", "strategy"};
  double threads = ls_bench_number(candidate, "threads_per_rank"),
         own = ls_bench_number(variant, "threads_per_rank");
  for (int i = 0; i < LS_COUNT(texts); i++)
    if (!same_text(plan, candidate, variant, texts[i])) return false;
  const char *backend = json_string_value(json_object_get(variant, "backend"));
  bool host = strcmp(backend, "cuda") != 0;
  bool peers = text_of(plan, candidate, "peer_access") && json_object_get(variant, "peer_access");
  return number_of(plan, candidate, "params") == ls_bench_number(variant, "params") &&
         number_of(plan, candidate, "global_batch") == ls_bench_number(variant, "global_batch") &&
         ls_bench_number(candidate, "devices") == ls_bench_number(variant, "ranks") &&
         (!peers || same_text(plan, candidate, variant, "peer_access")) &&
         (!host || !isfinite(threads) || threads == own);
}

static double shards_of(const json_t *options) {
  double shards = ls_bench_number(options, "shards"); /* older documents do not know them */
  return isfinite(shards) ? shards : 0;
}

/* Whether it is the same schedule: 0 the same options, 1 as many buckets by another size, -1 another
 * schedule. A plan that does not say its options is taken at its word. */
static int distance(const json_t *candidate, const json_t *variant) {
  const json_t *options = json_object_get(candidate, "options"), *own = json_object_get(variant, "options");
  if (!options || !own) return 0;
  if (ls_bench_number(options, "accumulate") != ls_bench_number(own, "accumulate")) return -1;
  if (shards_of(options) != shards_of(own)) return -1;
  bool alone = ls_bench_number(variant, "ranks") == 1;
  if (alone || ls_bench_number(options, "bucket_bytes") == ls_bench_number(own, "bucket_bytes")) return 0;
  return ls_bench_number(options, "buckets") == ls_bench_number(own, "buckets") ? 1 : -1;
}

static const json_t *find(const json_t *plan, const json_t *variant) {
  const json_t *candidate, *best = NULL;
  size_t i;
  int nearest = 0;
  json_array_foreach(json_object_get(plan, "candidates"), i, candidate) {
    double us = ls_bench_number(candidate, "step_time_us.predicted");
    int own = isfinite(us) && fits(plan, candidate, variant) ? distance(candidate, variant) : -1;
    if (own < 0 || (best && own >= nearest)) continue;
    best = candidate;
    nearest = own;
  }
  return best;
}

int ls_bench_plan_merge(json_t *document, const json_t *plan) {
  json_t *variant;
  size_t i;
  int merged = 0;
  json_array_foreach(json_object_get(document, "variants"), i, variant) {
    const json_t *candidate = find(plan, variant);
    if (!candidate) continue;
    double us = ls_bench_number(candidate, "step_time_us.predicted"),
           mean = ls_bench_number(variant, "step_time_us.mean");
    json_object_set_new(variant, "predicted_step_time_us",
                        json_pack("{s:o, s:o, s:o, s:o}", "predicted", ls_json_number(us), "low",
                                  ls_json_number(ls_bench_number(candidate, "step_time_us.low")), "high",
                                  ls_json_number(ls_bench_number(candidate, "step_time_us.high")),
                                  "error_percent", ls_json_number(100 * (us - mean) / mean)));
    merged++;
  }
  return merged;
}
