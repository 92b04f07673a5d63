/* Who computes what of a step: micro-batches have the same rows for any number of ranks, each row comes once, and shards
 * and steps of one micro-batch are shared as they always were. */
#include "train/loop.h"

#include <string.h>

#include "unit.h"

enum { BATCH_MAX = 40, RANKS_MAX = 9 };

/* Ranks take the rows of a micro-batch in their order, so that together they are contiguous. */
static void each_row_is_in_the_micro_batch_that_one_rank_alone_has(void **state) {
  for (int64_t batch = 1; batch <= BATCH_MAX; batch++)
    for (int accumulate = 1; accumulate <= BATCH_MAX + 2; accumulate++)
      for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        const int64_t whole = (batch + accumulate - 1) / accumulate;
        int64_t next[BATCH_MAX + 2], most = 0, count = 0; /* next: row of each micro-batch that nobody has */
        const ls_batching_t of = {batch, accumulate, 0};
        for (int m = 0; m < accumulate; m++)
          next[m] = m * whole;
        for (int rank = 0; rank < ranks; rank++) {
          ls_engine_share_t s;
          int64_t real = 0;
          ls_engine_share(of, rank, ranks, &s);
          assert_int_equal(s.micro_batches, accumulate);
          assert_true(s.rows >= 1 && s.stride >= s.rows);
          for (int m = 0; m < accumulate; m++)
            for (int64_t r = 0; r < s.rows; r++) {
              int64_t row = s.first + m * s.stride + r;
              if (row >= batch) continue;
              assert_int_equal(row, next[m]++);
              real++;
            }
          assert_int_equal(s.count, real);
          count += real;
          most = s.rows > most ? s.rows : most;
          if (rank == 0) assert_int_equal(s.rows, (batch + accumulate * ranks - 1) / (accumulate * ranks));
        }
        for (int m = 0; m < accumulate; m++) {
          int64_t end = (m + 1) * whole < batch ? (m + 1) * whole : batch;
          assert_int_equal(next[m], end > m * whole ? end : m * whole);
        }
        assert_int_equal(count, batch);
        ls_engine_share_t first;
        ls_engine_share(of, 0, ranks, &first);
        assert_int_equal(first.rows, most); /* what the planner lowers and memory reports */
      }
}

/* Counted from the rows of every rank in every micro-batch. */
static void what_a_cut_costs_is_counted(void **state) {
  for (int64_t batch = 1; batch <= BATCH_MAX; batch++)
    for (int ranks = 1; ranks <= RANKS_MAX && ranks <= batch; ranks++) {
      int64_t well = 0;
      for (int accumulate = 1; accumulate <= BATCH_MAX + 2; accumulate++) {
        int64_t most = 0, lacks = 0;
        const ls_batching_t of = {batch, accumulate, 0};
        for (int m = 0; m < accumulate; m++) {
          bool all = true;
          for (int rank = 0; rank < ranks; rank++) {
            ls_engine_share_t s;
            ls_engine_share(of, rank, ranks, &s);
            all = all && s.first + m * s.stride < batch;
            most = s.count > most ? s.count : most;
          }
          lacks += !all;
        }
        const ls_engine_cut_t cut = ls_engine_cut(batch, accumulate, ranks);
        assert_int_equal(cut.empty, lacks);
        assert_int_equal(cut.largest, most);
        assert_int_equal(cut.even, 10 * most <= 11 * ((batch + ranks - 1) / ranks));
        if (cut.even && cut.empty == 0) well = accumulate;
        assert_int_equal(ls_engine_cut_well(batch, accumulate, ranks), well);
      }
    }
}

static void cuts_that_were_thought_to_be_good(void **state) {
  static const struct {
    int64_t batch, accumulate;
    int ranks;
    int64_t empty, largest, well;
  } rows[] = {{10, 9, 1, 4, 10, 5}, {10, 8, 3, 8, 5, 2},
              {10, 3, 3, 1, 6, 2},  {96, 32, 2, 0, 64, 24},
              {24, 2, 8, 0, 4, 1},  {24, 3, 8, 0, 3, 3},
              {10, 1, 3, 0, 4, 1},  {10, 10, 1, 0, 10, 10},
              {10, 3, 2, 1, 6, 1},  {65536, 65536, 1, 0, 65536, 65536}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const ls_engine_cut_t cut = ls_engine_cut(rows[i].batch, rows[i].accumulate, rows[i].ranks);
    assert_int_equal(cut.empty, rows[i].empty);
    assert_int_equal(cut.largest, rows[i].largest);
    assert_int_equal(ls_engine_cut_well(rows[i].batch, rows[i].accumulate, rows[i].ranks), rows[i].well);
  }
}

/* Half the micro-batch, unless some rank would then have none of a row. */
static void a_rung_of_safety_empties_no_micro_batch(void **state) {
  static const struct {
    int64_t batch;
    int accumulate, ranks;
    int64_t resized;
  } rows[] = {{60, 1, 1, 2}, {10, 1, 3, 2}, {10, 4, 1, 0}, {10, 5, 1, 10}, {24, 2, 8, 0}, {10, 6, 1, 0}};
  static ls_config_t config;
  static ls_trainer_t t;
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_comm_t comm = {.size = rows[i].ranks};
    ls_world_t world = {.comm = &comm};
    config.train.batch = rows[i].batch;
    config.train.accumulate = rows[i].accumulate;
    t.config = &config;
    t.world = &world;
    assert_int_equal(ls_loop_resized(&t, true), rows[i].resized);
    assert_int_equal(ls_loop_resized(&t, false), 0);
  }
}

static void one_micro_batch_is_shared_evenly(void **state) {
  for (int64_t batch = RANKS_MAX; batch <= BATCH_MAX; batch++)
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
      for (int rank = 0; rank < ranks; rank++) {
        int64_t first, count;
        ls_engine_share_t s;
        ls_engine_share((ls_batching_t){batch, 1, 0}, rank, ranks, &s);
        ls_share(batch, rank, ranks, &first, &count);
        assert_int_equal(s.first, first);
        assert_int_equal(s.count, count);
        assert_int_equal(s.rows, count);
      }
}

/* Rank after rank has the next contiguous block of whole shards. */
static void shards_are_contiguous_blocks(void **state) {
  for (int64_t batch = 1; batch <= BATCH_MAX; batch++)
    for (int ranks = 1; ranks <= 8; ranks *= 2)
      for (int rank = 0; rank < ranks; rank++) {
        const int64_t rows = (batch + 7) / 8, first = rank * (8 / ranks) * rows,
                      end = first + 8 / ranks * rows;
        ls_engine_share_t s;
        ls_engine_share((ls_batching_t){batch, 1, 8}, rank, ranks, &s);
        assert_int_equal(s.micro_batches, 8 / ranks);
        assert_int_equal(s.rows, rows);
        assert_int_equal(s.stride, rows);
        assert_int_equal(s.first, first);
        assert_int_equal(s.count, first >= batch ? 0 : (end < batch ? end : batch) - first);
      }
}

/* The last bits of a loss depend on the rows of a chunk: train.accumulate is not to move them. */
static void chunks_of_evaluations_do_not_depend_on_micro_batches(void **state) {
  for (int accumulate = 1; accumulate <= 7; accumulate++) {
    const ls_batching_t of = {500, accumulate, 0};
    assert_int_equal(ls_engine_eval_rows(of, 5000, 1), 500);
    assert_int_equal(ls_engine_eval_rows(of, 5000, 3), 167);
    assert_int_equal(ls_engine_eval_rows(of, 300, 3), 100);
  }
  for (int ranks = 1; ranks <= 4; ranks *= 2)
    assert_int_equal(ls_engine_eval_rows((ls_batching_t){500, 1, 4}, 5000, ranks), 125);
}

TESTS(NULL, NULL, each_row_is_in_the_micro_batch_that_one_rank_alone_has, what_a_cut_costs_is_counted,
      cuts_that_were_thought_to_be_good, a_rung_of_safety_empties_no_micro_batch,
      one_micro_batch_is_shared_evenly, shards_are_contiguous_blocks,
      chunks_of_evaluations_do_not_depend_on_micro_batches)
