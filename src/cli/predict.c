/* lockstep predict: what a checkpoint's model says about samples of a file or stream, batch by batch. */
#include "cli/cli.h"

#include "infer/infer.h"

#include <string.h>

enum { EXTRA_INPUT, EXTRA_OUTPUT, EXTRA_FORMAT, EXTRA_INT8, EXTRA_BEST };
static const cli_extra_t extra[] = {
    [EXTRA_INPUT] =
        {"--input", "FILE",
         "Samples without targets: CSV with a header, .npy, FILE.npz:NAME or IDX, also packed by gzip; - is "
         "stdin. With data.kind: images a folder of images, one, or a CSV file of their paths."},
    [EXTRA_OUTPUT] = {"--output", "FILE", "Where the predictions go (default: -, which is stdout)."},
    [EXTRA_FORMAT] = {"--format", "NAME",
                      "csv, npy or jsonl (default: the ending of the output's name, csv if it has none)."},
    [EXTRA_INT8] = {"--int8", "FILE",
                    "Compute with 8-bit integers, with the weights of this file of lockstep quantize; the "
                    "checkpoint gives everything else."},
    [EXTRA_BEST] = {"--best", NULL,
                    "Take the run's best checkpoint, by train.best of its validation part, instead "
                    "of the newest."},
    {NULL, NULL, NULL}};

static void print_result(const cli_args_t *args, const ls_trainer_t *t, int64_t rows) {
  int64_t step;
  const char *checkpoint = ls_trainer_checkpoint(t, &step), *output = args->extra[EXTRA_OUTPUT];
  if (!output || cli_is_stdout(output)) return;
  if (args->json)
    cli_print_json(json_pack("{s:s, s:o, s:I, s:I, s:o}", "command", "predict", "checkpoint",
                             ls_json_text(checkpoint), "step", (json_int_t)step, "samples", (json_int_t)rows,
                             "output", ls_json_text(output)));
  else
    cli_print("  %-16s %s\n  %-16s %lld\n  %-16s %s\n  %-16s %s\n", "checkpoint", cli_shown(checkpoint),
              "step", (long long)step, "samples", cli_count(rows), "output", cli_shown(output));
}

static ls_status_t written(void *file) {
  return cli_file_written(file);
}

/* A regular file is written aside and put in its place when it is whole. */
static ls_status_t write_rows(ls_ctx_t *ctx, const cli_args_t *args, ls_predictions_t *p) {
  const char *path = args->extra[EXTRA_OUTPUT] ? args->extra[EXTRA_OUTPUT] : "-";
  cli_file_t file;
  int format;
  ls_status_t status = cli_file_format(ctx, path, args->extra[EXTRA_FORMAT], ls_rows_formats, &format);
  if (status != LS_OK) return status;
  status = cli_file_open(ctx, path, &file);
  const ls_rows_to_t to = {format, file.to, file.seeks, written, &file};
  if (status == LS_OK) status = ls_predictions_write(ctx, p, &to);
  return cli_file_close(&file, status);
}

static ls_status_t predict(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                           ls_trainer_t *t) {
  (void)config;
  ls_predictions_t *p = NULL;
  ls_status_t status = ls_predictions_open(ctx, t, args->extra[EXTRA_INPUT], &p);
  if (status == LS_OK) status = write_rows(ctx, args, p);
  if (status == LS_OK) print_result(args, t, ls_predictions_samples(p));
  ls_predictions_close(p);
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *input = args->extra[EXTRA_INPUT];
  if (!input)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep predict: --input FILE is missing; see lockstep predict --help");
  if (!strcmp(input, "-") && !strcmp(args->config, "-"))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "configuration and samples cannot both come from stdin");
  if (args->extra[EXTRA_INT8] && !args->checkpoint)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "--int8 needs --checkpoint DIR, which gives everything but the weights");
  return cli_with_model(ctx, args,
                        &(cli_model_use_t){.use = predict,
                                           .int8 = args->extra[EXTRA_INT8],
                                           .best = args->extra[EXTRA_BEST] != NULL,
                                           .output = args->extra[EXTRA_OUTPUT],
                                           .input = input});
}

static const cli_command_t command = {
    .name = "predict",
    .place = 32,
    .summary = "Predicts classes or values for samples of a file or stdin.",
    .details =
        "For classes: the most probable one, its probability, and the probability of each. For values: the "
        "predictions in the units of the\ndata. Samples are normalised as the checkpoint's run normalised "
        "its own; "
        "of a CSV file the columns with its names are taken, and\nothers are ignored.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL | CLI_FLAG_CHECKPOINT | CLI_FLAG_SET | CLI_FLAG_JSON |
             CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
