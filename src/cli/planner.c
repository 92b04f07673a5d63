/* lockstep plan: which devices, strategy and options are fastest here, and at what price. Also strategy auto.
 */
#include "cli/planner.h"
#include "base/list.h"
#include "base/tool.h"
#include "cli/stop.h"
#include "plan/world.h"

#include "base/process.h"
#include "base/shell.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs the quick probe in a process of its own, into `output`, because it starts ranks, with which this
 * process must not interfere. It may take a while to end its own children. */
static ls_status_t run_probe(ls_ctx_t *ctx, const char *output) {
  enum { GRACE_S = 15 };
  const char *const argv[] = {"lockstep", "probe", "--quick", "--output", output, NULL};
  ls_child_spec_t spec = {.argv = argv, .self = true, .grace_s = GRACE_S};
  ls_child_end_t end;
  char words[LS_CHILD_WORDS_BYTES];
  spec.stream[STDOUT_FILENO].file = "/dev/null";
  ls_log(ctx, LS_LOG_INFO, "no profile of this machine yet: measuring it (lockstep probe --quick)");
  bool measured = cli_stop_run(&spec, &end);
  if (cli_stop_requested())
    return ls_fail(ctx, LS_ERR_INTERRUPTED, "interrupted by %s while measuring this machine",
                   cli_stop_name(cli_stop_requested()));
  if (measured) return LS_OK;
  if (!end.error && end.code == ls_status_exit_code(LS_ERR_INTERRUPTED)) return LS_ERR_INTERRUPTED;
  ls_child_words(&end, words);
  return ls_fail(ctx, LS_ERR_NOT_FOUND, "lockstep probe failed (%s): there is no profile to plan with",
                 words);
}

/* A failure to save is no failure of the plan: it only costs the next plan time. Reported once. */
static void warn_unsaved(ls_ctx_t *ctx, const ls_ctx_t *own, cli_planned_t *p) {
  if (!p->unsaved)
    ls_log(ctx, LS_LOG_WARN, "what was measured for this plan is not remembered: %s", ls_ctx_error(own));
  p->unsaved = true;
}

/* Keeps the probe's profile; if another one appeared meanwhile, that one's values win. */
static ls_status_t keep_probe(ls_ctx_t *ctx, cli_planned_t *p) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL); /* keeps the reason, prints nothing */
  ls_profile_t *other;
  ls_status_t status = LS_OK;
  if (!own) return LS_ERR_MEMORY;
  if (ls_path_exists(p->path) && ls_profile_load(own, p->path, &p->machine, &other) == LS_OK) {
    status = ls_profile_merge(p->profile, other);
    ls_profile_destroy(other);
  } else {
    ls_ctx_clear(own);
    if (ls_profile_save(own, p->profile, p->path) != LS_OK) warn_unsaved(ctx, own, p);
  }
  p->kept = !p->unsaved;
  ls_ctx_destroy(own);
  return status;
}

/* Measures into a file of its own, because the folder of profiles may not be writable. */
static ls_status_t probe_profile(ls_ctx_t *ctx, cli_planned_t *p) {
  char *dir;
  ls_status_t status = ls_dir_temporary(ctx, "lockstep-plan", &dir);
  if (status != LS_OK) return status;
  char *path = ls_path_join(ctx, dir, "profile.json");
  status = path ? run_probe(ctx, path) : LS_ERR_MEMORY;
  if (status == LS_OK) status = ls_profile_load(ctx, path, &p->machine, &p->profile);
  ls_dir_remove(NULL, dir);
  ls_free(path);
  ls_free(dir);
  p->probed = true;
  return status == LS_OK ? keep_probe(ctx, p) : status;
}

static ls_status_t open_profile(ls_ctx_t *ctx, const char *recorded, cli_planned_t *p) {
  p->kept = true;
  if (recorded) {
    p->path = ls_strdup(ctx, recorded);
    return p->path ? ls_profile_load(ctx, recorded, NULL, &p->profile) : LS_ERR_MEMORY;
  }
  ls_status_t status = ls_machine_read(ctx, &p->machine);
  if (status != LS_OK) return status;
  if (!(p->path = ls_profile_default_path(ctx, &p->machine))) return LS_ERR_MEMORY;
  if (!ls_path_exists(p->path)) return probe_profile(ctx, p);
  return ls_profile_load(ctx, p->path, &p->machine, &p->profile);
}

/* Saves the timings made since the profile was `before`, beside those that other plans have made
 * meanwhile. */
static void keep_timed(ls_ctx_t *ctx, const ls_profile_t *before, cli_planned_t *p) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  if (own && ls_profile_update(own, before, p->profile, p->path) != LS_OK) warn_unsaved(ctx, own, p);
  ls_ctx_destroy(own);
}

/* Opens this machine's profile, or has it measured; plans; adds new timings to the profile. `options` may be
 * changed (samples, replay). `recorded`: profile of another machine for which to plan; NULL = this machine.
 * The caller releases the result after LS_OK. */
static ls_status_t make_plan(ls_ctx_t *ctx, const ls_config_t *config, const char *recorded,
                             ls_plan_options_t *options, cli_planned_t *planned) {
  cli_planned_t p = {.env = config->doc.env};
  ls_config_t read = *config;  /* and what the data say */
  ls_profile_t *before = NULL; /* what is timed is added to it */
  ls_status_t status = open_profile(ctx, recorded, &p);
  options->replay = recorded != NULL;
  if (status == LS_OK && !recorded) status = ls_profile_copy(ctx, p.profile, &before);
  if (status == LS_OK) status = ls_plan_count_samples(ctx, &read, options);
  if (status == LS_OK) status = ls_train_batch_check(ctx, config, "data", options->samples);
  if (status == LS_OK) status = ls_plan_make(ctx, &read, p.profile, options, &p.plan);
  if (status == LS_OK && before && p.plan.profile_changed) keep_timed(ctx, before, &p);
  ls_profile_destroy(before);
  if (status != LS_OK) {
    ls_profile_destroy(p.profile);
    ls_free(p.path);
    return status;
  }
  *planned = p;
  return LS_OK;
}

static void release_plan(cli_planned_t *planned) {
  ls_plan_release(&planned->plan);
  ls_profile_destroy(planned->profile);
  ls_free(planned->path);
}

static void add_flag(const char **words, int *count, const char *flag, const char *value) {
  if (!value) return;
  words[(*count)++] = flag;
  words[(*count)++] = value;
}

const char *const *cli_planner_words(ls_arena_t *arena, const cli_args_t *args, const cli_planned_t *planned,
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

const char *cli_planner_command(ls_arena_t *arena, const cli_args_t *args, const cli_planned_t *planned,
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

/* Where no table says it. */
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
           ls_strategy_default(most)->name, most);
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
  cli_planned_t planned;
  ls_status_t status = make_plan(ctx, config, NULL, &options, &planned);
  if (status != LS_OK) return status;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  const ls_candidate_t *c = &planned.plan.candidate[planned.plan.choice];
  warn_busy(ctx, &planned.plan);
  say_choice(ctx, &arena, c, asked, (int)most);
  status = train_as(ctx, &arena, args, &planned.plan, c);
  ls_arena_release(&arena);
  release_plan(&planned);
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
  ls_status_t status = emit ? cli_planner_emit_check(ctx, emit) : LS_OK;
  if (status != LS_OK) return status;
  if (policy && strcmp(policy, "priced") != 0 && !by_thresholds(args))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--policy takes priced or thresholds, not \"%s\"", policy);
  if (by_thresholds(args)) return ls_tool_ready(ctx, "--policy thresholds", "");
  return LS_OK;
}

static ls_status_t show(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                        cli_planned_t *planned) {
  bool thresholds = by_thresholds(args);
  if (thresholds || args->extra[EXTRA_EMIT] || args->json) warn_busy(ctx, &planned->plan);
  if (thresholds) return cli_planner_thresholds(ctx, args, config, planned);
  if (args->extra[EXTRA_EMIT])
    return cli_planner_emit(ctx, args, config, planned, args->extra[EXTRA_EMIT], args->extra[EXTRA_DEVICES]);
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
  status = make_plan(ctx, config, args->extra[EXTRA_MACHINE], &options, &planned);
  if (status == LS_OK) {
    status = show(ctx, args, config, &planned);
    release_plan(&planned);
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
