/* lockstep eval: loss and accuracy of a checkpoint, on the configured validation files, else on the
 * validation part of the checkpoint's own data, or on all of other data. */
#include "cli/cli.h"
#include "infer/infer.h"
#include "train/document.h"

#include <math.h>
#include <string.h>

static const char *scored(const ls_eval_report_t *r) {
  return r->validation ? "validation part"
         : r->new_data ? "all of other data; they may contain training samples"
                       : "all, which it was trained on: it has no validation part";
}

enum { EXTRA_BEST };
static const cli_extra_t extra[] = {
    [EXTRA_BEST] = {"--best", NULL,
                    "Take the run's best checkpoint, by train.best of its validation part, instead "
                    "of the newest."},
    {NULL, NULL, NULL}};

/* Which of the run's checkpoints it is; NULL if it was named itself. */
static const char *chosen(const cli_args_t *args, const char *checkpoint) {
  return args->extra[EXTRA_BEST] ? "best" : strcmp(args->checkpoint, checkpoint) ? "newest" : NULL;
}

static void print_result(const cli_args_t *args, const ls_trainer_t *t, const ls_eval_report_t *r) {
  int64_t step;
  const char *checkpoint = ls_trainer_checkpoint(t, &step), *which = chosen(args, checkpoint);
  const char *file = ls_trainer_data(t)->validation_source;
  if (args->json) {
    json_t *j =
        json_pack("{s:s, s:o, s:I, s:I, s:s?, s:o, s:o, s:o, s:o, s:s, s:o, s:b}", "command", "eval",
                  "checkpoint", ls_json_text(checkpoint), "step", (json_int_t)step, "samples",
                  (json_int_t)r->samples, "chosen", which, "loss", ls_json_number(r->loss), "accuracy",
                  ls_json_number(r->accuracy), "perplexity", ls_json_number(r->perplexity), "metrics",
                  ls_train_metrics_json(&r->metrics), "part", r->validation ? "validation" : "all",
                  "validation_file", *file ? ls_json_text(file) : json_null(), "new_data", r->new_data);
    ls_train_metrics_each_put(j, "metrics_each", &r->metrics);
    cli_print_json(j);
    return;
  }
  cli_print("  %-16s %s%s%s%s\n  %-16s %lld\n", "checkpoint", cli_shown(checkpoint),
            which ? " (the run's " : "", which ? which : "", which ? ")" : "", "step", (long long)step);
  cli_print("  %-16s %s (%s%s)\n", "samples", cli_count(r->samples),
            !*file                    ? scored(r)
            : ls_path_is_folder(file) ? "validation folder "
                                      : "validation file ",
            cli_shown(file));
  cli_print("  %-16s %.6g\n", "loss", r->loss);
  if (isfinite(r->accuracy))
    cli_print("  %-16s %.2f %% (%s right)\n", "accuracy", 100 * r->accuracy, cli_count(r->correct));
  if (isfinite(r->perplexity)) cli_print("  %-16s %.6g\n", "perplexity", r->perplexity);
  cli_metrics_print(&r->metrics, "", 16, 0);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  if (!args->checkpoint)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep eval: --checkpoint DIR is missing; see lockstep eval --help");
  cli_args_t own = *args;
  ls_config_t *config;
  ls_world_t *world = NULL;
  ls_trainer_t *trainer = NULL;
  ls_eval_report_t report;
  ls_trainer_options_t options = {.checkpoint = args->checkpoint,
                                  .best = args->extra[EXTRA_BEST] != NULL,
                                  .stuck = cli_messages_stuck,
                                  .stuck_user = args->messages};
  cli_ranks_started(&own);
  ls_status_t status = cli_config_load_ranks(ctx, &own, &config);
  if (status != LS_OK) return cli_world_open(ctx, args->messages, 0, status, &world);
  status = cli_world_open(ctx, args->messages, config->parallel.deadline_s, status, &world);
  if (status != LS_OK) goto config;
  status = ls_infer_open(ctx, world, config, &options, &trainer);
  cli_messages_settle(args->messages, world);
  if (status != LS_OK) goto world;
  status = ls_trainer_evaluate(trainer, &report);
  if (status == LS_OK && ls_world_rank(world) == 0) print_result(args, trainer, &report);
  if (status == LS_OK && !isfinite(report.loss)) {
    int64_t step;
    status = ls_fail(
        ctx, LS_ERR_NONFINITE,
        "%s: the loss is not finite: the run has diverged, or these samples have extreme values; an older "
        "checkpoint or --best may be better",
        ls_trainer_checkpoint(trainer, &step));
  }
  ls_trainer_destroy(trainer);
world:
  if (status != LS_OK) ls_world_abort(world, ls_status_exit_code(status));
  ls_world_close(world);
config:
  ls_config_destroy(config);
  return status;
}

static const cli_command_t command = {.name = "eval",
                                      .place = 31,
                                      .summary = "Evaluates a checkpoint on the configured data.",
                                      .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL |
                                               CLI_FLAG_TOGETHER | CLI_FLAG_CHECKPOINT | CLI_FLAG_SET |
                                               CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
                                      .extra = extra,
                                      .run = run};
CLI_COMMAND(command)
