/* Sharded data parallel: the parameters of one rank to the bit where numbers are exact; the optimizer's state, and on demand
 * the gradients, of a part alone. */
#include "world.h"

#include "unit.h"
#include <math.h>
#include <string.h>

static const ls_shard_t shards[] = {LS_SHARD_OPTIMIZER, LS_SHARD_GRADIENTS};

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

static int64_t trained_of(const world_t *world) {
  return world->rank[0].program.member[0]->state->layout->trained;
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
  const int64_t count = one.rank[0].param_count, trained = trained_of(&one);
  const int64_t padding = trained_of(&world) - trained; /* between trained and frozen parameters */
  for (int r = 0; r < job.world_size; r++)
    for (int64_t i = 0; i < count; i++) {
      const float got = world.rank[r].param[i < trained ? i : i + padding], want = one.rank[0].param[i];
      if (!(fabsf(got - want) <= tolerance))
        fail_msg("shard %d, rank %d of %d, buckets of %lld, element %lld: %.9g, not %.9g", job.shard, r,
                 job.world_size, (long long)job.bucket_bytes, (long long)i, (double)got, (double)want);
    }
  world_release(&world);
  world_release(&one);
}

/* Numbers are exact in one step; later ones round. */
static void test_every_world_and_bucket_has_the_parameters_of_one_rank(void **state) {
  static const int worlds[] = {1, 2, 3, 8};
  static const int64_t buckets[] = {1, 128, 256, 1 << 30};
  static const job_t kinds[] = {{.micro_batches = 1},
                                {.micro_batches = 2},
                                {.micro_batches = 4},
                                {.micro_batches = 2, .frozen = true},
                                {.micro_batches = 2, .shared = true},
                                {.micro_batches = 2, .side_lane = true},
                                {.micro_batches = 1, .side_lane = true, .shared = true, .copies = true}};
  (void)state;
  for (int s = 0; s < LS_COUNT(shards); s++)
    for (int w = 0; w < LS_COUNT(worlds); w++)
      for (int b = 0; b < LS_COUNT(buckets); b++)
        for (int k = 0; k < LS_COUNT(kinds); k++) {
          job_t job = job_of(worlds[w], buckets[b]);
          job.steps = 1;
          job.shard = shards[s];
          job.micro_batches = kinds[k].micro_batches;
          job.frozen = kinds[k].frozen;
          job.shared = kinds[k].shared;
          job.side_lane = kinds[k].side_lane;
          job.copies = kinds[k].copies;
          compare(job, 0);
        }
}

static void test_reproducible_shards_have_the_bits_of_one_rank(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 8; ranks *= 2) {
    job_t job = job_of(ranks, 1);
    job.shard = LS_SHARD_GRADIENTS; /* the gradients stay whole */
    job.reproducible = job.adam = true;
    job.micro_batches = 8 / ranks;
    job.clip = 0.01;
    job.dropout = 0.25;
    compare(job, 0);
  }
}

/* The parameters of ddp, to the bit. */
static void compare_with_ddp(job_t job) {
  world_t ddp, fsdp;
  run(&job, &fsdp);
  job.strategy = "ddp";
  run(&job, &ddp);
  for (int r = 0; r < job.world_size; r++)
    assert_memory_equal(fsdp.rank[r].param, ddp.rank[r].param,
                        (size_t)ddp.rank[r].param_count * sizeof(float));
  world_release(&fsdp);
  world_release(&ddp);
}

static void test_many_steps_have_the_bits_of_ddp(void **state) {
  static const ls_dtype_t wires[] = {LS_F32, LS_BF16}, lows[] = {LS_F32, LS_BF16, LS_F16};
  (void)state;
  for (int ranks = 2; ranks <= 8; ranks++)
    for (int s = 0; s < LS_COUNT(shards); s++)
      for (int k = 0; k < 2 * LS_COUNT(lows); k++) {
        job_t job = job_of(ranks, 200);
        job.steps = 5;
        job.momentum = 0.5;
        job.shard = shards[s];
        /* Micro-batches that each are summed over ranks are added in another order. */
        job.micro_batches = job.shard == LS_SHARD_GRADIENTS ? 1 : 2;
        job.wire = wires[k % 2];
        job.low = lows[k / 2];
        compare_with_ddp(job);
      }
}

static void test_the_norm_is_of_all_parts(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 3; ranks++)
    for (int k = 0; k < 2 * LS_COUNT(shards); k++) {
      job_t job = job_of(ranks, 128);
      job.shard = shards[k / 2];
      job.micro_batches = 1 + k % 2;
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

/* Bytes of the largest bucket that is scattered, and of what a rank receives of it. */
static int64_t largest_bucket(const ls_schedule_t *s) {
  int64_t most = 0;
  for (int t = 0; t < s->task_count; t++) {
    const ls_task_t *task = &s->tasks[t];
    if (task->kind != LS_TASK_COLLECTIVE || task->collective != LS_REDUCE_SCATTER) continue;
    const int64_t bytes = (int64_t)(s->tensors[task->in[0]].size_bytes + s->tensors[task->out[0]].size_bytes);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* A rank keeps the head and its part. Two buckets at a time are transient, of which each may hold the end of a parameter that
 * reaches into the next. */
static void test_each_rank_keeps_gradients_of_its_part_alone(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 8; ranks++)
    for (int micro_batches = 1; micro_batches <= 3; micro_batches++) {
      job_t job = job_of(ranks, 128);
      world_t optimizer, gradients;
      job.micro_batches = micro_batches;
      job.samples = 48;
      job.chains = 4; /* many parameters */
      run(&job, &optimizer);
      job.shard = LS_SHARD_GRADIENTS;
      run(&job, &gradients);
      const int64_t place = LS_LAYOUT_ALIGN * (int64_t)sizeof(float),
                    head = LS_LAYOUT_HEAD * (int64_t)sizeof(float),
                    trained = trained_of(&gradients) * (int64_t)sizeof(float),
                    bucket = largest_bucket(gradients.rank[0].program.member[0]) + ranks * place;
      ls_fit_t copies, own;
      ls_program_fit(&optimizer.rank[0].program, &copies);
      ls_program_fit(&gradients.rank[0].program, &own);
      assert_int_equal(ls_fit_bytes(&copies, "gradients"), trained);
      assert_int_equal(ls_fit_bytes(&own, "gradients"), head + (trained - head) / ranks);
      assert_in_range(ls_program_bytes(&gradients.rank[0].program, LS_REGION_TRANSIENT), 0,
                      (int64_t)ls_program_bytes(&optimizer.rank[0].program, LS_REGION_TRANSIENT) +
                          2 * bucket);
      world_release(&optimizer);
      world_release(&gradients);
    }
}

TESTS(NULL, NULL, test_every_world_and_bucket_has_the_parameters_of_one_rank,
      test_reproducible_shards_have_the_bits_of_one_rank, test_many_steps_have_the_bits_of_ddp,
      test_the_norm_is_of_all_parts, test_gradients_are_scattered_and_parameters_gathered,
      test_each_rank_holds_slots_of_its_part_alone, test_each_rank_keeps_gradients_of_its_part_alone)
