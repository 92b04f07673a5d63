/* A reported table beside the simulated one: the arithmetic of the comparison, and the contradictions. */
#include "support.h"

#define ROWS(rows)                                                                                           \
  "name: w\nsource: t\nbatch_per_device: 8\nlayers: [{name: a, parameters: 1, flops_per_sample: 1}]\n"       \
  "reported:\n  source: t\n  rows:\n" rows

static const ls_sim_point_t single = {.ranks = 1, .batch = 8, .step_ns = 10e6, .samples_per_s = 800};
/* 10 ms of work, 4 ms of communication of which 1 ms is exposed. */
static const ls_sim_point_t four = {
    .ranks = 4, .batch = 32, .step_ns = 11e6, .exposed_ns = 1e6, .comm_ns = 4e6, .samples_per_s = 32 / 11e-3};

static ls_reported_view_t view_of(capture_t *c, const char *text) {
  ls_workload_t w;
  ls_reported_view_t view;
  workload_make(c, text, &w);
  ls_reported_compare(&w, &w.reported[1], &four, &single, &view);
  ls_workload_release(&w);
  return view;
}

static void differences_are_explained_by_what_communication_can_do(void **state) {
  ls_reported_view_t v =
      view_of(*state, ROWS("    - {ranks: 1, step_time_ms: 10}\n    - {ranks: 4, step_time_ms: 11}\n"));
  assert_close(v.simulated_efficiency, 10.0 / 11);
  assert_close(v.unhidden_efficiency, 10.0 / 14);
  assert_close(v.lost_ns, 1e6);
  assert_close(v.unexplained_ns, 0);
  assert_non_null(strstr(v.why, "agrees"));
  assert_true(v.reported_efficiency != v.reported_efficiency); /* nobody said */

  v = view_of(*state, ROWS("    - {ranks: 1, step_time_ms: 10}\n    - {ranks: 4, step_time_ms: 12.5}\n"));
  assert_close(v.unexplained_ns, 0);
  assert_non_null(strstr(v.why, "explained if 50 % of the 3.0 ms"));

  v = view_of(*state, ROWS("    - {ranks: 1, step_time_ms: 10, samples_per_s: 800}\n"
                           "    - {ranks: 4, step_time_ms: 16, samples_per_s: 2000}\n"));
  assert_close(v.lost_ns, 6e6);
  assert_close(v.unexplained_ns, 2e6);
  assert_close(v.reported_efficiency, 2000.0 / 3200);
  assert_non_null(strstr(v.why, "2.0 ms are something else"));
}

static void a_step_of_another_batch_is_measured_by_its_own_work(void **state) {
  ls_reported_view_t v = view_of(
      *state,
      ROWS("    - {ranks: 1, step_time_ms: 10}\n    - {ranks: 4, step_time_ms: 21, batch_per_device: 16}\n"));
  assert_close(v.lost_ns, 1e6);
}

static void contradictions_are_found_and_only_they(void **state) {
  capture_t *c = *state;
  ls_workload_t w;
  workload_make(c,
                ROWS("    - {ranks: 1, step_time_ms: 10, samples_per_s: 800, efficiency_percent: 100}\n"
                     "    - {ranks: 2, step_time_ms: 12.5, samples_per_s: 1280, efficiency_percent: 80, "
                     "communication_percent: 20}\n"),
                &w);
  assert_string_equal(ls_reported_contradictions(&w), "");
  assert_int_equal(ls_reported_batch(&w, &w.reported[1]), 8);
  ls_workload_release(&w);

  workload_make(c,
                ROWS("    - {ranks: 1, step_time_ms: 10, samples_per_s: 800}\n"
                     "    - {ranks: 2, step_time_ms: 12.5, samples_per_s: 1280, batch_per_device: 16}\n"
                     "    - {ranks: 4, samples_per_s: 2880, communication_percent: 20}\n"),
                &w);
  const char *text = ls_reported_contradictions(&w);
  assert_non_null(
      strstr(text, "2 devices: 1280 samples/s and 12.5 ms a step make 8.0 samples per device, but 16"));
  assert_non_null(strstr(text, "4 devices: 90.0 % efficiency leaves 10.0 %"));
  assert_int_equal(ls_reported_batch(&w, &w.reported[1]), 8);
  ls_workload_release(&w);
}

/* The benchmark report of 1 to 256 V100, as shipped. */
static void the_report_is_read_as_it_was_printed(void **state) {
  capture_t *c = *state;
  ls_workload_t w;
  if (ls_workload_read(c->ctx, "examples/workloads/resnet50.yaml", NULL, 0, &w) != LS_OK)
    fail_msg("%s", c->text);
  assert_int_equal(ls_workload_parameters(&w), 25557032);
  double flops = 0;
  for (int i = 0; i < w.layer_count; i++)
    flops += (double)w.layer[i].repeat * w.layer[i].flops_per_sample;
  assert_true(flops > 8.1e9 && flops < 8.3e9);
  assert_int_equal(w.reported_count, 9);
  const char *text = ls_reported_contradictions(&w);
  assert_non_null(
      strstr(text, "64 devices: 56320 samples/s and 36.2 ms a step make 31.9 samples per device"));
  assert_int_equal(ls_reported_batch(&w, &w.reported[8]), 32);

  ls_sim_machine_t m;
  assert_int_equal(ls_sim_machine_read(c->ctx, "machines/v100-hdr.yaml", NULL, 0, &m), LS_OK);
  double before = 1.0001;
  for (int ranks = 1; ranks <= 256; ranks *= 2) {
    const ls_workload_run_t run = {&w, ls_strategy_find("ddp")};
    ls_sim_work_t work;
    ls_sim_point_t p;
    assert_int_equal(ls_workload_work(c->ctx, &m, &run, &work), LS_OK);
    assert_int_equal(ls_sim_point(c->ctx, &m, &work, ranks, LS_SIM_EVEN, &p), LS_OK);
    assert_true(p.efficiency < before + 1e-9 &&
                p.efficiency > 0.9); /* 102 MB a step over these links hide well */
    before = p.efficiency;
    if (ranks == 1) assert_close(p.step_ns, 27.8e6);
  }
  ls_sim_machine_release(&m);
  ls_workload_release(&w);
}

TESTS(capture_setup, capture_teardown, differences_are_explained_by_what_communication_can_do,
      a_step_of_another_batch_is_measured_by_its_own_work, contradictions_are_found_and_only_they,
      the_report_is_read_as_it_was_printed)
