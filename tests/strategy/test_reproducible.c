/* A reproducible step: eight shards on 1, 2, 4 and 8 ranks give the same bits, although no sum is exact; what
 * the tree is, by hand; what cannot be a tree is refused. */

#include "schedule/double.h"
#include "world.h"

#include "unit.h"
#include <math.h>
#include <string.h>

enum { SHARDS = 8 };

static bool same_bits(const float *a, const float *b, int64_t count) {
  return !memcmp(a, b, (size_t)count * sizeof(float));
}

/* Weights and rates that are no multiples of powers of two: every order of adding rounds differently. */
static job_t inexact_job(void) {
  job_t job = job_default();
  job.strategy = "ddp";
  job.samples = 29; /* shards of 4 rows: seven whole ones and a single row */
  job.weight = 1.0f / 29;
  job.lr = 0.1f;
  job.steps = 3;
  job.dropout = 0.3;
  job.momentum = 0.9;
  job.reproducible = true;
  return job;
}

static void run_world(job_t *job, int ranks, world_t *world) {
  job->world_size = ranks;
  job->micro_batches = SHARDS / ranks;
  world_run(job, world);
  for (int r = 0; r < ranks; r++) {
    assert_string_equal(world->rank[r].error, "");
    assert_int_equal(world->rank[r].status, LS_OK);
    assert_true(same_bits(world->rank[r].param, world->rank[0].param, world->rank[0].param_count));
  }
}

/* True if one rank and `ranks` ranks end in the same bits. */
static bool agree(job_t job, int ranks) {
  world_t one, many;
  run_world(&job, 1, &one);
  run_world(&job, ranks, &many);
  const rank_result_t *a = &one.rank[0], *b = &many.rank[0];
  assert_false(same_bits(a->param, a->initial, a->param_count));
  assert_true(a->stats[LS_STAT_APPLIED] == 1 && isfinite(a->stats[LS_STAT_LOSS]));
  bool same = same_bits(a->param, b->param, a->param_count) && same_bits(a->grad, b->grad, a->param_count) &&
              same_bits(a->stats, b->stats, LS_STATS_COUNT);
  world_release(&many);
  world_release(&one);
  return same;
}

static void test_ranks_agree(void **state) {
  static const int64_t buckets[] = {1, 64, 1 << 20};
  for (int b = 0; b < LS_COUNT(buckets); b++)
    for (int ranks = 1; ranks <= SHARDS; ranks *= 2) {
      job_t job = inexact_job();
      job.bucket_bytes = buckets[b];
      assert_true(agree(job, ranks));
      job.clip = 0.05;
      assert_true(agree(job, ranks));
    }
}

static void test_devices_with_memory_of_their_own(void **state) {
  static const ls_op_t *const *const lists[] = {ls_ops, ls_optim_ops};
  job_t job = inexact_job();
  world_t host, device;
  double_ops(2, lists);
  run_world(&job, 4, &host);
  job.backend = &double_capture;
  job.copies = true;
  job.input_slots = 3;
  run_world(&job, 4, &device);
  assert_true(same_bits(host.rank[0].param, device.rank[0].param, host.rank[0].param_count));
  world_release(&device);
  world_release(&host);
}

/* The same jobs by plain data parallelism: that they differ shows that the test above can fail. */
static void test_plain_sums_do_not_agree(void **state) {
  job_t job = inexact_job();
  job.reproducible = false;
  job.samples = 32; /* equal rows either way */
  assert_false(agree(job, 2) && agree(job, 4) && agree(job, 8));
}

/* Buckets' own sums of squares would show in the parameters of a clipped step. */
static void test_buckets_agree(void **state) {
  job_t job = inexact_job();
  world_t few, many;
  job.clip = 0.05;
  job.bucket_bytes = 1 << 20;
  run_world(&job, 2, &few);
  job.bucket_bytes = 1;
  run_world(&job, 2, &many);
  assert_true(same_bits(few.rank[0].param, many.rank[0].param, few.rank[0].param_count));
  assert_true(same_bits(few.rank[0].stats, many.rank[0].stats, LS_STATS_COUNT));
  world_release(&many);
  world_release(&few);
}

/* Five of eight shards have no sample at all. */
static void test_empty_shards(void **state) {
  for (int ranks = 1; ranks <= SHARDS; ranks *= 2) {
    job_t job = inexact_job();
    job.samples = 3;
    job.weight = 1.0f / 3;
    assert_true(agree(job, ranks));
  }
}

/* A rank of one sample each: the gradient is the pairwise tree over samples, and not their sum in order. */
static void test_the_tree_by_hand(void **state) {
  job_t job = inexact_job();
  float part[SHARDS][PARAMS_MAX], tree[PARAMS_MAX], chain[PARAMS_MAX];
  world_t world;
  job.steps = 1;
  job.dropout = 0;
  job.samples = SHARDS;
  job.weight = 1.0f / 7;
  run_world(&job, 1, &world);
  int64_t count = world.rank[0].param_count, differ = 0;
  for (int s = 0; s < SHARDS; s++) { /* of sample s alone: all others are zeros */
    job_t alone = job_default();
    world_t sample;
    alone.samples = SHARDS;
    alone.weight = job.weight;
    alone.lr = job.lr;
    alone.world_size = SHARDS;
    alone.strategy = "ddp";
    alone.only = s;
    world_run(&alone, &sample);
    memcpy(part[s], sample.rank[0].grad, (size_t)count * sizeof(float));
    world_release(&sample);
  }
  for (int64_t k = 0; k < count; k++) {
    tree[k] = ((part[0][k] + part[1][k]) + (part[2][k] + part[3][k])) +
              ((part[4][k] + part[5][k]) + (part[6][k] + part[7][k]));
    chain[k] = part[0][k];
    for (int s = 1; s < SHARDS; s++)
      chain[k] += part[s][k];
    differ += tree[k] != chain[k];
    assert_true(world.rank[0].grad[k] == tree[k]);
  }
  assert_true(differ > 0);
  world_release(&world);
}

static void test_what_is_no_tree_is_refused(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *graph;
  ls_state_table_t *table;
  ls_optim_rule_t optim;
  network_make(ctx, 2, 0, true, &graph);
  assert_int_equal(ls_state_table_create(ctx, graph, 1, &table), LS_OK);
  ls_optim_rule(&(ls_optim_config_t){.name = LS_OPTIM_SGD, .lr = 0.1}, 0, &optim);
  for (int bad = 0; bad < 2; bad++) {
    ls_program_t program = {0};
    ls_lower_t in = {.graph = graph,
                     .state = table,
                     .optim = &optim,
                     .world_size = bad ? 3 : 2,
                     .micro_batches = bad ? 2 : 3,
                     .input_slots = 1,
                     .options = {.bucket_bytes = 64, .reproducible = true}};
    assert_int_equal(ls_strategy_lower(ctx, &ls_strategy_ddp, &in, &program), LS_ERR_ARGUMENT);
    assert_int_equal(program.count, 0);
    assert_non_null(strstr(ls_ctx_error(ctx), "no tree"));
    ls_ctx_clear(ctx);
  }
  ls_state_table_release(table);
  ls_graph_destroy(graph);
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, test_ranks_agree, test_devices_with_memory_of_their_own, test_plain_sums_do_not_agree,
      test_buckets_agree, test_empty_shards, test_the_tree_by_hand, test_what_is_no_tree_is_refused)
