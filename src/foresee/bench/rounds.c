/* The order of everything: each round measures every variant once, in an order of its own, so that slow
 * changes (heat, neighbours) affect all of them. Control pairs are spread over the rounds; validation comes
 * last. */
#include "bench/driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_ORDER = 0x7000001, PARAMS_BYTES_MAX = 1 << 30 };

/* Fisher and Yates, with numbers that depend only on seed, round and place. */
static void shuffle(int *order, int count, int64_t seed, int64_t round) {
  for (int i = 0; i < count; i++)
    order[i] = i;
  for (int i = count - 1; i > 0; i--) {
    ls_rng4_t r = ls_rng((uint64_t)seed, STREAM_ORDER, (uint64_t)round << 16 | (uint64_t)i);
    int k = (int)(((uint64_t)r.v[0] * (uint64_t)(i + 1)) >> 32), other = order[k];
    order[k] = order[i];
    order[i] = other;
  }
}

/* Says and returns the step time of the newest repetition, in us. */
static double say(const ls_bench_sweep_t *b, const char *what, const char *name, const json_t *measurement) {
  const json_t *list = json_object_get(measurement, "repetitions");
  double us = ls_bench_number(json_array_get(list, json_array_size(list) - 1), "step_time_us.mean");
  ls_bench_say(b, "%s: %s: %.1f us per step", what, name, us);
  return us;
}

void ls_bench_collect(json_t *variant, json_t *measurement) {
  json_t *into = json_object_get(variant, "repetitions");
  if (into)
    json_array_extend(into, json_object_get(measurement, "repetitions"));
  else
    json_object_update(variant, measurement);
}

void ls_bench_give_up(ls_bench_sweep_t *b, int at, const char *message) {
  json_t *variant = json_array_get(b->measured, (size_t)at);
  bool any = json_array_size(json_object_get(variant, "repetitions")) > 0;
  ls_log(b->ctx, LS_LOG_WARN, "%s cannot be measured%s: %s", b->variant[at].name, any ? " further" : "",
         message);
  if (b->lost_count++ == 0) snprintf(b->lost, sizeof b->lost, "%s: %s", b->variant[at].name, message);
  json_object_set_new(variant, any ? "incomplete" : "failed", ls_json_text(message));
  if (!any) json_object_set_new(variant, "repetitions", json_array());
}

static bool gave_up(const ls_bench_sweep_t *b, int at) {
  const json_t *variant = json_array_get(b->measured, (size_t)at);
  return json_object_get(variant, "failed") || json_object_get(variant, "incomplete");
}

static ls_status_t measure_variant(ls_bench_sweep_t *b, int at, int64_t round) {
  const ls_bench_variant_t *v = &b->variant[at];
  json_t *variant = json_array_get(b->measured, (size_t)at), *measurement = NULL;
  if (gave_up(b, at)) return LS_OK;
  int64_t done = (int64_t)json_array_size(json_object_get(variant, "repetitions"));
  int64_t left = b->method.repetitions - done;
  ls_bench_child_t child = {.repetitions = left < b->method.per_process ? left : b->method.per_process,
                            .traced = round == 0};
  char message[LS_BENCH_MESSAGE_BYTES], what[64];
  if (left <= 0) return LS_OK;
  ls_status_t status = ls_bench_child(b, v, &child, &measurement, message);
  if (status != LS_OK && message[0]) { /* the others go on */
    ls_bench_give_up(b, at, message);
    return LS_OK;
  }
  if (status != LS_OK) return status;
  snprintf(what, sizeof what, "round %lld", (long long)round + 1);
  say(b, what, v->name, measurement);
  ls_bench_collect(variant, measurement);
  json_decref(measurement);
  return LS_OK;
}

/* One A/A pair: both sides are the first variant, a repetition of each in turn, the first of the two
 * changing. */
static ls_status_t measure_pair(ls_bench_sweep_t *b, int64_t pair) {
  const int64_t each = b->method.control_repetitions;
  double *us = ls_alloc_array(b->ctx, 2 * (size_t)each, sizeof *us), *next[2] = {us, us + each};
  ls_status_t status = us ? LS_OK : LS_ERR_MEMORY;
  for (int64_t i = 0; i < 2 * each && status == LS_OK; i++) {
    int side = (int)((i + i / 2 + pair) % 2);
    json_t *measurement = NULL;
    char message[LS_BENCH_MESSAGE_BYTES], what[64];
    ls_bench_child_t child = {.repetitions = 1};
    status = ls_bench_child(b, &b->variant[0], &child, &measurement, message);
    if (status != LS_OK && message[0])
      ls_fail(b->ctx, status, "the control (%s) failed: %s", b->variant[0].name, message);
    if (status != LS_OK) break;
    snprintf(what, sizeof what, "control %lld%c", (long long)pair + 1, "ab"[side]);
    *next[side]++ = say(b, what, b->variant[0].name, measurement);
    json_decref(measurement);
  }
  double p = status == LS_OK ? ls_stat_welch(us, each, us + each, each, LS_BENCH_ALPHA).p : NAN;
  if (isfinite(p)) json_array_append_new(b->control, json_real(p));
  ls_free(us);
  return status;
}

/* The request may take hours: says so before it starts, and estimates the rest once a round's time is
 * known. */
static void say_size(const ls_bench_sweep_t *b, int64_t rounds) {
  int runs = 0;
  for (int i = 0; i < b->variant_count; i++)
    runs += !b->variant[i].refused[0];
  ls_bench_say(b, "%d variant%s, %lld repetition%s of %lld step%s each: %lld round%s of %d process%s", runs,
               LS_PLURAL(runs), (long long)b->method.repetitions, LS_PLURAL(b->method.repetitions),
               (long long)b->method.steps, LS_PLURAL(b->method.steps), (long long)rounds, LS_PLURAL(rounds),
               runs, runs == 1 ? "" : "es");
}

static void say_left(const ls_bench_sweep_t *b, int64_t rounds, int64_t begin_ns) {
  double took_s = (double)(ls_clock_ns() - begin_ns) * 1e-9, left_s = took_s * (double)(rounds - 1);
  if (rounds < 2) return;
  ls_bench_say(b, "round 1 took %.0f s: about %.0f %s left", took_s, left_s < 120 ? left_s : left_s / 60,
               left_s < 120 ? "s" : "minutes");
}

/* Whether another round like those before still fits; if not, there are fewer repetitions, and a message says
 * so. */
static bool fits_budget(ls_bench_sweep_t *b, int64_t round, int64_t begin_ns) {
  double took_s = (double)(ls_clock_ns() - begin_ns) * 1e-9;
  if (round == 0 || took_s + took_s / (double)round <= (double)b->budget_s) return true;
  b->method.repetitions = round * b->method.per_process;
  ls_bench_say(b, "%lld round%s took %.0f s; another one would not end within %lld s (--budget)",
               (long long)round, LS_PLURAL(round), took_s, (long long)b->budget_s);
  return false;
}

/* After a failure: drops the repetitions of the interrupted round, so that all variants have equally many. */
static void keep_complete_rounds(ls_bench_sweep_t *b) {
  int64_t complete = b->rounds_done * b->method.per_process;
  json_t *variant;
  size_t i;
  if (b->method.repetitions > complete) b->method.repetitions = complete;
  json_array_foreach(b->measured, i, variant) {
    json_t *repetitions = json_object_get(variant, "repetitions");
    while ((int64_t)json_array_size(repetitions) > complete)
      json_array_remove(repetitions, json_array_size(repetitions) - 1);
  }
}

static ls_status_t measure_rounds(ls_bench_sweep_t *b) {
  int64_t rounds = (b->method.repetitions + b->method.per_process - 1) / b->method.per_process;
  int64_t begin_ns = ls_clock_ns();
  say_size(b, rounds);
  int *order = ls_alloc_array(b->ctx, (size_t)b->variant_count, sizeof *order);
  ls_status_t status = order ? LS_OK : LS_ERR_MEMORY;
  for (int64_t round = 0; round < rounds && status == LS_OK && fits_budget(b, round, begin_ns); round++) {
    shuffle(order, b->variant_count, b->method.order_seed, round);
    for (int i = 0; i < b->variant_count && status == LS_OK; i++)
      status = measure_variant(b, order[i], round);
    int64_t from = round * b->method.control_pairs / rounds,
            to = (round + 1) * b->method.control_pairs / rounds;
    if (status == LS_OK) b->rounds_done = round + 1;
    for (int64_t pair = from; pair < to && status == LS_OK && !gave_up(b, 0); pair++)
      status = measure_pair(b, pair);
    if (status == LS_OK) ls_bench_save_so_far(b, rounds);
    if (round == 0 && status == LS_OK) say_left(b, rounds, begin_ns);
  }
  ls_free(order);
  return status;
}

/* ---- validation ---- */

static void release_trained(ls_bench_trained_t *t) {
  ls_free(t->params);
  json_decref(t->measurement);
}

static ls_status_t train_once(ls_bench_sweep_t *b, const ls_bench_variant_t *v, ls_bench_trained_t *t) {
  char message[LS_BENCH_MESSAGE_BYTES], *bytes;
  size_t size_bytes;
  char *path = ls_path_join(b->ctx, b->dir, "params");
  if (!path) return LS_ERR_MEMORY;
  ls_bench_child_t child = {.repetitions = 1, .params_path = path};
  ls_status_t status = ls_bench_child(b, v, &child, &t->measurement, message);
  if (status != LS_OK && message[0]) ls_fail(b->ctx, status, "validating %s: %s", v->name, message);
  if (status == LS_OK) status = ls_file_read(b->ctx, path, PARAMS_BYTES_MAX, &bytes, &size_bytes);
  if (status == LS_OK) {
    t->params = (float *)(void *)bytes;
    t->count = (int64_t)(size_bytes / sizeof *t->params);
  }
  ls_free(path);
  return status;
}

/* A longer curve does not go into the document. */
enum { CURVE_POINTS_MAX = 2000 };
static void keep_curves(ls_bench_sweep_t *b, int at, const json_t *measurement) {
  const json_t *curves = json_object_get(measurement, "curves");
  json_t *variant = json_array_get(b->measured, (size_t)at);
  if (json_array_size(json_object_get(curves, "loss")) <= CURVE_POINTS_MAX)
    json_object_set(variant, "curves", (json_t *)(uintptr_t)curves); /* only counted, not changed */
}

static ls_status_t validate_variant(ls_bench_sweep_t *b, int at, const ls_bench_trained_t *one) {
  ls_bench_trained_t several = {0};
  ls_status_t status = train_once(b, &b->variant[at], &several);
  if (status == LS_OK) {
    json_t *json = ls_bench_validate(one, &several);
    ls_bench_say(b, "validation: %s: %s", b->variant[at].name, ls_bench_validation_verdict(json));
    json_object_set_new(json_array_get(b->measured, (size_t)at), "validation", json);
    keep_curves(b, at, several.measurement);
  }
  release_trained(&several);
  return status;
}

/* Every variant of several ranks against the one of one rank with its batch and precision. */
static ls_status_t validate_all(ls_bench_sweep_t *b) {
  ls_status_t status = LS_OK;
  for (int one = 0; one < b->variant_count && status == LS_OK; one++) {
    const ls_bench_variant_t *v = &b->variant[one];
    if (v->ranks > 1 || gave_up(b, one)) continue;
    ls_bench_trained_t trained = {0};
    status = train_once(b, v, &trained);
    if (status == LS_OK) keep_curves(b, one, trained.measurement);
    for (int i = 0; i < b->variant_count && status == LS_OK; i++) {
      const ls_bench_variant_t *w = &b->variant[i];
      if (w->ranks > 1 && w->batch == v->batch && !strcmp(w->precision, v->precision) &&
          !strcmp(w->model, v->model) && !gave_up(b, i) &&
          !json_object_get(json_array_get(b->measured, (size_t)i), "validation"))
        status = validate_variant(b, i, &trained);
    }
    release_trained(&trained);
  }
  return status;
}

ls_status_t ls_bench_measure(ls_bench_sweep_t *b) {
  b->measured = json_array();
  b->control = json_array();
  ls_bench_run_begin(b);
  if (b->search) return ls_bench_search(b);
  for (int i = 0; i < b->variant_count; i++)
    json_array_append_new(b->measured, ls_bench_variant_json(&b->variant[i]));
  ls_status_t status = measure_rounds(b);
  int failed = 0;
  for (int i = 0; i < b->variant_count; i++)
    failed += json_object_get(json_array_get(b->measured, (size_t)i), "failed") != NULL;
  if (status == LS_OK && failed == b->variant_count)
    status = ls_fail(b->ctx, LS_ERR_DEVICE, "no variant could be measured: %s",
                     json_string_value(json_object_get(json_array_get(b->measured, 0), "failed")));
  if (status == LS_OK && b->validate) status = validate_all(b);
  if (status != LS_OK && failed == b->variant_count) b->rounds_done = 0;
  if (status != LS_OK) keep_complete_rounds(b);
  return status;
}
