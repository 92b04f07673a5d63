/* The loader gives exactly what ls_batch_fill gives, from any first step, through any number of slots, and
 * can be stopped at any time. */
#include "batches.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROWS = 50, STEPS = 40, MICRO = 2, UNITS = STEPS * MICRO, SLOTS_MAX = 4 };

typedef struct {
  ls_dataset_t *dataset;
  ls_loader_spec_t spec;
  memory_t memory[SLOTS_MAX];
  ls_batch_t slots[SLOTS_MAX];
} bench_t;

static float rate(void *user, int64_t step) {
  (void)user;
  return 1.0f / (float)(step + 1);
}

static bench_t *bench_open(void) {
  bench_t *b = calloc(1, sizeof *b);
  b->dataset = counting_dataset(said.ctx, ROWS, BATCH_INPUTS, 0.2, true);
  b->spec = (ls_loader_spec_t){.seed = 9,
                               .shuffle = true,
                               .global_batch = 7,
                               .first = 2,
                               .rows = 3,
                               .stride = 3, /* the last row is padding */
                               .micro_batches = MICRO,
                               .total_samples = 7 * STEPS - 3,
                               .total_steps = STEPS,
                               .threads = 1,
                               .lr = rate};
  for (int i = 0; i < SLOTS_MAX; i++)
    b->slots[i] = batch_of(&b->memory[i]);
  return b;
}

static void bench_close(bench_t *b) {
  ls_dataset_close(b->dataset);
  free(b);
}

static void check_slot(bench_t *b, int64_t unit, int slot) {
  memory_t want;
  ls_batch_t to = batch_of(&want);
  ls_batch_fill(b->dataset, &b->spec, unit, &to);
  assert_memory_equal(&b->memory[slot], &want, sizeof want);
}

static void test_same_as_fill(void **state) {
  bench_t *b = bench_open();
  for (int slots = 1; slots <= SLOTS_MAX; slots++)
    for (int64_t first = 0; first <= STEPS; first += 7) {
      ls_loader_t *l;
      b->spec.threads = (int)(first % 3); /* 0: by acquire */
      assert_int_equal(ls_loader_create(said.ctx, b->dataset, &b->spec, first, slots, b->slots, &l), LS_OK);
      for (int64_t unit = first * MICRO; unit < UNITS; unit++) {
        ls_loader_acquire(l, unit);
        check_slot(b, unit, (int)(unit % slots));
        ls_loader_release(l, unit);
      }
      ls_loader_acquire(l, UNITS); /* at the end: returns at once */
      ls_loader_acquire(l, UNITS + 100);
      ls_loader_destroy(l);
    }
  bench_close(b);
}

/* Several micro-batches held at the same time: the ring is not overwritten under them. */
static void test_holds_slots(void **state) {
  bench_t *b = bench_open();
  for (b->spec.threads = 0; b->spec.threads < 2; b->spec.threads++) {
    ls_loader_t *l;
    assert_int_equal(ls_loader_create(said.ctx, b->dataset, &b->spec, 0, 3, b->slots, &l), LS_OK);
    for (int64_t unit = 0; unit + 2 < UNITS; unit++) {
      for (int64_t k = 0; k < 3; k++)
        ls_loader_acquire(l, unit + k);
      for (int64_t k = 0; k < 3; k++)
        check_slot(b, unit + k, (int)((unit + k) % 3));
      ls_loader_release(l, unit);
    }
    ls_loader_destroy(l);
  }
  bench_close(b);
}

static void test_destroy_at_any_time(void **state) {
  bench_t *b = bench_open();
  for (int run = 0; run < 200; run++) {
    ls_loader_t *l;
    assert_int_equal(ls_loader_create(said.ctx, b->dataset, &b->spec, 0, 2, b->slots, &l), LS_OK);
    for (int64_t unit = 0; unit < run % 5; unit++) {
      ls_loader_acquire(l, unit);
      ls_loader_release(l, unit);
    }
    ls_loader_destroy(l);
  }
  ls_loader_destroy(NULL);
  bench_close(b);
}

static void test_refuses(void **state) {
  bench_t *b = bench_open();
  ls_loader_t *l = NULL;
  for (int which = 0; which < 11; which++) {
    ls_loader_spec_t p = b->spec;
    int slots = 2;
    int64_t first = 0;
    switch (which) {
    case 0:
      p.global_batch = 0;
      break;
    case 1:
      p.first = INT64_MAX;
      break;
    case 2:
      p.first = -1;
      break;
    case 3:
      p.rows = -1;
      break;
    case 4:
      p.micro_batches = 0;
      break;
    case 5:
      p.stride = 2;
      break; /* a row would come twice */
    case 6:
      p.rows = INT64_MAX;
      break;
    case 7:
      slots = 0;
      break;
    case 8:
      first = -1;
      break;
    case 9:
      p.total_steps = INT64_MAX;
      break;
    case 10:
      p.total_samples = -1;
      break;
    }
    said_clear();
    assert_int_equal(ls_loader_create(said.ctx, b->dataset, &p, first, slots, b->slots, &l), LS_ERR_ARGUMENT);
    assert_int_equal(ls_ctx_error_count(said.ctx), 1);
  }
  ls_dataset_t many = *b->dataset;
  ls_batch_t by_row = b->slots[0];
  int32_t row;
  by_row.row = &row;
  many.rows = INT64_C(1) + INT32_MAX;
  said_clear();
  assert_refused(ls_loader_create(said.ctx, &many, &b->spec, 0, 1, &by_row, &l), LS_ERR_ARGUMENT, "32 bits");
  ls_dataset_close(b->dataset);
  b->dataset = counting_dataset(said.ctx, ROWS, BATCH_INPUTS, 0, true);
  b->spec.part = LS_PART_VALIDATION;
  assert_refused(ls_loader_create(said.ctx, b->dataset, &b->spec, 0, 2, b->slots, &l), LS_ERR_ARGUMENT,
                 "the part to load from is empty");
  assert_null(l);
  bench_close(b);
}

static ls_status_t attempt(ls_ctx_t *ctx, void *arg) {
  bench_t *b = arg;
  ls_loader_t *l;
  ls_status_t status = ls_loader_create(ctx, b->dataset, &b->spec, 0, 2, b->slots, &l);
  if (status == LS_OK) ls_loader_destroy(l);
  return status;
}

/* A loading thread that is gone: the loop is told after the deadline, and nothing waits for the thread. */
static atomic_bool gone;

static float vanish(void *user, int64_t step) {
  if (step == 3) {
    atomic_store(&gone, true);
    pthread_exit(NULL);
  }
  return rate(user, step);
}

static void a_thread_that_vanishes_ends_the_wait_by_the_deadline(void **state) {
  bench_t *b = bench_open();
  static ls_loader_t *l; /* destroy leaves to the thread that is gone what it may still use */
  b->spec.lr = vanish;
  b->spec.deadline_ns = 300000000;
  assert_int_equal(ls_loader_create(said.ctx, b->dataset, &b->spec, 0, 2, b->slots, &l), LS_OK);
  for (int64_t unit = 0; unit < 3 * MICRO; unit++) {
    assert_int_equal(ls_loader_acquire(l, unit), LS_OK);
    ls_loader_release(l, unit);
  }
  assert_int_equal(ls_loader_acquire(l, 3 * MICRO), LS_ERR_TIMEOUT);
  assert_non_null(strstr(ls_ctx_error(said.ctx), "step 3: its batch was not there within 0.300 s"));
  ls_loader_release(l, 3 * MICRO - 1);
  ls_loader_destroy(l);
  assert_true(atomic_load(&gone)); /* and no longer reads what is closed now */
  bench_close(b);
}

static void test_memory(void **state) {
  bench_t *b = bench_open();
  each_alloc_fails(attempt, b);
  bench_close(b);
}

TESTS(said_open, said_close, test_same_as_fill, test_holds_slots, test_destroy_at_any_time, test_refuses,
      test_memory, a_thread_that_vanishes_ends_the_wait_by_the_deadline)
