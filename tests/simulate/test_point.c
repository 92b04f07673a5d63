/* A configuration on machines that are not here: what is asked for comes out in order, for one rank and for
 * 1024. */
#include "support.h"

#include "config/config.h"
#include "engine/engine.h"

static const char *const config_text = "model: {preset: mlp-large}\ndata: {kind: synthetic}\n"
                                       "train: {batch: 4096, epochs: 1}\nparallel: {strategy: ddp}\n";

/* A configuration and a machine to run it on. */
typedef struct {
  capture_t *c;
  ls_config_t *config;
  ls_sim_work_t work;
  ls_sim_machine_t m;
} setting_t;

static void prepare(setting_t *s, const char *set) {
  if (ls_config_parse(s->c->ctx, "c.yaml", config_text, strlen(config_text), &set, set ? 1 : 0, &s->config) !=
      LS_OK)
    fail_msg("%s", s->c->text);
  assert_int_equal(ls_sim_work_config(s->c->ctx, s->config, &s->work), LS_OK);
}

static void begin(setting_t *s, void **state, const char *set, const char *machine) {
  s->c = *state;
  prepare(s, set);
  assert_int_equal(ls_sim_machine_read(s->c->ctx, machine, NULL, 0, &s->m), LS_OK);
}

static void end(setting_t *s) {
  ls_sim_machine_release(&s->m);
  ls_config_destroy(s->config);
}

static ls_sim_point_t point_of(const setting_t *s, int ranks, int shares) {
  ls_sim_point_t point;
  if (ls_sim_point(s->c->ctx, &s->m, &s->work, ranks, shares, &point) != LS_OK) fail_msg("%s", s->c->text);
  return point;
}

static void every_shipped_machine_prices_a_configuration(void **state) {
  static const char *const files[] = {"machines/h200.yaml", "machines/h200-host-bridge.yaml",
                                      "machines/rtx4070tis-host-bridge.yaml", "machines/rtx5080-rtx4060.yaml",
                                      "machines/v100-hdr.yaml"};
  for (int f = 0; f < LS_COUNT(files); f++) {
    setting_t s;
    begin(&s, state, NULL, files[f]);
    for (int ranks = 1; ranks <= ls_sim_machine_devices(&s.m); ranks *= 2) {
      ls_sim_point_t p = point_of(&s, ranks, LS_SIM_EVEN);
      assert_string_equal(p.note, "");
      assert_int_equal(p.batch, 4096);
      assert_int_equal(p.rows, 4096 / ranks);
      assert_true(p.step_ns > 0 && p.exposed_ns >= 0 && p.exposed_ns < p.step_ns);
      assert_true(p.exposed_ns <= p.comm_ns * 1.000001 + 1);
      assert_true(p.efficiency > 0 &&
                  p.efficiency <= 1.0001); /* launches cost what they cost on any number */
      assert_close(p.samples_per_s, 4096 / p.step_ns * 1e9);
      assert_true(p.device_bytes > 4LL * 6885376 * 4); /* parameters, gradients, two slots of Adam */
      if (ranks == 1) {
        assert_close(p.efficiency, 1);
        assert_null(p.algorithm);
      } else {
        assert_non_null(p.algorithm);
      }
    }
    end(&s);
  }
}

static void a_faster_network_never_makes_a_step_longer(void **state) {
  setting_t s;
  begin(&s, state, NULL, "machines/v100-hdr.yaml");
  double before = 1e30;
  for (double rate = 1e9; rate < 1e12; rate *= 2) {
    s.m.network.bytes_per_s.value = rate;
    double ns = point_of(&s, 64, LS_SIM_EVEN).step_ns;
    assert_true(ns <= before * 1.000001);
    before = ns;
  }
  end(&s);
}

/* Bigger global batches on more devices: the simulated crossover moves the way it must. */
static void efficiency_rises_with_the_global_batch(void **state) {
  double before = 0;
  for (int batch = 8; batch <= 65536; batch *= 8) {
    char set[64];
    snprintf(set, sizeof set, "train.batch=%d", batch);
    setting_t s;
    begin(&s, state, set, "machines/h200-host-bridge.yaml");
    double efficiency = point_of(&s, 2, LS_SIM_EVEN).efficiency;
    assert_true(efficiency >= before);
    before = efficiency;
    end(&s);
  }
  assert_true(before > 0.9);
}

static void proportional_shares_suit_unequal_devices(void **state) {
  setting_t s;
  begin(&s, state, "train.batch=16384", "machines/rtx5080-rtx4060.yaml");
  ls_sim_point_t one = point_of(&s, 1, LS_SIM_EVEN);
  ls_sim_point_t even = point_of(&s, 2, LS_SIM_EVEN);
  ls_sim_point_t fair = point_of(&s, 2, LS_SIM_PROPORTIONAL);
  assert_string_equal(one.device, "NVIDIA GeForce RTX 5080");
  assert_string_equal(even.device, "NVIDIA GeForce RTX 4060");
  assert_int_equal(even.rows, 8192);
  assert_true(fair.step_ns < 0.8 * even.step_ns);
  assert_true(fair.speedup > 1.2);
  assert_true(fair.efficiency <= 1 && fair.efficiency > even.efficiency);
  assert_true(even.memory_bytes == (int64_t)8e9); /* the smaller memory is the fuller one */
  end(&s);
}

static void equal_devices_have_equal_shares_either_way(void **state) {
  setting_t s;
  begin(&s, state, "train.batch=4099", "machines/h200.yaml");
  ls_sim_point_t even = point_of(&s, 8, LS_SIM_EVEN), fair = point_of(&s, 8, LS_SIM_PROPORTIONAL);
  assert_int_equal(even.rows, 513); /* 4099 = 3 * 513 + 5 * 512 */
  assert_int_equal(fair.rows, 513);
  assert_close(fair.step_ns, even.step_ns);
  end(&s);
}

static void what_cannot_be_is_said(void **state) {
  setting_t s;
  begin(&s, state, "train.batch=100", "machines/v100-hdr.yaml");
  assert_string_equal(point_of(&s, 2048, LS_SIM_EVEN).note, "the machine has 1024 devices");
  assert_non_null(strstr(point_of(&s, 128, LS_SIM_EVEN).note, "global batch (100) has fewer samples"));
  s.m.device[0].memory_bytes.value = 1e8;
  assert_false(point_of(&s, 64, LS_SIM_EVEN).fits);
  s.m.device[0].memory_bytes.value = 1e9;
  assert_true(point_of(&s, 64, LS_SIM_EVEN).fits);

  ls_sim_point_t point = {.ranks = -3};
  s.work.precision = LS_SIM_BF16; /* tensor cores of the V100 have no bf16 */
  assert_int_equal(ls_sim_point(s.c->ctx, &s.m, &s.work, 2, LS_SIM_EVEN, &point), LS_ERR_UNSUPPORTED);
  assert_int_equal(point.ranks, -3);
  assert_non_null(strstr(s.c->text, "NVIDIA V100 SXM2 has no figure bf16_flops_per_s"));
  end(&s);

  capture_clear(s.c);
  const char *set = "parallel.strategy=single";
  assert_int_equal(ls_config_parse(s.c->ctx, "c.yaml", config_text, strlen(config_text), &set, 1, &s.config),
                   LS_OK);
  assert_int_equal(ls_sim_work_config(s.c->ctx, s.config, &s.work), LS_ERR_CONFIG);
  assert_non_null(strstr(s.c->text, "strategy \"single\" uses one rank"));
  ls_config_destroy(s.config);

  prepare(&s, "parallel.strategy=auto");
  assert_string_equal(s.work.strategy, "ddp");
  ls_config_destroy(s.config);
}

/* A batch of 4096 in three micro-batches of up to 1366 rows: rank 999 of 1000 has one row of each, not two. */
static void ranks_have_the_rows_of_training(void **state) {
  setting_t s = {.c = *state};
  const ls_backend_t device = {.name = "device"};
  prepare(&s, "train.accumulate=3");
  for (int rank = 0; rank < 1000; rank += 333) {
    const ls_step_spec_t spec = {.step = ls_config_step(s.config),
                                 .kind = LS_STEP_TRAIN,
                                 .rank = rank,
                                 .world_size = 1000,
                                 .backend = &device};
    ls_program_t program;
    ls_step_t step;
    ls_fit_t simulated, trained;
    assert_int_equal(s.work.lower(s.c->ctx, s.work.user, rank, 1000, rank < 96 ? 5 : 4, &program), LS_OK);
    assert_int_equal(ls_step_lower(s.c->ctx, &spec, &step), LS_OK);
    assert_int_equal(step.rows, rank < 366 ? 2 : 1);
    ls_program_fit(&program, &simulated);
    ls_program_fit(&step.program, &trained);
    assert_int_equal(simulated.device_total_bytes, trained.device_total_bytes);
    ls_program_release(&program);
    ls_step_release(&step);
  }
  ls_config_destroy(s.config);
}

/* 1024 ranks build two schedules, not 1024: counted in allocations, not in time. */
static void a_large_world_costs_no_more_than_a_small_one(void **state) {
  setting_t s;
  begin(&s, state, NULL, "machines/v100-hdr.yaml");
  ls_ctx_fail_alloc(s.c->ctx, 0);
  point_of(&s, 8, LS_SIM_EVEN);
  int64_t small = ls_ctx_fail_alloc(s.c->ctx, 0);
  point_of(&s, 1024, LS_SIM_EVEN);
  int64_t large = ls_ctx_fail_alloc(s.c->ctx, 0);
  assert_true(small > 0 && large <= small);
  end(&s);
}

/* What a second lane brings, only timing tells: neither a gain nor a loss is simulated. */
static void a_side_lane_is_left_out(void **state) {
  static const char *const sets[] = {"parallel.side_lane=off", "parallel.side_lane=auto",
                                     "parallel.side_lane=on"};
  double step_ns[LS_COUNT(sets)];
  for (int i = 0; i < LS_COUNT(sets); i++) {
    setting_t s;
    begin(&s, state, sets[i], "machines/h200.yaml");
    s.m.node.overlap_slowdown.value = 1.5;
    s.work.global_batch = 512;
    step_ns[i] = point_of(&s, 2, LS_SIM_EVEN).step_ns;
    assert_close(step_ns[i], step_ns[0]);
    assert_int_equal(s.work.left_out != NULL, i == 2);
    end(&s);
  }
}

static ls_status_t price_once(capture_t *c) {
  static const char machine[] = "name: x\ndevices:\n" DEVICE("a", "1") DEVICE("b", "1") LINKS("switch");
  ls_sim_machine_t m;
  ls_config_t *config;
  ls_sim_work_t work;
  ls_sim_point_t point;
  ls_status_t status = ls_sim_machine_read(c->ctx, "m.yaml", machine, sizeof machine - 1, &m);
  if (status != LS_OK) return status;
  const char *set = "model={input: [3], loss: mse, layers: [{dense: {units: 2}}]}";
  status = ls_config_parse(c->ctx, "c.yaml", config_text, strlen(config_text), &set, 1, &config);
  if (status != LS_OK) goto machine;
  status = ls_sim_work_config(c->ctx, config, &work);
  if (status == LS_OK) status = ls_sim_point(c->ctx, &m, &work, 2, LS_SIM_PROPORTIONAL, &point);
  ls_config_destroy(config);
machine:
  ls_sim_machine_release(&m);
  return status;
}

static void every_allocation_may_fail(void **state) {
  assert_true(capture_fail_each_alloc(*state, price_once) > 10);
}

TESTS(capture_setup, capture_teardown, every_shipped_machine_prices_a_configuration,
      a_faster_network_never_makes_a_step_longer, efficiency_rises_with_the_global_batch,
      proportional_shares_suit_unequal_devices, equal_devices_have_equal_shares_either_way,
      what_cannot_be_is_said, ranks_have_the_rows_of_training, a_large_world_costs_no_more_than_a_small_one,
      every_allocation_may_fail, a_side_lane_is_left_out)
