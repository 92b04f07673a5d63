/* From which batch on do several ranks pay? For each network a plan predicts the batch. The batches around it are measured,
 * by doubling and halving, until two neighbours disagree. A time limit holds for all networks: the answer of a network
 * that it cuts short says so. */
#include "bench/driver.h"

#include <math.h>
#include <string.h>

/* One network in one precision. Place i is the batch least << i. */
typedef struct {
  const ls_bench_variant_t *one, *many; /* of the sweep: fewest ranks and most */
  int64_t least, most;                  /* batches */
  int lost, won, end; /* places: the largest that does not pay, the smallest that does, none from here on */
  double lost_ratio, won_ratio; /* speed-ups there */
  bool planned;
  int64_t predicted;    /* batch; 0 = more ranks never pay */
  double planned_ratio; /* speed-up at planned_batch; NAN = unknown */
  int64_t planned_batch;
  double step_us; /* of one rank at step_batch, 0 = unknown */
  int64_t step_batch;
  int64_t bucket_bytes;
  char reason[LS_BENCH_MESSAGE_BYTES]; /* why nothing more was measured */
} network_t;

typedef struct {
  ls_bench_sweep_t *b;
  const ls_bench_variant_t *sweep;
  int sweep_count, networks;
  int64_t begin_ns, limit_s;
  double plan_s;    /* duration of the last plan */
  double reserve_s; /* for the plans of the networks that follow */
  double pair_s;    /* duration of the network's last batch */
} search_t;

static double left_s(const search_t *s) {
  return (double)s->b->budget_s - (double)(ls_clock_ns() - s->begin_ns) * 1e-9;
}

/* No process may outlast the search. */
static void limit_process(search_t *s) {
  s->b->limit_s = (int64_t)fmax(1, fmin((double)s->limit_s, left_s(s)));
}

static bool same_network(const ls_bench_variant_t *a, const ls_bench_variant_t *b) {
  return !strcmp(a->model, b->model) && !strcmp(a->precision, b->precision);
}

static int64_t batch_at(const network_t *n, int place) {
  int64_t batch = n->least << place;
  return batch < n->most ? batch : n->most;
}

static int64_t samples_at(const search_t *s, int64_t batch) {
  int64_t batches = 0;
  ls_bench_study_count(s->b, "batches", &batches);
  return s->b->own_config ? batches * batch : 0;
}

static network_t network_of(const search_t *s, const ls_bench_variant_t *first) {
  network_t n = {
      .one = first, .many = first, .least = first->key, .most = first->key, .lost = -1, .planned_ratio = NAN};
  for (int i = 0; i < s->sweep_count; i++) {
    const ls_bench_variant_t *v = &s->sweep[i];
    if (!same_network(v, first)) continue;
    if (v->key < n.least) n.least = v->key;
    if (v->key > n.most) n.most = v->key;
    if (v->ranks < n.one->ranks) n.one = v;
    if (v->ranks > n.many->ranks) n.many = v;
  }
  while (batch_at(&n, n.end) < n.most)
    n.end++;
  n.won = ++n.end;
  return n;
}

/* ---- the plan ---- */

static void read_plan(network_t *n, const json_t *plan) {
  char ranks[16];
  const json_t *c;
  size_t i;
  double many_us = 0;
  snprintf(ranks, sizeof ranks, "%d", n->many->ranks);
  const json_t *crossover = json_object_get(json_object_get(plan, "crossover_batch"), ranks);
  n->planned = crossover != NULL;
  n->predicted = json_integer_value(crossover);
  json_array_foreach(json_object_get(plan, "candidates"), i, c) {
    const int devices = (int)ls_bench_number(c, "devices");
    const double us = ls_bench_number(c, "step_time_us.predicted");
    if (!json_is_true(json_object_get(c, "priced"))) continue;
    if (devices == n->one->ranks && n->step_us == 0) n->step_us = us;
    if (devices != n->many->ranks || many_us > 0 ||
        strcmp(ls_bench_word(c, "strategy"), n->many->strategy) != 0)
      continue;
    many_us = us;
    n->bucket_bytes = (int64_t)ls_bench_number(c, "options.bucket_bytes");
  }
  n->planned_batch = n->step_batch;
  if (n->step_us > 0 && many_us > 0) n->planned_ratio = n->step_us / many_us;
}

/* The configuration of one rank in the middle of the search. What is left to a plan is off in what is measured. */
static ls_status_t write_planned(search_t *s, network_t *n, char **path) {
  ls_bench_variant_t v = *n->one;
  ls_config_t *config;
  n->step_batch = v.batch = batch_at(n, n->end / 2);
  v.samples = samples_at(s, n->most);
  ls_status_t status = ls_bench_variant_load(s->b, s->b->ctx, &v, &config);
  if (status != LS_OK) return status;
  ls_strategy_settle(&config->parallel.options, NULL);
  status = ls_bench_config_write(s->b, config, "plan-config.json", path);
  ls_config_destroy(config);
  return status;
}

/* A network without a plan is measured all the same. */
static ls_status_t plan(search_t *s, network_t *n) {
  enum { PLAN_BYTES_MAX = 64 << 20 };
  ls_bench_sweep_t *b = s->b;
  int64_t budget_ms = 6000, begin_ns = ls_clock_ns();
  char devices[48], budget[48], what[192], message[LS_BENCH_MESSAGE_BYTES], *config = NULL;
  json_t *json = NULL;
  char *result = ls_path_join(b->ctx, b->dir, "plan.json");
  ls_status_t status = result ? write_planned(s, n, &config) : LS_ERR_MEMORY;
  if (status == LS_OK) {
    ls_bench_study_count(b, "plan_ms", &budget_ms);
    snprintf(devices, sizeof devices, "--devices=%d,%d", n->one->ranks, n->many->ranks);
    snprintf(budget, sizeof budget, "--budget-ms=%lld", (long long)budget_ms);
    snprintf(what, sizeof what, "planning %s", n->one->model);
    limit_process(s);
    const char *const argv[] = {"lockstep", "plan", config, "--json", devices, budget, NULL};
    status = ls_bench_program(b, what, argv, result, n->many->peer, message);
    if (status == LS_OK)
      status = ls_json_read(b->ctx, result, PLAN_BYTES_MAX, LS_ERR_DATA, "", &json);
    else if (message[0]) {
      ls_log(b->ctx, LS_LOG_WARN, "%s: no prediction: %s", n->one->model, message);
      status = LS_OK;
    }
  }
  if (json) read_plan(n, json);
  json_decref(json);
  s->plan_s = fmin((double)(ls_clock_ns() - begin_ns) * 1e-9, 2 * (double)budget_ms * 1e-3);
  ls_free(config);
  ls_free(result);
  return status;
}

/* ---- one batch ---- */

/* Chooses the number of steps that a process has time for, unless the user did. Returns about how many seconds the variants
 * of one rank and of several take. */
static double count_steps(const search_t *s, const network_t *n, int64_t batch, ls_bench_child_t *child) {
  enum {
    PARTS = 8,
    STEPS_MIN = 2,
    STEPS_MAX = 200
  }; /* PARTS: of a network's time, one process may measure one */
  const ls_bench_method_t *m = &s->b->method;
  const double each_us = 1e6 * fmin(1, (double)s->b->budget_s / (PARTS * s->networks));
  const double step_us = n->step_us * fmax(1, (double)batch / (double)n->step_batch);
  const double steps = each_us / (step_us * (double)m->repetitions);
  *child = (ls_bench_child_t){.repetitions = m->repetitions};
  if (!isfinite(steps)) return 0;
  if (!s->b->steps_given) {
    child->steps = (int64_t)fmin(fmax(steps, STEPS_MIN), STEPS_MAX);
    child->warmup_steps = (child->steps + 3) / 4;
  }
  const int64_t each = child->steps > 0 ? child->steps + child->warmup_steps : m->steps + m->warmup_steps;
  return 2 * (1 + step_us * 1e-6 * (double)(each * m->repetitions));
}

/* *over: the time was up first. A failure of the variant's own is kept with it. */
static ls_status_t measure_variant(search_t *s, const ls_bench_variant_t *wanted,
                                   const ls_bench_child_t *child, bool *over) {
  ls_bench_sweep_t *b = s->b;
  char message[LS_BENCH_MESSAGE_BYTES];
  json_t *measurement = NULL;
  ls_status_t status = ls_bench_variant_add(b, wanted);
  if (status != LS_OK) return status;
  const int at = b->variant_count - 1;
  json_array_append_new(b->measured, ls_bench_variant_json(&b->variant[at]));
  if (b->variant[at].refused[0]) return LS_OK;
  limit_process(s);
  status = ls_bench_child(b, &b->variant[at], child, &measurement, message);
  *over = status == LS_ERR_TIMEOUT && b->limit_s < s->limit_s;
  json_t *variant = json_array_get(b->measured, (size_t)at);
  if (child->steps > 0) json_object_set_new(variant, "steps", json_integer((json_int_t)child->steps));
  if (status == LS_OK)
    ls_bench_collect(variant, measurement);
  else if (message[0] && !*over)
    ls_bench_give_up(b, at, message);
  json_decref(measurement);
  return status != LS_OK && message[0] ? LS_OK : status;
}

/* Sets *ratio, the speed-up; NAN: one of the variants could not be measured, n->reason says why. *pays: beyond chance. */
static ls_status_t compare(search_t *s, network_t *n, const int at[2], double *ratio, bool *pays) {
  ls_bench_sweep_t *b = s->b;
  double *us[2] = {NULL, NULL};
  int64_t count[2];
  ls_status_t status = LS_OK;
  *ratio = NAN;
  *pays = false;
  for (int i = 0; i < 2; i++) {
    const char *failed = ls_bench_word(json_array_get(b->measured, (size_t)at[i]), "failed");
    if (*failed) snprintf(n->reason, sizeof n->reason, "%s: %s", b->variant[at[i]].name, failed);
    if (*failed) return LS_OK;
  }
  for (int i = 0; i < 2 && status == LS_OK; i++)
    status = ls_bench_step_times(b->ctx, json_array_get(b->measured, (size_t)at[i]), &us[i], &count[i]);
  if (status == LS_OK) {
    n->step_us = ls_stat_mean(us[0], count[0]);
    n->step_batch = b->variant[at[0]].batch;
    *ratio = n->step_us / ls_stat_mean(us[1], count[1]);
    *pays = *ratio > 1 && (count[0] < 2 || ls_stat_welch(us[0], count[0], us[1], count[1], LS_BENCH_ALPHA).p <
                                               LS_BENCH_ALPHA);
  }
  ls_free(us[0]);
  ls_free(us[1]);
  return status;
}

/* Every variant that the sweep has of the network, with this batch. */
static ls_status_t measure_batch(search_t *s, network_t *n, int64_t batch, double *ratio, bool *pays,
                                 bool *over) {
  ls_bench_sweep_t *b = s->b;
  ls_bench_child_t child;
  int begin = b->variant_count, at[2] = {-1, -1};
  int64_t begin_ns = ls_clock_ns();
  ls_status_t status = LS_OK;
  *over = left_s(s) - s->reserve_s < fmax(s->pair_s, count_steps(s, n, batch, &child));
  for (int i = 0; i < s->sweep_count && status == LS_OK && !*over; i++) {
    ls_bench_variant_t v = s->sweep[i];
    if (!same_network(&v, n->one) || v.key != n->least) continue;
    if (v.ranks == n->one->ranks && at[0] < 0) at[0] = b->variant_count;
    if (v.ranks == n->many->ranks && at[1] < 0) at[1] = b->variant_count;
    v.key = batch;
    v.refused[0] = '\0';
    v.samples = samples_at(s, batch);
    v.bucket_bytes = v.ranks > 1 ? n->bucket_bytes : 0;
    status = measure_variant(s, &v, &child, over);
  }
  if (status != LS_OK || *over) {
    while (b->variant_count > begin)
      json_array_remove(b->measured, (size_t)--b->variant_count);
    return status;
  }
  s->pair_s = (double)(ls_clock_ns() - begin_ns) * 1e-9;
  b->rounds_done = 1;
  status = compare(s, n, at, ratio, pays);
  if (status == LS_OK && isfinite(*ratio))
    ls_bench_say(b, "%s, batch %lld: %.2fx with %d ranks", n->one->model, (long long)batch, *ratio,
                 n->many->ranks);
  return status;
}

/* ---- the search ---- */

static int first_place(const network_t *n) {
  int place = 0;
  if (!n->planned) return n->end / 2;
  while (place < n->end - 1 && (n->predicted == 0 || batch_at(n, place) < n->predicted))
    place++;
  return place;
}

static ls_status_t narrow(search_t *s, network_t *n) {
  int place = first_place(n), stride = 1;
  ls_status_t status = LS_OK;
  bool pays, over;
  double ratio;
  s->pair_s = 0;
  while (n->won - n->lost > 1) {
    status = measure_batch(s, n, batch_at(n, place), &ratio, &pays, &over);
    if (over)
      snprintf(n->reason, sizeof n->reason, "the time limit of %lld s (--budget)", (long long)s->b->budget_s);
    if (over || status != LS_OK) break;
    if (!isfinite(ratio)) { /* larger batches would need even more memory */
      n->won = n->end = place;
    } else if (pays) {
      n->won = place;
      n->won_ratio = ratio;
    } else {
      n->lost = place;
      n->lost_ratio = ratio;
    }
    const bool down = n->won < n->end || !isfinite(ratio);
    place = n->lost >= 0 && n->won < n->end ? (n->lost + n->won) / 2
            : down                          ? n->won - stride
                                            : n->lost + stride;
    if (place <= n->lost) place = n->lost + 1;
    if (place >= n->won) place = n->won - 1;
    stride *= 2;
  }
  return status;
}

/* The largest batch, in the time that is left, shows how much several ranks gain at most. */
static ls_status_t measure_end(search_t *s, network_t *n) {
  bool measured = n->lost == n->end - 1 || n->won == n->end - 1, pays, over;
  double ratio;
  s->pair_s = 0;
  return measured || n->reason[0] ? LS_OK : measure_batch(s, n, n->most, &ratio, &pays, &over);
}

/* ---- the answer ---- */

enum { ANSWER_BYTES = 2 * LS_BENCH_REASON_BYTES };

static void prediction(const network_t *n, char text[64]) {
  if (n->planned && n->predicted > 0)
    snprintf(text, 64, "predicted: from batch %lld on", (long long)n->predicted);
  else if (n->planned)
    snprintf(text, 64, "predicted: at no batch");
  else if (isfinite(n->planned_ratio))
    snprintf(text, 64, "predicted: %.2fx at batch %lld", n->planned_ratio, (long long)n->planned_batch);
  else
    snprintf(text, 64, "no prediction");
}

static void answer(const network_t *n, char text[ANSWER_BYTES]) {
  const bool won = n->won < n->end, lost = n->lost >= 0, found = won && n->won - n->lost == 1;
  char predicted[64];
  prediction(n, predicted);
  if (!won && !lost) {
    snprintf(text, ANSWER_BYTES, "%s: not measured: %s; %s", n->one->model, n->reason, predicted);
    return;
  }
  snprintf(text, ANSWER_BYTES, "%s: %d ranks pay %s%lld%s (%.2fx%s); %s%s%s", n->one->model, n->many->ranks,
           found ? "from batch "
           : won ? "at batch "
                 : "at no batch up to ",
           (long long)batch_at(n, won ? n->won : n->lost), found ? " on" : "",
           won ? n->won_ratio : n->lost_ratio, !won && n->lost_ratio > 1 ? ", which may be chance" : "",
           predicted, n->reason[0] ? "; not measured further: " : "", n->reason);
}

static void conclude(search_t *s, const network_t *n) {
  const bool won = n->won < n->end, lost = n->lost >= 0;
  char text[ANSWER_BYTES];
  answer(n, text);
  ls_bench_say(s->b, "%s", text);
  json_array_append_new(
      s->b->crossovers,
      json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:I, s:I, s:b, s:o}", "model", n->one->model, "precision",
                n->one->precision, "ranks", n->many->ranks, "predicted_batch",
                n->planned && n->predicted > 0 ? json_integer(n->predicted) : json_null(), "pays_at",
                won ? json_integer(batch_at(n, n->won)) : json_null(), "loses_at",
                lost ? json_integer(batch_at(n, n->lost)) : json_null(), "searched_from",
                (json_int_t)n->least, "searched_to", (json_int_t)n->most, "complete",
                n->won - n->lost == 1 && n->end > 0, "text", ls_json_text(text)));
}

static bool is_first(const search_t *s, int at) {
  for (int i = 0; i < at; i++)
    if (same_network(&s->sweep[i], &s->sweep[at])) return false;
  return true;
}

static ls_status_t search_all(search_t *s, network_t *all) {
  ls_status_t status = LS_OK;
  int count = 0;
  for (int i = 0; i < s->sweep_count && status == LS_OK; i++) {
    if (!is_first(s, i)) continue;
    network_t *n = &all[count++];
    *n = network_of(s, &s->sweep[i]);
    if (left_s(s) > 0) status = plan(s, n);
    s->reserve_s = (s->networks - count) * s->plan_s;
    if (status == LS_OK) status = narrow(s, n);
    if (status == LS_OK) conclude(s, n);
  }
  for (int i = 0; i < count && status == LS_OK; i++)
    status = measure_end(s, &all[i]);
  return status;
}

ls_status_t ls_bench_search(ls_bench_sweep_t *b) {
  search_t s = {.b = b, .sweep_count = b->variant_count, .begin_ns = ls_clock_ns(), .limit_s = b->limit_s};
  ls_bench_variant_t *sweep = ls_alloc_array(b->ctx, (size_t)b->variant_count, sizeof *sweep);
  network_t *all = ls_alloc_array(b->ctx, (size_t)b->variant_count, sizeof *all);
  ls_status_t status = sweep && all ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK) {
    memcpy(sweep, b->variant, (size_t)b->variant_count * sizeof *sweep);
    s.sweep = sweep;
    b->variant_count = 0;
    b->crossovers = json_array();
    b->method.per_process = b->method.repetitions;
    for (int i = 0; i < s.sweep_count; i++)
      s.networks += is_first(&s, i);
    ls_bench_say(b, "%d network%s, at most %lld s (--budget)", s.networks, LS_PLURAL(s.networks),
                 (long long)b->budget_s);
    status = search_all(&s, all);
  }
  ls_free(all);
  ls_free(sweep);
  b->limit_s = s.limit_s;
  return status;
}
