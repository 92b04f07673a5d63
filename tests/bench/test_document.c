/* Documents from made measurements: outliers, scaling, control, void runs, plans, answers, and reading them
 * back. */
#include "documents.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static const double slow[] = {200, 202, 198, 201, 199}, quick[] = {125, 126, 124, 125.5, 124.5};
static const double spiked[] = {200, 202, 198, 201, 900};

static json_t *two_variants(const double *first) {
  json_t *variants = json_array();
  json_array_append_new(variants, made_variant(64, 64, 1, "single", first, 5));
  json_array_append_new(variants, made_variant(64, 64, 2, "ddp", quick, 5));
  return variants;
}

static void near(double got, double wanted) {
  if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted))) fail_msg("%.12g, wanted %.12g", got, wanted);
}

/* The text of the document's answer. */
static const char *answer_of(json_t *d, size_t at) {
  ls_bench_conclude(d);
  return json_string_value(json_object_get(json_array_get(json_object_get(d, "answers"), at), "text"));
}

/* Numbers had digits that nobody reads. */
static void test_numbers_as_people_read_them(void **state) {
  assert_string_equal(ls_text_p(4.65e-08).s, "< 0.001");
  assert_string_equal(ls_text_around(12214.4, 12163.4, 12265.4, 1, "+-").s, "12,214 +- 51");
  assert_string_equal(ls_text_around(320.94, 317.74, 324.14, 1, "+-").s, "320.9 +- 3.2");
  assert_string_equal(ls_text_around(12214.4, 11163.4, 13265.4, 1, "+-").s, "12,200 +- 1,100");
  assert_string_equal(ls_text_count(-1234567.25, 1).s, "-1,234,567.2");
}

static void test_strong_scaling(void **state) {
  json_t *d = made_document(two_variants(slow), json_array(), &plain_method);
  const json_t *v = json_array_get(json_object_get(d, "variants"), 1);
  near(ls_bench_number(v, "step_time_us.mean"), 125);
  near(ls_bench_number(v, "step_time_us.median"), 125);
  near(ls_bench_number(v, "scaling.speedup"), 1.6);
  near(ls_bench_number(v, "scaling.efficiency"), 0.8);
  assert_true(ls_bench_number(v, "scaling.speedup_low") < 1.6 &&
              ls_bench_number(v, "scaling.speedup_high") > 1.6);
  near(ls_bench_number(v, "against_reference.difference_us"), -75);
  assert_string_equal(json_string_value(json_object_get(json_object_get(v, "against_reference"), "verdict")),
                      "faster");
  assert_null(json_object_get(json_array_get(json_object_get(d, "variants"), 0), "scaling"));
  assert_true(json_is_false(json_object_get(d, "void")));
  json_decref(d);
}

/* Two ranks with twice the batch in the same time are twice as fast. */
static void test_weak_scaling(void **state) {
  json_t *variants = json_array();
  ls_bench_method_t method = plain_method;
  method.weak = true;
  json_array_append_new(variants, made_variant(64, 64, 1, "single", slow, 5));
  json_array_append_new(variants, made_variant(64, 128, 2, "ddp", slow, 5));
  json_t *d = made_document(variants, json_array(), &method);
  const json_t *v = json_array_get(json_object_get(d, "variants"), 1);
  near(ls_bench_number(v, "scaling.speedup"), 2);
  near(ls_bench_number(v, "scaling.efficiency"), 1);
  json_decref(d);
}

static void test_outliers(void **state) {
  json_t *d = made_document(two_variants(spiked), json_array(), &plain_method);
  const json_t *v = json_array_get(json_object_get(d, "variants"), 0);
  const json_t *flagged = json_object_get(v, "outliers");
  assert_int_equal(json_array_size(flagged), 1);
  assert_int_equal(json_integer_value(json_array_get(flagged, 0)), 4);
  near(ls_bench_number(v, "step_time_us.mean"), 340.2);
  near(ls_bench_number(v, "step_time_us_without_outliers.mean"), 200.25);
  near(ls_bench_number(v, "step_time_us_without_outliers.count"), 4);
  json_decref(d);
}

static void test_control(void **state) {
  json_t *control = json_pack("[f, f]", 0.8, 1e-6);
  json_t *d = made_document(two_variants(slow), control, &plain_method);
  near(ls_bench_number(d, "control.pairs"), 2);
  near(ls_bench_number(d, "control.false_alarms"), 1);
  near(ls_bench_number(d, "control.false_alarm_rate"), 0.5);
  json_decref(d);
}

static void test_void_runs(void **state) {
  ls_bench_method_t method = plain_method;
  method.cpu_throttles_before = 7;
  method.cpu_throttles_after = 9;
  json_t *d = made_document(two_variants(slow), json_array(), &method);
  assert_true(json_is_true(json_object_get(d, "void")));
  assert_string_equal(json_string_value(json_object_get(json_object_get(d, "limits"), "cpu")), "acted");
  json_decref(d);
  json_t *variants = two_variants(slow), *v = json_array_get(variants, 0);
  json_object_set_new(v, "backend", json_string("cuda"));
  json_object_set_new(json_array_get(json_object_get(v, "repetitions"), 2), "gpu_limit", json_integer(0x20));
  d = made_document(variants, json_array(), &plain_method);
  assert_true(json_is_true(json_object_get(d, "void")));
  assert_string_equal(json_string_value(json_object_get(json_object_get(d, "limits"), "gpu")), "acted");
  assert_string_equal(json_string_value(json_array_get(json_object_get(d, "void_reasons"), 0)), "GPU: heat");
  json_decref(d);
}

/* A captured step hides its parts: those of the traced repetition stand in, and say so. Energy needs a
 * second. */
static void test_traced_parts(void **state) {
  json_t *variants = two_variants(slow), *v = json_array_get(variants, 1), *r;
  size_t i;
  json_object_set_new(v, "traced",
                      json_pack("{s:i, s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}, s:[{s:s, s:i, s:f}]}", "steps",
                                30, "step_time_us", 300.0, "step_parts_us", "input", 1.0, "forward", 40.0,
                                "backward", 60.0, "exposed_comm", 90.0, "optimizer", 20.0, "rest", 89.0,
                                "collectives", "name", "gradients 0", "size_bytes", 64, "time_us", 12.5));
  json_array_foreach(json_object_get(v, "repetitions"), i, r)
      json_object_set_new(r, "gpu",
                          json_pack("{s:f, s:f, s:f, s:f}", "window_s", 0.3, "busy_percent", 40.0 + (double)i,
                                    "energy_j", 60.0, "memory_used_bytes", 1e9 + (double)i));
  json_t *d = made_document(variants, json_array(), &plain_method);
  v = json_array_get(json_object_get(d, "variants"), 1);
  near(ls_bench_number(v, "step_parts_us.exposed_comm"), 90);
  near(ls_bench_number(v, "step_parts_total_us"), 300);
  assert_string_equal(json_string_value(json_object_get(v, "step_parts_source")), "traced");
  near(ls_bench_number(json_array_get(json_object_get(v, "collectives"), 0), "time_us"), 12.5);
  near(ls_bench_number(v, "gpu.energy_j_per_step"), 0.6); /* 5 x 60 J over 5 x 100 steps, in 1.5 s */
  near(ls_bench_number(v, "gpu.busy_percent"), 42);
  near(ls_bench_number(v, "gpu.memory_used_bytes"), 1e9 + 4);
  assert_true(
      json_is_null(json_object_get(json_array_get(json_object_get(d, "variants"), 0), "step_parts_us")));
  json_decref(d);
  variants = two_variants(slow);
  json_object_set_new(json_array_get(json_object_get(json_array_get(variants, 0), "repetitions"), 0), "gpu",
                      json_pack("{s:f, s:f}", "window_s", 0.3, "energy_j", 60.0)); /* one of five */
  d = made_document(variants, json_array(), &plain_method);
  assert_null(json_object_get(json_array_get(json_object_get(d, "variants"), 0), "gpu"));
  json_decref(d);
}

/* The fastest product of the same device and thread count; other precisions and ops do not count. */
static void test_peak(void **state) {
  static ls_machine_t machine;
  ls_profile_t *profile;
  ls_machine_clear(&machine);
  assert_int_equal(ls_profile_create(NULL, &machine, &profile), LS_OK);
  const struct {
    const char *key;
    double ns;
  } times[] = {
      {"op cpu t1 linear f32 (10, 100) f32 (50, 100) f32 (50) -> f32 (10, 50)", 1e5},    /* 1e9 */
      {"op cpu t1 linear f32 (10, 100) f32 (500, 100) f32 (500) -> f32 (10, 500)", 1e5}, /* 1e10 */
      {"op cpu t2 linear f32 (10, 100) f32 (500, 100) f32 (500) -> f32 (10, 500)", 1e3},
      {"op cpu t1 linear i0=1 f32 (10, 100) f32 (500, 100) f32 (500) -> f32 (10, 500)", 1e3},
      {"op cpu tf32 t1 linear f32 (10, 100) f32 (500, 100) f32 (500) -> f32 (10, 500)", 1e4}, /* 1e11 */
      {"op cpu t1 linear_dx f32 (10, 100) f32 (500, 100) -> f32 (10, 500)", 1e3}};
  for (int i = 0; i < LS_COUNT(times); i++) {
    const ls_time_t time = {times[i].ns, times[i].ns, times[i].ns};
    assert_int_equal(ls_profile_put(profile, times[i].key, &time), LS_OK);
  }
  json_t *d = made_document(two_variants(slow), json_array(), &plain_method);
  ls_bench_peak(d, profile);
  const json_t *v = json_array_get(json_object_get(d, "variants"), 0);
  near(ls_bench_number(v, "utilisation.peak_flops_per_s"), 1e10);
  near(ls_bench_number(v, "utilisation.peak_flops_percent"), 100 * (2000 * 1e6 / 200) / 1e10);
  json_t *other = json_array_get(json_object_get(d, "variants"), 0);
  json_object_set_new(other, "precision", json_string("tf32"));
  ls_bench_peak(d, profile);
  near(ls_bench_number(other, "utilisation.peak_flops_per_s"), 1e11);
  json_decref(d);
  ls_profile_destroy(profile);
}

/* What lies between the parts and their step is rest; where no run was traced nobody reads about one. */
static void test_parts_add_up(void **state) {
  json_t *variants = two_variants(slow), *r, *v = json_array_get(variants, 0);
  size_t i;
  json_array_foreach(json_object_get(v, "repetitions"), i, r)
      json_object_set_new(r, "step_parts_us",
                          json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "input", 0.0, "forward", 40.0,
                                    "backward", 60.0, "exposed_comm", 50.0, "optimizer", 20.0, "rest", 10.0));
  json_object_set_new(json_array_get(variants, 1), "traced",
                      json_pack("{s:f, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "step_time_us", 300.0,
                                "step_parts_us", "input", 0.0, "forward", 40.0, "backward", 60.0,
                                "exposed_comm", 90.0, "optimizer", 20.0, "rest", 0.0));
  json_t *d = made_document(variants, json_array(), &plain_method);
  v = json_array_get(json_object_get(d, "variants"), 0);
  near(ls_bench_number(v, "step_parts_us.rest"), 30); /* 200 us a step, 180 in parts */
  near(ls_bench_number(v, "step_parts_total_us"), 200);
  const json_t *traced = json_array_get(json_object_get(d, "variants"), 1);
  near(ls_bench_number(traced, "step_parts_us.rest"), 90);
  near(ls_bench_number(traced, "step_parts_total_us"), 300);
  near(ls_bench_number(traced, "traced.step_parts_us.rest"), 0); /* raw values stay */
  json_decref(d);
}

/* A run that ended early says so in the document and in the reports; so does a variant that gave up. */
static void test_incomplete(void **state) {
  json_t *variants = two_variants(slow);
  ls_bench_method_t method = plain_method;
  method.incomplete = "interrupted";
  json_object_set_new(json_array_get(variants, 1), "incomplete", json_string("took too long"));
  json_t *d = made_document(variants, json_array(), &method);
  assert_string_equal(json_string_value(json_object_get(d, "incomplete")), "interrupted");
  assert_int_equal(strncmp(answer_of(d, 0), "**Incomplete**: ", 16), 0);
  json_decref(d);
  d = made_document(two_variants(slow), json_array(), &plain_method);
  assert_null(json_object_get(d, "incomplete"));
  json_decref(d);
}

/* The same batch, devices and strategy of another network, backend or precision is no prediction for it. */
static void expect_no_match(json_t *d, json_t *plan, const char *key, json_t *other) {
  json_t *own = json_incref(json_object_get(plan, key));
  json_object_set_new(plan, key, other);
  if (ls_bench_plan_merge(d, plan) != 0) fail_msg("a plan with another %s was taken", key);
  json_object_del(plan, key);
  if (own && ls_bench_plan_merge(d, plan) != 0) fail_msg("a plan without %s was taken", key);
  if (own) json_object_set_new(plan, key, own);
}

static void test_plan(void **state) {
  json_t *d = made_document(two_variants(slow), json_array(), &plain_method);
  json_t *plan = json_pack(
      "{s:i, s:i, s:s, s:s, s:[{s:i, s:i, s:s, s:{s:f, s:f, s:f}}, {s:i, s:i, s:s, s:{s:f, s:f, s:f}}, "
      "{s:i, s:s, s:n}]}",
      "global_batch", 64, "params", 500, "backend", "cpu", "precision", "fp32", "candidates", "devices", 2,
      "threads_per_rank", 1, "strategy", "ddp", "step_time_us", "predicted", 130.0, "low", 120.0, "high",
      140.0, "devices", 1, "threads_per_rank", 2, "strategy", "single", "step_time_us", "predicted", 180.0,
      "low", 170.0, "high", 190.0, "devices", 1, "strategy", "single", "step_time_us");
  assert_non_null(plan);
  assert_int_equal(ls_bench_plan_merge(d, plan), 1); /* the second one has other threads */
  const json_t *v = json_array_get(json_object_get(d, "variants"), 1);
  near(ls_bench_number(v, "predicted_step_time_us.predicted"), 130);
  near(ls_bench_number(v, "predicted_step_time_us.error_percent"), 4);
  expect_no_match(d, plan, "global_batch", json_integer(65));
  expect_no_match(d, plan, "params", json_integer(501));
  expect_no_match(d, plan, "backend", json_string("ref"));
  expect_no_match(d, plan, "precision", json_string("tf32"));
  json_object_set_new(json_array_get(json_object_get(d, "variants"), 1), "peer_access", json_string("on"));
  expect_no_match(d, plan, "peer_access", json_string("off"));
  json_t *measured = json_object_get(json_array_get(json_object_get(d, "variants"), 1), "step_time_us");
  json_object_set_new(measured, "low", json_real(-70)); /* few repetitions that lie far apart */
  assert_int_equal(ls_bench_plan_merge(d, plan), 1);
  json_decref(plan);
  json_decref(d);
}

/* Measurements that lie as far apart as noise can put them, or are too short to be seen: nothing is lost or no number. */
static void test_extreme_measurements_lose_nothing(void **state) {
  static const double times[] = {1e-9, 0.5, 100, 101, 3e4, 1e12};
  static const int counts[] = {1, 2, 3, 5};
  srand(1);
  for (int seed = 0; seed < 60; seed++) {
    double us[2][5];
    int count[2];
    for (int v = 0; v < 2; v++) {
      count[v] = counts[rand() % LS_COUNT(counts)];
      for (int i = 0; i < count[v]; i++)
        us[v][i] = times[rand() % LS_COUNT(times)] * (1 + 1e-3 * (rand() % 7));
    }
    json_t *variants = json_array(), *candidates = json_array(), *v, *answer;
    size_t k;
    for (int i = 0; i < 2; i++) {
      const char *strategy = i ? "ddp" : "single";
      json_array_append_new(variants, made_variant(64, 64, i + 1, strategy, us[i], count[i]));
      json_array_append_new(candidates, json_pack("{s:i, s:i, s:s, s:{s:f, s:f, s:f}}", "devices", i + 1,
                                                  "threads_per_rank", 1, "strategy", strategy, "step_time_us",
                                                  "predicted", us[i][0], "low", -us[i][0], "high", 1e13));
    }
    json_t *d = made_document(variants, json_array(), &plain_method);
    json_t *plan = json_pack("{s:i, s:i, s:s, s:s, s:o}", "global_batch", 64, "params", 500, "backend", "cpu",
                             "precision", "fp32", "candidates", candidates);
    assert_int_equal(ls_bench_plan_merge(d, plan), 2);
    ls_bench_conclude(d);
    json_array_foreach(json_object_get(d, "variants"), k, v) {
      assert_true(isfinite(ls_bench_number(v, "step_time_us.mean")));
      assert_true(isfinite(ls_bench_number(v, "predicted_step_time_us.error_percent")));
    }
    v = json_array_get(json_object_get(d, "variants"), 1);
    assert_true(isfinite(ls_bench_number(v, "scaling.speedup")));
    assert_true(*ls_bench_word(v, "against_reference.verdict"));
    assert_true(json_array_size(json_object_get(d, "answers")) > 0);
    json_array_foreach(json_object_get(d, "answers"), k, answer) {
      const char *text = ls_bench_word(answer, "text");
      if (!*text || strstr(text, "nan") || strstr(text, "inf")) fail_msg("%d: %s", seed, text);
    }
    json_decref(plan);
    json_decref(d);
  }
}

/* The verdict comes first, with its figure; an undecided one has 1 inside its interval. On a busy machine the answer says so,
 * and an efficiency above one is unknown: other programs made one rank slow, and the headline was a speed-up of 4.71x. */
static void test_answers(void **state) {
  static const double wide[] = {100, 300, 150, 210, 260}, disturbed[] = {590, 588, 592, 589, 591};
  const struct {
    const double *one, *two;
    bool busy;
    const char *verdict, *figure;
  } rows[] = {{slow, quick, false, "faster", " 1.60x (1."},
              {slow, wide, false, "undecided", " 0.98x ("},
              {disturbed, quick, false, "faster", " 4.7"},
              {disturbed, quick, true, "faster", " (measured on a busy machine): 4.7"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    json_t *variants = json_array();
    json_array_append_new(variants, made_variant(64, 64, 1, "single", rows[i].one, 5));
    json_array_append_new(variants, made_variant(64, 64, 2, "ddp", rows[i].two, 5));
    json_t *d = made_document(variants, json_array(), &plain_method);
    ls_bench_add_run(d, json_pack("{s:f, s:i}", "load_before", rows[i].busy ? 5.5 : 0.1, "processors", 2));
    assert_non_null(strstr(answer_of(d, rows[i].busy), rows[i].figure));
    const json_t *answer = json_array_get(json_object_get(d, "answers"), rows[i].busy),
                 *v = json_array_get(json_object_get(d, "variants"), 1),
                 *scaling = json_object_get(v, "scaling");
    double low, high;
    assert_string_equal(ls_bench_word(answer, "verdict"), rows[i].verdict);
    assert_int_equal(json_is_null(json_object_get(scaling, "efficiency")), rows[i].busy);
    ls_bench_speedup_interval(v, &low, &high);
    assert_int_equal(low < 1, !strcmp(rows[i].verdict, "undecided"));
    near(ls_bench_number(scaling, "interval_low"), low);
    assert_true(isfinite(high) ? ls_bench_number(scaling, "interval_high") == high
                               : json_is_null(json_object_get(scaling, "interval_high")));
    json_decref(d);
  }
}

static void test_one_repetition(void **state) {
  json_t *variants = json_array();
  json_array_append_new(variants, made_variant(8, 8, 1, "single", slow, 1));
  json_array_append_new(variants, made_variant(8, 8, 2, "ddp", quick, 1));
  json_t *d = made_document(variants, json_array(), &plain_method);
  const json_t *v = json_array_get(json_object_get(d, "variants"), 1);
  assert_true(json_is_null(json_object_get(json_object_get(v, "step_time_us"), "low")));
  near(ls_bench_number(v, "scaling.speedup"), 1.6);
  ls_bench_conclude(d);
  assert_true(json_is_null(ls_bench_at(v, "scaling.interval_low")));
  json_decref(d);
}

static void write_file(const char *path, const char *text) {
  assert_int_equal(ls_file_write(NULL, path, text, strlen(text)), LS_OK);
}

static void test_read_back(void **state) {
  char path[] = "/tmp/lockstep-test-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  static const char *const bad[] = {
      "",
      "[1",
      "{}",
      "{\"command\": \"train\"}",
      "{\"command\": \"bench\", \"version\": 9}",
      "{\"command\": \"bench\", \"version\": 1, \"variants\": []}",
      "{\"command\": \"bench\", \"version\": 1, \"variants\": [{\"name\": \"a\"}]}",
      "{\"command\": \"bench\", \"version\": 1, \"variants\": [3]}",
#define WITH(member)                                                                                         \
  "{\"command\": \"bench\", \"version\": 1, \"variants\": [{\"name\": \"a\", \"repetitions\": []}], " member \
  "}"
      WITH("\"method\": []"),
      WITH("\"method\": {\"steps\": \"many\"}"),
      WITH("\"method\": {\"steps\": -3}"),
      WITH("\"control\": {\"false_alarm_rate\": -0.5}"),
      WITH("\"control\": null"),
      WITH("\"machine\": 3"),
      WITH("\"limits\": {\"cpu\": {}}"),
      WITH("\"run\": \"x\""),
      WITH("\"answers\": {}")};
  json_t *d = NULL;
  for (int i = 0; i < LS_COUNT(bad); i++) {
    write_file(path, bad[i]);
    assert_int_equal(ls_bench_document_read(NULL, path, &d), LS_ERR_DATA);
    assert_null(d);
  }
  json_t *made = made_document(two_variants(slow), json_array(), &plain_method);
  char *text = json_dumps(made, 0);
  write_file(path, text);
  assert_int_equal(ls_bench_document_read(NULL, path, &d), LS_OK);
  const char *found;
  double *values;
  int64_t count;
  assert_int_equal(ls_bench_document_series(NULL, d, "batch 64, 2 x ddp", &found, &values, &count), LS_OK);
  assert_true(count == 5 && values[0] == 125);
  ls_free(values);
  assert_int_equal(ls_bench_document_series(NULL, d, "batch 65", &found, &values, &count), LS_ERR_NOT_FOUND);
  json_decref(d);
  free(text);
  json_decref(made);
  unlink(path);
  assert_int_equal(ls_bench_document_read(NULL, path, &d), LS_ERR_NOT_FOUND);
}

/* Every member of a stored document in turn is gone, or is no longer what it was: there are still answers. */
static void break_members(const json_t *whole, json_t *at) {
  json_t *const broken[] = {NULL, json_null(), json_pack("[i, s]", 1, "x"), json_string("x"),
                            json_real(-1e300)};
  json_t *before = json_copy(at), *value; /* the members of `at` change their order */
  const char *key;
  json_object_foreach(before, key, value) {
    for (int i = 0; i < LS_COUNT(broken); i++) {
      if (broken[i])
        json_object_set(at, key, broken[i]);
      else
        json_object_del(at, key);
      json_t *own = json_deep_copy(whole);
      ls_bench_conclude(own);
      assert_true(json_array_size(json_object_get(own, "answers")) > 0);
      json_decref(own);
    }
    json_object_set(at, key, value);
    break_members(whole, json_is_array(value) ? json_array_get(value, json_array_size(value) - 1) : value);
  }
  for (int i = 1; i < LS_COUNT(broken); i++)
    json_decref(broken[i]);
  json_decref(before);
}

static void test_any_document_has_answers(void **state) {
  json_t *d = made_document(two_variants(spiked), json_array(), &plain_method);
  json_t *v = json_array_get(json_object_get(d, "variants"), 1);
  json_object_set_new(v, "validation", json_pack("{s:b, s:b}", "same_network", 1, "identical", 0));
  json_object_set_new(v, "timeline",
                      json_pack("[{s:s, s:s, s:f, s:f}]", "lane", "compute", "part", "forward", "start_us",
                                0.0, "end_us", 50.0));
  json_object_set_new(v, "curves", json_pack("{s:[f,f]}", "loss", 1.0, 0.5));
  break_members(d, d);
  json_decref(d);
}

static void test_failed_allocations(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  json_t *variants = two_variants(slow), *control = json_pack("[f]", 0.8);
  json_t *d = NULL;
  ls_ctx_fail_alloc(ctx, 0);
  assert_int_equal(ls_bench_document(ctx, &plain_method, variants, control, &d), LS_OK);
  json_decref(d);
  int64_t allocations = ls_ctx_fail_alloc(ctx, 0);
  assert_true(allocations > 20);
  for (int64_t n = 1; n <= allocations; n++) {
    json_t *sentinel = json_null();
    d = sentinel;
    ls_ctx_fail_alloc(ctx, n);
    assert_int_equal(ls_bench_document(ctx, &plain_method, variants, control, &d), LS_ERR_MEMORY);
    assert_ptr_equal(d, sentinel);
  }
  json_decref(control);
  json_decref(variants);
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, test_strong_scaling, test_numbers_as_people_read_them, test_weak_scaling, test_outliers,
      test_control, test_void_runs, test_traced_parts, test_parts_add_up, test_incomplete, test_peak,
      test_plan, test_extreme_measurements_lose_nothing, test_answers, test_one_repetition,
      test_any_document_has_answers, test_read_back, test_failed_allocations)
