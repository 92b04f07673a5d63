/* Whole steps: every strategy, world and number of micro-batches computes the same thing, to the bit where
 * numbers are exact; bad steps change nothing; a rank that stays away is named. */

#include "graph/ops/ops.h"
#include "schedule/double.h"
#include "world.h"

#include "unit.h"
#include <math.h>
#include <string.h>

static void expect_ok(const job_t *job, const world_t *world) {
  for (int r = 0; r < job->world_size; r++) {
    assert_string_equal(world->rank[r].error, "");
    assert_int_equal(world->rank[r].status, LS_OK);
  }
}

static bool same_bits(const float *a, const float *b, int64_t count) {
  return !memcmp(a, b, (size_t)count * sizeof(float));
}

/* Runs `job` and compares every rank with rank 0 of `reference`. */
static void expect_same(const job_t *job, const world_t *reference) {
  world_t world;
  world_run(job, &world);
  expect_ok(job, &world);
  const rank_result_t *want = &reference->rank[0];
  for (int r = 0; r < job->world_size; r++) {
    const rank_result_t *got = &world.rank[r];
    assert_true(same_bits(got->grad, want->grad, want->param_count));
    assert_true(same_bits(got->param, want->param, want->param_count));
    assert_true(same_bits(got->stats, want->stats, LS_STATS_COUNT));
  }
  world_release(&world);
}

static void run_reference(const job_t *job, world_t *reference) {
  world_run(job, reference);
  expect_ok(job, reference);
  const rank_result_t *rank = &reference->rank[0];
  assert_false(same_bits(rank->param, rank->initial, rank->param_count));
  assert_true(rank->stats[LS_STAT_APPLIED] == 1 && rank->stats[LS_STAT_LOSS] > 0);
}

/* The reference by hand: loss and output layer of the network in plain loops. */
static void test_loss_by_hand(void **state) {
  job_t job = job_default();
  world_t world;
  run_reference(&job, &world);
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *graph;
  ls_layout_t *layout;
  network_make(ctx, 1, 0, true, &graph);
  ls_layout_create(ctx, graph, 1, &layout);
  const float *flat = world.rank[0].initial;
  const float *w0 = flat + ls_layout_find(layout, "layers.0.weight")->offset;
  const float *b0 = flat + ls_layout_find(layout, "layers.0.bias")->offset;
  const float *w1 = flat + ls_layout_find(layout, "layers.1.weight")->offset;
  const float *b1 = flat + ls_layout_find(layout, "layers.1.bias")->offset;
  double loss = 0;
  for (int s = 0; s < 16; s++)
    for (int o = 0; o < OUTPUTS; o++) {
      double y = b1[o];
      for (int h = 0; h < HIDDEN; h++) {
        double a = b0[h];
        for (int i = 0; i < INPUTS; i++)
          a += w0[h * INPUTS + i] * network_x(0, s, i);
        y += w1[o * HIDDEN + h] * (a > 0 ? a : 0);
      }
      loss += (y - network_target(0, s, o)) * (y - network_target(0, s, o)) / OUTPUTS / 16;
    }
  assert_true(world.rank[0].stats[LS_STAT_LOSS] == (float)loss);
  ls_layout_destroy(layout);
  ls_graph_destroy(graph);
  ls_ctx_destroy(ctx);
  world_release(&world);
}

static void test_worlds_agree(void **state) {
  static const int worlds[] = {1, 2, 3, 8};
  static const int64_t buckets[] = {1, 64, 200, 1 << 20};
  job_t job = job_default();
  job.dropout = 0.5;
  for (int b = 0; b < LS_COUNT(buckets); b++) {
    world_t reference;
    job.strategy = "single";
    job.world_size = 1;
    job.bucket_bytes = buckets[b];
    run_reference(&job, &reference);
    job.strategy = "ddp";
    for (int w = 0; w < LS_COUNT(worlds); w++) {
      job.world_size = worlds[w];
      expect_same(&job, &reference);
    }
    world_release(&reference);
  }
}

/* A layer that is used twice has one gradient, the sum; a frozen one none, and keeps its values. */
static int count_tasks(const ls_schedule_t *s, ls_task_kind_t kind, const ls_op_t *op) {
  int count = 0;
  for (int t = 0; t < s->task_count; t++)
    count += s->tasks[t].kind == kind && s->tasks[t].op == op;
  return count;
}

/* 16-bit gradients are near those of f32 and the same on all ranks; loss and count are f32's, and one rank rounds
 * nothing. Each bucket is cast there and back; the head travels alone. */
static void gradients_travel_in_16_bits(void **state) {
  static const ls_dtype_t wires[] = {LS_BF16, LS_F16};
  static const int worlds[] = {1, 2, 3, 8};
  for (int k = 0; k < LS_COUNT(wires) * LS_COUNT(worlds) * 2; k++) {
    job_t job = job_default();
    world_t exact, world;
    job.strategy = "ddp";
    job.world_size = worlds[k / 2 % LS_COUNT(worlds)];
    job.micro_batches = k % 2 ? 3 : 1;
    job.backend = k % 2 ? &ls_backend_cpu : &ls_backend_ref;
    job.weight = 0.07f; /* nothing is exact */
    world_run(&job, &exact);
    job.wire = wires[k / 2 / LS_COUNT(worlds)];
    world_run(&job, &world);
    expect_ok(&job, &world);
    const rank_result_t *want = &exact.rank[0], *first = &world.rank[0];
    float most = 0;
    for (int64_t i = 0; i < want->param_count; i++)
      most = fmaxf(most, fabsf(want->grad[i]));
    for (int r = 0; r < job.world_size; r++) {
      const rank_result_t *got = &world.rank[r];
      assert_true(same_bits(got->stats, want->stats, LS_STAT_GRAD_NORM)); /* loss and correct count */
      assert_true(same_bits(got->param, first->param, want->param_count));
      for (int64_t i = 0; i < want->param_count; i++)
        assert_true(fabsf(got->grad[i] - want->grad[i]) <= most / 64);
    }
    assert_int_equal(same_bits(first->grad, want->grad, want->param_count), job.world_size == 1);
    const ls_schedule_t *last = first->program.member[first->program.count - 1];
    int collectives = count_tasks(last, LS_TASK_COLLECTIVE, NULL);
    assert_int_equal(count_tasks(last, LS_TASK_OP, &ls_op_cast), collectives ? 2 * (collectives - 1) : 0);
    world_release(&world);
    world_release(&exact);
  }
}

static void test_shared_and_frozen_parameters(void **state) {
  job_t job = job_default();
  job.shared = job.frozen = true;
  world_t reference;
  run_reference(&job, &reference);
  const rank_result_t *rank = &reference.rank[0];
  ls_layout_t *layout;
  ls_graph_t *graph;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  network_make_of(ctx, 1, &job, &graph);
  assert_int_equal(ls_layout_create(ctx, graph, 1, &layout), LS_OK);
  assert_int_equal(layout->trained_count, 4);
  for (int i = 0; i < layout->count; i++) {
    const ls_layout_entry_t *e = &layout->entry[i];
    bool frozen = strncmp(e->name, "layers.0", 8) == 0;
    assert_int_equal(frozen, e->offset >= layout->trained);
    assert_int_equal(frozen, same_bits(rank->param + e->offset, rank->initial + e->offset, e->count));
  }
  static const int worlds[] = {1, 2, 3, 8};
  job.strategy = "ddp";
  for (int w = 0; w < LS_COUNT(worlds); w++) {
    job.world_size = worlds[w];
    expect_same(&job, &reference);
  }
  job.world_size = 2;
  job.micro_batches = 4;
  expect_same(&job, &reference);
  job.micro_batches = 2;
  job.reproducible = true;
  expect_same(&job, &reference);
  world_release(&reference);
  ls_layout_destroy(layout);
  ls_graph_destroy(graph);
  ls_ctx_destroy(ctx);
}

/* Mixed precision rounds every sample alike, wherever it is computed, and the gradients of these numbers still add up
 * exactly. One task casts all parameters. */
static void test_low_precision_worlds_agree(void **state) {
  static const ls_dtype_t lows[] = {LS_BF16, LS_F16};
  static const int worlds[] = {1, 2, 3, 8};
  for (int k = 0; k < 2 * LS_COUNT(lows); k++) {
    world_t reference;
    job_t job = job_default();
    job.low = lows[k / 2];
    job.samples = 12;
    job.dropout = 0.5;
    job.shared = job.frozen = k % 2;
    run_reference(&job, &reference);
    const ls_schedule_t *s = reference.rank[0].program.member[0];
    int casts = 0;
    for (int t = 0; t < s->task_count; t++)
      casts += s->tasks[t].op == &ls_op_cast && s->tensors[s->tasks[t].out[0]].region >= LS_REGION_STATE;
    assert_int_equal(casts, 1);
    for (int w = 0; w < LS_COUNT(worlds); w++)
      for (job.micro_batches = 1; job.micro_batches <= 4; job.micro_batches++) {
        job.strategy = worlds[w] > 1 ? "ddp" : "single";
        job.world_size = worlds[w];
        job.backend = w % 2 ? &ls_backend_cpu : &ls_backend_ref;
        job.copies = w == 2;
        expect_same(&job, &reference);
        job.reproducible = worlds[w] != 3 && job.micro_batches != 3;
        if (job.reproducible) expect_same(&job, &reference);
        job.reproducible = false;
      }
    world_release(&reference);
  }
}

/* Evaluation has the loss of the trained parameters, from the same rounded values. */
static void test_low_precision_evaluation(void **state) {
  static const ls_dtype_t lows[] = {LS_BF16, LS_F16};
  for (int k = 0; k < LS_COUNT(lows); k++) {
    job_t job = job_default();
    world_t trained, world;
    job.low = lows[k];
    run_reference(&job, &trained);
    job.evaluate = true;
    world_run(&job, &world);
    expect_ok(&job, &world);
    double loss = 0;
    for (int64_t i = 0; i < job.samples * OUTPUTS; i++) {
      double d = world.rank[0].output[i] - network_target(0, i / OUTPUTS, i % OUTPUTS);
      loss += d * d / OUTPUTS / 16;
    }
    assert_true(world.rank[0].stats[LS_STAT_LOSS] == trained.rank[0].stats[LS_STAT_LOSS]);
    assert_true(world.rank[0].stats[LS_STAT_LOSS] == (float)loss);
    world_release(&world);
    world_release(&trained);
  }
}

/* Gradients of samples of weight 1, times 65536, are beyond f16: steps are skipped and the scale is halved until
 * they fit. A scale that was good for long enough is doubled. */
static void test_an_overflow_halves_the_loss_scale(void **state) {
  job_t job = job_default();
  job.low = LS_F16;
  job.weight = 1;
  job.lr = 0x1p-10f;
  job.good_steps = 3;
  for (job.world_size = 1; job.world_size <= 3; job.world_size++) {
    float scale = 65536, skipped = 0;
    job.strategy = job.world_size > 1 ? "ddp" : "single";
    for (job.steps = 1; job.steps <= 8; job.steps++) {
      world_t world;
      world_run(&job, &world);
      expect_ok(&job, &world);
      const rank_result_t *rank = &world.rank[0];
      bool applied = rank->stats[LS_STAT_APPLIED] == 1;
      assert_true(rank->stats[LS_STAT_LOSS_SCALE] == scale);
      skipped += !applied;
      scale *= applied ? 1 : 0.5f;
      assert_true(rank->stats[LS_STAT_SKIPPED] == skipped);
      assert_int_equal(same_bits(rank->param, rank->initial, rank->param_count), skipped == (float)job.steps);
      if (job.steps == 1) assert_false(applied);
      if (applied && (float)job.steps == skipped + 3) scale *= 2; /* three good ones in a row */
      for (int64_t i = 0; i < rank->param_count; i++)
        assert_true(isfinite(rank->param[i]));
      for (int r = 1; r < job.world_size; r++)
        assert_true(same_bits(rank->param, world.rank[r].param, rank->param_count));
      world_release(&world);
    }
    assert_true(skipped >= 1 && skipped <= 5);
  }
}

/* 10 samples on 3 ranks are 4 + 3 + 3: the gradient must be that of 10. */
static void test_uneven_shares(void **state) {
  job_t job = job_default();
  world_t reference;
  job.samples = 10;
  job.weight = 0.125f;
  job.dropout = 0.5;
  run_reference(&job, &reference);
  job.strategy = "ddp";
  job.world_size = 3;
  expect_same(&job, &reference);
  job.world_size = 8; /* 2 2 1 1 1 1 1 1 */
  expect_same(&job, &reference);
  world_release(&reference);

  /* fewer samples than ranks: the others hold padding of weight 0 */
  job.strategy = "single";
  job.world_size = 1;
  job.samples = 2;
  run_reference(&job, &reference);
  job.strategy = "ddp";
  job.world_size = 3;
  expect_same(&job, &reference);
  world_release(&reference);
}

static void test_micro_batches_add_up(void **state) {
  job_t job = job_default();
  world_t reference;
  job.samples = 12;
  job.dropout = 0.5;
  run_reference(&job, &reference);
  static const int worlds[] = {1, 2, 3, 8};
  for (int w = 0; w < LS_COUNT(worlds); w++)
    for (int micro_batches = 1; micro_batches <= 5;
         micro_batches++) { /* 5 does not divide 12: padding rows */
      job.strategy = worlds[w] > 1 ? "ddp" : "single";
      job.world_size = worlds[w];
      job.micro_batches = micro_batches;
      expect_same(&job, &reference);
    }
  world_release(&reference);
}

/* Slots taken in turn, copy lanes on or off: the same steps. */
static void test_slots_and_copies(void **state) {
  job_t job = job_default();
  world_t reference;
  job.steps = 7;
  job.adam = true;
  run_reference(&job, &reference);
  for (int slots = 1; slots <= LS_SLOT_MAX; slots++)
    for (int copies = 0; copies <= 1; copies++) {
      job.input_slots = slots;
      job.copies = copies;
      expect_same(&job, &reference);
    }
  world_release(&reference);
}

/* A gradient that is summed from the buckets of last step, or twice, would show here. */
static void test_many_steps_agree(void **state) {
  for (int adam = 0; adam <= 1; adam++) {
    job_t job = job_default();
    world_t reference, world;
    job.steps = 40;
    job.lr = 0.01f;
    job.adam = adam;
    job.momentum = 0.5;
    job.clip = 0.5;
    run_reference(&job, &reference);
    job.strategy = "ddp";
    for (job.world_size = 2; job.world_size <= 3; job.world_size++)
      for (job.micro_batches = 1; job.micro_batches <= 2; job.micro_batches++) {
        world_run(&job, &world);
        expect_ok(&job, &world);
        for (int64_t k = 0; k < reference.rank[0].param_count; k++) {
          float want = reference.rank[0].param[k], got = world.rank[0].param[k];
          assert_true(fabsf(got - want) <= 1e-4f * (1 + fabsf(want)));
          for (int r = 1; r < job.world_size; r++) /* among ranks: no difference at all */
            assert_true(world.rank[r].param[k] == got);
        }
        world_release(&world);
      }
    world_release(&reference);
  }
}

static void test_cpu_backend(void **state) {
  job_t job = job_default();
  world_t reference;
  job.dropout = 0.5;
  run_reference(&job, &reference);
  job.backend = &ls_backend_cpu;
  expect_same(&job, &reference);
  job.strategy = "ddp";
  for (job.world_size = 1; job.world_size <= 3; job.world_size++)
    for (job.micro_batches = 1; job.micro_batches <= 3; job.micro_batches++)
      expect_same(&job, &reference);
  world_release(&reference);
}

/* A device with memory of its own: everything asynchronous, inputs copied ahead, steps captured. */
static void test_device_double(void **state) {
  static const ls_op_t *const *const lists[] = {ls_ops, ls_optim_ops};
  static const ls_backend_t *const backends[] = {&double_eager, &double_capture};
  double_ops(2, lists);
  for (int steps = 1; steps <= 6; steps += 5) {
    job_t job = job_default();
    world_t reference;
    job.dropout = 0.5;
    job.steps = steps;
    job.adam = steps > 1;
    for (job.world_size = 1; job.world_size <= 3; job.world_size++) {
      job.strategy = job.world_size > 1 ? "ddp" : "single";
      job.backend = &ls_backend_ref;
      job.copies = false;
      run_reference(&job, &reference);
      job.copies = true;
      for (int b = 0; b < LS_COUNT(backends); b++)
        for (job.input_slots = 1; job.input_slots <= 3; job.input_slots++) {
          job.backend = backends[b];
          expect_same(&job, &reference);
        }
      world_release(&reference);
    }
  }
}

static uint32_t seed;
static int draw(int below) {
  seed = seed * 1664525u + 1013904223u;
  return (int)((seed >> 16) % (uint32_t)below);
}

/* Drawn jobs, with values that are not exact: a second lane that computes changes no bit, on lanes that are threads of
 * their own (ref) or work that is captured (the double). */
static void a_side_lane_changes_no_bit(void **state) {
  static const ls_op_t *const *const lists[] = {ls_ops, ls_optim_ops};
  static const ls_backend_t *const backends[] = {&ls_backend_ref, &double_eager, &double_capture};
  static const int64_t buckets[] = {1, 64, 200, 1 << 20};
  double_ops(2, lists);
  for (int n = 1; n <= 120; n++) {
    job_t job = job_default();
    world_t off, on;
    seed = (uint32_t)n;
    job.world_size = 1 << draw(2);
    job.strategy = job.world_size > 1 || draw(2) ? "ddp" : "single";
    job.micro_batches = 1 << draw(3);
    job.reproducible = draw(2);
    job.backend = backends[draw(LS_COUNT(backends))];
    job.copies = job.backend != &ls_backend_ref || draw(2);
    job.low = job.backend == &ls_backend_ref && draw(2) ? LS_BF16 : LS_F32; /* the double has f32 alone */
    job.input_slots = 1 + draw(3);
    job.steps = 1 + draw(4);
    job.bucket_bytes = buckets[draw(LS_COUNT(buckets))];
    job.weight = 0.07f;
    job.lr = 0.03f;
    job.dropout = draw(2) ? 0.5 : 0;
    job.adam = draw(2);
    job.clip = draw(2) ? 0.5 : 0;
    job.shared = draw(2);
    job.frozen = draw(2);
    job.chains = job.low == LS_F32 ? draw(3) : 0;
    world_run(&job, &off);
    expect_ok(&job, &off);
    job.side_lane = true;
    world_run(&job, &on);
    expect_ok(&job, &on);
    for (int r = 0; r < job.world_size; r++) {
      const rank_result_t *want = &off.rank[r], *got = &on.rank[r];
      const ls_program_t *p = &got->program;
      assert_true(same_bits(got->grad, want->grad, want->param_count));
      assert_true(same_bits(got->param, want->param, want->param_count));
      assert_true(same_bits(got->stats, want->stats, LS_STATS_COUNT));
      assert_false(same_bits(got->param, got->initial, got->param_count));
      for (int k = 0; k < p->count; k++) {
        int aside = 0;
        assert_int_equal(p->member[k]->task_count, want->program.member[k]->task_count);
        for (int t = 0; t < p->member[k]->task_count; t++)
          aside += p->member[k]->tasks[t].lane == LS_LANE_SIDE;
        assert_true(aside > 0);
      }
    }
    world_release(&on);
    world_release(&off);
  }
}

/* The null backend goes through everything and computes nothing. */
static void test_null_backend(void **state) {
  job_t job = job_default();
  job.backend = &ls_backend_null;
  job.strategy = "ddp";
  job.copies = true;
  job.input_slots = 2;
  job.steps = 5;
  job.micro_batches = 2;
  for (job.world_size = 1; job.world_size <= 3; job.world_size++) {
    world_t world;
    world_run(&job, &world);
    expect_ok(&job, &world);
    for (int r = 0; r < job.world_size; r++) {
      assert_true(same_bits(world.rank[r].param, world.rank[r].initial, world.rank[r].param_count));
      assert_true(world.rank[r].step_ns > 0);
    }
    world_release(&world);
  }
}

/* A NaN in one rank's data: no rank changes a bit, and says so; the next step goes on. */
static void test_nan_skips_the_step(void **state) {
  job_t job = job_default();
  job.adam = true;
  for (job.world_size = 1; job.world_size <= 3; job.world_size++) {
    world_t bad, more, clean;
    job.strategy = job.world_size > 1 ? "ddp" : "single";
    job.nan_step = 0;
    job.steps = 1;
    world_run(&job, &bad);
    expect_ok(&job, &bad);
    for (int r = 0; r < job.world_size; r++) {
      const rank_result_t *rank = &bad.rank[r];
      assert_true(same_bits(rank->param, rank->initial, rank->param_count));
      assert_true(isnan(rank->stats[LS_STAT_LOSS]));
      assert_true(rank->stats[LS_STAT_APPLIED] == 0 && rank->stats[LS_STAT_SKIPPED] == 1);
    }
    world_release(&bad);

    job.steps = 2;
    world_run(&job, &more);
    expect_ok(&job, &more);
    job.nan_step = -1;
    job.steps = 1;
    world_run(&job, &clean);
    const rank_result_t *after = &more.rank[0];
    assert_true(after->stats[LS_STAT_APPLIED] == 1 && after->stats[LS_STAT_SKIPPED] == 1);
    assert_true(after->stats[LS_STAT_SKIPPED_ROW] == 0);
    assert_false(same_bits(after->param, after->initial, after->param_count));
    for (int64_t k = 0; k < after->param_count; k++)
      assert_true(isfinite(after->param[k]));
    world_release(&more);
    world_release(&clean);
  }
}

/* A rank that waits for one that never comes is told the collective and the step, and does not go on. */
static void test_absent_rank(void **state) {
  job_t job = job_default();
  world_t world;
  job.strategy = "ddp";
  job.world_size = 3;
  job.absent_rank = 1;
  job.deadline_ns = 50000000;
  for (int whole = 0; whole <= 1; whole++) { /* one bucket is reduced by the compute lane itself */
    job.bucket_bytes = whole ? 1 << 20 : 64;
    world_run(&job, &world);
    for (int r = 0; r < 3; r += 2) {
      const rank_result_t *rank = &world.rank[r];
      assert_int_equal(rank->status, LS_ERR_TIMEOUT);
      assert_non_null(strstr(rank->error, "gradients 0"));
      assert_non_null(strstr(rank->error, "step 0"));
      assert_non_null(strstr(rank->error, "rank"));
      assert_true(same_bits(rank->param, rank->initial, rank->param_count));
    }
    world_release(&world);
  }
}

static void test_evaluation(void **state) {
  job_t job = job_default();
  world_t trained, world;
  job.samples = 12;
  run_reference(&job, &trained); /* its loss is that of the initial parameters */
  job.evaluate = true;
  for (int copies = 0; copies <= 1; copies++) {
    job.copies = copies;
    job.strategy = "single";
    job.world_size = 1;
    world_run(&job, &world);
    expect_ok(&job, &world);
    assert_true(world.rank[0].stats[LS_STAT_LOSS] == trained.rank[0].stats[LS_STAT_LOSS]);
    assert_true(same_bits(world.rank[0].param, world.rank[0].initial, world.rank[0].param_count));
    double loss = 0;
    for (int64_t k = 0; k < job.samples * OUTPUTS; k++) {
      double d = world.rank[0].output[k] - network_target(0, k / OUTPUTS, k % OUTPUTS);
      loss += d * d / OUTPUTS / 16;
    }
    assert_true(world.rank[0].stats[LS_STAT_LOSS] == (float)loss);
    world_release(&world);

    job.strategy = "ddp"; /* each rank its rows, no communication */
    job.world_size = 3;
    world_run(&job, &world);
    expect_ok(&job, &world);
    double sum = 0;
    for (int r = 0; r < 3; r++)
      sum += world.rank[r].stats[LS_STAT_LOSS];
    assert_true((float)sum == trained.rank[0].stats[LS_STAT_LOSS]);
    world_release(&world);
  }
  world_release(&trained);
}

/* The parts of a measured step add up to the step. */
static void test_parts_add_up(void **state) {
  job_t job = job_default();
  world_t world;
  job.strategy = "ddp";
  job.world_size = 2;
  job.steps = 3;
  world_run(&job, &world);
  expect_ok(&job, &world);
  for (int r = 0; r < 2; r++) {
    int64_t sum = 0;
    for (int p = 0; p < LS_PHASE_STEP_COUNT; p++) {
      assert_true(world.rank[r].parts_ns[p] >= 0);
      sum += world.rank[r].parts_ns[p];
    }
    assert_true(sum == world.rank[r].step_ns);
    assert_true(world.rank[r].parts_ns[LS_PHASE_STEP_FORWARD] > 0);
    assert_true(world.rank[r].parts_ns[LS_PHASE_STEP_BACKWARD] > 0);
  }
  world_release(&world);
}

TESTS(NULL, NULL, test_loss_by_hand, test_worlds_agree, gradients_travel_in_16_bits,
      test_shared_and_frozen_parameters, test_low_precision_worlds_agree, test_low_precision_evaluation,
      test_an_overflow_halves_the_loss_scale, test_uneven_shares, test_micro_batches_add_up,
      test_slots_and_copies, test_many_steps_agree, test_cpu_backend, test_null_backend, test_device_double,
      a_side_lane_changes_no_bit, test_nan_skips_the_step, test_absent_rank, test_evaluation,
      test_parts_add_up)
