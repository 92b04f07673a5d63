/* Programs: which member runs when; what members share; what is proven beyond each of them. */

#include "base/context.h"
#include "build.h"
#include "schedule/run.h"

#include "unit.h"
#include <string.h>

enum { WIDTH = 16, BYTES = WIDTH * sizeof(float) };

static void members_take_turns(void **state) {
  ls_program_t p = {0};
  for (p.micro_batches = 1; p.micro_batches <= 6; p.micro_batches++)
    for (int m = 0; m < p.micro_batches; m++) {
      int want = m == 0 ? 0 : m < p.micro_batches - 1 ? 1 : p.micro_batches == 2 ? 1 : 2;
      assert_int_equal(ls_program_chain(&p, 0, m), want);
    }
  static const int tree[] = {0, 1, 0, 2, 0, 1, 0, 3};
  p.micro_batches = LS_COUNT(tree);
  for (int m = 0; m < LS_COUNT(tree); m++)
    assert_int_equal(ls_program_tree(&p, 0, m), tree[m]);
}

/* A toy member's treatment of the gradient. */
typedef enum { WRITES, ADDS, UPDATES, READS, LEAVES } use_t;

/* grad = 2 x, or grad += 2 x; then param += grad, with the stats. */
static ls_schedule_t *member(ls_state_table_t *table, const char *name, use_t use, int64_t more) {
  ls_schedule_t *s;
  assert_int_equal(ls_schedule_create(ctx, table, 0, 1, 3, &s), LS_OK);
  s->name = name;
  int x = build_at(s, "x", LS_REGION_INPUT, 0, WIDTH);
  int twice = build_transient(s, "twice", WIDTH), grad = build_at(s, "grad", BUILD_GRAD, 0, WIDTH);
  if (more) build_source(s, "more", build_transient(s, "more", more));
  if (use == READS) build_op1(s, &op_update, "early", grad, build_at(s, "param", BUILD_PARAM, 0, WIDTH));
  build_op1(s, &op_double, "twice", x, use == WRITES ? grad : twice);
  if (use == ADDS || use == UPDATES) build_op1(s, &op_update, "add", twice, grad);
  if (use == UPDATES) {
    build_op1(s, &op_update, "update", grad, build_at(s, "param", BUILD_PARAM, 0, WIDTH));
    build_op1(s, &op_double, "stats", grad, build_at(s, "stats", LS_REGION_STAT, 0, WIDTH));
  }
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  return s;
}

static ls_program_t program(int micro_batches, int count, const use_t *use) {
  static const char *const names[] = {"first", "middle", "last"};
  ls_schedule_t *rows_of = build_begin(ctx, 0, 1, 3); /* for its table */
  ls_program_t p = {.micro_batches = micro_batches, .period = 1, .rule = ls_program_chain, .count = count};
  for (int i = 0; i < count; i++)
    p.member[i] = member(rows_of->state, names[i], use[i], 8 << i);
  ls_schedule_destroy(rows_of);
  assert_int_equal(ls_program_finish(&p), LS_OK);
  return p;
}

static void expect_fault(int micro_batches, int count, const use_t *use, const char *words) {
  ls_program_t p = program(micro_batches, count, use);
  for (int i = 0; i < count; i++)
    assert_int_equal(ls_schedule_check(p.member[i]), LS_OK); /* each alone is right */
  assert_int_equal(ls_program_check(&p), words ? LS_ERR_INTERNAL : LS_OK);
  if (words && !strstr(ls_ctx_error(ctx), words)) fail_msg("'%s' is not in: %s", words, ls_ctx_error(ctx));
  ls_ctx_clear(ctx);
  ls_program_release(&p);
}

static void what_a_member_adds_to_was_written_before(void **state) {
  expect_fault(9, 3, (use_t[]){WRITES, ADDS, UPDATES}, NULL);
  expect_fault(2, 2, (use_t[]){WRITES, UPDATES}, NULL);
  expect_fault(9, 3, (use_t[]){LEAVES, WRITES, UPDATES}, NULL);
  expect_fault(9, 3, (use_t[]){LEAVES, ADDS, UPDATES}, "'add' of member 'middle' reads tensor 'grad'");
  expect_fault(2, 2, (use_t[]){LEAVES, UPDATES}, "'add' of member 'middle' reads tensor 'grad'");
  expect_fault(9, 3, (use_t[]){READS, WRITES, UPDATES}, "'early' of member 'first' reads tensor 'grad'");
}

static void members_that_do_not_go_together_are_refused(void **state) {
  ls_schedule_t *other = build_begin(ctx, 0, 1, 3), *wide = build_begin(ctx, 0, 1, 3);
  ls_program_t p = program(3, 3, (use_t[]){WRITES, ADDS, UPDATES});
  other->name = wide->name = "other";
  ls_program_t good = p;
  p.count = 2;
  build_op1(other, &op_double, "twice", build_at(other, "x", LS_REGION_INPUT, 0, WIDTH),
            build_transient(other, "y", WIDTH));
  assert_int_equal(ls_schedule_finish(other), LS_OK);
  p.member[1] = other; /* has a state of its own */
  assert_int_equal(ls_program_finish(&p), LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "members 'first' and 'other' differ"));
  p.member[0] = wide;
  p.member[1] = other;
  ls_state_table_release(wide->state);
  wide->state = ls_state_table_hold(other->state);
  assert_int_equal(ls_program_finish(&p), LS_ERR_INTERNAL); /* has no inputs */
  ls_ctx_clear(ctx);
  p.member[0] = other;
  p.micro_batches = 3;
  assert_int_equal(ls_program_finish(&p), LS_ERR_INTERNAL); /* there is no member to end with */
  assert_non_null(strstr(ls_ctx_error(ctx), "micro-batch 2 of step 0 wants member 2 of 2"));
  p.micro_batches = 2;
  assert_int_equal(ls_program_finish(&p), LS_OK);
  ls_ctx_clear(ctx);
  ls_program_release(&good);
  ls_schedule_destroy(wide);
  ls_schedule_destroy(other);
}

static void ranks_have_the_same_members(void **state) {
  ls_program_t p = program(4, 3, (use_t[]){WRITES, ADDS, UPDATES});
  assert_int_equal(ls_program_check_world(&p, 1), LS_OK);
  ls_program_t two[] = {p, program(2, 2, (use_t[]){WRITES, UPDATES})};
  assert_int_equal(ls_program_check_world(two, 2), LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "ranks 0 and 1 do not have the same members"));
  ls_ctx_clear(ctx);
  ls_program_release(&two[0]);
  ls_program_release(&two[1]);
}

/* A slot for each micro-batch in turn; gradients add up; memory is the largest member's. */
static void a_step_runs_its_members(void **state) {
  enum { MICRO = 5, STEPS = 4 };
  const ls_backend_t *backend = &ls_backend_ref;
  ls_program_t p = program(MICRO, 3, (use_t[]){WRITES, ADDS, UPDATES});
  assert_int_equal(p.times[0], 1);
  assert_int_equal(p.times[1], MICRO - 2);
  assert_int_equal(p.times[2], 1);
  ls_device_t *device;
  ls_state_t *memory;
  ls_run_t *run;
  ls_fit_t fit;
  ls_program_fit(&p, &fit);
  assert_int_equal(ls_fit_bytes(&fit, "inputs"), 3 * BYTES);
  assert_int_equal(ls_fit_bytes(&fit, "other"), BYTES);
  assert_int_equal(ls_fit_bytes(&fit, "activations"),
                   p.member[2]->run_bytes[LS_REGION_TRANSIENT]); /* it has most */
  assert_true(p.member[0]->run_bytes[LS_REGION_TRANSIENT] < p.member[2]->run_bytes[LS_REGION_TRANSIENT]);
  assert_int_equal(backend->device->open(ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  assert_int_equal(ls_state_create(ctx, p.member[0]->state, device, false, &memory), LS_OK);
  assert_int_equal(ls_run_create(ctx, &p, device, NULL, memory, NULL, &run), LS_OK);
  float want = 0;
  for (int step = 0; step < STEPS; step++) {
    float sum = 0;
    for (int m = 0; m < MICRO; m++) {
      int slot = (step * MICRO + m) % 3;
      const float *stats;
      float *x = ls_run_input(run, "x", slot);
      for (int k = 0; k < WIDTH; k++)
        x[k] = (float)(step + m + k);
      sum += 2 * (float)(step + m + 3);
      assert_int_equal(ls_run_launch(run, slot, step * MICRO + m), LS_OK);
      assert_int_equal(ls_run_wait(run, slot, &stats), LS_OK);
      assert_int_equal(ls_run_member(run), ls_program_chain(&p, step, m));
      assert_int_equal(stats != NULL, m == MICRO - 1);
      if (stats) assert_true(stats[3] == 2 * sum);
    }
    want += sum;
    assert_true(((float *)memory->data[BUILD_PARAM - LS_REGION_STATE])[3] == want);
  }
  assert_int_equal(ls_run_launch(run, 0, -1), LS_ERR_ARGUMENT);
  ls_ctx_clear(ctx);
  ls_run_destroy(run);
  ls_state_destroy(memory);
  backend->device->close(device);
  ls_program_release(&p);
}

/* The third of three steps ends with another member than the others. */
static int third(const ls_program_t *p, int step, int m) {
  return ls_program_chain(p, step, m) + (m + 1 == p->micro_batches && step == 2);
}
static int in_turn(const ls_program_t *p, int step, int m) {
  (void)p, (void)m;
  return step;
}

static void steps_of_a_period_differ(void **state) {
  ls_program_t p = program(2, 3, (use_t[]){WRITES, UPDATES, UPDATES});
  p.period = 3;
  p.rule = third;
  assert_int_equal(ls_program_finish(&p), LS_OK);
  assert_int_equal(ls_program_check_world(&p, 1), LS_OK);
  static const int times[] = {3, 2, 1};
  assert_memory_equal(p.times, times, sizeof times);
  for (int step = 0; step < 9; step++) {
    assert_int_equal(ls_program_at(&p, step, 0), 0);
    assert_int_equal(ls_program_at(&p, step, 1), step % 3 == 2 ? 2 : 1);
    assert_int_equal(ls_program_runs(&p, step, 2), step % 3 == 2);
  }
  ls_program_release(&p);
}

/* A value that the step before has written is none of this step. */
static void each_step_of_a_period_is_proven(void **state) {
  ls_program_t p = program(1, 2, (use_t[]){WRITES, UPDATES});
  p.period = 2;
  p.rule = in_turn;
  assert_int_equal(ls_program_finish(&p), LS_OK);
  assert_int_equal(ls_program_check(&p), LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "which no member before it has written in the step"));
  ls_ctx_clear(ctx);
  p.period = 3;
  assert_int_equal(ls_program_finish(&p), LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "micro-batch 0 of step 2 wants member 2 of 2"));
  ls_ctx_clear(ctx);
  ls_program_release(&p);
}

/* Two cuts with as many tasks are two programs; the same cut under other names is one. */
static void a_program_is_what_its_tasks_do(void **state) {
  uint64_t hash[3];
  for (int i = 0; i < LS_COUNT(hash); i++) {
    const int64_t cut = i == 1 ? 32 : 16;
    ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
    const int part[] = {build_at(s, "a", BUILD_GRAD, 0, cut), build_at(s, "b", BUILD_GRAD, cut, 64)};
    for (int k = 0; k < LS_COUNT(part); k++)
      ls_schedule_collective(s, i == 2 ? "other" : "sum", LS_GROUP_WORLD, LS_ALL_REDUCE, part[k], part[k]);
    assert_int_equal(ls_schedule_finish(s), LS_OK);
    hash[i] = ls_program_hash(PROGRAM(s));
    ls_schedule_destroy(s);
  }
  assert_true(hash[0] != hash[1]);
  assert_true(hash[0] == hash[2]);
}

static void each_member_is_drawn(void **state) {
  ls_program_t p = program(1024, 3, (use_t[]){WRITES, ADDS, UPDATES}), one = ls_program_of(p.member[0]);
  char *text = ls_program_draw(&p, 60), *alone = ls_program_draw(&one, 60),
       *schedule = ls_schedule_draw(p.member[0], NULL, 60);
  assert_non_null(strstr(text, "\"first\", 1 of 1024 micro-batches\nrank 0 of 1: 2 tasks"));
  assert_non_null(strstr(text, "\"middle\", 1022 of 1024 micro-batches\nrank 0 of 1: 3 tasks"));
  assert_non_null(strstr(text, "\"last\", 1 of 1024 micro-batches\nrank 0 of 1: 5 tasks"));
  assert_string_equal(alone, schedule);
  ls_free(schedule);
  ls_free(alone);
  ls_free(text);
  ls_program_release(&p);
}

TESTS(context_setup, context_teardown, members_take_turns, what_a_member_adds_to_was_written_before,
      members_that_do_not_go_together_are_refused, ranks_have_the_same_members, a_step_runs_its_members,
      steps_of_a_period_differ, each_step_of_a_period_is_proven, a_program_is_what_its_tasks_do,
      each_member_is_drawn)
