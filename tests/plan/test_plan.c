/* Whole plans from a profile filled by hand: order, choice, reasons, crossover. Nothing is timed here. */
#include "setup.h"

#include <math.h>
#include <string.h>

static const ls_plan_options_t untimed = {
    .devices_max = 2, .budget_s = 1e-9, .samples = 640, .no_crossover = true};

static const char more[] = "train: {batch: 64, steps: 1000}\nparallel: {backend: ref, shard: none}\n"
                           "cost: {power_w: 500, price_kwh: 0.2, device_hour: 3}\n";

/* One device and two, timed at batch 64; an all-reduce takes comm_ns. */
static void fill(double row_ns, double comm_ns, int *tasks, int *fixed) {
  ls_planner_t p = small_planner(ctx, config, profile);
  for (int devices = 1; devices <= 2; devices++) {
    ls_candidate_t c = ls_candidate_make(&p, devices, NULL);
    *tasks = fill_timing(&p, &c, &(pace_t){row_ns, 100, 0, devices > 1 ? comm_ns : 0}, fixed);
  }
  fill_all_reduce(profile, 2, comm_ns);
}

static const ls_candidate_t *on(const ls_plan_t *plan, int devices) {
  for (int i = 0; i < plan->count; i++)
    if (ls_candidate_devices(&plan->candidate[i]) == devices) return &plan->candidate[i];
  return NULL;
}

static void two_devices_win_when_talking_is_cheap(void **state) {
  if (ls_cpu_count() < 2) skip();
  int tasks, fixed;
  fill(100, 1000, &tasks, &fixed);
  ls_plan_t plan;
  assert_int_equal(ls_plan_make(ctx, config, profile, &untimed, &plan), LS_OK);
  assert_int_equal(plan.timed, 0);
  assert_false(plan.profile_changed);
  assert_int_equal(plan.choice, 0);
  assert_int_equal(ls_candidate_devices(&plan.candidate[0]), 2);
  assert_string_equal(plan.candidate[0].config.parallel.strategy, "ddp");
  const ls_candidate_t *one = on(&plan, 1), *two = on(&plan, 2);
  assert_true(fabs(one->speedup - 1) < 1e-12 && fabs(one->efficiency - 1) < 1e-12);
  assert_true(fabs(two->speedup - one->step.ns / two->step.ns) < 1e-12);
  assert_true(fabs(two->efficiency - two->speedup / 2) < 1e-12);
  assert_non_null(strstr(one->why, "slower"));
  /* 10 steps an epoch; two devices of 500 W at 0.2 a kWh and 3 an hour */
  double hours = 10 * two->step.ns * 1e-9 / 3600;
  assert_true(fabs(two->epoch_s - hours * 3600) < 1e-12);
  assert_true(fabs(two->epoch_kwh - hours) < 1e-15);
  assert_true(fabs(two->epoch_cost - hours * 6.2) < 1e-12);
  ls_plan_release(&plan);
}

/* Of what moves the same memory and was measured, the cheapest is chosen, and training is told. */
static void a_cheaper_transport_is_chosen(void **state) {
  if (ls_cpu_count() < 2) skip();
  static const ls_transport_t cheap = {.name = "cheap"}, gpu = {.name = "far", .backend = "cuda"};
  int tasks, fixed;
  fill(100, 5000, &tasks, &fixed);
  ls_transport_register(&cheap);
  ls_transport_register(&gpu);
  ls_plan_t plan;
  assert_int_equal(ls_plan_make(ctx, config, profile, &untimed, &plan), LS_OK);
  const int without = plan.count;
  assert_string_equal(plan.candidate[0].transport->name, "mpi"); /* the other was not measured */
  double slow_ns = plan.candidate[0].step.ns;
  ls_plan_release(&plan);
  static const char *const others[] = {"cheap", "far"};
  for (int i = 0; i < LS_COUNT(others); i++) {
    char key[LS_PROFILE_KEY_BYTES];
    ls_curve_point_t points[] = {{64, {1000, 1000, 1000}}, {1e9, {1000, 1000, 1000}}};
    ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, others[i], "all-reduce", 2});
    assert_int_equal(ls_profile_put_curve(profile, key, points, LS_COUNT(points)), LS_OK);
  }
  assert_int_equal(ls_plan_make(ctx, config, profile, &untimed, &plan), LS_OK);
  const ls_candidate_t *best = &plan.candidate[0];
  assert_ptr_equal(best->transport, &cheap);
  assert_true(plan.count == without + 1 && fabs(slow_ns - best->step.ns - 4000) < 1);
  const char **set = ls_plan_sets(&plan.arena, &plan, best);
  int told = 0;
  for (int i = 0; set[i]; i++)
    told += !strcmp(set[i], "parallel.transport=cheap");
  assert_int_equal(told, 1);
  assert_non_null(strstr(ls_plan_name(&plan.arena, best), ", cheap"));
  assert_string_equal(best->config.parallel.transport, "cheap");
  ls_plan_release(&plan);
}

static void one_device_wins_when_talking_is_dear(void **state) {
  int tasks, fixed;
  fill(100, 1e6, &tasks, &fixed);
  ls_plan_t plan;
  assert_int_equal(ls_plan_make(ctx, config, profile, &untimed, &plan), LS_OK);
  assert_int_equal(ls_candidate_devices(&plan.candidate[plan.choice]), 1);
  for (int i = 1; i < plan.count; i++) {
    assert_true(plan.candidate[i].step.ns >= plan.candidate[i - 1].step.ns);
    assert_non_null(strstr(plan.candidate[i].why, "exposed communication"));
  }
  ls_plan_release(&plan);
}

/* As if so many devices had been timed in blocks of as many steps, each of step_us; in `slow` blocks ranks waited, and their
 * steps took slow_us on average. */
static void fill_blocks(int devices, double step_us, double slow_us, int slow) {
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c = ls_candidate_make(&p, devices, NULL);
  char name[LS_FAMILY_BYTES];
  ls_timing_block_t block[2 * LS_TIMING_BLOCKS];
  int fixed;
  fill_timing(&p, &c, &(pace_t){100, 100, 0, 0}, &fixed);
  for (int b = 0; b < LS_COUNT(block); b++)
    block[b] = (ls_timing_block_t){.steps = 1000,
                                   .ns = llround(1e6 * (b < slow ? slow_us : step_us)),
                                   .kept = 1,
                                   .step_ns = {step_us * 1e3}};
  ls_cost_timing(p.backend, &c, name);
  assert_int_equal(ls_cost_keep_step(ctx, profile, name, c.rows, block, LS_COUNT(block), true), LS_OK);
}

/* "ddp, 2 devices: 15.8 us (90 %: 13.4 to 152.4)" was chosen against 27 us that were safe, and took 51.2. */
static void a_short_median_with_a_long_tail_does_not_win(void **state) {
  if (ls_cpu_count() < 2) skip();
  static const int slow[] = {0, 1, 8}; /* of 16 */
  fill_blocks(1, 27, 27, 0);
  fill_all_reduce(profile, 2, 1000);
  for (int i = 0; i < LS_COUNT(slow); i++) {
    ls_plan_t plan;
    fill_blocks(2, 15.8, 152.4, slow[i]);
    assert_int_equal(ls_plan_make(ctx, config, profile, &untimed, &plan), LS_OK);
    const ls_candidate_t *best = &plan.candidate[plan.choice], *one = on(&plan, 1), *two = on(&plan, 2);
    assert_true(two->step.ns == 15800);
    assert_true(fabs(two->mean.ns - 1e3 * (15.8 + slow[i] * (152.4 - 15.8) / 16)) < 1);
    assert_true(fabs(two->speedup - one->mean.ns / two->mean.ns) < 1e-12);
    assert_int_equal(ls_candidate_devices(best), i == 0 ? 2 : 1);
    if (i > 0) assert_non_null(strstr(two->why, "its steps vary"));
    if (i == 1) /* less on average, and nobody knows for how long */
      assert_true(two->mean.ns < one->mean.ns && two->mean.high_ns > one->mean.high_ns);
    assert_true(i == 1 ? strstr(best->why, "not sure") != NULL : best->why[0] == '\0');
    ls_plan_release(&plan);
  }
}

static void what_does_not_fit_is_not_chosen(void **state) {
  if (ls_cpu_count() < 2) skip();
  int tasks, fixed;
  fill(100, 1000, &tasks, &fixed);
  ls_plan_options_t options = untimed;
  ls_plan_t plan;
  assert_int_equal(ls_plan_make(ctx, config, profile, &options, &plan), LS_OK);
  int64_t two = on(&plan, 2)->device_bytes, one = on(&plan, 1)->device_bytes;
  assert_true(on(&plan, 1)->library_assumed);
  ls_plan_release(&plan);
  options.memory_bytes = one; /* half of it for each of two, which need more than half */
  assert_true(2 * two > one);
  assert_int_equal(ls_plan_make(ctx, config, profile, &options, &plan), LS_OK);
  assert_int_equal(ls_candidate_devices(&plan.candidate[plan.choice]), 1);
  assert_int_equal(plan.candidate[plan.choice].config.train.accumulate, 1);
  ls_plan_release(&plan);
  options.memory_bytes = 16;
  assert_int_equal(ls_plan_make(ctx, config, profile, &options, &plan), LS_ERR_MEMORY);
  assert_non_null(strstr(ls_ctx_error(ctx), "fits"));
}

static void what_the_host_lacks_is_named(void **state) {
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_backend_t device = ls_backend_ref;
  device.host_memory = device.host_processors = false; /* samples and what is copied stay with the host */
  p.backend = &device;
  p.data.samples_bytes = 1000;
  config->train.batch = 1;
  ls_candidate_t c = ls_candidate_make(&p, 1, NULL);
  assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
  assert_true(c.fits && c.need.host_bytes > 1);
  p.host_memory_bytes = 1;
  assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
  assert_true(!c.fits && c.host_short);
  p.memory_bytes = 1; /* what the device lacks comes first */
  assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
  assert_true(!c.fits && !c.host_short);
}

/* A thousand micro-batches need more for their schedule than they save. */
static void what_needs_least_is_shown_where_nothing_fits(void **state) {
  ls_planner_t p = small_planner(ctx, config, profile);
  config->train.batch = 512;
  ls_candidate_t whole = ls_candidate_make(&p, 1, NULL), c = whole;
  assert_int_equal(ls_candidate_fit(&p, &whole), LS_OK);
  assert_true(whole.fits && whole.config.train.accumulate == 1);
  p.memory_bytes = 16;
  assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
  assert_false(c.fits);
  assert_in_range(c.config.train.accumulate, 1, 64);
  assert_true(c.device_bytes <= whole.device_bytes);
}

/* At exactly what is needed it fits, with one byte less it does not: for one device and for two, whose ranks
 * share the host's memory and one copy of the samples. A batch of one sample for each rank cannot be halved. */
static void fits_is_exact_to_the_byte(void **state) {
  if (ls_cpu_count() < 2) skip();
  for (int devices = 1; devices <= 2; devices++) {
    ls_planner_t p = small_planner(ctx, config, profile);
    config->train.batch = devices;
    p.data.samples_bytes = 5000;
    ls_candidate_t c = ls_candidate_make(&p, devices, NULL);
    assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
    assert_int_equal(c.need.samples_ranks, devices);
    int64_t need = c.device_bytes * devices - 5000 * (devices - 1);
    assert_true(c.fits && c.rows == 1);
    p.memory_bytes = need;
    assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
    assert_true(c.fits);
    p.memory_bytes = need - 1;
    assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
    assert_false(c.fits);
  }
}

/* What the profile says about libraries counts, and is not guessed for more ranks than were measured. */
static void libraries_count_as_they_were_measured(void **state) {
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_candidate_t c = ls_candidate_make(&p, 1, NULL);
  bool assumed;
  assert_int_equal(ls_profile_put(profile, "libraries ref w1", &(ls_time_t){5000, 5000, 5000}), LS_OK);
  assert_int_equal(ls_profile_put(profile, "libraries ref w2", &(ls_time_t){7000, 7000, 7000}), LS_OK);
  assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
  assert_false(c.library_assumed);
  assert_int_equal(c.library_bytes, 5000);
  assert_int_equal(c.margin_bytes, 6000000);
  assert_int_equal(c.device_bytes, c.need.device_bytes + 5000);
  /* reading counts where it takes more than what comes after it */
  int64_t library_bytes, need = c.need.device_bytes;
  const struct {
    int ranks;
    int64_t process, reading, library, bytes;
  } cases[] = {
      {1, 0, need - 1, 5000, need + 5000},
      {1, 0, need + 1, 5000, need + 5001},
      /* a timed step: more than probe's training is shared by the ranks that ran in one process, less is not */
      {1, 5600, 0, 5600, need + 5600},
      {2, 5600, 0, 7300, need + 7300},
      {2, 4600, 0, 6600, need + 6600}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    c.need.reading_bytes = cases[i].reading;
    assert_int_equal(ls_plan_device_bytes(profile, &ls_backend_ref, cases[i].ranks, &c.need, cases[i].process,
                                          &library_bytes, &assumed),
                     cases[i].bytes);
    assert_int_equal(library_bytes, cases[i].library);
  }
  /* a candidate counts its own timing, else the first one's of the plan */
  p.process_bytes = 5900;
  c.need.reading_bytes = 0;
  assert_int_equal(ls_candidate_memory(&p, &c), LS_OK);
  assert_int_equal(c.library_bytes, 5900);
  assert_int_equal(ls_candidate_name(&p, &c), LS_OK);
  assert_int_equal(ls_cost_keep_process_bytes(profile, c.family, c.rows, 5600), LS_OK);
  assert_int_equal(ls_candidate_memory(&p, &c), LS_OK);
  assert_int_equal(c.library_bytes, 5600);
  const ls_train_memory_t captured = {.captured_bytes = 11, .side_bytes = 13};
  assert_int_equal(ls_plan_libraries(profile, &ls_backend_ref, 1, &captured, &assumed), 5000 + 11 + 13);
  assert_false(assumed);
  assert_int_equal(ls_plan_libraries(profile, &ls_backend_ref, 3, NULL, &assumed), 7000);
  assert_true(assumed);
  assert_true(ls_plan_libraries(NULL, &ls_backend_ref, 1, NULL, &assumed) > 7000);
  assert_true(assumed);
}

/* What is planned is what would be trained: data demanded on the device are counted there, and priced apart.
 */
static void data_stay_where_they_will(void **state) {
  ls_config_t of = *config;
  char family[2][LS_FAMILY_BYTES];
  for (int there = 0; there < 2; there++) {
    of.data.resident = there ? LS_RESIDENT_TRUE : LS_RESIDENT_AUTO;
    ls_planner_t p = small_planner(ctx, &of, profile);
    p.data_rows = 640;
    ls_candidate_t c = ls_candidate_make(&p, 1, NULL);
    assert_int_equal(ls_candidate_fit(&p, &c), LS_OK);
    assert_int_equal(c.data_rows, there ? 640 : 0);
    assert_int_equal(ls_fit_bytes(&c.fit, "data"), there ? 640 * (6 + 2) * 4 : 0);
    assert_int_equal(c.config.data.resident, there ? LS_RESIDENT_TRUE : LS_RESIDENT_FALSE);
    assert_int_equal(ls_candidate_name(&p, &c), LS_OK);
    memcpy(family[there], c.family, sizeof c.family);
  }
  assert_string_not_equal(family[0], family[1]);
  ls_plan_options_t options = untimed; /* what is demanded and does not fit is no candidate */
  ls_plan_t plan;
  options.memory_bytes = 640 * (6 + 2) * 4 - 1;
  assert_int_equal(ls_plan_make(ctx, &of, profile, &options, &plan), LS_ERR_MEMORY);
  assert_non_null(strstr(ls_ctx_error(ctx), "fits"));
}

/* With 10 samples' worth of saving a sample and the rest equal, two win where tasks * row * B / 2 > comm. */
static void crossover_is_where_the_prices_cross(void **state) {
  if (ls_cpu_count() < 2) skip();
  int tasks, fixed;
  const int64_t batches[] = {2, 65536};
  for (int i = 0; i < LS_COUNT(batches); i++) {
    config->train.batch = batches[i];
    fill(100, 200000, &tasks, &fixed);
  }
  double crossing = 200000 / (tasks * 100.0 / 2);
  ls_planner_t p = small_planner(ctx, config, profile);
  ls_crossover_t c;
  assert_int_equal(ls_plan_crossover(&p, 2, 65536, &c), LS_OK);
  assert_true(c.known && c.devices == 2);
  assert_true((double)c.batch >= crossing * 0.9 && (double)c.batch <= crossing * 1.1 + 2);
  for (int i = 0; i < LS_COUNT(batches); i++) {
    config->train.batch = batches[i];
    fill(100, 1e12, &tasks, &fixed);
  }
  assert_int_equal(ls_plan_crossover(&p, 2, 65536, &c), LS_OK);
  assert_true(c.known && c.batch == -1);
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  p.arena = &arena;
  assert_int_equal(ls_plan_crossover(&p, 3, 65536, &c), LS_OK); /* no curve of three ranks */
  assert_false(c.known);
  ls_arena_release(&arena);
}

/* A plan's candidate is told to training, and to people, by the rows in which it differs. */
static void a_candidate_says_what_it_chooses(void **state) {
  ls_plan_t plan = {.config = *config};
  ls_candidate_t c = {.config = *config, .host = true}, other;
  ls_parallel_config_t *parallel = &c.config.parallel;
  parallel->ranks = 4;
  parallel->threads = 3;
  parallel->strategy = "ddp";
  parallel->options.bucket_bytes = 99;
  parallel->options.side_lane = LS_SIDE_OFF;
  c.config.train.accumulate = 8;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  static const char *const expected[] = {
      "parallel.strategy=ddp",    "parallel.ranks=4",       "parallel.backend=ref", "parallel.threads=3",
      "parallel.bucket_bytes=99", "parallel.side_lane=off", "train.accumulate=8"};
  const char **set = ls_plan_sets(&arena, &plan, &c);
  for (int i = 0; i < LS_COUNT(expected); i++)
    assert_string_equal(set[i], expected[i]);
  assert_null(set[LS_COUNT(expected)]);
  assert_string_equal(ls_plan_name(&arena, &c), "ddp, 4 devices x 3 threads");
  c.host = false; /* on a GPU threads do not compute */
  other = c;
  assert_string_equal(ls_plan_name(&arena, &c), "ddp, 4 devices");
  other.config.parallel.options.side_lane = LS_SIDE_ON;
  assert_string_equal(ls_plan_name(&arena, &other), "ddp, 4 devices, side_lane on");
  assert_string_equal(ls_plan_difference(&arena, &c, &other), "parallel.side_lane is off instead of on");
  assert_string_equal(ls_plan_sets(&arena, &plan, &other)[5], "parallel.side_lane=on");
  ls_arena_release(&arena);
}

/* 64-64-64-2 at batch 7 took eight times as long with two threads as with one, and one was never a candidate. */
static void a_small_step_may_choose_fewer_threads(void **state) {
  if (ls_cpu_count() < 2) skip();
  ls_config_t *threaded = small_config(ctx, "train: {batch: 64, steps: 1000}\nparallel: {backend: cpu}\n");
  ls_planner_t p = small_planner(ctx, threaded, profile);
  p.backend = &ls_backend_cpu;
  int fixed;
  ls_candidate_t c = ls_candidate_make(&p, 1, NULL);
  assert_int_equal(ls_candidate_threads(&c), ls_cpu_count());
  fill_timing(&p, &c, &(pace_t){800, 100, 0}, &fixed);
  c.config.parallel.threads = 1;
  fill_timing(&p, &c, &(pace_t){100, 100, 0}, &fixed);
  ls_plan_options_t options = untimed;
  ls_plan_t plan;
  options.devices_max = 1;
  assert_int_equal(ls_plan_make(ctx, threaded, profile, &options, &plan), LS_OK);
  assert_int_equal(ls_candidate_threads(&plan.candidate[plan.choice]), 1);
  assert_int_equal(ls_candidate_threads(&plan.candidate[1]), ls_cpu_count());
  assert_non_null(strstr(plan.candidate[1].why, "threads instead of 1"));
  ls_plan_release(&plan);
  threaded->parallel.threads = ls_cpu_count(); /* asked for: no others */
  assert_int_equal(ls_plan_make(ctx, threaded, profile, &options, &plan), LS_OK);
  assert_int_equal(plan.count, 1);
  ls_plan_release(&plan);
  ls_config_destroy(threaded);
}

static void every_allocation_may_fail(void **state) {
  int tasks, fixed;
  fill(100, 1000, &tasks, &fixed);
  ls_plan_t plan;
  ls_ctx_fail_alloc(ctx, 0);
  assert_int_equal(ls_plan_make(ctx, config, profile, &untimed, &plan), LS_OK);
  ls_plan_release(&plan);
  int64_t allocations = ls_ctx_fail_alloc(ctx, 0);
  for (int64_t n = 1; n <= allocations; n++) {
    ls_ctx_fail_alloc(ctx, n);
    assert_int_equal(ls_plan_make(ctx, config, profile, &untimed, &plan), LS_ERR_MEMORY);
  }
  ls_ctx_fail_alloc(ctx, 0);
}

int main(void) {
#define TEST(name) PLAN_TEST(name, more)
  const struct CMUnitTest tests[] = {
      TEST(two_devices_win_when_talking_is_cheap),
      TEST(a_cheaper_transport_is_chosen),
      TEST(one_device_wins_when_talking_is_dear),
      TEST(a_short_median_with_a_long_tail_does_not_win),
      TEST(what_does_not_fit_is_not_chosen),
      TEST(what_the_host_lacks_is_named),
      TEST(fits_is_exact_to_the_byte),
      TEST(what_needs_least_is_shown_where_nothing_fits),
      TEST(libraries_count_as_they_were_measured),
      TEST(data_stay_where_they_will),
      TEST(crossover_is_where_the_prices_cross),
      TEST(a_candidate_says_what_it_chooses),
      TEST(a_small_step_may_choose_fewer_threads),
      TEST(every_allocation_may_fail),
  };
  return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
