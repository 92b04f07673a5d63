/* lockstep bench: measures variants of a configuration against each other (bench/driver.h). Also, with --once, the process
 * that measures one of them. */
#include "cli/bench.h"
#include "base/tool.h"
#include "bench/publish.h"
#include "cli/commit.h"
#include "cli/stop.h"
#include "config/spare.h"

#include "base/shell.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
  FLAG_STUDY,
  FLAG_MODELS, /* the lists, in the order of ls_bench_list_t */
  FLAG_BATCHES,
  FLAG_RANKS_LIST,
  FLAG_STRATEGIES,
  FLAG_PRECISIONS,
  FLAG_PEER,
  FLAG_WEAK,
  FLAG_REPETITIONS,
  FLAG_STEPS,
  FLAG_WARMUP,
  FLAG_PER_PROCESS,
  FLAG_MARGIN,
  FLAG_CONTROL,
  FLAG_CONTROL_REPETITIONS,
  FLAG_VALIDATE,
  FLAG_FROM,
  FLAG_PLAN,
  FLAG_MARKDOWN,
  FLAG_HTML,
  FLAG_OUTPUT,
  FLAG_SEED,
  FLAG_LIMIT,
  FLAG_BUDGET,
  FLAG_ONCE,
  FLAG_ONCE_PARAMS,
  FLAG_ONCE_TRACED,
  FLAG_COUNT
} flag_t;

static const cli_extra_t flags[] = {
    [FLAG_STUDY] = {"--study", "[families]",
                    "The study's two tables and its conclusions (CONFIG may be left out); or what it says of "
                    "families of networks: recurrent, Transformer, ResNet, EfficientNet, BERT."},
    [FLAG_MODELS] = {"--models", "M,..",
                     "Presets instead of the configuration's model; M=8/16 gives one its own batches."},
    [FLAG_BATCHES] = {"--batches", "B,..", "Global batches (default: train.batch)."},
    [FLAG_RANKS_LIST] = {"--ranks-list", "N,..", "Numbers of ranks (default: 1 and parallel.ranks)."},
    [FLAG_STRATEGIES] = {"--strategies", "S,..",
                         "Strategies; each runs on the numbers of ranks that it supports (default: single "
                         "and ddp)."},
    [FLAG_PRECISIONS] = {"--precisions", "P,..", "Precisions (default: train.precision)."},
    [FLAG_PEER] = {"--peer", "on,off", "GPUs: with and without access to each other's memory."},
    [FLAG_WEAK] = {"--weak", NULL, "Weak scaling: --batches are per rank."},
    [FLAG_REPETITIONS] = {"--repetitions", "N", "Independent repetitions of each variant (default 50).",
                          CLI_NUMBER(1, 100000, 50)},
    [FLAG_STEPS] = {"--steps", "N", "Measured steps of a repetition (default 100).",
                    CLI_NUMBER(1, 1000000, 100)},
    [FLAG_WARMUP] = {"--warmup", "N", "Steps before the measured ones, which do not count (default 10).",
                     CLI_NUMBER(0, 1000000, 10)},
    [FLAG_PER_PROCESS] = {"--per-process", "N",
                          "Repetitions that one process makes (default 1; --study on GPUs 10).",
                          CLI_NUMBER(1, 100000, 1)},
    [FLAG_MARGIN] = {"--margin", "PERCENT", "Differences below this count as equivalent (default 5).",
                     CLI_SHARE(5)},
    [FLAG_CONTROL] = {"--control", "PAIRS",
                      "Compare the first variant with itself in this many pairs, to see what is noise "
                      "(default 1, 0 = none).",
                      CLI_NUMBER(0, 10000, 1)},
    [FLAG_CONTROL_REPETITIONS] = {"--control-repetitions", "N",
                                  "Repetitions of each side of a pair (default 5).",
                                  CLI_NUMBER(2, 100000, 5)},
    [FLAG_VALIDATE] = {"--validate", NULL, "Check that several ranks train the same network as one rank."},
    [FLAG_PLAN] = {"--plan", "FILE,..",
                   "Show the predictions of these files (lockstep plan --json) with the measurements."},
    [FLAG_FROM] = {"--from", "FILE",
                   "Measure nothing: show a document that --output wrote, with --study or --plan if "
                   "given."},
    [FLAG_MARKDOWN] = {"--markdown", "FILE", "Write the report as Markdown."},
    [FLAG_HTML] = {"--html", "FILE", "Write the report as one HTML file with plots."},
    [FLAG_OUTPUT] = {"--output", "FILE", "Write the JSON document (for lockstep compare)."},
    [FLAG_SEED] = {"--order-seed", "N",
                   "Seed of the order of the runs, and of the resampling behind intervals (default 1).",
                   CLI_NUMBER(0, 1000000000, 1)},
    [FLAG_LIMIT] = {"--limit", "S", "Seconds after which a process is killed (default 600).",
                    CLI_NUMBER(1, 1000000, 600)},
    [FLAG_BUDGET] =
        {"--budget", "S",
         "Start no round that would end after S seconds; there are then fewer repetitions. --study families: "
         "end after S seconds (default 150).",
         CLI_NUMBER(1, 100000000, 100000000)},
    [FLAG_ONCE] = {"--once", "FILE", "Internal: measure this configuration here, write the raw values."},
    [FLAG_ONCE_PARAMS] = {"--once-params", "FILE",
                          "Internal, with --once: write curves and the final parameters."},
    [FLAG_ONCE_TRACED] = {"--once-traced", NULL, "Internal, with --once: repeat the run with a trace."},
    [FLAG_COUNT] = {NULL, NULL, NULL}};
_Static_assert((int)FLAG_COUNT < (int)CLI_EXTRA_MAX, "own flags fit their array");

/* ---- one process of a repetition ---- */

static ls_status_t once_in(ls_ctx_t *ctx, ls_world_t *world, ls_config_t *config, const cli_args_t *args) {
  const ls_bench_once_t job = {.repetitions = args->whole[FLAG_REPETITIONS],
                               .warmup_steps = args->whole[FLAG_WARMUP],
                               .steps = args->whole[FLAG_STEPS],
                               .curves = args->extra[FLAG_ONCE_PARAMS] != NULL,
                               .params_path = args->extra[FLAG_ONCE_PARAMS],
                               .traced = args->extra[FLAG_ONCE_TRACED] != NULL,
                               .stuck = cli_messages_stuck,
                               .stuck_user = args->messages};
  json_t *measurement = NULL;
  ls_status_t status = ls_bench_once(ctx, world, config, &job, &measurement);
  if (status == LS_OK && measurement) status = ls_bench_write(ctx, args->extra[FLAG_ONCE], measurement);
  json_decref(measurement);
  return status;
}

static ls_status_t run_once(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  ls_world_t *world = NULL;
  ls_status_t status = cli_config_load(ctx, args, args->sets, args->set_count, &config);
  if (status != LS_OK) return status;
  status = cli_launch(ctx, args, (int)config->parallel.ranks, config->parallel.deadline_s);
  if (status == LS_OK) status = ls_world_open(ctx, config->parallel.deadline_s, &world);
  if (status == LS_OK) {
    status = once_in(ctx, world, config, args);
    if (status != LS_OK) ls_world_abort(world, ls_status_exit_code(status));
    ls_world_close(world);
  }
  ls_config_destroy(config);
  return status;
}

/* ---- inputs and outputs ---- */

typedef struct {
  ls_ctx_t *ctx;
  const cli_args_t *args;
  const char *study;  /* name of its definition; NULL: none */
  json_t *definition; /* of the study */
  json_t *plans;
  char *dir, *study_config, *command_line;
} bench_t;

static const flag_t outputs[] = {FLAG_OUTPUT, FLAG_MARKDOWN, FLAG_HTML};

/* Fails if an output would replace what is read, or cannot be written. Writes nothing: what is there stays as it is if
 * nothing is measured. */
static ls_status_t try_output(const bench_t *b, flag_t flag, const ls_config_t *config) {
  const char *const *given = b->args->extra, *path = given[flag];
  const ls_config_input_t inputs[] = {{flags[FLAG_FROM].name, given[FLAG_FROM]}, {0}};
  if (!path) return LS_OK;
  if (!*path)
    return ls_fail(b->ctx, LS_ERR_IO, "%s takes the name of a file; \"\" is empty", flags[flag].name);
  ls_status_t status = ls_config_spares(b->ctx, path, inputs, config);
  for (const char *plan = given[FLAG_PLAN]; plan && status == LS_OK;) {
    char one[PATH_MAX];
    snprintf(one, sizeof one, "%.*s", (int)strcspn(plan, ","), plan);
    status =
        ls_config_spares(b->ctx, path, (const ls_config_input_t[]){{flags[FLAG_PLAN].name, one}, {0}}, NULL);
    plan = strchr(plan, ',') ? strchr(plan, ',') + 1 : NULL;
  }
  return status == LS_OK ? ls_config_writable(b->ctx, flags[flag].name, path) : status;
}

/* Tries outputs and reads plans before anything is measured, because a wrong name must not cost hours. */
static ls_status_t prepare(bench_t *b) {
  static const flag_t reports[] = {FLAG_STUDY, FLAG_MARKDOWN, FLAG_HTML};
  static const char later[] =
      "; a document (--output FILE) can be made into a report later, also on another machine "
      "(lockstep bench --from FILE)";
  const cli_args_t *args = b->args;
  ls_config_t *config = NULL;
  ls_status_t status =
      args->config ? cli_config_load(b->ctx, args, args->sets, args->set_count, &config) : LS_OK;
  for (int i = 0; i < LS_COUNT(outputs) && status == LS_OK; i++)
    status = try_output(b, outputs[i], config);
  for (int i = 0; i < LS_COUNT(reports) && status == LS_OK; i++)
    if (args->extra[reports[i]]) status = ls_tool_ready(b->ctx, flags[reports[i]].name, later);
  if (status == LS_OK && args->extra[FLAG_PLAN])
    status = ls_bench_plans_read(b->ctx, args->extra[FLAG_PLAN], &b->plans);
  ls_config_destroy(config);
  return status;
}

static ls_status_t publish(bench_t *b, json_t *measured) {
  const ls_bench_outputs_t files = {.study = b->study,
                                    .output = b->args->extra[FLAG_OUTPUT],
                                    .markdown = b->args->extra[FLAG_MARKDOWN],
                                    .html = b->args->extra[FLAG_HTML],
                                    .plans = b->plans};
  json_t *document;
  ls_status_t status = ls_bench_publish(b->ctx, &files, measured, &document);
  if (document && b->args->json)
    cli_print_json(json_incref(document));
  else if (document)
    cli_bench_table(document);
  json_decref(document);
  return status;
}

/* ---- the study ---- */

static ls_status_t study_name(bench_t *b) {
  static const char *const names[] = {"study", "families"};
  const char *text = b->args->extra[FLAG_STUDY];
  if (!text) return LS_OK;
  for (int i = 0; i < LS_COUNT(names); i++)
    if (strcmp(*text ? text : names[0], names[i]) == 0) b->study = names[i];
  return b->study ? LS_OK
                  : ls_fail(b->ctx, LS_ERR_ARGUMENT,
                            "--study %s: the study is --study, its families --study families", text);
}

/* Takes the lists and numbers that flags leave open from the study's sweep. Without CONFIG it also takes the study's
 * configuration, as a file in the folder of the processes. */
static ls_status_t use_study(bench_t *b, ls_bench_sweep_t *sweep) {
  const struct {
    flag_t flag;
    const char *key;
    int64_t *value;
  } counts[] = {{FLAG_REPETITIONS, "repetitions", &sweep->method.repetitions},
                {FLAG_STEPS, "steps", &sweep->method.steps},
                {FLAG_WARMUP, "warmup", &sweep->method.warmup_steps},
                {FLAG_CONTROL, "control", &sweep->method.control_pairs},
                {FLAG_BUDGET, "budget", &sweep->budget_s}};
  ls_status_t status = ls_bench_study_read(b->ctx, b->study, &b->definition);
  if (status != LS_OK) return status;
  sweep->study = json_object_get(b->definition, "sweep");
  for (int i = 0; i < LS_COUNT(counts); i++)
    if (!b->args->extra[counts[i].flag]) ls_bench_study_count(sweep, counts[i].key, counts[i].value);
  sweep->search = json_is_true(json_object_get(sweep->study, "search"));
  if (b->args->config) return LS_OK;
  const char *text = json_string_value(json_object_get(sweep->study, "config"));
  b->study_config = ls_path_join(b->ctx, b->dir, "study.yaml");
  if (!b->study_config) return LS_ERR_MEMORY;
  sweep->source = (ls_config_source_t){.name = b->study_config,
                                       .data_root = b->args->data_root,
                                       .env = cli_config_env(b->args),
                                       .env_needed = b->args->env != NULL};
  sweep->own_config = true;
  return ls_file_write(b->ctx, b->study_config, text, strlen(text));
}

/* ---- the command ---- */

static ls_status_t check_flags(bench_t *b) {
  const cli_args_t *args = b->args;
  const bool weak = args->extra[FLAG_WEAK] != NULL;
  int rank, size;
  ls_status_t status = study_name(b);
  if (status != LS_OK) return status;
  if (weak && b->study)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT, "--study holds the global batch; leave --weak out");
  if (!args->config && !b->study)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT,
                   "lockstep bench: the configuration file is missing; see lockstep bench --help");
  if (weak && args->extra[FLAG_VALIDATE])
    return ls_fail(b->ctx, LS_ERR_ARGUMENT, "--validate compares equal global batches; leave --weak out");
  if (!args->extra[FLAG_ONCE] && ls_comm_launched(&rank, &size) && size > 1)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT,
                   "lockstep bench starts its ranks itself: run it without mpirun or srun");
  return LS_OK;
}

static char *command_line(const cli_args_t *args) {
  char *text = NULL;
  size_t size_bytes = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  const char *slash = strrchr(args->argv[0], '/');
  ls_shell_put(to, slash ? slash + 1 : args->argv[0]);
  for (int i = 1; i < args->argc; i++) {
    fputc(' ', to);
    ls_shell_put(to, args->argv[i]);
  }
  fclose(to);
  return text;
}

static void say(const char *line) {
  fprintf(stderr, "%s\n", line);
}

static ls_bench_sweep_t sweep_of(const bench_t *b) {
  const cli_args_t *args = b->args;
  const int64_t *number = args->whole;
  ls_bench_sweep_t sweep = {.ctx = b->ctx,
                            .sets = args->sets,
                            .set_count = args->set_count,
                            .validate = args->extra[FLAG_VALIDATE] != NULL,
                            .steps_given = args->extra[FLAG_STEPS] != NULL,
                            .method = {.config = args->config ? args->config : "of the study",
                                       .repetitions = number[FLAG_REPETITIONS],
                                       .per_process = number[FLAG_PER_PROCESS],
                                       .steps = number[FLAG_STEPS],
                                       .warmup_steps = number[FLAG_WARMUP],
                                       .order_seed = number[FLAG_SEED],
                                       .margin_percent = args->percent[FLAG_MARGIN],
                                       .weak = args->extra[FLAG_WEAK] != NULL,
                                       .control_pairs = number[FLAG_CONTROL],
                                       .control_repetitions = number[FLAG_CONTROL_REPETITIONS]},
                            .limit_s = number[FLAG_LIMIT],
                            .budget_s = number[FLAG_BUDGET],
                            .dir = b->dir,
                            .output = args->extra[FLAG_OUTPUT],
                            .command_line = b->command_line,
                            .commit = CLI_COMMIT,
                            .stop = cli_stop_requested,
                            .stop_name = cli_stop_name,
                            .say = args->quiet ? NULL : say};
  if (args->config) sweep.source = cli_config_source(args);
  for (int i = 0; i < LS_BENCH_LISTS; i++) {
    sweep.list[i].flag = flags[FLAG_MODELS + i].name;
    sweep.list[i].text = args->extra[FLAG_MODELS + i];
  }
  return sweep;
}

/* Publishes what was measured, even if measuring ended early: then the document has the complete rounds, and `measured`
 * (the failure) stays the command's status. */
static ls_status_t report(bench_t *b, ls_bench_sweep_t *sweep, ls_status_t measured) {
  json_t *document = NULL;
  char reason[LS_BENCH_REASON_BYTES];
  if (measured != LS_OK && sweep->rounds_done == 0) return measured;
  if (measured != LS_OK) {
    snprintf(reason, sizeof reason, "%s", ls_ctx_error(b->ctx));
    ls_bench_one_line(reason);
    ls_log(b->ctx, LS_LOG_WARN, "%lld complete rounds were kept; the result is marked incomplete",
           (long long)sweep->rounds_done);
  }
  ls_status_t status = ls_bench_sweep_document(sweep, b->ctx, measured == LS_OK ? NULL : reason, &document);
  if (status == LS_OK) status = publish(b, document);
  json_decref(document);
  if (measured == LS_OK && status == LS_OK && sweep->lost_count > 0)
    status = ls_fail(b->ctx, LS_ERR_DEVICE, "%d of %d variant%s failed during the measurement; the first: %s",
                     sweep->lost_count, sweep->variant_count, LS_PLURAL(sweep->variant_count), sweep->lost);
  return measured != LS_OK ? measured : status;
}

static ls_status_t measure(bench_t *b) {
  enum { STUDY_PER_PROCESS = 10 }; /* where starting a process takes seconds */
  ls_bench_sweep_t sweep = sweep_of(b);
  ls_status_t status = b->study ? use_study(b, &sweep) : LS_OK;
  if (status == LS_OK) status = ls_bench_sweep(&sweep);
  if (status == LS_OK) status = prepare(b);
  if (b->study && !sweep.host && !b->args->extra[FLAG_PER_PROCESS])
    sweep.method.per_process = STUDY_PER_PROCESS;
  if (status == LS_OK) {
    cli_stop_mode(CLI_STOP_ASK);
    status = report(b, &sweep, ls_bench_measure(&sweep));
  }
  ls_bench_sweep_release(&sweep);
  return status;
}

/* --from: publishes a stored document again. Flags that only measuring would use are errors. */
static ls_status_t publish_again(bench_t *b) {
  const cli_args_t *args = b->args;
  const char *useless = args->config ? args->config : args->set_count > 0 ? "--set" : NULL;
  for (int i = 0; i < FLAG_COUNT && !useless; i++)
    if (args->extra[i] && i != FLAG_FROM && i != FLAG_STUDY && (i < FLAG_PLAN || i > FLAG_OUTPUT))
      useless = flags[i].name;
  if (useless) return ls_fail(b->ctx, LS_ERR_ARGUMENT, "--from measures nothing: leave %s out", useless);
  json_t *document = NULL;
  ls_status_t status = ls_bench_document_read(b->ctx, args->extra[FLAG_FROM], &document);
  if (status == LS_OK) status = study_name(b);
  if (status == LS_OK) status = prepare(b);
  if (status == LS_OK) status = publish(b, document);
  json_decref(document);
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  bench_t b = {.ctx = ctx, .args = args};
  ls_status_t status = args->extra[FLAG_FROM] ? publish_again(&b) : check_flags(&b);
  if (status == LS_OK && args->extra[FLAG_ONCE]) return run_once(ctx, args);
  if (status == LS_OK && !args->extra[FLAG_FROM]) {
    b.command_line = command_line(args);
    status = b.command_line ? ls_dir_temporary(ctx, "lockstep-bench", &b.dir) : LS_ERR_MEMORY;
    if (status == LS_OK) status = measure(&b);
  }
  json_decref(b.definition);
  json_decref(b.plans);
  if (b.dir) ls_dir_remove(ctx, b.dir);
  ls_free(b.dir);
  ls_free(b.study_config);
  free(b.command_line);
  return status;
}

static const cli_command_t command = {
    .name = "bench",
    .place = 53,
    .summary = "Measures variants of a configuration: repetitions, intervals, tests, a control.",
    .details = "Variants are all sensible combinations of the lists. Their repetitions are "
               "interleaved in random order,\neach in a process of its own. docs/bench.md "
               "describes method and output.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_QUIET |
             CLI_FLAG_VERBOSE,
    .extra = flags,
    .run = run};
CLI_COMMAND(command)
