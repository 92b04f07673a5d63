/* Workloads: reading them, the schedules they become, and their step time computed by hand. */
#include "support.h"

#include <math.h>

/* Two layers of 1000 parameters, which are 1008 in whole lines of cache: 4032 bytes, a bucket each, the first with the
 * head's 64 bytes. Forward 999 us of work for 8 samples: (8 * 62.3125e6 + 1e6) / 0.5e12 s = 999 us, and 1 us launch. */
#define TOP         "name: w\nsource: test\nbatch_per_device: 8\nbucket_bytes: 4000\nbackward_factor: 2\n"
#define LAYER(name) "  - {name: " name ", parameters: 1000, flops_per_sample: 62.3125e6}\n"
#define TWO         TOP "layers:\n" LAYER("a") LAYER("b")

enum { FORWARD_NS = 1000000, BACKWARD_NS = 1997000, UPDATE_NS = 1000 }; /* (997e6 + 1e6) / 0.5e12 s + 1 us */
/* 4 * 2000 + 1e6 FLOP at 0.5e12: more than its 40 kB need. */
static const double update_work_ns = (4 * 2000 + 1e6) / 0.5e12 * 1e9;
/* The sum of squares of a bucket, and the step's control (a few operations). */
static const double squares_ns = (2 * 1008 + 1e6) / 0.5e12 * 1e9 + 1000;
static const double control_ns = (32 + 2 + 1e6) / 0.5e12 * 1e9 + 1000;

static ls_sim_point_t price(capture_t *c, const char *machine, const char *text, int ranks) {
  ls_sim_machine_t m;
  ls_workload_t w;
  machine_make(c, machine, &m);
  workload_make(c, text, &w);
  const ls_workload_run_t run = {&w, w.strategy};
  ls_sim_work_t work;
  ls_sim_point_t point;
  assert_int_equal(ls_workload_work(c->ctx, &m, &run, &work), LS_OK);
  assert_int_equal(ls_sim_point(c->ctx, &m, &work, ranks, LS_SIM_EVEN, &point), LS_OK);
  point.device = point.algorithm = NULL; /* of the machine */
  ls_workload_release(&w);
  ls_sim_machine_release(&m);
  return point;
}

static void a_step_takes_the_sum_of_its_parts(void **state) {
  ls_sim_point_t one = price(*state, FOUR, TWO, 1);
  double step_ns =
      2.0 * FORWARD_NS + 2.0 * BACKWARD_NS + 2 * squares_ns + control_ns + UPDATE_NS + update_work_ns;
  assert_close(one.step_ns, step_ns);
  assert_close(one.samples_per_s, 8 / step_ns * 1e9);
  assert_close(one.speedup, 1);
  assert_close(one.efficiency, 1);
  assert_close(one.exposed_ns, 0);
  assert_close(one.comm_ns, 0);

  /* Four devices: the second layer's gradients travel while the first computes; the first's only while the squares
   * of the second's are summed. */
  double first_ns = 2 * 3 * (1000 + 4096 / 4), last_ns = 2 * 3 * (1000 + 4032 / 4);
  ls_sim_point_t four = price(*state, FOUR, TWO, 4);
  assert_close(four.step_ns, step_ns + last_ns - squares_ns);
  assert_close(four.exposed_ns, round(last_ns - squares_ns)); /* whole nanoseconds */
  assert_close(four.comm_ns, first_ns + last_ns);
  assert_int_equal(four.batch, 32);
  assert_close(four.efficiency, step_ns / four.step_ns);
  assert_close(four.speedup, 4 * step_ns / four.step_ns);
}

/* Gradients that travel for 12144 ns beside a backward pass that then runs at half speed cost it half of that. */
static void communication_slows_what_runs_beside_it(void **state) {
  double alone_ns = price(*state, FOUR, TWO, 4).step_ns;
  double beside_ns = price(*state, FOUR "  overlap_slowdown: {value: 2, source: t}\n", TWO, 4).step_ns;
  assert_close(beside_ns, alone_ns + 12144 / 2);
}

static void one_bucket_hides_nothing(void **state) {
  ls_sim_point_t four =
      price(*state, FOUR, "name: w\nsource: t\nbatch_per_device: 8\nlayers:\n" LAYER("a") LAYER("b"), 4);
  assert_close(four.exposed_ns, 2 * 3 * (1000 + (64 + 2 * 4032) / 4));
  assert_close(four.comm_ns, four.exposed_ns);
}

/* Gather a, b | forward a; forward b; backward b (a is gathered again beside it); scatter b beside backward
 * a; scatter a; update of a quarter. */
static void sharded_parameters_are_gathered_and_scattered(void **state) {
  ls_sim_point_t four = price(*state, FOUR, TWO "strategy: sharded\n", 4);
  double pass_ns = 3 * (1000 + 4032 / 4), quarter_ns = (4 * 500 + 1e6) / 0.5e12 * 1e9 + 1000;
  assert_close(four.step_ns, 2 * pass_ns + 2.0 * FORWARD_NS + 2.0 * BACKWARD_NS + quarter_ns);
  assert_close(four.exposed_ns, 2 * pass_ns);
  assert_close(four.comm_ns, 5 * pass_ns);
  ls_sim_point_t one = price(*state, FOUR, TWO "strategy: sharded\n", 1);
  assert_close(one.comm_ns, 0);
}

static void calibration_gives_the_reported_step(void **state) {
  static const char text[] = TWO "calibrate: reported\nreported:\n  source: t\n  rows:\n"
                                 "    - {ranks: 1, step_time_ms: 12}\n";
  ls_sim_point_t one = price(*state, FOUR "  step_overhead_ns: {value: 500000, source: t}\n", text, 1);
  assert_close(one.step_ns, 12e6);
}

static void schedules_are_proven(void **state) {
  capture_t *c = *state;
  static const char *const texts[] = {
      TWO, TWO "strategy: sharded\n",
      TOP "strategy: sharded\nlayers:\n" LAYER(
          "a") "  - {name: n, parameters: 0, flops_per_sample: 1}\n"
               "  - {name: r, repeat: 7, parameters: 300, flops_per_sample: 1}\n" LAYER("z")};
  for (int i = 0; i < LS_COUNT(texts); i++)
    for (int ranks = 1; ranks <= 8; ranks *= 2) {
      ls_workload_t w;
      workload_make(c, texts[i], &w);
      ls_program_t s[8];
      for (int r = 0; r < ranks; r++)
        assert_int_equal(ls_workload_lower(c->ctx, &w, w.strategy, r, ranks, 8, &s[r]), LS_OK);
      if (ls_program_check_world(s, ranks) != LS_OK) fail_msg("text %d, %d ranks: %s", i, ranks, c->text);
      for (int r = 0; r < ranks; r++)
        ls_program_release(&s[r]);
      ls_workload_release(&w);
    }
}

typedef struct {
  const char *text;
  const char *says[3];
} bad_t;
static const bad_t bad[] = {
    {"name: w\n", {"w.yaml", "source is missing", "layers is missing"}},
    {"name: w\nsource: t\nlayers:\n" LAYER("a"), {"batch_per_device (weak scaling) or global_batch"}},
    {TOP "global_batch: 8\nlayers:\n" LAYER("a"), {"batch_per_device (weak scaling) or global_batch"}},
    {TOP "layers: {}\n", {"w.yaml:6:9", "layers: a list of 1 to 4096 maps"}},
    {TOP "layers:\n  - {name: a, parameters: -1, flops_per_sample: 1}\n",
     {"w.yaml:7:27", "layers.0.parameters"}},
    {TOP "layers:\n  - {name: a, parameter: 1, flops_per_sample: 1}\n",
     {"w.yaml:7:15", "did you mean `parameters`", "layers.0.parameters is missing"}},
    {TWO "precision: fp8\n", {"w.yaml:9:12", "precision"}},
    {TWO "strategy: pipe\n", {"w.yaml:9:11", "sharded"}},
    {TWO "calibrate: reported\n", {"w.yaml:9:12", "needs a row of reported.rows with ranks: 1"}},
    {TWO "reported: {source: t}\n", {"w.yaml:9:1", "reported.rows is missing"}},
    {TWO "reported: {rows: [{ranks: 1, samples_per_s: 1}]}\n", {"reported.source is missing"}},
    {TWO "reported: {source: t, rows: [{ranks: 1}]}\n",
     {"w.yaml:9:30", "samples_per_s or step_time_ms must be given"}},
    {TWO "reported: {source: t, rows: [{ranks: 0, samples_per_s: 1}]}\n", {"reported.rows.0.ranks"}},
};

static void bad_files_are_refused_with_their_place(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(bad); i++) {
    ls_workload_t w;
    ls_status_t status = ls_workload_read(c->ctx, "w.yaml", bad[i].text, strlen(bad[i].text), &w);
    if (status != LS_ERR_CONFIG) fail_msg("row %d: status %d", i, status);
    for (int k = 0; k < 3 && bad[i].says[k]; k++)
      if (!strstr(c->text, bad[i].says[k])) fail_msg("row %d: no \"%s\" in: %s", i, bad[i].says[k], c->text);
    capture_clear(c);
  }
}

static ls_status_t everything_once(capture_t *c) {
  static const char text[] =
      TWO "strategy: sharded\nreported:\n  source: t\n  rows:\n    - {ranks: 1, step_time_ms: 12}\n"
          "calibrate: reported\n";
  static const char machine[] = FOUR;
  ls_sim_machine_t m;
  ls_workload_t w;
  ls_sim_work_t work;
  ls_sim_point_t point;
  ls_status_t status = ls_sim_machine_read(c->ctx, "m.yaml", machine, sizeof machine - 1, &m);
  if (status != LS_OK) return status;
  status = ls_workload_read(c->ctx, "w.yaml", text, sizeof text - 1, &w);
  if (status != LS_OK) goto machine;
  const ls_workload_run_t run = {&w, w.strategy};
  status = ls_workload_work(c->ctx, &m, &run, &work);
  if (status == LS_OK) status = ls_sim_point(c->ctx, &m, &work, 4, LS_SIM_EVEN, &point);
  if (status == LS_OK && !ls_reported_contradictions(&w)) status = LS_ERR_MEMORY;
  ls_workload_release(&w);
machine:
  ls_sim_machine_release(&m);
  return status;
}

static void every_allocation_may_fail(void **state) {
  assert_true(capture_fail_each_alloc(*state, everything_once) > 10);
}

TESTS(capture_setup, capture_teardown, a_step_takes_the_sum_of_its_parts,
      communication_slows_what_runs_beside_it, one_bucket_hides_nothing,
      sharded_parameters_are_gathered_and_scattered, calibration_gives_the_reported_step,
      schedules_are_proven, bad_files_are_refused_with_their_place, every_allocation_may_fail)
