/* A strategy, a kind of state and a transport that no other file knows: trained like any other, equal to one rank to
 * the bit where numbers are exact. What the program does with them is in toy.sh. */

#include "plan/price.h"
#include "strategy/world.h"
#include "toy.h"

#include "unit.h"
#include <stdlib.h>
#include <string.h>

static int has(const ls_schedule_t *s, ls_collective_kind_t kind) {
  int count = 0;
  for (int t = 0; t < s->task_count; t++)
    count += s->tasks[t].kind == LS_TASK_COLLECTIVE && s->tasks[t].collective == kind;
  return count;
}

static void the_strategy_trains_what_one_rank_trains(void **state) {
  static const int worlds[] = {1, 2, 3, 8};
  for (int micro_batches = 1; micro_batches <= 3; micro_batches++)
    for (int i = 0; i < LS_COUNT(worlds); i++) {
      job_t job = job_default();
      world_t one, many;
      world_run(&job, &one);
      job.strategy = TOY_STRATEGY;
      job.world_size = worlds[i];
      job.micro_batches = micro_batches;
      world_run(&job, &many); /* proves every rank's schedule, and the world's */
      for (int r = 0; r < worlds[i]; r++) {
        const rank_result_t *got = &many.rank[r];
        assert_string_equal(got->error, "");
        assert_int_equal(got->status, LS_OK);
        assert_memory_equal(got->param, one.rank[0].param, (size_t)got->param_count * sizeof(float));
        assert_memory_equal(got->stats, one.rank[0].stats, sizeof got->stats);
        assert_memory_not_equal(got->param, got->initial, (size_t)got->param_count * sizeof(float));
        assert_int_equal(has(got->program.member[micro_batches - 1], LS_REDUCE_SCATTER), worlds[i] > 1);
        ls_fit_t fit;
        ls_program_fit(&got->program, &fit);
        assert_int_equal(ls_fit_bytes(&fit, TOY_STATE), ls_fit_bytes(&fit, "gradients"));
      }
      world_release(&many);
      world_release(&one);
    }
}

static ls_status_t collectives_alone(void *user, const ls_schedule_t *s, int task, ls_time_t *time) {
  (void)user;
  time->ns = time->low_ns = time->high_ns = s->tasks[task].kind == LS_TASK_COLLECTIVE ? 1000 : 0;
  return LS_OK;
}

/* Parameters are the same on all ranks after every fourth step, and only there; a step's price is the mean of four. */
static void ranks_train_apart_and_are_averaged(void **state) {
  for (int micro_batches = 1; micro_batches <= 3; micro_batches++)
    for (int steps = 3; steps <= 9; steps++) {
      job_t job = job_default();
      world_t world;
      job.strategy = TOY_LOCAL;
      job.world_size = 3;
      job.micro_batches = micro_batches;
      job.input_slots = 2;
      job.steps = steps;
      job.lr = 0.05f;
      world_run(&job, &world);
      const rank_result_t *first = &world.rank[0];
      for (int r = 0; r < 3; r++) {
        const rank_result_t *got = &world.rank[r];
        assert_string_equal(got->error, "");
        int differs = memcmp(got->param, first->param, (size_t)got->param_count * sizeof(float)) != 0;
        assert_int_equal(differs, r > 0 && steps % 4 != 0);
      }
      const ls_cost_model_t model = {.task_time = collectives_alone};
      ls_price_t price;
      assert_int_equal(ls_program_price(world.ctx[0], &first->program, &model, &price), LS_OK);
      assert_true(price.step.ns == 250);
      ls_price_release(&price);
      world_release(&world);
    }
}

/* Each rank has a part of the moments: a step is that of one rank where numbers are exact, and many are those of ddp. */
static void ranks_share_the_state_of_the_optimizer(void **state) {
  static const int64_t buckets[] = {1, 200, 1 << 20};
  for (int k = 0; k < 2 * 3 * LS_COUNT(buckets) * 3; k++) {
    job_t job = job_default();
    world_t want, got;
    const bool exact = k % 2;
    job.momentum = 0.5f;
    job.steps = exact ? 1 : 5;
    job.input_slots = 2;
    job.micro_batches = 1 + k / 2 % 3;
    job.bucket_bytes = buckets[k / 6 % 3];
    job.strategy = exact ? "single" : "ddp";
    job.world_size = exact ? 1 : 2 << k / 18;
    world_run(&job, &want);
    job.strategy = TOY_PARTS;
    job.world_size = 2 << k / 18;
    world_run(&job, &got); /* what was declared is what the program uses */
    const rank_result_t *first = &want.rank[0];
    for (int r = 0; r < job.world_size; r++) {
      const rank_result_t *rank = &got.rank[r];
      ls_fit_t fit;
      assert_string_equal(rank->error, "");
      assert_memory_equal(rank->param, first->param, (size_t)rank->param_count * sizeof(float));
      if (exact) assert_memory_equal(rank->stats, first->stats, sizeof rank->stats);
      assert_memory_not_equal(rank->param, rank->initial, (size_t)rank->param_count * sizeof(float));
      ls_program_fit(&rank->program, &fit);
      const int64_t moments = ls_fit_bytes(&fit, "gradients") - LS_LAYOUT_HEAD * (int64_t)sizeof(float);
      assert_int_equal(ls_fit_bytes(&fit, "optimizer"),
                       moments / job.world_size + LS_COUNTER_COUNT * (int64_t)sizeof(float));
    }
    world_release(&got);
    world_release(&want);
  }
}

static void every_list_offers_the_rows(void **state) {
  const ls_strategy_t *strategy = ls_strategy_find(TOY_STRATEGY);
  assert_non_null(strategy);
  assert_false(ls_strategy_register(strategy)); /* once */
  assert_ptr_not_equal(ls_strategy_default(2), strategy);
  const ls_transport_t *transport = ls_transport_find(TOY_TRANSPORT);
  assert_true(transport && ls_transport_fits(transport, &ls_backend_ref));
  assert_false(ls_transport_is_usual(transport));
}

TESTS(NULL, NULL, the_strategy_trains_what_one_rank_trains, ranks_train_apart_and_are_averaged,
      every_list_offers_the_rows, ranks_share_the_state_of_the_optimizer)
