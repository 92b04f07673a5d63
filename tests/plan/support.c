#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

ls_config_t *small_config(ls_ctx_t *ctx, const char *more) {
  char text[1024];
  ls_config_t *config = NULL;
  snprintf(
      text, sizeof text,
      "model:\n  input: [6]\n  layers:\n    - dense: {units: 5, activation: relu}\n    - dense: {units: 2}\n"
      "  loss: mse\ndata: {kind: synthetic, samples: 640}\n%s",
      more);
  assert_int_equal(ls_config_parse(ctx, "test.yaml", text, strlen(text), NULL, 0, &config), LS_OK);
  return config;
}

ls_profile_t *small_profile(ls_ctx_t *ctx) {
  ls_machine_t machine;
  ls_profile_t *profile = NULL;
  ls_machine_clear(&machine);
  snprintf(machine.cpu_model, sizeof machine.cpu_model, "a processor of tests");
  machine.memory_bytes = INT64_C(1) << 30;
  assert_int_equal(ls_profile_create(ctx, &machine, &profile), LS_OK);
  return profile;
}

ls_planner_t small_planner(ls_ctx_t *ctx, const ls_config_t *config, ls_profile_t *profile) {
  return (ls_planner_t){.ctx = ctx,
                        .config = config,
                        .profile = profile,
                        .backend = &ls_backend_ref,
                        .devices = 2,
                        .cpus = ls_cpu_count(),
                        .eval_samples = 640};
}

int fill_timing(ls_planner_t *p, ls_candidate_t *c, const pace_t *pace, int *fixed) {
  ls_timing_t timing = {0};
  char name[LS_FAMILY_BYTES];
  int by_rows = 0;
  double sum = pace->overhead_ns;
  *fixed = 0;
  assert_int_equal(ls_candidate_lower(p, c, &timing.program), LS_OK);
  assert_int_equal(ls_candidate_name(p, c), LS_OK);
  ls_cost_timing(p->backend, c, name);
  ls_arena_init(&timing.arena, p->ctx);
  timing.rows = c->rows;
  const ls_program_t *program = &timing.program;
  timing.task =
      ls_arena_array(&timing.arena, (size_t)ls_program_task(program, program->count, 0), sizeof *timing.task);
  for (int i = 0; i < program->count; i++)
    for (int t = 0; t < program->member[i]->task_count; t++) {
      const ls_task_t *task = &program->member[i]->tasks[t];
      if (task->kind == LS_TASK_COLLECTIVE) continue;
      bool update = task->phase == LS_PHASE_STEP_OPTIMIZER;
      double ns = update ? pace->fixed_ns : pace->row_ns * (double)c->rows;
      timing.task[ls_program_task(program, i, t)] = (ls_time_t){ns, ns, ns};
      sum += ns * program->times[i];
      *(update ? fixed : &by_rows) += program->times[i];
    }
  timing.step = (ls_time_t){sum, sum, sum};
  assert_int_equal(ls_cost_keep_tasks(p->ctx, p->profile, c->family, p->backend, ls_candidate_devices(c),
                                      ls_candidate_threads(c), &timing),
                   LS_OK);
  const double ns = sum + pace->wait_ns;
  const ls_timing_block_t block = {.steps = 1, .ns = llround(ns), .kept = 1, .step_ns = {ns}};
  assert_int_equal(ls_cost_keep_step(p->ctx, p->profile, name, c->rows, &block, 1, true), LS_OK);
  assert_true(ls_cost_known(p->profile, name, c->rows, true));
  ls_timing_release(&timing);
  return by_rows;
}

static void fill_collective(ls_profile_t *profile, const char *kind, int ranks, double ns) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_curve_point_t points[] = {{64, {ns, ns, ns}}, {1e9, {ns, ns, ns}}};
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, "mpi", kind, ranks});
  assert_int_equal(ls_profile_put_curve(profile, key, points, LS_COUNT(points)), LS_OK);
}

void fill_all_reduce(ls_profile_t *profile, int ranks, double ns) {
  fill_collective(profile, "all-reduce", ranks, ns);
}

void fill_all_gather(ls_profile_t *profile, int ranks, double ns) {
  fill_collective(profile, "all-gather", ranks, ns);
}
