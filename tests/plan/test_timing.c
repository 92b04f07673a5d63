/* Timings really run: what they bring back is whole, and nothing is left open. No times are asserted. */
#include "base/process.h"
#include "plan/timing_rank.h"
#include "setup.h"
#include "strategy/lower.h"

#include <math.h>
#include <sched.h>

static const char more[] = "train: {batch: 13, steps: 1, accumulate: 2}\nparallel: {bucket_bytes: 1}\n";

static ls_timing_job_t job_of(const ls_config_t *of, int ranks, bool together) {
  return (ls_timing_job_t){.config = of,
                           .backend = &ls_backend_ref,
                           .ranks = ranks,
                           .threads = 1,
                           .together = together,
                           .window_ns = 2000000};
}

/* What all tasks of a step take together where nothing disturbs them. */
static double check_whole(const ls_timing_t *timing) {
  int collectives = 0;
  assert_in_range(timing->blocks, 1, LS_TIMING_BLOCKS);
  for (int b = 0; b < timing->blocks; b++) {
    const ls_timing_block_t *block = &timing->block[b];
    assert_true(block->kept >= 1 && block->kept <= LS_TIMING_KEPT && block->steps >= block->kept);
    assert_true(block->ns > 0 && block->step_ns[0] > 0);
  }
  assert_true(timing->step.ns > 0 && timing->step.low_ns <= timing->step.ns &&
              timing->step.ns <= timing->step.high_ns);
  const ls_program_t *p = &timing->program;
  double sum_ns = 0;
  for (int i = 0; i < p->count; i++)
    for (int t = 0; t < p->member[i]->task_count; t++) {
      const ls_time_t *time = &timing->task[ls_program_task(p, i, t)];
      if (p->member[i]->tasks[t].kind == LS_TASK_COLLECTIVE) {
        collectives++;
        assert_true(time->ns > 0 || !timing->whole);
      } else {
        assert_true(time->ns >= 0 && time->low_ns <= time->ns && time->ns <= time->high_ns);
        sum_ns += p->times[i] * time->low_ns;
      }
    }
  assert_int_equal(collectives > 1, p->member[0]->world_size > 1);
  return sum_ns;
}

static ls_config_t of_ranks(int ranks, const char *strategy, int accumulate) {
  ls_config_t of = *config;
  of.parallel.ranks = ranks;
  of.parallel.threads = 1;
  of.parallel.strategy = strategy;
  of.train.accumulate = accumulate;
  of.data.resident = LS_RESIDENT_FALSE;
  return of;
}

static void time_one(int accumulate, int64_t rows) {
  ls_config_t of = of_ranks(1, "single", accumulate);
  ls_timing_job_t job = job_of(&of, 1, false);
  ls_timing_t timing;
  job.eval_rows = rows;
  job.window_ns = 50000000; /* so many steps that some of them are undisturbed */
  assert_int_equal(ls_timing_run(ctx, &job, &timing), LS_OK);
  assert_int_equal(timing.rows, rows);
  assert_true(timing.whole);
  if (ls_process_peak_reset()) assert_true(timing.process_bytes > 1 << 20); /* this program alone is larger */
  double sum_ns = check_whole(&timing); /* of all micro-batches, and of them alone */
  assert_true(sum_ns > 0 &&
              sum_ns < 1.5 * timing.step.low_ns); /* a step may be interrupted between its tasks */
  ls_timing_release(&timing);
}

static void one_rank(void **state) {
  time_one(2, 7);
  time_one(7, 2); /* the middle runs five times */
}

/* As much data as training would have, up to what fills a cache: the gathering is a task like others. */
static void data_on_the_device(void **state) {
  ls_config_t of = of_ranks(2, "ddp", 2);
  of.data.resident = LS_RESIDENT_TRUE;
  ls_timing_job_t job = job_of(&of, 2, true);
  job.data_rows = 640;
  ls_timing_t timing;
  assert_int_equal(ls_timing_run(ctx, &job, &timing), LS_OK);
  check_whole(&timing);
  int gathers = 0;
  for (int i = 0; i < timing.program.count; i++)
    for (int t = 0; t < timing.program.member[i]->task_count; t++)
      gathers += timing.program.member[i]->tasks[t].phase == LS_PHASE_STEP_INPUT;
  assert_int_equal(gathers, 2);
  ls_fit_t fit;
  ls_program_fit(&timing.program, &fit);
  assert_int_equal(ls_fit_bytes(&fit, "data"), 640 * 6 * 4 + 640 * 2 * 4);
  ls_timing_release(&timing);
}

static void ranks_together_and_alone(void **state) {
  ls_config_t of = of_ranks(3, "ddp", 2);
  cpu_set_t before, after;
  sched_getaffinity(0, sizeof before, &before);
  for (int together = 0; together < 2; together++) {
    ls_timing_job_t job = job_of(&of, 3, together);
    ls_timing_t timing;
    assert_int_equal(ls_timing_run(ctx, &job, &timing), LS_OK);
    assert_int_equal(timing.rows, 3);
    assert_int_equal(timing.whole, together);
    check_whole(&timing);
    ls_timing_release(&timing);
  }
  sched_getaffinity(0, sizeof after, &after);
  assert_true(CPU_EQUAL(&before, &after));
}

/* All-reduces among a group of its own, as a strategy for several nodes would. */
static ls_status_t reduce_in_group(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  (void)in;
  const int all[] = {0, 1};
  ls_schedule_collective(s, "grouped", ls_schedule_group(s, "pair", all, 2), LS_ALL_REDUCE, bucket->gradients,
                         bucket->gradients);
  return s->status;
}
static ls_status_t place_grouped(ls_ctx_t *of, const ls_lower_t *in, const ls_placement_t **placement) {
  static const ls_placement_t grouped = {.ready = reduce_in_group};
  (void)of;
  if (in->optim) *placement = &grouped;
  return LS_OK;
}

/* Ranks that were bound one after another waited for each other until the deadline. */
static void ranks_with_groups_are_bound_together(void **state) {
  static const ls_strategy_t grouped = {.name = "grouped", .distributed = true, .place = place_grouped};
  assert_true(ls_strategy_register(&grouped));
  ls_config_t of = of_ranks(2, "grouped", 2);
  ls_timing_job_t job = job_of(&of, 2, true);
  ls_timing_t timing;
  assert_int_equal(ls_timing_run(ctx, &job, &timing), LS_OK);
  assert_true(ls_program_groups(&timing.program)->group_count > 1);
  check_whole(&timing);
  ls_timing_release(&timing);
}

/* Lowering fails on the ranks in `broken`, one bit each. */
static int broken;
static ls_status_t place_broken(ls_ctx_t *of, const ls_lower_t *in, const ls_placement_t **placement) {
  if (broken >> in->rank & 1)
    return ls_fail(of, LS_ERR_UNSUPPORTED, "rank %d is broken on purpose", in->rank);
  return place_grouped(of, in, placement);
}

/* The others waited ten seconds for it, and a rank of a starved machine that came later than that was taken for one that
 * had failed. */
static void nobody_waits_for_a_rank_that_failed(void **state) {
  static const ls_strategy_t row = {.name = "broken", .distributed = true, .place = place_broken};
  assert_true(ls_strategy_register(&row));
  ls_config_t of = of_ranks(2, "broken", 2);
  of.parallel.deadline_s = 1e6;
  ls_timing_job_t job = job_of(&of, 2, true);
  for (broken = 1; broken <= 3; broken++) {
    ls_timing_t timing;
    ls_ctx_clear(ctx);
    assert_int_equal(ls_timing_run(ctx, &job, &timing), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(ls_ctx_error(ctx), "is broken on purpose"));
  }
}

static void ranks_have_as_long_as_training_and_never_less_than_usual(void **state) {
  ls_config_t of = *config;
  of.parallel.deadline_s = 0.01;
  assert_int_equal(ls_timing_deadline_ns(&of), LS_COMM_DEADLINE_S * INT64_C(1000000000));
  of.parallel.deadline_s = 7200;
  assert_int_equal(ls_timing_deadline_ns(&of), 7200 * INT64_C(1000000000));
}

/* A plan refused what train takes: tokens with values, and with classes of fewer positions. */
static void tokens_with_any_targets_are_timed(void **state) {
  static const char *const losses[] = {"mse", "l1", "huber", "binary-cross-entropy", "cross-entropy"};
  for (int i = 0; i < LS_COUNT(losses); i++) {
    char text[400];
    ls_config_t *of;
    ls_timing_t timing;
    snprintf(text, sizeof text,
             "model: {input: [8], loss: %s, layers: [{embedding: {size: 9, units: 2}}, {pool: {size: 2}}, "
             "{dense: {units: 3, over: last}}]}\n"
             "data: {kind: csv, path: none, target: [y]}\ntrain: {batch: 4, steps: 1}\n"
             "parallel: {backend: ref}\n",
             losses[i]);
    assert_int_equal(ls_config_parse(ctx, "test.yaml", text, strlen(text), NULL, 0, &of), LS_OK);
    ls_timing_job_t job = job_of(of, 1, false);
    assert_int_equal(ls_timing_run(ctx, &job, &timing), LS_OK);
    check_whole(&timing);
    ls_timing_release(&timing);
    ls_config_destroy(of);
  }
}

static void a_plan_times_and_remembers(void **state) {
  ls_config_t of = *config;
  of.parallel.backend = "ref";
  fill_all_reduce(profile, 2, 1000);
  ls_plan_options_t options = {.devices_max = 2, .budget_s = 5, .samples = -1, .no_crossover = true};
  ls_plan_t plan;
  assert_int_equal(ls_plan_make(ctx, &of, profile, &options, &plan), LS_OK);
  assert_true(plan.timed >= 1);
  assert_true(plan.profile_changed);
  for (int i = 0; i < plan.count; i++) /* the largest that a configuration takes */
    assert_in_range(plan.candidate[i].config.parallel.options.bucket_bytes, 1, 1000000000000);
  ls_plan_release(&plan);
  options.budget_s = 1e-9;
  assert_int_equal(ls_plan_make(ctx, &of, profile, &options, &plan), LS_OK);
  assert_int_equal(plan.timed, 0);
  assert_false(plan.profile_changed);
  ls_plan_release(&plan);
}

/* Its time was over before it had timed anything: it failed, and so did the next one. */
static void a_plan_on_a_busy_machine_times_one_candidate(void **state) {
  ls_config_t of = *config;
  of.parallel.backend = "ref";
  ls_plan_options_t options = {.devices_max = 2, .budget_s = 1e-9, .samples = -1, .no_crossover = true};
  for (int plans = 0; plans < 2; plans++) {
    ls_plan_t plan;
    assert_int_equal(ls_plan_make(ctx, &of, profile, &options, &plan), LS_OK);
    assert_int_equal(plan.timed, plans == 0);
    assert_true(plan.choice == 0 && plan.candidate[0].priced);
    ls_plan_release(&plan);
  }
}

/* A search for crossovers took 17.7 GB and minutes: beyond two timings that disagree a step of any batch seemed short. */
static void a_search_keeps_to_memory_and_budget(void **state) {
  static const struct {
    double flops_per_ns;
    int64_t free_bytes, budget_ms;
    bool times;
  } rows[] = {{1e6, -1, 5000, true},
              {1e6, 1, 5000, false},
              {1e-9, -1, 5000, false},
              {1e6, -1, 0, false},
              {0, -1, 5000, false}};
  fill_all_reduce(profile, 2, 1000);
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_profile_t *own;
    ls_arena_t arena;
    ls_crossover_t crossover;
    ls_arena_init(&arena, ctx);
    assert_int_equal(ls_profile_copy(ctx, profile, &own), LS_OK);
    ls_planner_t p = small_planner(ctx, config, own);
    p.arena = &arena;
    p.flops_per_ns = rows[i].flops_per_ns;
    p.free_bytes = rows[i].free_bytes;
    p.deadline_ns = ls_clock_ns() + rows[i].budget_ms * 1000000;
    assert_int_equal(ls_plan_crossover(&p, 2, 8192, &crossover), LS_OK);
    assert_int_equal(p.timed > 0, rows[i].times);
    ls_profile_destroy(own);
    ls_arena_release(&arena);
  }
}

static void every_allocation_may_fail(void **state) {
  ls_config_t of = of_ranks(2, "ddp", 2);
  ls_timing_job_t job = job_of(&of, 2, true);
  ls_timing_t timing;
  job.window_ns = 100000;
  ls_ctx_fail_alloc(ctx, 0);
  assert_int_equal(ls_timing_run(ctx, &job, &timing), LS_OK);
  ls_timing_release(&timing);
  int64_t allocations = ls_ctx_fail_alloc(ctx, 0);
  for (int64_t n = 1; n <= allocations; n++) {
    ls_ctx_fail_alloc(ctx, n);
    assert_int_equal(ls_timing_run(ctx, &job, &timing), LS_ERR_MEMORY);
  }
  ls_ctx_fail_alloc(ctx, 0);
}

/* Medians left out blocks that were slow, and of several timings the fastest counted: on a machine whose processors are
 * not always there every step was predicted too short. */
static void slow_steps_count_as_often_as_they_came(void **state) {
  ls_timing_block_t block[4];
  ls_time_t median, mean;
  for (int b = 0; b < LS_COUNT(block); b++) { /* 5, 20, 20 and 20 us, but the last one with a step of 1 ms */
    block[b] = (ls_timing_block_t){.steps = b ? 10 : 40, .ns = b < 3 ? 200000 : 1180000, .kept = b ? 10 : 10};
    for (int k = 0; k < block[b].kept; k++)
      block[b].step_ns[k] = b ? 20000 : 5000;
    if (b == 3) block[b].step_ns[4] = 1e6;
  }
  assert_int_equal(ls_timing_summary(ctx, block, 4, &median, &mean), LS_OK);
  assert_true(median.ns == 20000 && median.high_ns == 20000 && median.low_ns > 5000 && median.low_ns < 8000);
  assert_true(fabs(mean.ns - 1780000.0 / 70) < 1e-6);
  /* off by 200 - 1017, -54, -54 and 926 us: sqrt of their squares * 4 / 3, over 70 steps, times t(0.95, 3) */
  assert_true(fabs(mean.high_ns - mean.ns - 2.3534 * 20406.0) < 20);
  assert_true(mean.low_ns == 0);
  assert_int_equal(ls_timing_summary(ctx, block, 1, &median, &mean), LS_OK);
  assert_true(median.low_ns == 5000 && mean.low_ns == 5000 && mean.high_ns == 5000);
}

int main(void) {
#define TEST(name) PLAN_TEST(name, more)
  const struct CMUnitTest tests[] = {
      TEST(one_rank),
      TEST(data_on_the_device),
      TEST(ranks_together_and_alone),
      TEST(ranks_with_groups_are_bound_together),
      TEST(nobody_waits_for_a_rank_that_failed),
      TEST(ranks_have_as_long_as_training_and_never_less_than_usual),
      TEST(tokens_with_any_targets_are_timed),
      TEST(a_plan_times_and_remembers),
      TEST(a_plan_on_a_busy_machine_times_one_candidate),
      TEST(a_search_keeps_to_memory_and_budget),
      TEST(slow_steps_count_as_often_as_they_came),
      TEST(every_allocation_may_fail),
  };
  return cmocka_run_group_tests_name("timing", tests, NULL, NULL);
}
