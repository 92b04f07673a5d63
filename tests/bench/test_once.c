/* Repetitions inside one process: what is measured, that repetitions end with the same parameters, curves. */
#include "base/process.h"
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

static const char text[] =
    "model: {input: [6], loss: mse, layers: [{dense: {units: 8, activation: relu}}, {dense: {units: 2}}]}\n"
    "data: {kind: synthetic, samples: 120, validation: 0.2}\n"
    "train: {batch: 12, epochs: 3, checkpoint: {dir: /nowhere/never}}\n"
    "parallel: {backend: cpu, threads: 1}\n";

static ls_status_t once(ls_ctx_t *ctx, const ls_bench_once_t *plan, json_t **measurement) {
  ls_world_t *world = NULL;
  ls_config_t *config;
  ls_status_t status = ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config);
  if (status != LS_OK) return status;
  status = ls_world_open(ctx, 10, &world);
  if (status == LS_OK) status = ls_bench_once(ctx, world, config, plan, measurement);
  ls_world_close(world);
  ls_config_destroy(config);
  return status;
}

static void test_repetitions(void **state) {
  ls_bench_once_t plan = {.repetitions = 3, .warmup_steps = 2, .steps = 7};
  json_t *m = NULL;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(once(ctx, &plan, &m), LS_OK);
  ls_ctx_destroy(ctx);
  const json_t *list = json_object_get(m, "repetitions"), *r, *first = json_array_get(list, 0);
  size_t i;
  assert_int_equal(json_array_size(list), 3);
  assert_true(ls_bench_number(m, "global_batch") == 12 && ls_bench_number(m, "ranks") == 1);
  assert_true(ls_bench_number(m, "params") == 6 * 8 + 8 + 8 * 2 + 2);
  assert_true(ls_bench_number(m, "bytes_per_device.total") > 0 && ls_bench_number(m, "flops_per_step") > 0);
  assert_null(json_object_get(m, "curves"));
  const json_t *timeline = json_object_get(m, "timeline");
  assert_true(json_array_size(timeline) >= 3); /* forward, backward, optimizer */
  json_array_foreach(timeline, i, r) {
    assert_true(ls_bench_number(r, "start_us") <= ls_bench_number(r, "end_us"));
    if (i > 0) /* one lane on one rank: one after the other */
      assert_true(ls_bench_number(r, "start_us") >=
                  ls_bench_number(json_array_get(timeline, i - 1), "end_us"));
  }
  json_array_foreach(list, i, r) {
    double mean = ls_bench_number(r, "step_time_us.mean");
    assert_true(mean > 0 && fabs(ls_bench_number(r, "samples_per_s") * mean - 12e6) < 1);
    assert_true(ls_bench_number(r, "step_time_us.p95") >= ls_bench_number(r, "step_time_us.median"));
    assert_true(ls_bench_number(r, "step_parts_us.forward") > 0);
    assert_true(json_equal(json_object_get(r, "params_xxh3"), json_object_get(first, "params_xxh3")));
    assert_true(ls_bench_number(r, "grad_norm") == ls_bench_number(first, "grad_norm"));
  }
  json_decref(m);
}

static int64_t allocations_of(int64_t repetitions) {
  ls_bench_once_t plan = {.repetitions = repetitions, .warmup_steps = 2, .steps = 7};
  json_t *m = NULL;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_ctx_fail_alloc(ctx, 0);
  assert_int_equal(once(ctx, &plan, &m), LS_OK);
  int64_t count = ls_ctx_fail_alloc(ctx, 0);
  ls_ctx_destroy(ctx);
  json_decref(m);
  return count;
}

/* A repetition of 20 ms of steps took 0.85 s on GPUs: each opened device, connections and memory again. */
static void repetitions_open_the_device_once(void **state) {
  int64_t one = allocations_of(1), five = allocations_of(5);
  assert_true(one > 20);
  assert_true(five - one < one);
}

static void bytes_per_device_mean_what_plan_and_train_call_so(void **state) {
  ls_bench_once_t plan = {.repetitions = 1, .warmup_steps = 1, .steps = 2};
  json_t *m = NULL, *value;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(once(ctx, &plan, &m), LS_OK);
  ls_ctx_destroy(ctx);
  const char *part;
  double sum = 0, total = ls_bench_number(m, "bytes_per_device.total");
  json_object_foreach(json_object_get(m, "bytes_per_device"), part, value) {
    if (strcmp(part, "total") != 0) sum += json_number_value(value);
  }
  assert_true(sum == total);
  assert_true(total > 1e6); /* of a process, not of the step alone */
  assert_true(total <= (double)ls_process_peak_bytes());
  json_decref(m);
}

static void test_curves(void **state) {
  char path[] = "/tmp/lockstep-test-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  ls_bench_once_t plan = {
      .repetitions = 1, .warmup_steps = 2, .steps = 7, .curves = true, .params_path = path};
  json_t *m = NULL;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(once(ctx, &plan, &m), LS_OK);
  ls_ctx_destroy(ctx);
  const json_t *curves = json_object_get(m, "curves");
  assert_int_equal(json_array_size(json_object_get(curves, "grad_norm")), 9);
  assert_int_equal(json_array_size(json_object_get(curves, "loss")), 9);
  assert_true(isfinite(ls_bench_number(curves, "final_loss")));
  char *bytes;
  size_t size_bytes;
  assert_int_equal(ls_file_read(NULL, path, 1 << 20, &bytes, &size_bytes), LS_OK);
  assert_true(size_bytes >= 74 * sizeof(float) && size_bytes % sizeof(float) == 0);
  ls_free(bytes);
  unlink(path);
  json_decref(m);
}

static void test_failed_allocations(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_bench_once_t plan = {.repetitions = 1, .warmup_steps = 0, .steps = 2};
  json_t *m = NULL;
  ls_ctx_fail_alloc(ctx, 0);
  assert_int_equal(once(ctx, &plan, &m), LS_OK);
  json_decref(m);
  int64_t allocations = ls_ctx_fail_alloc(ctx, 0);
  for (int64_t n = 1; n <= allocations; n += 3) {
    m = NULL;
    ls_ctx_fail_alloc(ctx, n);
    ls_status_t status = once(ctx, &plan, &m);
    if (status != LS_ERR_MEMORY || m) fail_msg("allocation %lld: %s", (long long)n, ls_status_name(status));
  }
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, test_repetitions, repetitions_open_the_device_once,
      bytes_per_device_mean_what_plan_and_train_call_so, test_curves, test_failed_allocations)
