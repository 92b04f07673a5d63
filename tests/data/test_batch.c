/* Batches are exact: every sample once per epoch for any number of ranks, weights that sum to 1, padding that
 * weighs nothing, epochs that run into each other. */
#include "batches.h"
#include "data/picture/augment.h"

#include <math.h>

static float rate(void *user, int64_t step) {
  return *(float *)user * (float)(step + 1);
}

/* A rank's part of each micro-batch. One without rows computes padding from beyond the batch. */
static void take_share(ls_loader_spec_t *spec, int rank, int ranks) {
  int64_t whole = (spec->global_batch + spec->micro_batches - 1) / spec->micro_batches;
  spec->stride = whole;
  spec->first = whole * rank / ranks;
  spec->rows = whole * (rank + 1) / ranks - spec->first;
  if (spec->rows > 0) return;
  spec->first = spec->global_batch;
  spec->rows = 1;
}

/* Fills all ranks' batches of a step; seen[row] counts real rows; checks targets, weights,
 * fences, padding. */
static double fill_ranks(const ls_dataset_t *d, ls_loader_spec_t spec, int64_t step, int ranks, int *seen) {
  double weights = 0;
  float lr = 0.5f;
  spec.lr = rate;
  spec.lr_user = &lr;
  int64_t padding = ls_dataset_row(d, spec.part, 0);
  for (int rank = 0; rank < ranks; rank++) {
    take_share(&spec, rank, ranks);
    for (int a = 0; a < spec.micro_batches; a++) {
      memory_t m, untouched;
      ls_batch_t to = batch_of(&m);
      memset(&untouched, 0x7b, sizeof untouched);
      ls_batch_fill(d, &spec, step * spec.micro_batches + a, &to);
      for (int64_t r = 0; r < spec.rows; r++) {
        int64_t row = (int64_t)m.x[r * BATCH_INPUTS], of_batch = spec.first + a * spec.stride + r;
        for (int j = 0; j < BATCH_INPUTS; j++)
          assert_true(m.x[r * BATCH_INPUTS + j] == (float)(row + 1000 * j));
        if (d->classes)
          assert_int_equal(m.target.label[r], row);
        else
          assert_true(m.target.real[r] == 2.0f * (float)row);
        bool real = of_batch < spec.global_batch && step * spec.global_batch + of_batch < spec.total_samples;
        if (real)
          seen[row]++;
        else
          assert_int_equal(row, padding);
        assert_true(real ? m.weight[r] > 0.0f : m.weight[r] == 0.0f);
        weights += (double)m.weight[r];
      }
      assert_int_equal(m.step[0].seed, spec.seed);
      assert_int_equal(m.step[0].position, step * spec.global_batch + spec.first + a * spec.stride);
      assert_true(m.step[0].lr == 0.5f * (float)(step + 1) && m.step[0].dloss == 1);
      assert_memory_equal(m.x + spec.rows * BATCH_INPUTS, untouched.x, FENCE * BATCH_INPUTS * sizeof(float));
      assert_memory_equal(&m.target.real[spec.rows], untouched.weight, FENCE * sizeof(float));
      assert_memory_equal(m.weight + spec.rows, untouched.weight, FENCE * sizeof(float));
      assert_memory_equal(m.step + 1, &untouched.step[0], sizeof untouched.step[0]);
    }
  }
  return weights;
}

/* Row numbers in the place of samples: of the very samples, and nothing else is touched. */
static void test_row_numbers(void **state) {
  for (int classes = 0; classes < 2; classes++) {
    ls_dataset_t *d = counting_dataset(said.ctx, 37, BATCH_INPUTS, 0.2, classes);
    ls_loader_spec_t spec = {.seed = 5,
                             .global_batch = 50, /* reaches over more than an epoch */
                             .first = 3,
                             .rows = 21,
                             .stride = 27, /* the last row is beyond the batch */
                             .micro_batches = 2,
                             .total_samples = 340,
                             .total_steps = 7};
    for (spec.shuffle = false;; spec.shuffle = true) {
      for (int64_t unit = 0; unit < 14; unit++) {
        static memory_t by_value, by_row, untouched;
        int32_t row[BATCH_ROWS + FENCE];
        ls_batch_t values = batch_of(&by_value), rows = batch_of(&by_row);
        memset(&untouched, 0x7b, sizeof untouched);
        memset(row, 0x7b, sizeof row);
        rows.row = row;
        ls_batch_work_t work = {0};
        ls_batch_fill(d, &spec, unit, &values);
        for (int part = 0; part < 3; part++)
          ls_batch_fill_part(d, &spec, unit, &rows, part, 3, &work);
        for (int r = 0; r < 21; r++)
          assert_true(by_value.x[r * BATCH_INPUTS] == (float)row[r]);
        assert_int_equal(row[21], untouched.target.label[0]);
        assert_memory_equal(by_row.weight, by_value.weight, sizeof by_row.weight);
        assert_memory_equal(by_row.step, by_value.step, sizeof by_row.step);
        assert_memory_equal(by_row.x, untouched.x, sizeof by_row.x);
        assert_memory_equal(&by_row.target, &untouched.target, sizeof by_row.target);
      }
      if (spec.shuffle) break;
    }
    ls_dataset_close(d);
  }
}

static void test_uneven_shares(void **state) {
  ls_dataset_t *d = counting_dataset(said.ctx, 10, BATCH_INPUTS, 0, false);
  ls_loader_spec_t spec = {.seed = 5,
                           .shuffle = true,
                           .global_batch = 10,
                           .micro_batches = 1,
                           .total_samples = 10,
                           .total_steps = 1};
  int seen[10] = {0};
  assert_true(fabs(fill_ranks(d, spec, 0, 3, seen) - 1.0) < 1e-6);
  for (int i = 0; i < 10; i++)
    assert_int_equal(seen[i], 1);
  ls_dataset_close(d);
}

/* Ranks, micro-batches, batch sizes that do not divide the set: after E epochs each sample came E times. */
static void test_every_sample_once_per_epoch(void **state) {
  enum { ROWS = 37, EPOCHS = 3 };
  for (int classes = 0; classes < 2; classes++) {
    ls_dataset_t *d = counting_dataset(said.ctx, ROWS, BATCH_INPUTS, 0.2, classes);
    for (int64_t batch = 1; batch <= 40; batch += 3)
      for (int ranks = 1; ranks <= 8; ranks += 1 + (ranks > 2))
        for (int accumulate = 1; accumulate <= 4; accumulate++) {
          int64_t total = d->train_count * EPOCHS;
          ls_loader_spec_t spec = {.seed = 5,
                                   .shuffle = true,
                                   .global_batch = batch,
                                   .micro_batches = accumulate,
                                   .total_samples = total,
                                   .total_steps = (total + batch - 1) / batch};
          int seen[ROWS] = {0};
          for (int64_t step = 0; step < spec.total_steps; step++) {
            double weights = fill_ranks(d, spec, step, ranks, seen);
            assert_true(fabs(weights - 1.0) < 1e-5); /* the last, partial batch too */
          }
          for (int64_t i = 0; i < d->train_count; i++)
            assert_int_equal(seen[ls_dataset_row(d, LS_PART_TRAIN, i)], EPOCHS);
          for (int64_t i = 0; i < d->validation_count; i++)
            assert_int_equal(seen[ls_dataset_row(d, LS_PART_VALIDATION, i)], 0);
        }
    ls_dataset_close(d);
  }
}

/* The stream does not depend on how many ranks there are or how batches are cut. */
static void test_stream_is_the_same_for_any_world(void **state) {
  ls_dataset_t *d = counting_dataset(said.ctx, 50, BATCH_INPUTS, 0, false);
  float stream[120];
  for (int ranks = 1; ranks <= 5; ranks++)
    for (int64_t step = 0; step < 10; step++)
      for (int rank = 0; rank < ranks; rank++) {
        ls_loader_spec_t spec = {.seed = 5,
                                 .shuffle = true,
                                 .global_batch = 12,
                                 .micro_batches = 1,
                                 .total_samples = 120,
                                 .total_steps = 10};
        take_share(&spec, rank, ranks);
        memory_t m;
        ls_batch_t to = batch_of(&m);
        ls_batch_fill(d, &spec, step, &to);
        for (int64_t r = 0; r < spec.rows; r++) {
          float *at = &stream[step * 12 + spec.first + r];
          if (ranks == 1) *at = m.x[r * BATCH_INPUTS];
          assert_true(*at == m.x[r * BATCH_INPUTS]);
        }
      }
  int same = 0; /* epochs are shuffled differently: positions 0.. and 50.. */
  for (int i = 0; i < 50; i++)
    same += stream[i] == stream[50 + i];
  assert_in_range(same, 0, 8);
  for (int i = 0; i < 50; i++) { /* and stream position p is what ls_order says */
    int64_t row = ls_dataset_row(d, LS_PART_TRAIN, (int64_t)order_of(5, 1, 50, (uint64_t)i));
    assert_true(stream[50 + i] == (float)row);
  }
  ls_dataset_close(d);
}

static void test_part_order_without_shuffle(void **state) {
  ls_dataset_t *d = counting_dataset(said.ctx, 20, BATCH_INPUTS, 0.5, false);
  ls_loader_spec_t spec = {.part = LS_PART_VALIDATION,
                           .global_batch = 4,
                           .rows = 4,
                           .micro_batches = 1,
                           .total_samples = 10,
                           .total_steps = 3};
  for (int64_t step = 0; step < 3; step++) {
    memory_t m;
    ls_batch_t to = batch_of(&m);
    ls_batch_fill(d, &spec, step, &to);
    for (int64_t r = 0; r < 4; r++) {
      int64_t index = step * 4 + r < 10 ? step * 4 + r : 0;
      assert_true(m.x[r * BATCH_INPUTS] == (float)ls_dataset_row(d, LS_PART_VALIDATION, index));
      assert_true(m.weight[r] == (step < 2 ? 0.25f : r < 2 ? 0.5f : 0.0f));
      assert_true(m.step[0].lr == 0.0f);
    }
  }
  ls_dataset_close(d);
}

/* Beyond the end, and a share of nothing: only padding. */
static void test_padding_only(void **state) {
  ls_dataset_t *d = counting_dataset(said.ctx, 5, BATCH_INPUTS, 0, false);
  ls_loader_spec_t spec = {.seed = 5,
                           .shuffle = true,
                           .global_batch = 4,
                           .rows = 2,
                           .stride = 2,
                           .micro_batches = 2,
                           .total_samples = 5,
                           .total_steps = 2};
  int seen[5] = {0};
  assert_true(fill_ranks(d, spec, 2, 1, seen) == 0.0);
  for (int i = 0; i < 5; i++)
    assert_int_equal(seen[i], 0);
  spec.first = 4;
  memory_t m;
  ls_batch_t to = batch_of(&m);
  for (int unit = 0; unit < 2; unit++) {
    ls_batch_fill(d, &spec, unit, &to);
    for (int r = 0; r < 2; r++)
      assert_true(m.weight[r] == 0.0f);
  }
  ls_dataset_close(d);
}

TESTS(said_open, said_close, test_row_numbers, test_uneven_shares, test_every_sample_once_per_epoch,
      test_stream_is_the_same_for_any_world, test_part_order_without_shuffle, test_padding_only)
