/* Times of tasks against values computed by hand; lists of rank counts. */
#include "support.h"

static void an_op_is_bound_by_arithmetic_or_by_memory(void **state) {
  capture_t *c = *state;
  ls_sim_machine_t m;
  machine_make(c, FOUR, &m);
  ls_sim_cost_t cost = {&m, &m.device[0], LS_SIM_FP32, 4, 1};
  assert_close(ls_sim_compute_ns(&cost, 9e6, 0), 1e7 / 0.5e12 * 1e9 + 1000); /* 9e6 + 1e6 FLOP at 0.5e12 */
  assert_close(ls_sim_compute_ns(&cost, 1e6, 0), 2 * (1e6 / 0.5e12 * 1e9) + 1000); /* the half-speed size */
  assert_close(ls_sim_compute_ns(&cost, 0, 1e6), 1e6 / 1e12 * 1e9 + 1000);
  assert_close(ls_sim_compute_ns(&cost, 9e6, 1e9), 1e6 + 1000);
  assert_close(ls_sim_compute_ns(&cost, 0, 0), 1000);
  cost.compute_scale = 3;
  assert_close(ls_sim_compute_ns(&cost, 0, 1e6), 3 * 2000);
  ls_sim_machine_release(&m);
}

static void tensor_rates_have_figures_of_their_own(void **state) {
  capture_t *c = *state;
  ls_sim_machine_t m;
  machine_make(c,
               "name: x\ndevices:\n" DEVICE(
                   "d", "1") "    bf16_flops_per_s: {value: 8e12, source: test}\n"
                             "    achieved_tensor: {value: 0.25, source: test}\n"
                             "    half_flops_tensor: {value: 4e6, source: test}\n" LINKS("nvlink"),
               &m);
  const ls_sim_cost_t cost = {&m, &m.device[0], LS_SIM_BF16, 1, 1};
  assert_close(ls_sim_compute_ns(&cost, 6e6, 0), 1e7 / 2e12 * 1e9 + 1000);
  ls_sim_machine_release(&m);
}

static void copies_and_collectives_take_their_links(void **state) {
  capture_t *c = *state;
  ls_sim_machine_t m;
  machine_make(c, FOUR, &m);
  ls_schedule_t *s;
  assert_int_equal(ls_schedule_create(c->ctx, NULL, 0, 4, 2, &s), LS_OK);
  ls_shape_t shape = LS_SHAPE(LS_F32, 2000);
  int host = ls_schedule_tensor(s, "host", shape, LS_REGION_HOST_NEXT, 0);
  int next = ls_schedule_tensor(s, "next", shape, LS_REGION_INPUT_NEXT, 0);
  int grad = ls_schedule_tensor(s, "grad", shape, LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
  int param = ls_schedule_tensor(s, "param", shape, LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
  int in = ls_schedule_copy(s, LS_LANE_COPY_IN, LS_PHASE_STEP_INPUT, "in", host, next);
  int within = ls_schedule_copy(s, LS_LANE_COMPUTE, LS_PHASE_STEP_REST, "within", grad, param);
  int reduce = ls_schedule_collective(s, "reduce", LS_GROUP_WORLD, LS_ALL_REDUCE, grad, grad);
  const ls_sim_cost_t cost = {&m, &m.device[0], LS_SIM_FP32, 4, 1};
  assert_close(ls_sim_task_ns(&cost, s, in), 8000 + 1000);
  assert_close(ls_sim_task_ns(&cost, s, within), 16 + 1000); /* read and written */
  assert_close(ls_sim_task_ns(&cost, s, reduce), 2 * 3 * (1000 + 2000));
  ls_schedule_destroy(s);
  ls_sim_machine_release(&m);
}

static void collectives_slow_every_lane_that_computes(void **state) {
  capture_t *c = *state;
  ls_sim_machine_t m;
  machine_make(c, FOUR, &m);
  m.node.overlap_slowdown.value = 1.5;
  ls_sim_cost_t cost = {&m, &m.device[0], LS_SIM_FP32, 4, 1};
  const ls_cost_model_t model = ls_sim_cost_model(&cost);
  assert_close(model.slowdown[LS_LANE_COMPUTE][LS_LANE_COMM], 1.5);
  assert_close(model.slowdown[LS_LANE_SIDE][LS_LANE_COMM], 1.5);
  assert_close(model.slowdown[LS_LANE_COMM][LS_LANE_COMPUTE], 1);
  ls_sim_machine_release(&m);
}

static void lists_of_ranks(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text;
    int count;
    int64_t v[16];
  } good[] = {
      {"1", 1, {1}},
      {"1,2,4..1024", 11, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
      {"1..6", 4, {1, 2, 4, 6}},
      {"3..4,65536", 3, {3, 4, 65536}},
  };
  for (int i = 0; i < LS_COUNT(good); i++) {
    ls_ints_t list;
    assert_int_equal(ls_sim_ranks_parse(c->ctx, good[i].text, &list), LS_OK);
    assert_int_equal(list.count, good[i].count);
    assert_memory_equal(list.v, good[i].v, (size_t)list.count * sizeof list.v[0]);
  }
  static const char *const wrong[] = {
      "",      "0",   "-1",    "1,",    ",1",   "1..", "..4",    "4..2", "2..2", "1 2",
      "1,1",   "2,1", "1...4", "65537", "1..x", "x",   "1,2..2", "1e3",  "+1",   "99999999999999999999",
      "1..4,3"};
  for (int i = 0; i < LS_COUNT(wrong); i++) {
    ls_ints_t list = {.count = -7};
    assert_int_equal(ls_sim_ranks_parse(c->ctx, wrong[i], &list), LS_ERR_ARGUMENT);
    assert_int_equal(list.count, -7);
    assert_non_null(strstr(c->text, wrong[i]));
    capture_clear(c);
  }
  char longer[1024] = "1";
  for (int i = 2; i <= LS_OPT_LIST_MAX + 1; i++)
    sprintf(longer + strlen(longer), ",%d", i);
  ls_ints_t list;
  assert_int_equal(ls_sim_ranks_parse(c->ctx, longer, &list), LS_ERR_ARGUMENT);
}

TESTS(capture_setup, capture_teardown, an_op_is_bound_by_arithmetic_or_by_memory,
      tensor_rates_have_figures_of_their_own, copies_and_collectives_take_their_links,
      collectives_slow_every_lane_that_computes, lists_of_ranks)
