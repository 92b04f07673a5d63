/* Plans for machines that are not here, from the recorded machines' described profiles: nothing is opened or
 * timed, and the choice is the one that the machine's links and rates ask for. Tests run in the root of the
 * source tree. */
#include "support.h"

#include "base/context.h"
#include "recorded.h"

#include <math.h>
#include <string.h>

static ls_profile_t *recorded_profile(recorded_t which) {
  char path[256];
  ls_profile_t *profile = NULL;
  int len = (int)strlen(recorded_path(which)) - (int)strlen(".json");
  snprintf(path, sizeof path, "%.*s.profile.json", len, recorded_path(which));
  if (ls_profile_load(ctx, path, NULL, &profile) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
  return profile;
}

static ls_config_t *study(int batch) {
  char text[256];
  ls_config_t *config = NULL;
  int len = snprintf(text, sizeof text,
                     "model: {preset: mlp-medium, loss: mse}\ndata: {kind: synthetic, samples: 65536}\n"
                     "train: {batch: %d, steps: 1000}\n",
                     batch);
  if (ls_config_parse(ctx, "study.yaml", text, (size_t)len, NULL, 0, &config) != LS_OK)
    fail_msg("%s", ls_ctx_error(ctx));
  return config;
}

/* What holds for every plan that is replayed. */
static void check(const ls_plan_t *plan, const ls_profile_t *profile) {
  assert_true(plan->replayed);
  assert_int_equal(plan->timed, 0);
  assert_int_equal(plan->choice, 0);
  for (int i = 0; i < plan->count; i++) {
    const ls_candidate_t *c = &plan->candidate[i];
    bool assumed;
    int64_t libraries =
        ls_plan_libraries(profile, &ls_backend_cpu, ls_candidate_devices(c), &c->need, &assumed);
    if (c->host) assert_int_equal(c->library_bytes, libraries);
    assert_int_equal(c->device_bytes, c->need.device_bytes + c->library_bytes);
    assert_true(c->need.device_bytes >= c->fit.device_total_bytes);
    if (!c->priced) {
      assert_non_null(strstr(c->why, "not priced"));
      continue;
    }
    assert_true(isfinite(c->step.ns) && c->step.ns > 0 && c->step.low_ns <= c->step.ns &&
                c->step.ns <= c->step.high_ns);
    assert_true(c->interpolated && c->fits);
    if (i > 0) assert_true(c->step.ns >= plan->candidate[i - 1].step.ns);
  }
}

static void plan_on(recorded_t which, int batch, int devices_max, ls_plan_t *plan) {
  ls_profile_t *profile = recorded_profile(which);
  ls_config_t *config = study(batch);
  const ls_plan_options_t options = {
      .replay = true, .devices_max = devices_max, .samples = 65536, .no_crossover = true};
  if (ls_plan_make(ctx, config, profile, &options, plan) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
  check(plan, profile);
  ls_config_destroy(config);
  ls_profile_destroy(profile);
}

/* A side lane that is on was dropped without a word. */
static void a_side_lane_is_left_out_and_said(void **state) {
  static const struct {
    recorded_t machine;
    const char *backend;
    ls_side_t side;
    bool said;
  } rows[] = {{RECORDED_NVLINK, "cuda", LS_SIDE_ON, true},
              {RECORDED_NVLINK, "auto", LS_SIDE_ON, true},
              {RECORDED_NVLINK, "cuda", LS_SIDE_AUTO, false},
              {RECORDED_NVLINK, "cuda", LS_SIDE_OFF, false},
              {RECORDED_CPU, "auto", LS_SIDE_ON, false}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_profile_t *profile = recorded_profile(rows[i].machine);
    ls_config_t *config = study(512);
    ls_plan_t plan;
    const ls_plan_options_t options = {.replay = true, .samples = 65536, .no_crossover = true};
    config->parallel.options.side_lane = rows[i].side;
    config->parallel.backend = rows[i].backend;
    if (ls_plan_make(ctx, config, profile, &options, &plan) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
    assert_int_equal(plan.left_out != NULL, rows[i].said);
    for (int c = 0; c < plan.count; c++)
      assert_int_equal(plan.candidate[c].config.parallel.options.side_lane, LS_SIDE_OFF);
    ls_plan_release(&plan);
    ls_config_destroy(config);
    ls_profile_destroy(profile);
  }
}

static int choice_on(recorded_t which, int batch, int devices_max, const char *backend) {
  ls_plan_t plan;
  plan_on(which, batch, devices_max, &plan);
  assert_string_equal(plan.backend, backend);
  int devices = ls_candidate_devices(&plan.candidate[plan.choice]);
  ls_plan_release(&plan);
  return devices;
}

static void behind_a_host_bridge_small_batches_stay_on_one_device(void **state) {
  assert_int_equal(choice_on(RECORDED_BRIDGE, 32, 0, "cuda"), 1);
  assert_int_equal(choice_on(RECORDED_BRIDGE, 65536, 0, "cuda"), 2);
}

static void on_nvlink_large_batches_take_more_devices(void **state) {
  assert_int_equal(choice_on(RECORDED_NVLINK, 16, 0, "cuda"), 1);
  assert_int_equal(choice_on(RECORDED_NVLINK, 16384, 2, "cuda"), 2);
  assert_int_equal(choice_on(RECORDED_NVLINK, 65536, 0, "cuda"), 4);
}

/* 0.25 % of a device is left free: a batch that would need the last of it is taken in two parts. */
static void a_device_is_not_filled_to_the_brim(void **state) {
  ls_plan_t plan;
  plan_on(RECORDED_NVLINK, 64, 1, &plan);
  ls_profile_t *profile = recorded_profile(RECORDED_NVLINK);
  double most = (double)ls_profile_machine(profile)->gpu[0].memory_bytes;
  ls_time_t counted;
  char key[LS_PROFILE_KEY_BYTES];
  if (ls_profile_get(profile, ls_profile_key(key, (ls_profile_key_t){LS_KEY_CAPACITY, "cuda"}), &counted))
    most = counted.ns;
  ls_profile_destroy(profile);
  assert_true((double)plan.memory_bytes < 0.998 * most && (double)plan.memory_bytes > 0.996 * most);
  ls_plan_release(&plan);
}

static void three_devices_lie_between_two_and_four(void **state) {
  ls_plan_t plan;
  plan_on(RECORDED_NVLINK, 16384, 3, &plan);
  const ls_candidate_t *three = NULL;
  for (int i = 0; i < plan.count && !three; i++)
    if (ls_candidate_devices(&plan.candidate[i]) == 3) three = &plan.candidate[i];
  assert_non_null(three);
  assert_true(three->priced && three->library_assumed); /* measured for two and four */
  ls_plan_release(&plan);
}

static void a_processor_is_planned_without_gpus(void **state) {
  assert_int_equal(choice_on(RECORDED_CPU, 8, 0, "cpu"), 1);
}

static void what_nvml_refused_does_not_stop_a_plan(void **state) {
  ls_plan_t plan;
  plan_on(RECORDED_HALF, 1024, 0, &plan);
  assert_int_equal(ls_candidate_devices(&plan.candidate[plan.choice]), 1);
  for (int i = 1; i < plan.count; i++)
    assert_false(plan.candidate[i].priced); /* no exchange was measured */
  ls_plan_release(&plan);
}

static void a_gpu_that_is_not_there_is_refused(void **state) {
  ls_profile_t *profile = recorded_profile(RECORDED_CPU);
  ls_config_t *config = study(8);
  ls_plan_t plan;
  config->parallel.backend = "cuda";
  assert_int_equal(ls_plan_make(ctx, config, profile, &(ls_plan_options_t){.replay = true}, &plan),
                   LS_ERR_UNSUPPORTED);
  assert_non_null(strstr(ls_ctx_error(ctx), "no GPU"));
  ls_config_destroy(config);
  ls_profile_destroy(profile);
}

TESTS(context_setup, context_teardown, behind_a_host_bridge_small_batches_stay_on_one_device,
      on_nvlink_large_batches_take_more_devices, a_device_is_not_filled_to_the_brim,
      three_devices_lie_between_two_and_four, a_processor_is_planned_without_gpus,
      what_nvml_refused_does_not_stop_a_plan, a_gpu_that_is_not_there_is_refused,
      a_side_lane_is_left_out_and_said)
