/* lockstep plan: which devices, strategy and options are fastest here, and at what price. Also strategy auto.
 */
#include "cli/planner.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The quick probe in a process of its own: it starts ranks, which this process must not be in the way of. */
static ls_status_t run_probe(ls_ctx_t *ctx) {
  char self[] = "/proc/self/exe", probe[] = "probe", quick[] = "--quick";
  char *argv[] = {self, probe, quick, NULL};
  posix_spawn_file_actions_t actions;
  pid_t child;
  int state = 0;
  ls_log(ctx, LS_LOG_INFO, "no profile of this machine yet: measuring it (lockstep probe --quick)");
  if (posix_spawn_file_actions_init(&actions) != 0)
    return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for starting the probe");
  int error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (error == 0) error = posix_spawn(&child, self, &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ls_fail(ctx, LS_ERR_IO, "cannot start lockstep probe: %s", strerror(error));
  while (waitpid(child, &state, 0) < 0)
    if (errno != EINTR) return ls_fail_errno(ctx, "cannot wait for lockstep probe");
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return LS_OK;
  return ls_fail(ctx, LS_ERR_NOT_FOUND, "lockstep probe failed: there is no profile to plan with");
}

static ls_status_t open_profile(ls_ctx_t *ctx, const char *recorded, cli_planned_t *p) {
  if (recorded) {
    p->path = ls_strdup(ctx, recorded);
    return p->path ? ls_profile_load(ctx, recorded, NULL, &p->profile) : LS_ERR_MEMORY;
  }
  ls_status_t status = ls_machine_read(ctx, &p->machine);
  if (status != LS_OK) return status;
  if (!(p->path = ls_profile_default_path(ctx, &p->machine))) return LS_ERR_MEMORY;
  if (!ls_path_exists(p->path)) {
    status = run_probe(ctx);
    p->probed = true;
  }
  return status == LS_OK ? ls_profile_load(ctx, p->path, &p->machine, &p->profile) : status;
}

ls_status_t cli_count_samples(ls_ctx_t *ctx, const ls_config_t *config, ls_plan_options_t *options) {
  const ls_data_config_t *data = &config->data;
  if (data->kind == LS_DATA_SYNTHETIC) {
    options->rows = data->samples;
    options->samples = data->samples - llround((double)data->samples * data->validation);
    return LS_OK;
  }
  ls_dataset_t *dataset;
  ls_data_want_t want = {ls_model_inputs(&config->model), ls_model_outputs(&config->model),
                         config->model.loss == LS_LOSS_CROSS_ENTROPY};
  ls_status_t status = ls_dataset_open(ctx, data, NULL, &want, (uint64_t)config->train.seed, NULL, &dataset);
  if (status != LS_OK) return status;
  options->rows = dataset->rows;
  options->samples = dataset->train_count;
  options->reading_bytes = dataset->reading_bytes;
  ls_dataset_close(dataset);
  return LS_OK;
}

ls_status_t cli_planner_make(ls_ctx_t *ctx, const ls_config_t *config, const char *recorded,
                             ls_plan_options_t *options, cli_planned_t *planned) {
  cli_planned_t p = {0};
  ls_status_t status = open_profile(ctx, recorded, &p);
  options->replay = recorded != NULL;
  if (status == LS_OK) status = cli_count_samples(ctx, config, options);
  if (status == LS_OK) status = ls_train_batch_check(ctx, config, "data", options->samples);
  if (status == LS_OK) status = ls_plan_make(ctx, config, p.profile, options, &p.plan);
  if (status == LS_OK && !recorded && p.plan.profile_changed &&
      ls_profile_save(ctx, p.profile, p.path) != LS_OK)
    ls_log(ctx, LS_LOG_WARN, "what was timed for this plan is not remembered: %s cannot be written", p.path);
  if (status != LS_OK) {
    ls_profile_destroy(p.profile);
    ls_free(p.path);
    return status;
  }
  *planned = p;
  return LS_OK;
}

void cli_planner_release(cli_planned_t *planned) {
  ls_plan_release(&planned->plan);
  ls_profile_destroy(planned->profile);
  ls_free(planned->path);
}

/* In single quotes where a shell would read something else. */
static const char *quoted(ls_arena_t *arena, const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (*text && strspn(text, plain) == strlen(text)) return text;
  const char *out = "'";
  for (; *text && out; text++)
    out = *text == '\'' ? ls_arena_printf(arena, "%s'\\''", out) : ls_arena_printf(arena, "%s%c", out, *text);
  return out ? ls_arena_printf(arena, "%s'", out) : NULL;
}

const char *cli_planner_command(ls_arena_t *arena, const cli_args_t *args, const ls_plan_t *plan,
                                const ls_candidate_t *c) {
  const char *program = quoted(arena, args->argv[0]), *config = quoted(arena, args->config);
  const char *line = program && config ? ls_arena_printf(arena, "%s train %s", program, config) : NULL;
  for (int i = 0; i < args->set_count && line; i++) {
    const char *set = quoted(arena, args->sets[i]);
    line = set ? ls_arena_printf(arena, "%s --set %s", line, set) : NULL;
  }
  const char *sets = line ? ls_plan_sets(arena, c, plan->backend, plan->precision) : NULL;
  return sets ? ls_arena_printf(arena, "%s %s", line, sets) : NULL;
}

ls_status_t cli_planner_auto(ls_ctx_t *ctx, ls_arena_t *arena, const ls_config_t *config, cli_args_t *args) {
  int rank, size;
  if (!config->parallel.automatic) return LS_OK;
  if (ls_comm_launched(&rank, &size)) { /* how many ranks there are is decided already */
    if (size > 1 && args->set_count < CLI_SETS_MAX) args->sets[args->set_count++] = "parallel.strategy=ddp";
    return LS_OK;
  }
  ls_plan_options_t options = {.no_crossover = true, .devices_max = (int)args->ranks};
  if (config->parallel.ranks > 1 && options.devices_max == 0)
    options.devices_max = (int)config->parallel.ranks;
  cli_planned_t planned;
  ls_status_t status = cli_planner_make(ctx, config, NULL, &options, &planned);
  if (status != LS_OK) return status;
  const ls_plan_t *plan = &planned.plan;
  const ls_candidate_t *c = &plan->candidate[plan->choice];
  const char *sets[] = {ls_arena_printf(arena, "parallel.strategy=%s", c->strategy),
                        ls_arena_printf(arena, "parallel.ranks=%d", c->devices),
                        ls_arena_printf(arena, "parallel.threads=%d", c->threads),
                        ls_arena_printf(arena, "parallel.bucket_bytes=%lld", (long long)c->bucket_bytes),
                        ls_arena_printf(arena, "train.accumulate=%lld", (long long)c->accumulate),
                        ls_arena_printf(arena, "parallel.predicted_us=%.3f", c->step.ns * 1e-3)};
  char **argv = ls_arena_array(arena, (size_t)args->argc + 2 * LS_COUNT(sets) + 1, sizeof *argv);
  char *flag = ls_arena_strdup(arena, "--set");
  if (!argv || !flag) status = LS_ERR_MEMORY;
  if (args->set_count + LS_COUNT(sets) > CLI_SETS_MAX)
    status =
        ls_fail(ctx, LS_ERR_ARGUMENT, "too many --set assignments for strategy auto; put them into the file");
  if (status == LS_OK) memcpy(argv, args->argv, (size_t)args->argc * sizeof *argv);
  for (int i = 0; i < LS_COUNT(sets) && status == LS_OK; i++) {
    char *set = sets[i] ? ls_arena_strdup(arena, sets[i]) : NULL;
    if (!set) {
      status = LS_ERR_MEMORY;
      break;
    }
    args->sets[args->set_count++] = set;
    argv[args->argc++] = flag;
    argv[args->argc++] = set;
  }
  if (status == LS_OK) {
    args->argv = argv;
    args->ranks = c->devices;
    ls_arena_t names;
    ls_arena_init(&names, ctx);
    const char *name = ls_plan_name(&names, c);
    ls_log(ctx, LS_LOG_INFO, "plan: %s: %.1f us a step predicted (90 %%: %.1f to %.1f), %.2f x one device",
           name ? name : c->strategy, c->step.ns * 1e-3, c->step.low_ns * 1e-3, c->step.high_ns * 1e-3,
           c->speedup);
    ls_arena_release(&names);
  }
  cli_planner_release(&planned);
  return status;
}

enum { EXTRA_EMIT, EXTRA_POLICY, EXTRA_BUDGET, EXTRA_MACHINE, EXTRA_COUNT };

static ls_status_t check_extras(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *emit = args->extra[EXTRA_EMIT], *policy = args->extra[EXTRA_POLICY];
  if (emit && strcmp(emit, "mpirun") != 0 && strcmp(emit, "sbatch") != 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--emit takes mpirun or sbatch, not \"%s\"", emit);
  if (policy && strcmp(policy, "priced") != 0 && strcmp(policy, "thresholds") != 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--policy takes priced or thresholds, not \"%s\"", policy);
  return LS_OK;
}

static ls_status_t show(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                        cli_planned_t *planned) {
  const char *policy = args->extra[EXTRA_POLICY];
  if (policy && strcmp(policy, "thresholds") == 0) {
    cli_planner_thresholds(ctx, args, config, planned);
    return LS_OK;
  }
  if (args->extra[EXTRA_EMIT]) return cli_planner_emit(ctx, args, planned, args->extra[EXTRA_EMIT]);
  if (!args->json) {
    cli_planner_table(config, planned);
    return LS_OK;
  }
  json_t *json = cli_planner_json(ctx, args, planned);
  if (!json) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the plan's JSON");
  cli_print_json(json);
  return LS_OK;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  cli_planned_t planned;
  ls_plan_options_t options = {.devices_max = (int)args->ranks};
  int64_t budget_ms = 0;
  ls_status_t status = check_extras(ctx, args);
  if (status == LS_OK) status = cli_args_whole(ctx, &cli_plan, args, EXTRA_BUDGET, 1, 3600000, 0, &budget_ms);
  if (status != LS_OK) return status;
  options.budget_s = (double)budget_ms * 1e-3;
  options.no_crossover = args->extra[EXTRA_EMIT] != NULL;
  status = ls_config_load(ctx, args->config, args->sets, args->set_count, &config);
  if (status != LS_OK) return status;
  status = cli_planner_make(ctx, config, args->extra[EXTRA_MACHINE], &options, &planned);
  if (status == LS_OK) {
    status = show(ctx, args, config, &planned);
    cli_planner_release(&planned);
  }
  ls_config_destroy(config);
  return status;
}

static const cli_extra_t extras[] = {
    [EXTRA_EMIT] = {"--emit", "FORM", "Print what starts the choice: mpirun (a line) or sbatch (a script)."},
    [EXTRA_POLICY] = {"--policy", "RULE", "thresholds: answer as the study's rules would, for comparison."},
    [EXTRA_BUDGET] = {"--budget-ms", "N",
                      "At most so long to time ops that the profile does not know (6000)."},
    [EXTRA_MACHINE] = {"--machine", "PROFILE",
                       "Plan for the machine of this profile, from its rates; nothing is opened or timed."},
    [EXTRA_COUNT] = {NULL, NULL, NULL}};

const cli_command_t cli_plan = {
    .name = "plan",
    .summary = "Predicts which devices and strategy make the configured training fastest here.",
    .details =
        "Prices every candidate's real schedule with this machine's profile (lockstep probe). Ops that are "
        "not\n"
        "in it are timed on one device and remembered. All times are predicted. --ranks limits the devices.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_RANKS | CLI_FLAG_VERBOSE,
    .extra = extras,
    .run = run};
