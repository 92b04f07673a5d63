/* Which rank holds the others up, and why: steps with noise from a seed, on the page of a run's ranks. */
#include "base/file.h"
#include "base/rng.h"
#include "monitor/measure.h"

#include "unit.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { RUNS = 50, STEPS = 400, SLOW_FROM = 200 };

static char *dir;

static int make_dir(void **state) {
  return ls_dir_temporary(NULL, "lockstep-straggler", &dir) == LS_OK ? 0 : -1;
}
static int remove_dir(void **state) {
  ls_status_t status = ls_dir_remove(NULL, dir);
  ls_free(dir);
  return status == LS_OK ? 0 : -1;
}

typedef struct {
  int ranks;
  double noise; /* standard deviation of a step */
  int slow;     /* from SLOW_FROM on 10 % slower; -1: nobody */
} scene_t;

static double uniform(uint64_t seed, int64_t at) {
  return (double)ls_rng(seed, 99, (uint64_t)at).v[0] / 4294967296.0;
}

/* Steps of 1 ms; one in a hundred is three times as long, as where something else ran for a moment. */
static int64_t step_ns(const scene_t *scene, uint64_t seed, int step, int rank) {
  const int64_t at = 16 * ((int64_t)step * scene->ranks + rank);
  double sum = -6;
  for (int i = 0; i < 12; i++)
    sum += uniform(seed, at + i);
  const double slower = rank == scene->slow && step >= SLOW_FROM ? 1.1 : 1,
               hit = uniform(seed, at + 12) < 0.01 ? 3 : 1;
  return (int64_t)(1e6 * slower * hit * (1 + scene->noise * sum));
}

/* How many steps after the rank became slow it was named; -1: never. *wrong: steps in which another rank, or nobody's
 * slowness, was named. */
static int play(const scene_t *scene, uint64_t seed, int *wrong) {
  ls_page_t *page;
  ls_straggler_t *straggler;
  ls_straggler_is_t is;
  int named_after = -1;
  *wrong = 0;
  assert_int_equal(ls_page_open(NULL, dir, scene->ranks, &page), LS_OK);
  assert_int_equal(ls_straggler_create(NULL, scene->ranks, &straggler), LS_OK);
  for (int rank = 0; rank < scene->ranks; rank++)
    ls_page_begin(ls_page_line(page, rank), 1);
  for (int step = 0; step < STEPS; step++) {
    for (int rank = 0; rank < scene->ranks; rank++)
      ls_page_timed(page, rank, step_ns(scene, seed, step, rank), 0);
    if (!ls_straggler_look(straggler, page, &is) || !is.named) continue;
    const bool right = is.rank == scene->slow && step >= SLOW_FROM;
    *wrong += !right;
    if (right && named_after < 0) named_after = step + 1 - SLOW_FROM;
  }
  ls_straggler_destroy(straggler);
  ls_page_close(page);
  return named_after;
}

static void ten_percent_is_named_within_20_steps_and_nobody_else_is(void **state) {
  static const scene_t scenes[] = {{2, 0.01, 1}, {2, 0.02, 0}, {8, 0.02, 5}};
  for (int i = 0; i < LS_COUNT(scenes); i++) {
    int longest = 0, wrong, late = 0, wrong_runs = 0;
    for (int run = 0; run < RUNS; run++) {
      int after = play(&scenes[i], 1000 + (uint64_t)run, &wrong);
      late += after < 0 || after > LS_STRAGGLER_STEPS;
      wrong_runs += wrong > 0;
      if (after > longest) longest = after;
    }
    scene_t none = scenes[i];
    none.slow = -1;
    for (int run = 0; run < RUNS; run++) {
      assert_int_equal(play(&none, 2000 + (uint64_t)run, &wrong), -1);
      wrong_runs += wrong > 0;
    }
    print_message("%d ranks, noise %g: named after at most %d steps\n", scenes[i].ranks, scenes[i].noise,
                  longest);
    assert_int_equal(late, 0);
    assert_int_equal(wrong_runs, 0);
  }
}

/* Where noise hides 10 %, nobody is accused. */
static void noise_is_no_straggler(void **state) {
  const scene_t scene = {4, 0.15, -1};
  int wrong, runs = 0;
  for (int run = 0; run < RUNS; run++) {
    play(&scene, 3000 + (uint64_t)run, &wrong);
    runs += wrong > 0;
  }
  assert_int_equal(runs, 0);
}

/* Rank 1 of two needs a tenth more, with something else that explains it, or not. */
static void the_cause_is_what_differs(void **state) {
  static const struct {
    int limits, clock_ppm, waiting_ppm, input_ns;
    int others_limits;
    ls_straggler_cause_t cause;
    int loop_ns; /* the other's: 1000 */
  } rows[] = {
      {0, 900000, 0, 0, 0, LS_STRAGGLER_OWN},
      {0, 900000, 0, 80000, 0, LS_STRAGGLER_INPUT},
      {LS_LIMIT_HEAT, 800000, 0, 0, 0, LS_STRAGGLER_HEAT},
      {LS_LIMIT_HEAT, 900000, 0, 0, LS_LIMIT_HEAT, LS_STRAGGLER_OWN}, /* both are hot */
      {LS_LIMIT_POWER, 900000, 0, 0, 0, LS_STRAGGLER_CLOCK},
      {0, 810000, 0, 0, 0, LS_STRAGGLER_CLOCK},
      {0, 0, 100000, 0, 0, LS_STRAGGLER_LOAD},
      {0, 900000, 20000, 0, 0, LS_STRAGGLER_OWN},
      {0, 0, 0, 0, 0, LS_STRAGGLER_PROCESSOR, 1080},
      {0, 0, 0, 0, 0, LS_STRAGGLER_OWN, 1020},
      {0, 0, 100000, 0, 0, LS_STRAGGLER_LOAD, 1080},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_page_t *page;
    ls_straggler_t *straggler;
    ls_straggler_is_t is;
    assert_int_equal(ls_page_open(NULL, dir, 2, &page), LS_OK);
    assert_int_equal(ls_straggler_create(NULL, 2, &straggler), LS_OK);
    for (int rank = 0; rank < 2; rank++) {
      ls_page_speed_t *speed = ls_page_speed(page, rank);
      ls_page_begin(ls_page_line(page, rank), 1);
      atomic_store(&speed->limits, rank == 1 ? rows[i].limits : rows[i].others_limits);
      atomic_store(&speed->clock_ppm, rank == 1 ? rows[i].clock_ppm : 900000);
      atomic_store(&speed->loop_ns, rank == 1 ? rows[i].loop_ns : 1000);
      atomic_store(&speed->waiting_ppm, rank == 1 ? rows[i].waiting_ppm : 0);
      for (int step = 0; step < LS_STRAGGLER_STEPS; step++)
        ls_page_timed(page, rank, rank == 1 ? 1100000 : 1000000, rank == 1 ? rows[i].input_ns : 0);
    }
    assert_true(ls_straggler_look(straggler, page, &is) && is.named);
    assert_int_equal(is.rank, 1);
    assert_true(fabs(is.ratio - 1.1) < 1e-9);
    if (is.cause != rows[i].cause) fail_msg("row %d: %s", i, ls_straggler_cause_name(is.cause));
    ls_straggler_destroy(straggler);
    ls_page_close(page);
  }
}

/* Named at 5 % more, no longer at less than 3 %; a rank that begins again begins with nothing. The record says all. */
static void a_record_names_the_straggler_until_it_has_caught_up(void **state) {
  const ls_monitor_state_t none = {.val_loss = NAN};
  static const struct {
    int64_t slow_ns;
    bool named;
  } rows[] = {{1000000, false}, {1040000, false}, {1060000, true},
              {1040000, true},  {1020000, false}, {1040000, false}};
  ls_page_t *page;
  ls_measure_t m;
  ls_monitor_sample_t s;
  assert_int_equal(ls_page_open(NULL, dir, 2, &page), LS_OK);
  for (int rank = 0; rank < 2; rank++)
    ls_page_begin(ls_page_line(page, rank), 1);
  ls_monitor_run_t run = {.ranks = 2, .resumed_from = -1, .page = page, .gpu = -1};
  assert_int_equal(ls_measure_begin(NULL, &m, dir, &run), LS_OK);
  ls_measure_take(&m, &none, &s);
  assert_true(isnan(s.straggler) && isnan(s.straggler_ratio));
  for (int i = 0; i < LS_COUNT(rows); i++) {
    for (int step = 0; step < LS_STRAGGLER_STEPS; step++) {
      ls_page_timed(page, 0, 1000000, 0);
      ls_page_timed(page, 1, rows[i].slow_ns, rows[i].slow_ns - 1000000);
    }
    ls_measure_take(&m, &none, &s);
    if (s.straggler != rows[i].named) fail_msg("row %d: %g", i, s.straggler);
    assert_true(i == 0 || s.straggler_rank == 1);
    assert_true(rows[i].named ? s.straggler_cause == LS_STRAGGLER_INPUT : isnan(s.straggler_cause));
  }
  char text[LS_METRIC_TEXT_BYTES];
  s.straggler_cause = LS_STRAGGLER_LOAD;
  assert_string_equal(ls_metric_text(ls_metric_find("straggler_cause", 15), &s, text), "other load");
  ls_page_begin(ls_page_line(page, 1), 1);
  ls_measure_take(&m, &none, &s);
  assert_true(isnan(s.straggler));
  ls_measure_end(&m);
  run.ranks = 1; /* alone: nobody is slower */
  assert_int_equal(ls_measure_begin(NULL, &m, dir, &run), LS_OK);
  ls_measure_take(&m, &none, &s);
  assert_true(isnan(s.straggler_ratio) && isnan(s.straggler_rank));
  ls_measure_end(&m);
  ls_page_close(page);
}

static void put(const char *name, const char *text) {
  char path[512], *parent;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  parent = ls_path_parent(NULL, path);
  assert_int_equal(ls_dir_make(NULL, parent), LS_OK);
  ls_free(parent);
  assert_int_equal(ls_file_replace(NULL, path, text, strlen(text)), LS_OK);
}

/* Of several processors the loop would time one, and a step may run on another. */
static void a_processor_is_timed_where_a_process_has_one(void **state) {
  ls_processor_t now;
  cpu_set_t all, one;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  ls_processor_read(dir, &now);
  assert_int_equal(isnan(now.loop_ns), CPU_COUNT(&all) > 1);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  ls_processor_read(dir, &now);
  assert_true(now.loop_ns > 0);
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void what_slows_a_processor_down_is_read_from_the_kernel(void **state) {
  ls_processor_t now;
  ls_processor_read(dir, &now);
  assert_true(isnan(now.waited_ns) && isnan(now.clock_ratio) && now.heat_events == -1);
  put("proc/self/schedstat", "100 2500 7\n");
  for (int i = 0; i < 64; i++) { /* whichever of them this process may use */
    char name[128];
    snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/", i);
    char *end = name + strlen(name);
    snprintf(end, 64, "cpufreq/scaling_cur_freq");
    put(name, "2000000\n");
    snprintf(end, 64, "cpufreq/cpuinfo_max_freq");
    put(name, "4000000\n");
    snprintf(end, 64, "thermal_throttle/core_throttle_count");
    put(name, "3\n");
  }
  ls_processor_read(dir, &now);
  assert_true(now.waited_ns == 2500 && now.clock_ratio == 0.5);
  assert_true(now.heat_events >= 3 && fmod(now.heat_events, 3) == 0);
}

TESTS(make_dir, remove_dir, ten_percent_is_named_within_20_steps_and_nobody_else_is, noise_is_no_straggler,
      the_cause_is_what_differs, a_record_names_the_straggler_until_it_has_caught_up,
      a_processor_is_timed_where_a_process_has_one, what_slows_a_processor_down_is_read_from_the_kernel)
