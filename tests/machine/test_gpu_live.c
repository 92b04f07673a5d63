/* One GPU of a double of NVML, and of a recording in its place, as it is now. */
#include "base/clock.h"
#include "base/file.h"
#include "machine/gpu_live.h"

#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_gpu_live_t *open_in(const char *scene, int index) {
  ls_gpu_live_t *live;
  setenv("FAKE_NVML", scene, 1);
  assert_int_equal(ls_gpu_live_open(NULL, index, 0, &live), LS_OK);
  return live;
}

static void every_answer_in_its_unit(void **state) {
  ls_gpu_now_t now, later;
  ls_gpu_live_t *live = open_in("direct", 1);
  assert_non_null(live);
  ls_gpu_live_read(live, false, &now);
  ls_gpu_live_read(live, false, &later);
  assert_true(now.ratio == 0.4 && now.memory_bytes == 3e9 && now.memory_size_bytes == 17179869184.0);
  assert_true(now.temperature_c == 61 && now.memory_temperature_c == 82 && now.margin_c == -4);
  assert_true(fabs(now.power_w - 200.5) < 1e-9 && now.power_limit_w == 285 && now.clock_mhz == 2610);
  assert_true(now.memory_clock_mhz == 10501 && now.clock_most_mhz == 3105);
  assert_true(fabs(later.energy_j - now.energy_j - 0.01) < 1e-9);
  assert_true(now.power_limited == 1 && now.heat_limited == 0 && now.brake_limited == 0);
  assert_true(now.ecc_corrected == 5 && now.ecc_uncorrected == 1);
  assert_true(now.nvlink_sent_bytes == 138 * 1024 && now.nvlink_received_bytes == 139 * 1024);
  assert_true(now.pcie_sent_bytes == 197 && now.pcie_received_bytes == 198 && now.pcie_replays == 94);
  assert_true(isnan(now.recovery_action));
  assert_true(now.xid_errors == 0 && isnan(now.xid) && later.xid_errors == 2 && later.xid == 79);
  ls_gpu_live_close(live);
}

/* However often somebody asks: every reading but the last held 20 times as long as its slowest answer took. */
static void asking_takes_a_twentieth_of_the_time(void **state) {
  ls_gpu_now_t first, last;
  ls_gpu_live_t *live = open_in("slow", 0);
  assert_non_null(live);
  const int64_t begin_ns = ls_clock_ns();
  ls_gpu_live_read(live, true, &first);
  for (int i = 0; i < 20; i++)
    ls_gpu_live_read(live, true, &last);
  const double held = round((last.energy_j - first.energy_j) / 0.01);
  assert_true(last.ratio == 0.4 && held * 20 * 20e6 <= (double)(ls_clock_ns() - begin_ns));
  ls_gpu_live_close(live);
}

static void what_is_refused_is_not_known(void **state) {
  ls_gpu_now_t now;
  ls_gpu_live_t *live = open_in("half", 0);
  assert_non_null(live);
  ls_gpu_live_read(live, false, &now);
  assert_true(isnan(now.power_w) && isnan(now.energy_j) && isnan(now.clock_mhz) && isnan(now.power_limited));
  assert_true(isnan(now.margin_c) && isnan(now.pcie_sent_bytes) && isnan(now.ecc_corrected) &&
              isnan(now.xid_errors));
  assert_true(now.ratio == 0.4 && now.temperature_c == 60);
  ls_gpu_live_close(live);
  ls_gpu_live_read(NULL, false, &now);
  assert_true(isnan(now.ratio) && isnan(now.memory_size_bytes) && isnan(now.heat_limited));
}

/* A recording of two ranks, with lines of an event log between. */
static void a_recording_stands_in_for_the_library(void **state) {
  static const char text[] =
      "{\"kind\":\"start\",\"t\":90,\"rank\":0}\n"
      "{\"kind\":\"record\",\"t\":100,\"rank\":0,\"gpu_temperature_c\":60,\"gpu_margin_c\":20}\n"
      "{\"kind\":\"record\",\"t\":100.5,\"rank\":1,\"gpu_temperature_c\":40}\n"
      "no JSON\n"
      "{\"t\":102,\"rank\":0,\"gpu_temperature_c\":85,\"gpu_margin_c\":-5,\"gpu_heat_limited\":1}\n"
      "{\"t\":104,\"rank\":0,\"gpu_margin_c\":";
  char *dir, path[512];
  ls_gpu_replay_t *replay;
  ls_gpu_live_t *live;
  ls_gpu_now_t now;
  assert_int_equal(ls_dir_temporary(NULL, "lockstep-replay", &dir), LS_OK);
  snprintf(path, sizeof path, "%s/events.jsonl", dir);
  assert_int_equal(ls_file_replace(NULL, path, text, sizeof text - 1), LS_OK);
  assert_int_equal(ls_gpu_replay_open(NULL, path, 0, &replay), LS_OK);
  ls_gpu_replay_at(replay, 1.999, &now);
  assert_true(now.temperature_c == 60 && now.margin_c == 20 && isnan(now.heat_limited));
  ls_gpu_replay_at(replay, 2, &now);
  assert_true(now.temperature_c == 85 && now.margin_c == -5 && now.heat_limited == 1);
  ls_gpu_replay_at(replay, 1e9, &now);
  assert_true(now.margin_c == -5 && isnan(now.power_w));
  ls_gpu_replay_at(replay, 0, &now);
  assert_true(now.margin_c == 20);
  ls_gpu_replay_close(replay);
  setenv(LS_GPU_REPLAY_ENVIRONMENT, path, 1);
  assert_int_equal(ls_gpu_live_open(NULL, -1, 1, &live), LS_OK); /* the process has no device of its own */
  ls_gpu_live_read(live, false, &now);
  assert_true(now.temperature_c == 40 && isnan(now.margin_c));
  ls_gpu_live_close(live);
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(ls_gpu_live_open(ctx, 0, 2, &live), LS_ERR_CONFIG);
  assert_non_null(
      strstr(ls_ctx_error(ctx), "events.jsonl: no line has t and gpu_.. of rank 2; LOCKSTEP_NVML names"));
  ls_ctx_clear(ctx);
  setenv(LS_GPU_REPLAY_ENVIRONMENT, "/nowhere/at.all", 1);
  assert_int_equal(ls_gpu_live_open(ctx, 0, 0, &live), LS_ERR_NOT_FOUND);
  assert_null(live);
  ls_ctx_destroy(ctx);
  unsetenv(LS_GPU_REPLAY_ENVIRONMENT);
  ls_dir_remove(NULL, dir);
  ls_free(dir);
}

static void no_gpu_is_no_reader(void **state) {
  assert_null(open_in("broken", 0));
  assert_null(open_in("lost", 0));
  assert_null(open_in("direct", 7));
  assert_null(open_in("direct", -1));
  ls_gpu_live_close(NULL);
}

TESTS(NULL, NULL, every_answer_in_its_unit, asking_takes_a_twentieth_of_the_time,
      what_is_refused_is_not_known, a_recording_stands_in_for_the_library, no_gpu_is_no_reader)
