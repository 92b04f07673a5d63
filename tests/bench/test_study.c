/* The study's section from made measurements: the tables, the published figures beside them, and conclusions
 * with every verdict forced. */
#include "documents.h"

#include <string.h>

/* A cell: one device takes `one_us`, two take `two_us`, each five times with a spread of `spread` percent. */
typedef struct {
  const char *model, *peer;
  int batch;
  double one_us, two_us;
  double comm_us; /* exposed, of two devices; negative: parts are not known */
} made_t;

static double spread = 1;
static int repetitions = 5;
static double traced_factor; /* 0: parts are of the measured steps; else of steps this much slower */

/* The parts as a captured step's: of one traced repetition, all `traced_factor` as long. */
static void trace_parts(json_t *v, double us) {
  json_t *first = json_array_get(json_object_get(v, "repetitions"), 0), *r, *part;
  json_t *parts = json_deep_copy(json_object_get(first, "step_parts_us"));
  const char *key;
  size_t i;
  json_object_foreach(parts, key, part) json_real_set(part, traced_factor * json_real_value(part));
  json_array_foreach(json_object_get(v, "repetitions"), i, r)
      json_object_set_new(r, "step_parts_us", json_null());
  json_object_set_new(v, "traced",
                      json_pack("{s:f, s:o}", "step_time_us", traced_factor * us, "step_parts_us", parts));
}

static json_t *side(const made_t *m, int ranks, double us) {
  static const double offsets[] = {-1, -0.5, 0, 0.5, 1};
  double values[5];
  for (int i = 0; i < 5; i++)
    values[i] = us * (1 + 0.01 * spread * offsets[i]);
  json_t *v = made_variant(m->batch, m->batch, ranks, ranks > 1 ? "ddp" : "single", values, repetitions), *r;
  size_t i;
  json_object_set_new(v, "model", json_string(m->model));
  if (ranks > 1 && m->peer) json_object_set_new(v, "peer_access", json_string(m->peer));
  double comm = ranks > 1 ? m->comm_us : 0, rest = us - comm;
  if (m->comm_us >= 0)
    json_array_foreach(json_object_get(v, "repetitions"), i, r) json_object_set_new(
        r, "step_parts_us",
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "input", 0.0, "forward", 0.3 * rest, "backward",
                  0.3 * rest, "exposed_comm", comm, "optimizer", 0.3 * rest, "rest", 0.1 * rest));
  if (m->comm_us >= 0 && traced_factor > 0) trace_parts(v, us);
  return v;
}

/* One side of one device per network and batch, as bench measures it. */
static json_t *study_of(const made_t *made, int count) {
  json_t *variants = json_array();
  for (int i = 0; i < count; i++) {
    bool known = false;
    for (int k = 0; k < i; k++)
      known |= made[k].batch == made[i].batch && !strcmp(made[k].model, made[i].model);
    if (!known) json_array_append_new(variants, side(&made[i], 1, made[i].one_us));
    json_array_append_new(variants, side(&made[i], 2, made[i].two_us));
  }
  json_t *d = made_document(variants, json_array(), &plain_method);
  assert_int_equal(ls_bench_study(NULL, d), LS_OK);
  return d;
}

static const json_t *conclusion_of(const json_t *d, const char *id) {
  const json_t *list = json_object_get(json_object_get(d, "study"), "conclusions"), *c;
  size_t i;
  json_array_foreach(list, i, c) {
    if (!strcmp(json_string_value(json_object_get(c, "id")), id)) return c;
  }
  fail_msg("no conclusion %s", id);
  return NULL;
}

static const char *verdict_of(const json_t *d, const char *id, size_t finding) {
  const json_t *f = json_array_get(json_object_get(conclusion_of(d, id), "findings"), finding);
  const char *text = json_string_value(json_object_get(f, "verdict"));
  return text ? text : "none";
}

/* `cells` of one document against the verdict of one conclusion. */
static void expect(const char *id, const char *verdict, const made_t *cells, int count) {
  json_t *d = study_of(cells, count);
  const char *got = verdict_of(d, id, 0);
  if (strcmp(got, verdict) != 0) fail_msg("%s: %s, wanted %s", id, got, verdict);
  json_decref(d);
}
#define EXPECT(id, verdict, ...)                                                                             \
  do {                                                                                                       \
    const made_t cells[] = {__VA_ARGS__};                                                                    \
    expect(id, verdict, cells, LS_COUNT(cells));                                                             \
  } while (0)

#define MEDIUM "mlp-medium"
#define LARGE  "mlp-large"
static const char yes[] = "holds", no[] = "does not hold", open[] = "not decided";

static void test_slower(void **state) {
  (void)state;
  spread = 1;
  EXPECT("medium-slower", yes, {MEDIUM, NULL, 8, 100, 130, 40}, {MEDIUM, NULL, 16, 100, 120, 40});
  EXPECT("medium-slower", no, {MEDIUM, NULL, 8, 100, 130, 40}, {MEDIUM, NULL, 16, 100, 80, 40});
  EXPECT("large-slower", open, {LARGE, NULL, 8, 100, 130, 40}, {LARGE, NULL, 16, 100, 100.1, 40});
  EXPECT("large-slower", open, {MEDIUM, NULL, 8, 100, 130, 40}); /* not measured */
  EXPECT("under-10-million", yes, {MEDIUM, NULL, 8, 100, 130, 40}, {LARGE, NULL, 8, 100, 130, 40});
  EXPECT("under-10-million", no, {MEDIUM, NULL, 8, 100, 130, 40}, {LARGE, NULL, 8, 100, 70, 40});
  spread = 60; /* the same means, but nothing is shown */
  EXPECT("medium-slower", open, {MEDIUM, NULL, 8, 100, 130, 40}, {MEDIUM, NULL, 16, 100, 120, 40});
  spread = 1;
}

static void test_batches(void **state) {
  (void)state;
  EXPECT("medium-batch", yes, {MEDIUM, NULL, 128, 100, 150, 40}, {MEDIUM, NULL, 8, 100, 120, 40});
  EXPECT("medium-batch", no, {MEDIUM, NULL, 128, 100, 110, 40}, {MEDIUM, NULL, 8, 100, 120, 40});
  EXPECT("medium-batch", open, {MEDIUM, NULL, 128, 100, 120.2, 40}, {MEDIUM, NULL, 8, 100, 120, 40});
  EXPECT("large-batch", yes, {LARGE, NULL, 4, 100, 150, 40}, {LARGE, NULL, 64, 100, 120, 40});
  EXPECT("large-batch", no, {LARGE, NULL, 4, 100, 120, 40}, {LARGE, NULL, 64, 100, 150, 40});
  EXPECT("large-batch", open, {LARGE, NULL, 4, 100, 120, 40});
  EXPECT("large-32", yes, {LARGE, NULL, 4, 100, 120, 40}, {LARGE, NULL, 32, 100, 105, 40},
         {LARGE, NULL, 64, 100, 110, 40});
  EXPECT("large-32", no, {LARGE, NULL, 32, 100, 105, 40}, {LARGE, NULL, 64, 100, 90, 40});
  EXPECT("large-32", open, {LARGE, NULL, 4, 100, 120, 40}, {LARGE, NULL, 64, 100, 90, 40});
  EXPECT("break-even-128", no, {LARGE, NULL, 64, 100, 90, 40}, {LARGE, NULL, 256, 100, 70, 40});
  EXPECT("break-even-128", yes, {LARGE, NULL, 64, 100, 110, 40}, {LARGE, NULL, 256, 100, 70, 40});
  EXPECT("break-even-128", open, {LARGE, NULL, 64, 100, 110, 40});
}

static void test_efficiency(void **state) {
  (void)state;
  EXPECT("efficiency-45", yes, {LARGE, NULL, 4, 100, 120, 40}, {MEDIUM, NULL, 8, 100, 130, 40});
  EXPECT("efficiency-45", no, {LARGE, NULL, 4, 100, 120, 40}, {MEDIUM, NULL, 8, 100, 105, 40});
  EXPECT("efficiency-45", open, {LARGE, NULL, 4, 90, 100, 40});
  EXPECT("utilisation-falls", yes, {LARGE, NULL, 4, 100, 60, 4});
  EXPECT("utilisation-falls", no, {LARGE, NULL, 4, 100, 40, 4});
  EXPECT("utilisation-falls", open, {LARGE, NULL, 4, 100, 50, 4});
}

static void test_parts(void **state) {
  (void)state;
  EXPECT("communication-reason", yes, {MEDIUM, NULL, 8, 100, 130, 40});
  EXPECT("communication-reason", no, {MEDIUM, NULL, 8, 100, 130, 20});
  EXPECT("communication-reason", open, {MEDIUM, NULL, 8, 100, 80, 20});
  EXPECT("communication-reason", open, {MEDIUM, NULL, 8, 100, 130, -1});
  EXPECT("communication-ms", yes, {MEDIUM, NULL, 8, 1e5, 2e5, 7e4}, {LARGE, NULL, 8, 1e5, 2e5, 9e4});
  EXPECT("communication-ms", no, {MEDIUM, NULL, 8, 1e5, 2e5, 7e4}, {LARGE, NULL, 8, 1e5, 2e5, 7e4});
  EXPECT("communication-ms", open, {MEDIUM, NULL, 8, 1e5, 2e5, -1});
  /* computing is 0.9 of what is not communication */
  EXPECT("communication-medium", yes, {MEDIUM, NULL, 8, 100, 260, 157.5});
  EXPECT("communication-medium", no, {MEDIUM, NULL, 8, 100, 260, 60});
  EXPECT("communication-large", yes, {LARGE, NULL, 8, 100, 190, 90});
  EXPECT("communication-large", no, {LARGE, NULL, 8, 100, 190, 20});
  EXPECT("compute-halves", yes, {LARGE, NULL, 8, 100, 90, 40});
  EXPECT("compute-halves", no, {LARGE, NULL, 8, 100, 90, 10});
  EXPECT("optimizer-halves", no, {LARGE, NULL, 8, 100, 90, 10});
  EXPECT("optimizer-halves", open, {LARGE, NULL, 8, 100, 90, -1});
}

/* A traced step's parts count as shares of the measured step: by their own times 25 us of communication,
 * traced as 50, would be more than the 30 us that two devices lose. */
static void test_traced_parts_are_scaled(void **state) {
  (void)state;
  traced_factor = 2;
  EXPECT("communication-reason", yes, {MEDIUM, NULL, 8, 100, 130, 40});
  EXPECT("communication-reason", no, {MEDIUM, NULL, 8, 100, 130, 25});
  EXPECT("communication-ms", yes, {MEDIUM, NULL, 8, 1e5, 2e5, 7e4}, {LARGE, NULL, 8, 1e5, 2e5, 9e4});
  EXPECT("communication-ms", no, {MEDIUM, NULL, 8, 1e5, 2e5, 3.5e4}, {LARGE, NULL, 8, 1e5, 2e5, 9e4});
  EXPECT("compute-halves", yes, {LARGE, NULL, 8, 100, 90, 40});
  traced_factor = 0;
}

/* Means without intervals decide nothing below three repetitions. */
static void test_few_repetitions(void **state) {
  (void)state;
  repetitions = 2;
  EXPECT("communication-reason", open, {MEDIUM, NULL, 8, 100, 200, 120});
  EXPECT("communication-ms", open, {MEDIUM, NULL, 8, 1e5, 2e5, 7e4}, {LARGE, NULL, 8, 1e5, 2e5, 9e4});
  EXPECT("compute-halves", open, {LARGE, NULL, 8, 100, 90, 40});
  EXPECT("direct-link", open, {LARGE, "off", 64, 100, 130, 80}, {LARGE, "on", 64, 100, 90, 20});
  repetitions = 3;
  EXPECT("compute-halves", yes, {LARGE, NULL, 8, 100, 90, 40});
  EXPECT("direct-link", yes, {LARGE, "off", 64, 100, 130, 80}, {LARGE, "on", 64, 100, 90, 20});
  repetitions = 5;
}

static void test_links(void **state) {
  (void)state;
  EXPECT("topology", yes, {LARGE, "off", 64, 100, 130, 80}, {LARGE, "on", 64, 100, 90, 20});
  EXPECT("topology", no, {LARGE, "off", 64, 100, 80, 80}, {LARGE, "on", 64, 100, 90, 20});
  EXPECT("topology", open, {LARGE, "off", 64, 100, 90, 80}, {LARGE, "on", 64, 100, 90, 20});
  EXPECT("topology", open, {LARGE, "off", 64, 100, 90, 80});
  EXPECT("direct-link", yes, {LARGE, "off", 64, 100, 130, 80}, {LARGE, "on", 64, 100, 90, 20});
  EXPECT("direct-link", no, {LARGE, "off", 64, 100, 130, 80}, {LARGE, "on", 64, 100, 90, 60});
  EXPECT("near-linear", no, {LARGE, "on", 64, 100, 90, 20});
  EXPECT("near-linear", yes, {LARGE, "on", 64, 100, 52, 2});
  EXPECT("near-linear", open, {LARGE, "off", 64, 100, 52, 2});
  EXPECT("parameters-decide", no, {LARGE, "off", 64, 100, 130, 80}, {LARGE, "on", 64, 100, 90, 20},
         {MEDIUM, "on", 64, 100, 130, 20});
  EXPECT("parameters-decide", yes, {LARGE, "on", 64, 100, 90, 20}, {MEDIUM, "on", 64, 100, 130, 20});
  EXPECT("parameters-decide", open, {LARGE, "on", 64, 100, 90, 20});
}

/* Peer access off and on are two tables and two findings each; batches ascend; figures stand in their rows.
 */
static void test_tables(void **state) {
  (void)state;
  const made_t cells[] = {{MEDIUM, "on", 64, 100, 80, 10},
                          {MEDIUM, "off", 64, 100, 130, 40},
                          {MEDIUM, "off", 8, 50, 70, 30},
                          {MEDIUM, "off", 1000, 500, 300, 30}};
  json_t *d = study_of(cells, LS_COUNT(cells));
  const json_t *study = json_object_get(d, "study"), *tables = json_object_get(study, "tables"), *rows;
  assert_int_equal(json_array_size(tables), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(tables, 0), "peer_access")), "on");
  rows = json_object_get(json_array_get(tables, 1), "rows");
  assert_int_equal(json_array_size(rows), 3);
  const json_t *first = json_array_get(rows, 0), *last = json_array_get(rows, 2);
  assert_true(ls_bench_number(first, "batch") == 8 && ls_bench_number(last, "batch") == 1000);
  assert_true(ls_bench_number(first, "published.one_samples_per_s") == 1234);
  assert_true(ls_bench_number(first, "published.two_samples_per_s_margin") == 38);
  assert_true(json_is_null(json_object_get(last, "published")));
  assert_true(fabs(ls_bench_number(first, "one.samples_per_s.mean") - 8e6 / 50) < 1e-6);
  assert_true(fabs(ls_bench_number(first, "speedup.value") - 50.0 / 70) < 1e-12);
  assert_true(fabs(ls_bench_number(first, "efficiency_percent.value") - 50 * 50.0 / 70) < 1e-12);
  assert_true(ls_bench_number(first, "speedup.low") < 50.0 / 70);
  assert_string_equal(verdict_of(d, "medium-slower", 0), no);
  assert_string_equal(verdict_of(d, "medium-slower", 1), no);
  assert_string_equal(verdict_of(d, "topology", 1), "none");
  const json_t *t = json_array_get(json_object_get(study, "timelines"), 0);
  assert_true(ls_bench_number(t, "published.two.exposed_comm") == 5.2);
  assert_true(fabs(ls_bench_number(t, "two.exposed_comm") - 0.01) < 1e-12);
  json_decref(d);
}

/* Two devices that are not there: the reason stands in the table, the other cells are judged. */
static void test_missing_devices(void **state) {
  (void)state;
  const made_t cell = {MEDIUM, "off", 8, 100, 130, 40}, other = {MEDIUM, "off", 16, 100, 130, 40};
  json_t *variants = json_array(), *two = side(&other, 2, 130);
  json_array_append_new(variants, side(&cell, 1, 100));
  json_array_append_new(variants, side(&cell, 2, 130));
  json_array_append_new(variants, side(&other, 1, 100));
  json_object_set_new(two, "failed", json_string("this machine has 1"));
  json_object_set_new(two, "repetitions", json_array());
  json_array_append_new(variants, two);
  json_t *d = made_document(variants, json_array(), &plain_method);
  assert_int_equal(ls_bench_study(NULL, d), LS_OK);
  assert_string_equal(verdict_of(d, "medium-slower", 0), open);
  char *markdown = ls_bench_markdown(NULL, d), *html = ls_bench_html(NULL, d);
  assert_non_null(strstr(markdown, "not measured: this machine has 1"));
  assert_non_null(strstr(markdown, "1,234 ± 45"));
  assert_non_null(strstr(html, "Where the study's conclusions hold"));
  assert_null(strstr(html, "nan"));
  ls_free(html);
  ls_free(markdown);
  json_decref(d);
}

/* The published tables agree with themselves: speed-up and efficiency follow from the rates. */
static void test_published(void **state) {
  (void)state;
  const made_t cells[] = {{MEDIUM, "off", 8, 1, 2, -1},   {MEDIUM, "off", 16, 1, 2, -1},
                          {MEDIUM, "off", 32, 1, 2, -1},  {MEDIUM, "off", 64, 1, 2, -1},
                          {MEDIUM, "off", 128, 1, 2, -1}, {LARGE, "off", 4, 1, 2, -1},
                          {LARGE, "off", 8, 1, 2, -1},    {LARGE, "off", 16, 1, 2, -1},
                          {LARGE, "off", 32, 1, 2, -1},   {LARGE, "off", 64, 1, 2, -1}};
  json_t *d = study_of(cells, LS_COUNT(cells));
  const json_t *table, *row;
  size_t i, k;
  json_array_foreach(json_object_get(json_object_get(d, "study"), "tables"), i, table) {
    json_array_foreach(json_object_get(table, "rows"), k, row) {
      const json_t *p = json_object_get(row, "published");
      double ratio = ls_bench_number(p, "two_samples_per_s") / ls_bench_number(p, "one_samples_per_s");
      assert_true(fabs(ratio - ls_bench_number(p, "speedup")) < 0.011);
      assert_true(fabs(50 * ratio - ls_bench_number(p, "efficiency_percent")) < 1.01);
    }
  }
  json_decref(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_slower),
                                     cmocka_unit_test(test_batches),
                                     cmocka_unit_test(test_efficiency),
                                     cmocka_unit_test(test_parts),
                                     cmocka_unit_test(test_links),
                                     cmocka_unit_test(test_tables),
                                     cmocka_unit_test(test_traced_parts_are_scaled),
                                     cmocka_unit_test(test_few_repetitions),
                                     cmocka_unit_test(test_missing_devices),
                                     cmocka_unit_test(test_published)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
