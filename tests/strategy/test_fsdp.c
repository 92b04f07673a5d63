/* Sharded data parallel: the parameters of one rank to the bit where numbers are exact, and the optimizer's state of a part
 * alone. */
#include "world.h"

#include "unit.h"
#include <math.h>
#include <string.h>

static job_t job_of(int world_size, int64_t bucket_bytes) {
  job_t job = job_default();
  job.strategy = world_size > 1 ? "fsdp" : "single";
  job.world_size = world_size;
  job.bucket_bytes = bucket_bytes;
  job.steps = 3;
  return job;
}

static void run(const job_t *job, world_t *world) {
  world_run(job, world);
  for (int r = 0; r < job->world_size; r++) {
    assert_string_equal(world->rank[r].error, "");
    assert_int_equal(world->rank[r].status, LS_OK);
  }
}

/* Every rank's parameters against those of one rank. tolerance 0: the same bits. */
static void compare(job_t job, float tolerance) {
  world_t one, world;
  job_t alone = job;
  alone.strategy = "single";
  alone.micro_batches = job.reproducible ? job.micro_batches * job.world_size : job.micro_batches;
  alone.world_size = 1;
  run(&alone, &one);
  run(&job, &world);
  const int64_t count = one.rank[0].param_count; /* the shared layout may have padding after it */
  for (int r = 0; r < job.world_size; r++)
    for (int64_t i = 0; i < count; i++)
      if (!(fabsf(world.rank[r].param[i] - one.rank[0].param[i]) <= tolerance))
        fail_msg("rank %d of %d, element %lld: %.9g, not %.9g", r, job.world_size, (long long)i,
                 (double)world.rank[r].param[i], (double)one.rank[0].param[i]);
  world_release(&world);
  world_release(&one);
}

static void test_every_world_and_bucket_has_the_parameters_of_one_rank(void **state) {
  static const int worlds[] = {1, 2, 3, 8};
  static const int64_t buckets[] = {1, 128, 256, 1 << 30};
  (void)state;
  for (int w = 0; w < LS_COUNT(worlds); w++)
    for (int b = 0; b < LS_COUNT(buckets); b++) {
      job_t job = job_of(worlds[w], buckets[b]);
      job.steps = 1; /* later steps round */
      compare(job, 0);
      job.micro_batches = 2;
      compare(job, 0);
    }
}

static void test_reproducible_shards_have_the_bits_of_one_rank(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 8; ranks *= 2) {
    job_t job = job_of(ranks, 1);
    job.reproducible = job.adam = true;
    job.micro_batches = 8 / ranks;
    job.clip = 0.01;
    job.dropout = 0.25;
    compare(job, 0);
  }
}

static void test_many_steps_have_the_bits_of_ddp(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 8; ranks++) {
    world_t ddp, fsdp;
    job_t job = job_of(ranks, 200);
    job.steps = 5;
    job.momentum = 0.5;
    job.micro_batches = 2;
    run(&job, &fsdp);
    job.strategy = "ddp";
    run(&job, &ddp);
    for (int r = 0; r < ranks; r++)
      assert_memory_equal(fsdp.rank[r].param, ddp.rank[r].param,
                          (size_t)ddp.rank[r].param_count * sizeof(float));
    world_release(&fsdp);
    world_release(&ddp);
  }
}

static void test_the_norm_is_of_all_parts(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 3; ranks++) {
    job_t job = job_of(ranks, 128);
    job.clip = 0.01;
    job.momentum = 0.9;
    compare(job, 1e-6f);
  }
}

/* In place of the gradients' all-reduce. */
static void test_gradients_are_scattered_and_parameters_gathered(void **state) {
  (void)state;
  job_t job = job_of(2, 1 << 30);
  world_t world;
  run(&job, &world);
  const ls_schedule_t *s = world.rank[0].program.member[0];
  int kinds[LS_COLLECTIVE_COUNT] = {0};
  for (int t = 0; t < s->task_count; t++)
    if (s->tasks[t].kind == LS_TASK_COLLECTIVE) kinds[s->tasks[t].collective]++;
  assert_int_equal(kinds[LS_REDUCE_SCATTER], 1);
  assert_int_equal(kinds[LS_ALL_GATHER], 1);
  assert_int_equal(kinds[LS_ALL_REDUCE], 2); /* of the loss, and of the sums of squares */
  world_release(&world);
}

static void test_each_rank_holds_slots_of_its_part_alone(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 8; ranks++) {
    job_t job = job_of(ranks, 128);
    job.adam = true;
    world_t world;
    run(&job, &world);
    int64_t sum = 0, trained = 0;
    for (int r = 0; r < ranks; r++) {
      const ls_state_table_t *table = world.rank[r].program.member[0]->state;
      const ls_state_row_t *m = &table->row[ls_state_find(table, "m")];
      trained = table->layout->trained;
      assert_int_equal(m->owner, ranks > 1 ? LS_STATE_SHARDED : LS_STATE_REPLICATED);
      if (ranks > 1) assert_int_equal(ls_state_row_count(m), (trained - LS_LAYOUT_HEAD) / ranks);
      sum += ls_state_row_count(m);
    }
    assert_int_equal(sum, ranks > 1 ? trained - LS_LAYOUT_HEAD : trained);
    world_release(&world);
  }
}

TESTS(NULL, NULL, test_every_world_and_bucket_has_the_parameters_of_one_rank,
      test_reproducible_shards_have_the_bits_of_one_rank, test_many_steps_have_the_bits_of_ddp,
      test_the_norm_is_of_all_parts, test_gradients_are_scattered_and_parameters_gathered,
      test_each_rank_holds_slots_of_its_part_alone)
