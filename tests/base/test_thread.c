/* The pool: every thread's part runs exactly once, shares cover everything exactly once. */
#include "capture.h"

#include <stdatomic.h>

enum { THREADS_MAX = 9 };

typedef struct {
  _Atomic int runs[THREADS_MAX];
  int threads_seen[THREADS_MAX];
} tally_t;

static void tally(void *argument, int thread, int threads) {
  tally_t *t = argument;
  atomic_fetch_add(&t->runs[thread], 1);
  t->threads_seen[thread] = threads;
}

static void every_part_once(void **state) {
  capture_t *c = *state;
  for (int threads = 1; threads <= THREADS_MAX; threads++) {
    ls_pool_t *pool = NULL;
    assert_int_equal(ls_pool_create(c->ctx, threads, &pool), LS_OK);
    assert_int_equal(ls_pool_threads(pool), threads);
    tally_t t = {0};
    for (int run = 1; run <= 300; run++) {
      ls_pool_run(pool, tally, &t);
      for (int i = 0; i < THREADS_MAX; i++)
        assert_int_equal(atomic_load(&t.runs[i]), i < threads ? run : 0);
    }
    for (int i = 0; i < threads; i++)
      assert_int_equal(t.threads_seen[i], threads);
    ls_pool_destroy(pool);
  }
}

/* Plain memory: what a worker wrote is visible after the run, what the caller wrote is visible in it. */
typedef struct {
  int64_t count;
  int64_t *from, *to;
} copy_t;

static void copy_part(void *argument, int thread, int threads) {
  copy_t *c = argument;
  int64_t begin, end;
  ls_pool_share(c->count, 1, thread, threads, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    c->to[i] = c->from[i] + 1;
}

static void memory_is_ordered(void **state) {
  capture_t *c = *state;
  enum { COUNT = 1000 };
  static int64_t a[COUNT], b[COUNT];
  ls_pool_t *pool = NULL;
  assert_int_equal(ls_pool_create(c->ctx, 4, &pool), LS_OK);
  memset(a, 0, sizeof a);
  for (int run = 0; run < 1000; run++) {
    copy_t job = {COUNT, run % 2 ? b : a, run % 2 ? a : b};
    ls_pool_run(pool, copy_part, &job);
  }
  for (int i = 0; i < COUNT; i++)
    assert_int_equal(a[i], 1000);
  ls_pool_destroy(pool);
}

/* Work between loops that is longer than a worker spins: they have slept and must wake. */
static void sleepers_wake(void **state) {
  capture_t *c = *state;
  ls_pool_t *pool = NULL;
  assert_int_equal(ls_pool_create(c->ctx, 3, &pool), LS_OK);
  tally_t t = {0};
  for (int run = 1; run <= 50; run++) {
    int64_t until_ns = ls_clock_ns() + 200000;
    while (ls_clock_ns() < until_ns) {
    }
    ls_pool_run(pool, tally, &t);
    for (int i = 0; i < 3; i++)
      assert_int_equal(atomic_load(&t.runs[i]), run);
  }
  ls_pool_destroy(pool);
}

/* Threads that took part in a loop of work_ns; each exactly once. */
static int taking_part(ls_pool_t *pool, int64_t work_ns) {
  tally_t t = {0};
  int threads = 0;
  ls_pool_run_work(pool, work_ns, tally, &t);
  while (threads < THREADS_MAX && atomic_load(&t.runs[threads]) == 1)
    threads++;
  for (int i = 0; i < THREADS_MAX; i++) {
    assert_int_equal(atomic_load(&t.runs[i]), i < threads);
    assert_int_equal(t.threads_seen[i], i < threads ? threads : 0);
  }
  return threads;
}

/* A small network's update of 2 us took 160 us when it was cut for two threads. */
static void small_loops_stay_in_one_thread(void **state) {
  capture_t *c = *state;
  ls_pool_t *pool = NULL;
  assert_int_equal(ls_pool_create(c->ctx, 4, &pool), LS_OK);
  for (int run = 0; run < 200; run++) { /* awake or asleep */
    assert_int_equal(taking_part(pool, 0), 1);
    assert_int_equal(taking_part(pool, 2 * LS_POOL_SHARE_NS - 1), 1);
    int some = taking_part(pool, 3 * LS_POOL_SHARE_NS);
    assert_true(some >= 1 && some <= 3);
    assert_in_range(taking_part(pool, 2 * LS_POOL_WAKE_SHARE_NS), 2, 4);
    assert_int_equal(taking_part(pool, 4 * LS_POOL_WAKE_SHARE_NS), 4);
  }
  ls_pool_destroy(pool);
  assert_int_equal(taking_part(NULL, INT64_MAX), 1);
}

/* Both ranks of a node sat on one core for a whole run, and each of their exchanges waited for a turn there. */
static void parts_of_the_processors_are_disjoint(void **state) {
  cpu_set_t all, before, part, both, seen;
  sched_getaffinity(0, sizeof all, &all);
  const int count = CPU_COUNT(&all);
  for (int parts = 2; parts <= count && parts <= 8; parts++) {
    CPU_ZERO(&seen);
    for (int i = 0; i < parts; i++) {
      ls_cpu_narrow(i, parts, &before);
      assert_true(CPU_EQUAL(&before, &all));
      sched_getaffinity(0, sizeof part, &part);
      assert_int_equal(CPU_COUNT(&part), count / parts);
      CPU_AND(&both, &part, &seen);
      assert_int_equal(CPU_COUNT(&both), 0);
      CPU_OR(&seen, &seen, &part);
      ls_cpu_widen(&before);
      sched_getaffinity(0, sizeof part, &part);
      assert_true(CPU_EQUAL(&part, &all));
    }
  }
  for (int parts = count + 1; parts >= 1; parts -= count) { /* more than processors, and one */
    ls_cpu_narrow(0, parts, &before);
    assert_int_equal(CPU_COUNT(&before), 0);
    sched_getaffinity(0, sizeof part, &part);
    assert_true(CPU_EQUAL(&part, &all));
  }
}

static void without_a_pool(void **state) {
  tally_t t = {0};
  ls_pool_run(NULL, tally, &t);
  assert_int_equal(atomic_load(&t.runs[0]), 1);
  assert_int_equal(t.threads_seen[0], 1);
  assert_int_equal(ls_pool_threads(NULL), 1);
  ls_pool_destroy(NULL);
}

static void shares_cover_exactly(void **state) {
  static const int64_t grains[] = {1, 2, 16, 1000};
  for (int64_t count = 0; count <= 130; count++)
    for (int g = 0; g < LS_COUNT(grains); g++)
      for (int threads = 1; threads <= 13; threads++) {
        int64_t expected = 0, least = INT64_MAX, most = 0;
        for (int thread = 0; thread < threads; thread++) {
          int64_t begin = -1, end = -1;
          ls_pool_share(count, grains[g], thread, threads, &begin, &end);
          assert_int_equal(begin, expected);
          assert_true(end >= begin && (begin % grains[g] == 0 || begin == count));
          int64_t units = (end - begin + grains[g] - 1) / grains[g];
          least = units < least ? units : least;
          most = units > most ? units : most;
          expected = end;
        }
        assert_int_equal(expected, count);
        assert_true(most - least <= 1);
      }
}

static void shares_of_extremes(void **state) {
  int64_t begin, end, expected = 0;
  for (int thread = 0; thread < 7; thread++) {
    ls_pool_share(INT64_MAX, 1000, thread, 7, &begin, &end);
    assert_int_equal(begin, expected);
    expected = end;
  }
  assert_int_equal(expected, INT64_MAX);
  ls_pool_share(-5, 0, 0, 1, &begin, &end);
  assert_int_equal(begin, 0);
  assert_int_equal(end, 0);
}

static void impossible_sizes(void **state) {
  capture_t *c = *state;
  ls_pool_t *pool = (ls_pool_t *)(uintptr_t)1;
  assert_int_equal(ls_pool_create(c->ctx, 0, &pool), LS_ERR_ARGUMENT);
  assert_int_equal(ls_pool_create(c->ctx, -3, &pool), LS_ERR_ARGUMENT);
  assert_int_equal(ls_pool_create(c->ctx, 1000000, &pool), LS_ERR_ARGUMENT);
  assert_true(pool == (ls_pool_t *)(uintptr_t)1); /* untouched */
}

static ls_status_t create(capture_t *c) {
  ls_pool_t *pool = NULL;
  ls_status_t status = ls_pool_create(c->ctx, 2, &pool);
  ls_pool_destroy(pool);
  return status;
}

static void allocation_failures(void **state) {
  assert_int_equal(capture_fail_each_alloc(*state, create), 1);
}

static void cores(void **state) {
  assert_true(ls_cpu_count() >= 1);
}

TESTS(capture_setup, capture_teardown, every_part_once, memory_is_ordered, sleepers_wake, without_a_pool,
      shares_cover_exactly, shares_of_extremes, impossible_sizes, small_loops_stay_in_one_thread,
      allocation_failures, cores, parts_of_the_processors_are_disjoint)
