/* lockstep bench --study families: from which batch on do several ranks pay? For each network a plan predicts the batch,
 * and the batches around it are measured, by doubling and halving, until two neighbours disagree. A time limit holds
 * for all networks: what it leaves out is named, with what was predicted. */
#include "cli/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  PLAN_BYTES_MAX = 64 << 20,
  PARTS = 8, /* of a network's time: one process may measure so long */
  STEPS_MIN = 2,
  STEPS_MAX = 200
};
static const double second_ns = 1e9, process_us = 1e6;

/* One network in one precision. */
typedef struct {
  const bench_variant_t *one, *many; /* of the sweep: fewest ranks and most */
  int64_t least, most;               /* batches */
  int lost, won, end; /* places: the largest that does not pay, the smallest that does, none from here on */
  double lost_ratio, won_ratio; /* speed-ups there */
  bool planned;
  int64_t predicted;    /* batch; 0 = more ranks never pay */
  double planned_ratio; /* speed-up at planned_batch; NAN = not known */
  int64_t planned_batch;
  double step_us; /* of one rank at step_batch, 0 = not known */
  int64_t step_batch;
  int64_t bucket_bytes;
  char reason[256]; /* why nothing more was measured */
} network_t;

typedef struct {
  bench_t *b;
  const bench_variant_t *sweep;
  int sweep_count, networks;
  int64_t begin_ns;
  int64_t limit_s;  /* --limit */
  double plan_s;    /* that the last plan took */
  double reserve_s; /* for the plans of the networks that follow */
  double pair_s;    /* that the network's last batch took */
} search_t;

static double left_s(const search_t *s) {
  return (double)s->b->budget_s - (double)(ls_clock_ns() - s->begin_ns) / second_ns;
}

static bool same_network(const bench_variant_t *a, const bench_variant_t *b) {
  return !strcmp(a->model, b->model) && !strcmp(a->precision, b->precision);
}

static int64_t batch_at(const network_t *n, int place) {
  int64_t batch = n->least << place;
  return batch < n->most ? batch : n->most;
}

static network_t network_of(const search_t *s, const bench_variant_t *first) {
  network_t n = {
      .one = first, .many = first, .least = first->key, .most = first->key, .lost = -1, .planned_ratio = NAN};
  for (int i = 0; i < s->sweep_count; i++) {
    const bench_variant_t *v = &s->sweep[i];
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
  snprintf(ranks, sizeof ranks, "%d", n->many->ranks);
  const json_t *crossover = json_object_get(json_object_get(plan, "crossover_batch"), ranks);
  n->planned = crossover != NULL;
  n->predicted = json_integer_value(crossover);
  double many_us = 0;
  json_array_foreach(json_object_get(plan, "candidates"), i, c) {
    int devices = (int)ls_bench_number(c, "devices");
    if (!json_is_true(json_object_get(c, "priced"))) continue;
    if (devices == n->one->ranks && n->step_us == 0)
      n->step_us = ls_bench_number(c, "step_time_us.predicted");
    if (devices != n->many->ranks || many_us > 0 ||
        strcmp(ls_bench_word(c, "strategy"), n->many->strategy) != 0)
      continue;
    many_us = ls_bench_number(c, "step_time_us.predicted");
    n->bucket_bytes = (int64_t)ls_bench_number(c, "options.bucket_bytes");
  }
  n->planned_batch = n->step_batch;
  if (n->step_us > 0 && many_us > 0) n->planned_ratio = n->step_us / many_us;
}

static int64_t samples_at(const search_t *s, int64_t batch) {
  int64_t batches = 0;
  bench_study_count(s->b, "batches", &batches);
  return s->b->own_config ? batches * batch : 0;
}

static ls_status_t plan(search_t *s, network_t *n) {
  enum { FIXED = 13 };
  bench_t *b = s->b;
  const cli_args_t *args = b->args;
  int64_t budget_ms = 6000, begin_ns = ls_clock_ns();
  char text[2][48], sets[BENCH_SETS][BENCH_SET_BYTES], what[192], message[256];
  bench_variant_t v = *n->one;
  char *result = ls_path_join(b->ctx, b->dir, "plan.json");
  const char **argv =
      ls_alloc_array(b->ctx, (size_t)(2 * (args->set_count + BENCH_SETS) + FIXED), sizeof *argv);
  ls_status_t status = result && argv ? LS_OK : LS_ERR_MEMORY;
  if (status != LS_OK) goto done;
  n->step_batch = v.batch = batch_at(n, n->end / 2);
  v.samples = samples_at(s, n->most);
  bench_study_count(b, "plan_ms", &budget_ms);
  snprintf(text[0], sizeof text[0], "--devices=%d,%d", n->one->ranks, n->many->ranks);
  snprintf(text[1], sizeof text[1], "--budget-ms=%lld", (long long)budget_ms);
  const char *const first[] = {args->argv[0], "plan", args->config, "--json", text[0], text[1]};
  int count = LS_COUNT(first), set_count = bench_variant_sets(&v, sets);
  memcpy(argv, first, sizeof first);
  if (args->data_root) {
    argv[count++] = "--data-root";
    argv[count++] = args->data_root;
  }
  if (args->env) {
    argv[count++] = "--env";
    argv[count++] = args->env;
  }
  for (int i = 0; i < args->set_count + set_count; i++) {
    argv[count++] = "--set";
    argv[count++] = i < args->set_count ? args->sets[i] : sets[i - args->set_count];
  }
  argv[count++] = "--set"; /* what is measured takes auto as off */
  argv[count++] = b->side_lane ? "parallel.side_lane=on" : "parallel.side_lane=off";
  snprintf(what, sizeof what, "planning %s", n->one->model);
  b->limit_s = (int64_t)fmax(1, fmin((double)s->limit_s, left_s(s)));
  status = bench_child_program(b, what, argv, result, n->many->peer, message);
  if (status == LS_OK) {
    json_t *json = NULL;
    status = ls_json_read(b->ctx, result, PLAN_BYTES_MAX, LS_ERR_DATA, "", &json);
    if (status == LS_OK) read_plan(n, json);
    json_decref(json);
  } else if (message[0]) { /* it is measured all the same */
    ls_log(b->ctx, LS_LOG_WARN, "%s: no prediction: %s", n->one->model, message);
    status = LS_OK;
  }
  s->plan_s = fmin((double)(ls_clock_ns() - begin_ns) / second_ns, 2 * (double)budget_ms * 1e-3);
done:
  ls_free(argv);
  ls_free(result);
  return status;
}

/* ---- one batch ---- */

/* As many steps as a process has time for, if the user has not said how many. Returns about how long the variants of
 * one rank and of several take. */
static double count_steps(const search_t *s, const network_t *n, int64_t batch, bench_child_t *child) {
  const ls_bench_method_t *m = &s->b->method;
  double each_us = fmin(process_us, 1e6 * (double)s->b->budget_s / (PARTS * s->networks));
  double step_us = n->step_us * fmax(1, (double)batch / (double)n->step_batch);
  double steps = each_us / (step_us * (double)m->repetitions);
  *child = (bench_child_t){.repetitions = m->repetitions};
  if (!isfinite(steps)) return 0;
  if (!s->b->args->extra[BENCH_STEPS]) {
    child->steps = (int64_t)fmin(fmax(steps, STEPS_MIN), STEPS_MAX);
    child->warmup_steps = (child->steps + 3) / 4;
  }
  int64_t each = child->steps > 0 ? child->steps + child->warmup_steps : m->steps + m->warmup_steps;
  return 2 * (1 + step_us * 1e-6 * (double)(each * m->repetitions));
}

/* over: the time was up first. A failure of the variant's own is kept with it. */
static ls_status_t measure_variant(search_t *s, const bench_variant_t *wanted, const bench_child_t *child,
                                   bool *over) {
  bench_t *b = s->b;
  char message[256];
  json_t *measurement = NULL;
  ls_status_t status = bench_variant_add(b, wanted);
  if (status != LS_OK) return status;
  int at = b->variant_count - 1;
  json_array_append_new(b->measured, bench_variant_json(&b->variants[at]));
  if (b->variants[at].refused[0]) return LS_OK;
  b->limit_s = (int64_t)fmax(1, fmin((double)s->limit_s, left_s(s)));
  status = bench_child_run(b, &b->variants[at], child, &measurement, message);
  *over = status == LS_ERR_TIMEOUT && b->limit_s < s->limit_s;
  json_t *variant = json_array_get(b->measured, (size_t)at);
  if (child->steps > 0) json_object_set_new(variant, "steps", json_integer((json_int_t)child->steps));
  if (status == LS_OK)
    bench_collect(variant, measurement);
  else if (message[0] && !*over)
    bench_give_up(b, at, message);
  json_decref(measurement);
  return status != LS_OK && message[0] ? LS_OK : status;
}

static void drop_from(bench_t *b, int count) {
  while (b->variant_count > count)
    json_array_remove(b->measured, (size_t)--b->variant_count);
}

/* Sets *ratio, the speed-up; NAN: one of the variants could not be measured, n->reason says why. *pays: beyond
 * chance. */
static ls_status_t compare(search_t *s, network_t *n, int one, int many, double *ratio, bool *pays) {
  bench_t *b = s->b;
  const int at[] = {one, many};
  double *us[2] = {NULL, NULL};
  int64_t count[2];
  ls_status_t status = LS_OK;
  *ratio = NAN;
  *pays = false;
  for (int i = 0; i < 2; i++) {
    const char *failed = ls_bench_word(json_array_get(b->measured, (size_t)at[i]), "failed");
    if (*failed) snprintf(n->reason, sizeof n->reason, "%s: %s", b->variants[at[i]].name, failed);
    if (*failed) return LS_OK;
  }
  for (int i = 0; i < 2 && status == LS_OK; i++)
    status = ls_bench_step_times(b->ctx, json_array_get(b->measured, (size_t)at[i]), &us[i], &count[i]);
  if (status == LS_OK) {
    *ratio = ls_stat_mean(us[0], count[0]) / ls_stat_mean(us[1], count[1]);
    bool apart =
        count[0] < 2 || ls_stat_welch(us[0], count[0], us[1], count[1], LS_BENCH_ALPHA).p < LS_BENCH_ALPHA;
    *pays = *ratio > 1 && apart;
    n->step_us = ls_stat_mean(us[0], count[0]);
    n->step_batch = b->variants[one].batch;
  }
  ls_free(us[0]);
  ls_free(us[1]);
  return status;
}

/* Every variant that the sweep has of the network, with this batch. */
static ls_status_t measure_batch(search_t *s, network_t *n, int64_t batch, double *ratio, bool *pays,
                                 bool *over) {
  bench_t *b = s->b;
  bench_child_t child;
  int begin = b->variant_count, one = -1, many = -1;
  int64_t begin_ns = ls_clock_ns();
  ls_status_t status = LS_OK;
  double takes_s = count_steps(s, n, batch, &child);
  *over = left_s(s) - s->reserve_s < fmax(s->pair_s, takes_s);
  for (int i = 0; i < s->sweep_count && status == LS_OK && !*over; i++) {
    bench_variant_t v = s->sweep[i];
    if (!same_network(&v, n->one) || v.key != n->least) continue;
    if (v.ranks == n->one->ranks && one < 0) one = b->variant_count;
    if (v.ranks == n->many->ranks && many < 0) many = b->variant_count;
    v.key = batch;
    v.refused[0] = '\0';
    v.samples = samples_at(s, batch);
    v.bucket_bytes = v.ranks > 1 ? n->bucket_bytes : 0;
    status = measure_variant(s, &v, &child, over);
  }
  if (status != LS_OK || *over) {
    drop_from(b, begin);
    return status;
  }
  s->pair_s = (double)(ls_clock_ns() - begin_ns) / second_ns;
  b->rounds_done = 1;
  status = compare(s, n, one, many, ratio, pays);
  if (status == LS_OK && isfinite(*ratio) && !b->args->quiet)
    fprintf(stderr, "%s, batch %lld: %.2fx with %d ranks\n", n->one->model, (long long)batch, *ratio,
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
  while (n->won - n->lost > 1 && status == LS_OK) {
    status = measure_batch(s, n, batch_at(n, place), &ratio, &pays, &over);
    if (over)
      snprintf(n->reason, sizeof n->reason, "the time limit of %lld s (--budget)", (long long)s->b->budget_s);
    if (over || status != LS_OK) break;
    if (!isfinite(ratio)) { /* larger batches would need more memory still */
      n->won = n->end = place;
    } else if (pays) {
      n->won = place;
      n->won_ratio = ratio;
    } else {
      n->lost = place;
      n->lost_ratio = ratio;
    }
    bool between = n->lost >= 0 && n->won < n->end;
    place = between                               ? (n->lost + n->won) / 2
            : n->won < n->end || !isfinite(ratio) ? n->won - stride
                                                  : n->lost + stride;
    if (place <= n->lost) place = n->lost + 1;
    if (place >= n->won) place = n->won - 1;
    stride *= 2;
  }
  return status;
}

/* The largest batch, in the time that is left: what several ranks gain at most. */
static ls_status_t measure_end(search_t *s, network_t *n) {
  bool measured = n->lost == n->end - 1 || n->won == n->end - 1, pays, over;
  double ratio;
  s->pair_s = 0;
  return measured || n->reason[0] ? LS_OK : measure_batch(s, n, n->most, &ratio, &pays, &over);
}

/* ---- the answer ---- */

static void say_prediction(const network_t *n, FILE *to) {
  if (!n->planned && isfinite(n->planned_ratio))
    fprintf(to, "predicted: %.2fx at batch %lld", n->planned_ratio, (long long)n->planned_batch);
  else if (!n->planned)
    fputs("no prediction", to);
  else if (n->predicted > 0)
    fprintf(to, "predicted: from batch %lld on", (long long)n->predicted);
  else
    fputs("predicted: at no batch", to);
}

static void say_answer(const network_t *n, FILE *to) {
  bool won = n->won < n->end, lost = n->lost >= 0;
  fprintf(to, "%s: ", n->one->model);
  if (!won && !lost) {
    fprintf(to, "not measured: %s; ", n->reason);
    say_prediction(n, to);
    return;
  }
  if (won && n->won - n->lost == 1)
    fprintf(to, "%d ranks pay from batch %lld on (%.2fx", n->many->ranks, (long long)batch_at(n, n->won),
            n->won_ratio);
  else if (won)
    fprintf(to, "%d ranks pay at batch %lld (%.2fx", n->many->ranks, (long long)batch_at(n, n->won),
            n->won_ratio);
  else
    fprintf(to, "%d ranks pay at no batch up to %lld (%.2fx%s", n->many->ranks,
            (long long)batch_at(n, n->lost), n->lost_ratio, n->lost_ratio > 1 ? ", which may be chance" : "");
  if (won && lost) fprintf(to, "; %.2fx at %lld", n->lost_ratio, (long long)batch_at(n, n->lost));
  fputs("); ", to);
  say_prediction(n, to);
  if (n->reason[0]) fprintf(to, "; not measured further: %s", n->reason);
}

static json_t *batch_json(const network_t *n, bool known, int place) {
  return known ? json_integer(batch_at(n, place)) : json_null();
}

static ls_status_t conclude(search_t *s, const network_t *n) {
  bench_t *b = s->b;
  char *text = NULL;
  size_t size_bytes = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return ls_fail(b->ctx, LS_ERR_MEMORY, "out of memory for an answer");
  say_answer(n, to);
  if (fclose(to) == 0) {
    if (!b->args->quiet) fprintf(stderr, "%s\n", text);
    json_array_append_new(
        b->crossovers,
        json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:I, s:I, s:b, s:s}", "model", n->one->model, "precision",
                  n->one->precision, "ranks", n->many->ranks, "predicted_batch",
                  n->planned && n->predicted > 0 ? json_integer(n->predicted) : json_null(), "pays_at",
                  batch_json(n, n->won < n->end, n->won), "loses_at", batch_json(n, n->lost >= 0, n->lost),
                  "searched_from", (json_int_t)n->least, "searched_to", (json_int_t)n->most, "complete",
                  n->won - n->lost == 1 && n->end > 0, "text", text));
  }
  free(text);
  return LS_OK;
}

static bool is_first(const search_t *s, int at) {
  for (int i = 0; i < at; i++)
    if (same_network(&s->sweep[i], &s->sweep[at])) return false;
  return true;
}

ls_status_t bench_search(bench_t *b) {
  search_t s = {.b = b, .sweep_count = b->variant_count, .begin_ns = ls_clock_ns(), .limit_s = b->limit_s};
  bench_variant_t *sweep = ls_alloc_array(b->ctx, (size_t)b->variant_count, sizeof *sweep);
  if (!sweep) return LS_ERR_MEMORY;
  memcpy(sweep, b->variants, (size_t)b->variant_count * sizeof *sweep);
  s.sweep = sweep;
  b->variant_count = 0;
  b->method.per_process = b->method.repetitions;
  for (int i = 0; i < s.sweep_count; i++)
    s.networks += is_first(&s, i);
  if (!b->args->quiet)
    fprintf(stderr, "%d network%s, at most %lld s (--budget)\n", s.networks, LS_PLURAL(s.networks),
            (long long)b->budget_s);
  network_t *all = ls_alloc_array(b->ctx, (size_t)s.networks, sizeof *all);
  ls_status_t status = all ? LS_OK : LS_ERR_MEMORY;
  int count = 0;
  for (int i = 0; i < s.sweep_count && status == LS_OK; i++) {
    if (!is_first(&s, i)) continue;
    network_t *n = &all[count++];
    *n = network_of(&s, &sweep[i]);
    if (left_s(&s) > 0) status = plan(&s, n);
    s.reserve_s = (s.networks - count) * s.plan_s;
    if (status == LS_OK) status = narrow(&s, n);
    if (status == LS_OK) status = conclude(&s, n);
  }
  for (int i = 0; i < count && status == LS_OK; i++)
    status = measure_end(&s, &all[i]);
  ls_free(all);
  b->limit_s = s.limit_s;
  ls_free(sweep);
  return status;
}
