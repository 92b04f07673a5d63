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

static void every_list_offers_the_rows(void **state) {
  const ls_strategy_t *strategy = ls_strategy_find(TOY_STRATEGY);
  assert_non_null(strategy);
  assert_false(ls_strategy_register(strategy)); /* once */
  assert_ptr_not_equal(ls_strategy_default(2, false), strategy);
  const ls_transport_t *transport = ls_transport_find(TOY_TRANSPORT);
  assert_true(transport && ls_transport_fits(transport, &ls_backend_ref));
  assert_false(ls_transport_is_usual(transport));
}

TESTS(NULL, NULL, the_strategy_trains_what_one_rank_trains, ranks_train_apart_and_are_averaged,
      every_list_offers_the_rows)
