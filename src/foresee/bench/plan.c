/* Puts the predictions of a plan's candidates (lockstep plan --json) into the variants that they mean. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

/* A step as a plan, one of its candidates, or a document's variant describes it. "" and NAN: it does not say. */
typedef struct {
  char backend[32], precision[32], strategy[32], peer_access[32];
  double params, global_batch, ranks, threads;
  json_t *options; /* borrowed */
  double mean_us, predicted_us, low_us, high_us;
} cell_t;

#define SAME(field) LS_FIELD(cell_t, field)
static const ls_field_t time_rows[] = {
    LS_FIELD_AS(cell_t, mean_us, "mean"),
    LS_FIELD_AS(cell_t, low_us, "low",
                .min = -INFINITY), /* an interval from few repetitions reaches below 0 */
    LS_FIELD_AS(cell_t, high_us, "high"), LS_FIELD_AS(cell_t, predicted_us, "predicted")};
static const ls_record_t time_record = LS_RECORD(time_rows);
static const ls_field_t rows[] = {
    SAME(backend),
    SAME(precision),
    SAME(strategy),
    SAME(peer_access),
    SAME(params),
    SAME(global_batch),
    LS_FIELD_AS(cell_t, ranks, "devices"), /* of a candidate */
    SAME(ranks),
    LS_FIELD_AS(cell_t, threads, "threads_per_rank"),
    SAME(options),
    LS_FIELD_OBJECT(time_record, "step_time_us"),
};
static const ls_record_t record = LS_RECORD(rows);

/* Keeps a value of `cell` that `json` does not have. False: `json` is no such document. */
static bool read_cell(const json_t *json, cell_t *cell) {
  return ls_record_read(&(ls_field_source_t){.name = "a plan", .status = LS_ERR_DATA}, &record, json, cell) ==
         LS_OK;
}

/* Both say it, and the same. */
static bool same(const char *x, const char *y) {
  return *x && !strcmp(x, y);
}

/* The same network (by its number of parameters) on the same backend in the same precision, with the same
 * batch, devices and strategy; threads and peer access only where both say them. */
static bool fits(const cell_t *c, const cell_t *v) {
  bool host = strcmp(v->backend, "cuda") != 0, peers = *c->peer_access && *v->peer_access;
  return same(c->backend, v->backend) && same(c->precision, v->precision) && same(c->strategy, v->strategy) &&
         c->params == v->params && c->global_batch == v->global_batch && c->ranks == v->ranks &&
         (!peers || same(c->peer_access, v->peer_access)) &&
         (!host || !isfinite(c->threads) || c->threads == v->threads);
}

/* Whether it is the same schedule: 0 the same options, 1 as many buckets by another size, -1 another schedule. Options that
 * one of them does not say count as equal. */
static int distance(const cell_t *c, const cell_t *v) {
  const json_t *other = json_object_get(v->options, "bucket_bytes");
  const bool cut = v->ranks > 1 && other && !json_equal(other, json_object_get(c->options, "bucket_bytes"));
  const char *name;
  json_t *value;
  json_object_foreach(c->options, name, value) {
    if (!strcmp(name, "bucket_bytes") || (!strcmp(name, "buckets") && !cut)) continue;
    other = json_object_get(v->options, name);
    if (other && !json_equal(value, other)) return -1;
  }
  return cut;
}

/* The nearest candidate; false: none is this variant. */
static bool find(const json_t *plan, const cell_t *variant, cell_t *best) {
  cell_t common;
  const json_t *candidate;
  size_t i;
  int nearest = -1;
  ls_record_clear(&record, &common);
  if (!read_cell(plan, &common)) return false;
  json_array_foreach(json_object_get(plan, "candidates"), i, candidate) {
    cell_t c = common;
    bool known = read_cell(candidate, &c) && isfinite(c.predicted_us) && fits(&c, variant);
    int own = known ? distance(&c, variant) : -1;
    if (own < 0 || (nearest >= 0 && own >= nearest)) continue;
    *best = c;
    nearest = own;
  }
  return nearest >= 0;
}

int ls_bench_plan_merge(json_t *document, const json_t *plan) {
  json_t *variant;
  size_t i;
  int merged = 0;
  json_array_foreach(json_object_get(document, "variants"), i, variant) {
    cell_t v, c;
    ls_record_clear(&record, &v);
    if (!read_cell(variant, &v) || !find(plan, &v, &c)) continue;
    double error_percent = 100 * (c.predicted_us - v.mean_us) / v.mean_us;
    json_object_set_new(variant, "predicted_step_time_us",
                        json_pack("{s:o, s:o, s:o, s:o}", "predicted", ls_json_number(c.predicted_us), "low",
                                  ls_json_number(c.low_us), "high", ls_json_number(c.high_us),
                                  "error_percent", ls_json_number(error_percent)));
    merged++;
  }
  return merged;
}
