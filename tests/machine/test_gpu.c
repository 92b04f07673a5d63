/* NVML's answers and refusals, played by a double of the library (fake_nvml.c). */
#include "base/capture.h"
#include "machine/parts.h"

#include <stdlib.h>

static ls_machine_t m; /* large */

static void play(const char *scene) {
  setenv("FAKE_NVML", scene, 1);
  ls_machine_clear(&m);
  ls_machine_read_gpus(&m);
}

static void bridge(void **state) {
  play("bridge");
  if (m.gpu_count == 0) fail_msg("the double was not found: %s", m.gpu_refused);
  assert_int_equal(m.gpu_count, 2);
  assert_string_equal(m.gpu_refused, "");
  assert_string_equal(m.driver, "550.54.14");
  assert_string_equal(m.cuda, "12.4");
  const ls_gpu_t *g = &m.gpu[1];
  assert_string_equal(g->name, "Fake GPU 1");
  assert_string_equal(g->uuid, "GPU-1");
  assert_true(g->memory_bytes == INT64_C(16) << 30);
  assert_int_equal(g->sm_count, 66);
  assert_int_equal(g->compute_major * 10 + g->compute_minor, 89);
  assert_int_equal(g->clock_sm_mhz, 2610);
  assert_int_equal(g->clock_sm_max_mhz, 3105);
  assert_int_equal(g->clock_memory_mhz, 10501);
  assert_true(g->power_w == 200.5 && g->power_limit_w == 285);
  assert_int_equal(g->temperature_c, 61);
  assert_int_equal(g->pcie_generation, 1);
  assert_int_equal(g->pcie_generation_max, 4);
  assert_int_equal(g->pcie_width, 8);
  assert_int_equal(g->pcie_width_max, 16);
  assert_int_equal(g->nvlink_count, 0);
  assert_int_equal(g->throttle_reasons, 4);
  assert_int_equal(g->numa_node, -1); /* no such bus address here */
  assert_int_equal(m.link[0][1], LS_LINK_HOST_BRIDGE);
  assert_int_equal(m.peer_access[0][1], 0);
  assert_int_equal(m.nvlinks[0][1], 0);
  assert_int_equal(m.link[0][0], LS_LINK_SELF);
  assert_int_equal(m.peer_access[0][0], -1);
}

static void nvlink_switch(void **state) {
  play("switch");
  assert_int_equal(m.gpu[0].nvlink_count, 18);
  assert_int_equal(m.nvlinks[0][1], 18);
  assert_int_equal(m.link[1][0], LS_LINK_NVLINK);
  assert_int_equal(m.peer_access[1][0], 1);
}

static void nvlink_direct(void **state) {
  play("direct");
  assert_int_equal(m.gpu[0].nvlink_count, 2);
  assert_int_equal(m.nvlinks[0][1], 2);
  assert_int_equal(m.link[0][1], LS_LINK_NVLINK);
}

/* A refusal leaves its own field unknown and nothing else. */
static void half(void **state) {
  play("half");
  const ls_gpu_t *g = &m.gpu[0];
  assert_int_equal(m.gpu_count, 2);
  assert_string_equal(g->name, "Fake GPU 0");
  assert_string_equal(g->uuid, "");
  assert_string_equal(m.cuda, "");
  assert_int_equal(g->sm_count, 66);
  assert_int_equal(g->clock_sm_mhz, -1);
  assert_int_equal(g->clock_sm_max_mhz, 3105);
  assert_true(g->power_w < 0 && g->power_limit_w == 285);
  assert_int_equal(g->pcie_width, -1);
  assert_int_equal(g->pcie_width_max, 16);
  assert_int_equal(g->throttle_reasons, -1);
  assert_int_equal(m.link[0][1], LS_LINK_UNKNOWN);
  assert_int_equal(m.peer_access[0][1], -1);
}

static void does_not_start(void **state) {
  play("broken");
  assert_int_equal(m.gpu_count, 0);
  assert_string_equal(m.gpu_refused, "NVML does not start: Driver Not Loaded");
}

static void one_is_lost(void **state) {
  play("lost");
  assert_int_equal(m.gpu_count, 1);
  assert_string_equal(m.gpu[0].name, "Fake GPU 1");
  assert_string_equal(m.gpu_refused, "1 of 2 GPUs could be read");
}

TESTS(NULL, NULL, bridge, nvlink_switch, nvlink_direct, half, does_not_start, one_is_lost)
