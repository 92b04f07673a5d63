/* Programs: which member runs when; what members share; what is proven beyond each of them; their price. */

#include "base/context.h"
#include "build.h"
#include "schedule/price.h"
#include "schedule/run.h"

#include "unit.h"
#include <math.h>
#include <string.h>

enum { WIDTH = 16, BYTES = WIDTH * sizeof(float) };

static void members_take_turns(void **state) {
  (void)state;
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

/* How a toy member treats the gradient. */
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
  (void)state;
  expect_fault(9, 3, (use_t[]){WRITES, ADDS, UPDATES}, NULL);
  expect_fault(2, 2, (use_t[]){WRITES, UPDATES}, NULL);
  expect_fault(9, 3, (use_t[]){LEAVES, WRITES, UPDATES}, NULL);
  expect_fault(9, 3, (use_t[]){LEAVES, ADDS, UPDATES}, "'add' of member 'middle' reads tensor 'grad'");
  expect_fault(2, 2, (use_t[]){LEAVES, UPDATES}, "'add' of member 'middle' reads tensor 'grad'");
  expect_fault(9, 3, (use_t[]){READS, WRITES, UPDATES}, "'early' of member 'first' reads tensor 'grad'");
}

static void members_that_do_not_go_together_are_refused(void **state) {
  (void)state;
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
  (void)state;
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
  (void)state;
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

static ls_status_t by_name(void *user, const ls_schedule_t *s, int task, ls_time_t *time) {
  (void)user;
  double ns = s->tasks[task].name[0] == 't' ? 100 : 10; /* "twice" */
  *time = (ls_time_t){ns, ns - 3, ns + 4};
  return LS_OK;
}

static void a_step_costs_what_its_members_cost(void **state) {
  (void)state;
  ls_program_t p = program(100, 3, (use_t[]){WRITES, ADDS, UPDATES});
  ls_cost_model_t model = {.task_time = by_name, .step_overhead_ns = 1000, .model_error = 0.1};
  ls_price_t price, whole;
  double ns = 1000, tasks = 0, parts = 0;
  assert_int_equal(ls_program_price(ctx, &p, &model, &price), LS_OK);
  for (int i = 0; i < 3; i++) {
    ns += p.times[i] * (100 + 10 * (p.member[i]->task_count - 1));
    tasks += p.times[i] * p.member[i]->task_count;
  }
  assert_float_equal(price.step.ns, ns, 1e-6);
  assert_float_equal(price.step.low_ns, ns - sqrt(9 * tasks + 0.01 * ns * ns), 1e-6);
  assert_float_equal(price.step.high_ns, ns + sqrt(16 * tasks + 0.01 * ns * ns), 1e-6);
  for (int k = 0; k < LS_PHASE_STEP_COUNT; k++)
    parts += price.parts_ns[k];
  assert_float_equal(parts, ns, 1e-6);
  ls_price_release(&price);
  /* of one member it is that schedule's */
  ls_program_t one = ls_program_of(p.member[2]);
  assert_int_equal(ls_program_price(ctx, &one, &model, &price), LS_OK);
  assert_int_equal(ls_schedule_price(ctx, p.member[2], &model, &whole), LS_OK);
  assert_float_equal(price.step.ns, whole.step.ns, 1e-9);
  assert_float_equal(price.step.low_ns, whole.step.low_ns, 1e-9);
  assert_float_equal(price.step.high_ns, whole.step.high_ns, 1e-9);
  ls_price_release(&whole);
  ls_price_release(&price);
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
  (void)state;
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
  /* a step costs the mean of its period */
  ls_cost_model_t model = {.task_time = by_name};
  ls_price_t price, one[3];
  assert_int_equal(ls_program_price(ctx, &p, &model, &price), LS_OK);
  for (int i = 0; i < 3; i++)
    assert_int_equal(ls_schedule_price(ctx, p.member[i], &model, &one[i]), LS_OK);
  assert_float_equal(price.step.ns, one[0].step.ns + (2 * one[1].step.ns + one[2].step.ns) / 3, 1e-6);
  for (int i = 0; i < 3; i++)
    ls_price_release(&one[i]);
  ls_price_release(&price);
  ls_program_release(&p);
}

/* What the step before has written is no value of this one. */
static void each_step_of_a_period_is_proven(void **state) {
  (void)state;
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

static void each_member_is_drawn(void **state) {
  (void)state;
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(members_take_turns),
      cmocka_unit_test_setup_teardown(what_a_member_adds_to_was_written_before, context_setup,
                                      context_teardown),
      cmocka_unit_test_setup_teardown(members_that_do_not_go_together_are_refused, context_setup,
                                      context_teardown),
      cmocka_unit_test_setup_teardown(ranks_have_the_same_members, context_setup, context_teardown),
      cmocka_unit_test_setup_teardown(a_step_runs_its_members, context_setup, context_teardown),
      cmocka_unit_test_setup_teardown(a_step_costs_what_its_members_cost, context_setup, context_teardown),
      cmocka_unit_test_setup_teardown(steps_of_a_period_differ, context_setup, context_teardown),
      cmocka_unit_test_setup_teardown(each_step_of_a_period_is_proven, context_setup, context_teardown),
      cmocka_unit_test_setup_teardown(each_member_is_drawn, context_setup, context_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
