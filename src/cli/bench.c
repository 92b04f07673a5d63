/* lockstep bench: measures variants of a configuration against each other. Every repetition is a process of
 * its own that runs this command with --once. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

enum { STUDY_PER_PROCESS = 10 }; /* where starting a process takes seconds */

const cli_extra_t bench_flags[] = {
    [BENCH_STUDY] =
        {"--study", "[families]",
         "The study's two tables and its conclusions (CONFIG may be left out); or what it says of "
         "families of networks: recurrent, Transformer, ResNet, EfficientNet, BERT."},
    [BENCH_MODELS] = {"--models", "M,..",
                      "Presets instead of the configuration's model; M=8/16 gives one its own batches."},
    [BENCH_BATCHES] = {"--batches", "B,..", "Global batches (default: train.batch)."},
    [BENCH_RANKS_LIST] = {"--ranks-list", "N,..", "Numbers of ranks (default: 1 and parallel.ranks)."},
    [BENCH_STRATEGIES] = {"--strategies", "S,..",
                          "Strategies; each runs on the numbers of ranks that it supports (default: single "
                          "and ddp)."},
    [BENCH_PRECISIONS] = {"--precisions", "P,..", "Precisions (default: train.precision)."},
    [BENCH_PEER] = {"--peer", "on,off", "GPUs: with and without access to each other's memory."},
    [BENCH_WEAK] = {"--weak", NULL, "Weak scaling: --batches are per rank."},
    [BENCH_REPETITIONS] = {"--repetitions", "N", "Independent repetitions of each variant (default 50).",
                           CLI_NUMBER(1, 100000, 50)},
    [BENCH_STEPS] = {"--steps", "N", "Measured steps of a repetition (default 100).",
                     CLI_NUMBER(1, 1000000, 100)},
    [BENCH_WARMUP] = {"--warmup", "N", "Steps before the measured ones, which do not count (default 10).",
                      CLI_NUMBER(0, 1000000, 10)},
    [BENCH_PER_PROCESS] = {"--per-process", "N",
                           "Repetitions that one process makes (default 1; --study on GPUs 10).",
                           CLI_NUMBER(1, 100000, 1)},
    [BENCH_MARGIN] = {"--margin", "PERCENT", "Differences below this count as equivalent (default 5).",
                      CLI_SHARE(5)},
    [BENCH_CONTROL] = {"--control", "PAIRS",
                       "Compare the first variant with itself in this many pairs, to see what is noise "
                       "(default 1, 0 = none).",
                       CLI_NUMBER(0, 10000, 1)},
    [BENCH_CONTROL_REPETITIONS] = {"--control-repetitions", "N",
                                   "Repetitions of each side of a pair (default 5).",
                                   CLI_NUMBER(2, 100000, 5)},
    [BENCH_VALIDATE] = {"--validate", NULL, "Check that several ranks train the same network as one rank."},
    [BENCH_PLAN] = {"--plan", "FILE,..",
                    "Show the predictions of these files (lockstep plan --json) beside the "
                    "measurements."},
    [BENCH_FROM] = {"--from", "FILE",
                    "Measure nothing: show a document that --output wrote, with --study or --plan if "
                    "given."},
    [BENCH_MARKDOWN] = {"--markdown", "FILE", "Write the report as Markdown."},
    [BENCH_HTML] = {"--html", "FILE", "Write the report as one HTML file with plots."},
    [BENCH_OUTPUT] = {"--output", "FILE", "Write the JSON document (for lockstep compare)."},
    [BENCH_SEED] = {"--order-seed", "N",
                    "Seed of the order of the runs, and of the resampling behind intervals (default 1).",
                    CLI_NUMBER(0, 1000000000, 1)},
    [BENCH_LIMIT] = {"--limit", "S", "Seconds after which a process is killed (default 600).",
                     CLI_NUMBER(1, 1000000, 600)},
    [BENCH_BUDGET] =
        {"--budget", "S",
         "Start no round that would end after S seconds; there are then fewer repetitions. --study families: "
         "end after S seconds (default 150).",
         CLI_NUMBER(1, 100000000, 100000000)},
    [BENCH_ONCE] = {"--once", "FILE", "Internal: measure this configuration here, write the raw values."},
    [BENCH_ONCE_PARAMS] = {"--once-params", "FILE",
                           "Internal, with --once: write curves and the final parameters."},
    [BENCH_ONCE_TRACED] = {"--once-traced", NULL, "Internal, with --once: repeat the run with a trace."},
    [BENCH_FLAG_COUNT] = {NULL, NULL, NULL}};
_Static_assert((int)BENCH_FLAG_COUNT < (int)CLI_EXTRA_MAX, "own flags fit their array");

/* ---- one process of a repetition ---- */

static ls_status_t once_in(ls_ctx_t *ctx, ls_world_t *world, ls_config_t *config, const cli_args_t *args,
                           const ls_bench_method_t *m) {
  ls_bench_once_t job = {.repetitions = m->repetitions,
                         .warmup_steps = m->warmup_steps,
                         .steps = m->steps,
                         .curves = args->extra[BENCH_ONCE_PARAMS] != NULL,
                         .params_path = args->extra[BENCH_ONCE_PARAMS],
                         .traced = args->extra[BENCH_ONCE_TRACED] != NULL,
                         .stuck = cli_messages_stuck,
                         .stuck_user = args->messages};
  json_t *measurement = NULL;
  ls_status_t status = ls_bench_once(ctx, world, config, &job, &measurement);
  if (status == LS_OK && measurement) status = bench_write_json(ctx, args->extra[BENCH_ONCE], measurement);
  json_decref(measurement);
  return status;
}

static ls_status_t run_once(ls_ctx_t *ctx, const cli_args_t *args, const ls_bench_method_t *method) {
  ls_config_t *config;
  ls_world_t *world = NULL;
  ls_status_t status = cli_config_load(ctx, args, args->sets, args->set_count, &config);
  if (status != LS_OK) return status;
  status = cli_launch(ctx, args, (int)config->parallel.ranks, config->parallel.deadline_s);
  if (status == LS_OK) status = ls_world_open(ctx, config->parallel.deadline_s, &world);
  if (status == LS_OK) {
    status = once_in(ctx, world, config, args, method);
    if (status != LS_OK) ls_world_abort(world, ls_status_exit_code(status));
    ls_world_close(world);
  }
  ls_config_destroy(config);
  return status;
}

/* ---- the whole benchmark ---- */

static ls_status_t read_method(ls_ctx_t *ctx, const cli_args_t *args, bench_t *b) {
  ls_bench_method_t *m = &b->method;
  *m = (ls_bench_method_t){.repetitions = args->whole[BENCH_REPETITIONS],
                           .steps = args->whole[BENCH_STEPS],
                           .warmup_steps = args->whole[BENCH_WARMUP],
                           .per_process = args->whole[BENCH_PER_PROCESS],
                           .control_pairs = args->whole[BENCH_CONTROL],
                           .control_repetitions = args->whole[BENCH_CONTROL_REPETITIONS],
                           .order_seed = args->whole[BENCH_SEED],
                           .margin_percent = args->percent[BENCH_MARGIN]};
  b->limit_s = args->whole[BENCH_LIMIT];
  b->budget_s = args->whole[BENCH_BUDGET];
  m->config = args->config ? args->config : "of the study";
  m->weak = args->extra[BENCH_WEAK] != NULL;
  b->validate = args->extra[BENCH_VALIDATE] != NULL;
  ls_status_t named = bench_study_name(ctx, args, &b->study);
  if (named != LS_OK) return named;
  if (b->study && m->weak)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--study holds the global batch; leave --weak out");
  if (!args->config && !b->study)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep bench: the configuration file is missing; see lockstep "
                   "bench --help");
  if (b->validate && m->weak)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--validate compares equal global batches; leave --weak out");
  return LS_OK;
}

/* Without CONFIG the study's own configuration is a file beside the children's, so that they read it too. */
static ls_status_t use_study_config(bench_t *b, cli_args_t *own, char **path) {
  const char *config = bench_study_word(b, "config");
  *path = ls_path_join(b->ctx, b->dir, "study.yaml");
  if (!*path) return LS_ERR_MEMORY;
  *own = *b->args;
  own->config = *path;
  b->args = own;
  b->own_config = true;
  return ls_file_write(b->ctx, *path, config, strlen(config));
}

static const char sysfs_cpu[] = "/sys/devices/system/cpu";

/* Turns the measurements into a document and publishes it, even if measuring ended early: then it has the
 * complete rounds, and `measured` (the failure) stays the command's status. */
static ls_status_t report(bench_t *b, ls_status_t measured) {
  json_t *document = NULL, *why = NULL;
  char reason[BENCH_REASON_BYTES];
  if (measured != LS_OK && b->rounds_done == 0) return measured;
  if (measured != LS_OK) {
    snprintf(reason, sizeof reason, "%s", ls_ctx_error(b->ctx));
    bench_one_line(reason);
    why = ls_json_text(reason); /* JSON: what is no UTF-8 is replaced */
    b->method.incomplete = json_string_value(why);
    ls_log(b->ctx, LS_LOG_WARN, "%lld complete rounds were kept; the result is marked incomplete",
           (long long)b->rounds_done);
  }
  ls_status_t status = ls_bench_document(b->ctx, &b->method, b->measured, b->control, &document);
  if (status == LS_OK) {
    if (b->crossovers) {
      json_object_set(document, "crossovers", b->crossovers);
      json_object_set_new(
          json_object_get(document, "method"), "order",
          json_string(
              "the repetitions of a variant share a process, and those of a batch follow each other"));
    }
    bench_add_run(b, document);
    status = bench_publish(b, document);
  }
  json_decref(document);
  json_decref(why);
  b->method.incomplete = NULL;
  return measured != LS_OK ? measured : status;
}

/* --from: publishes a stored document again. Flags that only measuring would use are errors. */
static ls_status_t publish_again(bench_t *b) {
  const cli_args_t *args = b->args;
  const char *useless = args->config ? args->config : args->set_count > 0 ? "--set" : NULL;
  for (int i = 0; i < BENCH_FLAG_COUNT && !useless; i++)
    if (args->extra[i] && i != BENCH_FROM && i != BENCH_STUDY && (i < BENCH_PLAN || i > BENCH_OUTPUT))
      useless = bench_flags[i].name;
  if (useless) return ls_fail(b->ctx, LS_ERR_ARGUMENT, "--from measures nothing: leave %s out", useless);
  json_t *document = NULL;
  ls_status_t status = ls_bench_document_read(b->ctx, args->extra[BENCH_FROM], &document);
  if (status == LS_OK) status = bench_study_name(b->ctx, args, &b->study);
  if (status == LS_OK) status = bench_prepare(b);
  if (status == LS_OK) status = bench_publish(b, document);
  json_decref(document);
  json_decref(b->plans);
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  bench_t b = {.ctx = ctx, .args = args};
  if (args->extra[BENCH_FROM]) return publish_again(&b);
  cli_args_t own;
  char *study_path = NULL;
  int rank, size;
  ls_status_t status = read_method(ctx, args, &b);
  if (status != LS_OK) return status;
  if (args->extra[BENCH_ONCE]) return run_once(ctx, args, &b.method);
  if (ls_comm_launched(&rank, &size) && size > 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep bench starts its ranks itself: run it without mpirun or srun");
  status = ls_dir_temporary(ctx, "lockstep-bench", &b.dir);
  if (status == LS_OK && b.study) status = bench_study_read(&b);
  if (status == LS_OK && !args->config) status = use_study_config(&b, &own, &study_path);
  if (status == LS_OK) status = bench_sweep(&b);
  if (status == LS_OK) status = bench_prepare(&b);
  if (b.study && !b.host && !args->extra[BENCH_PER_PROCESS]) b.method.per_process = STUDY_PER_PROCESS;
  const struct {
    bench_flag_t flag;
    const char *key;
    int64_t *value;
  } counts[] = {{BENCH_REPETITIONS, "repetitions", &b.method.repetitions},
                {BENCH_STEPS, "steps", &b.method.steps},
                {BENCH_WARMUP, "warmup", &b.method.warmup_steps},
                {BENCH_CONTROL, "control", &b.method.control_pairs},
                {BENCH_BUDGET, "budget", &b.budget_s}};
  for (int i = 0; i < LS_COUNT(counts) && b.study; i++)
    if (!args->extra[counts[i].flag]) bench_study_count(&b, counts[i].key, counts[i].value);
  if (b.study && json_is_true(json_object_get(b.sweep, "search"))) b.crossovers = json_array();
  if (status == LS_OK) {
    b.method.cpu_throttles_before = ls_bench_cpu_throttles(sysfs_cpu);
    bench_run_begin(&b);
    status = bench_measure(&b);
    b.method.cpu_throttles_after = ls_bench_cpu_throttles(sysfs_cpu);
    status = report(&b, status);
    if (status == LS_OK && b.lost_count > 0)
      status = ls_fail(ctx, LS_ERR_DEVICE, "%d of %d variant%s failed during the measurement; the first: %s",
                       b.lost_count, b.variant_count, LS_PLURAL(b.variant_count), b.lost);
  }
  json_decref(b.sweep);
  json_decref(b.plans);
  json_decref(b.crossovers);
  json_decref(b.control);
  json_decref(b.measured);
  if (b.dir) ls_dir_remove(ctx, b.dir);
  ls_free(b.dir);
  ls_free(study_path);
  ls_free(b.variants);
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
    .extra = bench_flags,
    .run = run};
CLI_COMMAND(command)
