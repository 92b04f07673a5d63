/* lockstep plan: which devices, strategy and options are fastest here, and at what price. Also strategy auto.
 */
#include "cli/planner.h"
#include "base/list.h"
#include "base/tool.h"
#include "cli/stop.h"
#include "plan/job.h"

#include "base/process.h"
#include "base/shell.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const ls_plan_stop_t stop = {cli_stop_run, cli_stop_requested, cli_stop_name};

static void add_flag(const char **words, int *count, const char *flag, const char *value) {
  if (!value) return;
  words[(*count)++] = flag;
  words[(*count)++] = value;
}

const char *const *cli_planner_words(ls_arena_t *arena, const cli_args_t *args, const ls_planned_t *planned,
                                     const ls_candidate_t *c) {
  const ls_plan_t *plan = &planned->plan;
  const char **set = ls_plan_sets(arena, plan, c);
  int sets = 0, count = 0;
  while (set && set[sets])
    sets++;
  const char **words = ls_arena_array(arena, (size_t)(2 * (args->set_count + sets) + 8), sizeof *words);
  if (!set || !words) return NULL;
  words[count++] = args->argv[0];
  add_flag(words, &count, "train", args->config);
  add_flag(words, &count, "--data-root", args->data_root);
  add_flag(words, &count, "--env", planned->env);
  for (int i = 0; i < args->set_count; i++)
    add_flag(words, &count, "--set", args->sets[i]);
  for (int i = 0; i < sets; i++)
    add_flag(words, &count, "--set", set[i]);
  words[count] = NULL;
  return words;
}

const char *cli_planner_command(ls_arena_t *arena, const cli_args_t *args, const ls_planned_t *planned,
                                const ls_candidate_t *c) {
  char *text = NULL;
  const char *const *words = cli_planner_words(arena, args, planned, c);
  size_t size_bytes;
  FILE *to = words ? open_memstream(&text, &size_bytes) : NULL;
  if (!to) return NULL;
  for (int i = 0; words[i]; i++) {
    if (i) fputc(' ', to);
    ls_shell_put(to, words[i]);
  }
  const char *line = fclose(to) == 0 ? ls_arena_strdup(arena, text) : NULL;
  free(text);
  return line;
}

/* Warns on stderr if no table says it. */
static void warn_busy(ls_ctx_t *ctx, const ls_plan_t *plan) {
  char busy[CLI_BUSY_BYTES];
  if (cli_planner_busy(plan, busy)) ls_log(ctx, LS_LOG_WARN, "%s", busy);
}

static void say_choice(ls_ctx_t *ctx, ls_arena_t *arena, const ls_candidate_t *c, bool asked, int most) {
  const char *name = ls_plan_name(arena, c);
  char than_one[32] = "";
  if (isfinite(c->speedup)) snprintf(than_one, sizeof than_one, ", %.2f x one device", c->speedup);
  ls_log(ctx, LS_LOG_INFO, "plan: %s: %.1f us a step predicted (90 %%: %.1f to %.1f; mean %.1f)%s%s%s",
         name ? name : c->config.parallel.strategy, c->step.ns * 1e-3, c->step.low_ns * 1e-3,
         c->step.high_ns * 1e-3, c->mean.ns * 1e-3, than_one, c->why[0] ? "; " : "", c->why);
  if (ls_candidate_devices(c) < most)
    ls_log(ctx, LS_LOG_INFO,
           "strategy auto takes %s %d as the most ranks that it may use, and uses %d; name a strategy (%s) "
           "for "
           "exactly %d",
           asked ? "--ranks" : "parallel.ranks:", most, ls_candidate_devices(c),
           ls_config_usual(&c->config, most)->name, most);
}

/* The same command line with the candidate's assignments, as a new program in this process: what planning took, and what
 * libraries keep of it, would count as the training's memory. Returns only if that fails. */
static ls_status_t train_as(ls_ctx_t *ctx, ls_arena_t *arena, const cli_args_t *args, const ls_plan_t *plan,
                            const ls_candidate_t *c) {
  const char **set = ls_plan_sets(arena, plan, c);
  char self[PATH_MAX];
  int sets = 0, count = args->argc;
  while (set && set[sets])
    sets++;
  const char **argv = ls_arena_array(arena, (size_t)(count + 2 * sets + 5), sizeof *argv);
  if (!set || !argv) return LS_ERR_MEMORY;
  memcpy(argv, args->argv, (size_t)count * sizeof *argv);
  for (int i = 0; i < sets; i++) {
    argv[count++] = "--set";
    argv[count++] = set[i];
  }
  argv[count++] = "--set";
  argv[count++] = ls_arena_printf(arena, "parallel.predicted_us=%.3f", c->step.ns * 1e-3);
  argv[count++] = "--ranks";
  argv[count] = ls_arena_printf(arena, "%d", ls_candidate_devices(c));
  if (!argv[count - 2] || !argv[count]) return LS_ERR_MEMORY;
  fflush(NULL);
  if (ls_process_program(self)) execv(self, (char *const *)(uintptr_t)argv);
  return ls_fail_errno(ctx, "this program cannot be started again to train what was planned");
}

ls_status_t cli_planner_auto(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args) {
  int rank, size;
  if (!config->parallel.automatic) return LS_OK;
  if (ls_comm_launched(&rank, &size)) return LS_OK; /* how many ranks there are is decided already */
  const bool asked = args->ranks > 0;
  const int64_t most = asked ? args->ranks : config->parallel.ranks > 1 ? config->parallel.ranks : 0;
  ls_plan_options_t options = {.no_crossover = true, .devices_max = (int)most};
  ls_planned_t planned;
  ls_status_t status = ls_planned_make(ctx, config, NULL, &stop, &options, &planned);
  if (status != LS_OK) return status;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  const ls_candidate_t *c = &planned.plan.candidate[planned.plan.choice];
  warn_busy(ctx, &planned.plan);
  say_choice(ctx, &arena, c, asked, (int)most);
  status = train_as(ctx, &arena, args, &planned.plan, c);
  ls_arena_release(&arena);
  ls_planned_release(&planned);
  return status;
}

enum {
  EXTRA_EMIT,
  EXTRA_POLICY,
  EXTRA_BUDGET,
  EXTRA_MACHINE,
  EXTRA_DEVICES,
  EXTRA_FRESH,
  EXTRA_NO_CROSSOVER,
  EXTRA_COUNT
};

static const cli_extra_t extras[] = {
    [EXTRA_EMIT] = {"--emit", "FORM",
                    "Print what runs the choice: mpirun (a line), sbatch (a script for Slurm), k8s (a Job "
                    "for Kubernetes) or a template of your own, by its path."},
    [EXTRA_POLICY] = {"--policy", "RULE", "thresholds: also answer by the study's rules, for comparison."},
    [EXTRA_BUDGET] = {"--budget-ms", "N",
                      "Spend at most N ms on timing ops that the profile does not hold (default 6000).",
                      CLI_NUMBER(1, 3600000, 0)},
    [EXTRA_MACHINE] = {"--machine", "PROFILE", "Plan for the machine of this profile; measure nothing here."},
    [EXTRA_DEVICES] = {"--devices", "N,..", "Consider only these numbers of devices."},
    [EXTRA_FRESH] = {"--fresh", NULL,
                     "Repeat the measurements of earlier plans, which may have run on a busier "
                     "machine."},
    [EXTRA_NO_CROSSOVER] =
        {"--no-crossover", NULL,
         "Do not look for the batch from which more devices pay, which takes most of the time."},
    [EXTRA_COUNT] = {NULL, NULL, NULL}};

static bool by_thresholds(const cli_args_t *args) {
  return args->extra[EXTRA_POLICY] && strcmp(args->extra[EXTRA_POLICY], "thresholds") == 0;
}

static ls_status_t check_extras(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *emit = args->extra[EXTRA_EMIT], *policy = args->extra[EXTRA_POLICY];
  ls_status_t status = emit ? ls_plan_job_check(ctx, emit) : LS_OK;
  if (status != LS_OK) return status;
  if (policy && strcmp(policy, "priced") != 0 && !by_thresholds(args))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--policy takes priced or thresholds, not \"%s\"", policy);
  if (by_thresholds(args)) return ls_tool_ready(ctx, "--policy thresholds", "");
  return LS_OK;
}

typedef struct {
  const cli_args_t *args;
  const ls_planned_t *planned;
} command_of_t;

static const char *command_of(const void *user, ls_arena_t *arena, const ls_candidate_t *c) {
  const command_of_t *of = user;
  return cli_planner_command(arena, of->args, of->planned, c);
}

static ls_status_t show(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                        ls_planned_t *planned) {
  bool thresholds = by_thresholds(args);
  if (thresholds || args->extra[EXTRA_EMIT] || args->json) warn_busy(ctx, &planned->plan);
  if (thresholds) return cli_planner_thresholds(ctx, args, config, planned);
  if (args->extra[EXTRA_EMIT])
    return cli_planner_emit(ctx, args, config, planned, args->extra[EXTRA_EMIT], args->extra[EXTRA_DEVICES]);
  if (!args->json) {
    cli_planner_table(config, planned);
    return LS_OK;
  }
  const command_of_t of = {args, planned};
  json_t *json = ls_planned_json(ctx, planned, command_of, &of);
  if (!json) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the plan's JSON");
  cli_print_json(json);
  return LS_OK;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  ls_planned_t planned;
  ls_plan_options_t options = {.devices_max = (int)args->ranks};
  const char *devices = args->extra[EXTRA_DEVICES];
  ls_list_t list = {.count = 0};
  ls_status_t status = check_extras(ctx, args);
  if (status == LS_OK && devices)
    status = ls_list_read(ctx, extras[EXTRA_DEVICES].name, devices, true, &list);
  if (status != LS_OK) return status;
  options.budget_s = (double)args->whole[EXTRA_BUDGET] * 1e-3;
  options.no_crossover = args->extra[EXTRA_EMIT] || args->extra[EXTRA_NO_CROSSOVER];
  options.fresh = args->extra[EXTRA_FRESH] != NULL;
  options.only = list.number;
  options.only_count = list.count;
  status = cli_config_load(ctx, args, args->sets, args->set_count, &config);
  if (status != LS_OK) return status;
  status = ls_planned_make(ctx, config, args->extra[EXTRA_MACHINE], &stop, &options, &planned);
  if (status == LS_OK) {
    status = show(ctx, args, config, &planned);
    ls_planned_release(&planned);
  }
  ls_config_destroy(config);
  return status;
}

static const cli_command_t command = {
    .name = "plan",
    .place = 51,
    .summary = "Predicts which devices and strategy make the configured training fastest here.",
    .details = "Prices every candidate's real schedule with this machine's profile (lockstep "
               "probe). Ops that the profile\ndoes not hold are timed, on one GPU or on this "
               "host's processors as the ranks share them, and kept.\nAll times are predicted. "
               "--ranks limits the devices, --devices names them.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_RANKS | CLI_FLAG_VERBOSE,
    .extra = extras,
    .run = run};
CLI_COMMAND(command)
