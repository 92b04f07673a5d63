/* lockstep predict: what a checkpoint's model says about samples of a file or stream, batch by batch. */
#include "cli/predict.h"

#include "data/stream.h"

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

typedef struct {
  ls_ctx_t *ctx;
  ls_trainer_t *trainer;
  ls_stream_rows_t *in;
  cli_rows_out_t *out;
  float *values; /* of a batch */
  int64_t capacity, rows,
      each; /* each: rows of the output for a sample, one for each position with a class */
} predict_t;

static ls_status_t predict_batch(predict_t *p, const ls_matrix_t *batch) {
  int64_t width = ls_trainer_outputs(p->trainer);
  if (batch->rows > p->capacity) {
    ls_free(p->values);
    p->capacity = batch->rows;
    p->values = ls_alloc_array(p->ctx, (size_t)(batch->rows * width), sizeof *p->values);
    if (!p->values) return LS_ERR_MEMORY;
  }
  ls_status_t status = ls_trainer_predict_matrix(p->trainer, batch, p->values);
  p->rows += batch->rows;
  return status == LS_OK ? cli_rows_put(p->out, batch->rows * p->each, p->values) : status;
}

static ls_status_t predict_all(predict_t *p) {
  ls_matrix_t batch;
  ls_status_t status;
  do {
    status = ls_stream_next(p->in, &batch);
    if (status == LS_OK && batch.rows > 0) status = predict_batch(p, &batch);
  } while (status == LS_OK && batch.rows > 0);
  return status;
}

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

/* What the columns of the output are called, where the configuration or the data have names for them; else none. */
static ls_status_t find_names(ls_arena_t *arena, const ls_trainer_t *t, const ls_config_t *config,
                              int64_t width, ls_strings_t *names) {
  const ls_strings_t *target = &config->data.target, *labels = &ls_trainer_data(t)->labels;
  *names = (ls_strings_t){0};
  if (!ls_trainer_data(t)->classes) {
    if (target->count == width) *names = *target;
    return LS_OK;
  }
  return labels->count > 0 ? ls_class_names(arena, labels, width, names) : LS_OK;
}

/* Of a position the file of its sample. */
static const char *file_of(const void *source, int64_t row) {
  const predict_t *p = source;
  return ls_stream_file(p->in, row / p->each);
}

static ls_status_t write_rows(predict_t *p, const cli_args_t *args, const ls_config_t *config) {
  ls_arena_t arena;
  ls_strings_t names;
  ls_arena_init(&arena, p->ctx);
  const int64_t width = ls_trainer_outputs(p->trainer) / p->each, samples = ls_stream_total(p->in);
  const bool files = samples > 0 && ls_stream_file(p->in, 0);
  ls_status_t status = find_names(&arena, p->trainer, config, width, &names);
  const cli_rows_spec_t spec = {.path = args->extra[EXTRA_OUTPUT] ? args->extra[EXTRA_OUTPUT] : "-",
                                .format = args->extra[EXTRA_FORMAT],
                                .classes = ls_trainer_data(p->trainer)->classes,
                                .width = width,
                                .names = names.v,
                                .rows = samples < 0 ? samples : samples * p->each,
                                .file = files ? file_of : NULL,
                                .source = p};
  if (status == LS_OK) status = cli_rows_open(p->ctx, &spec, &p->out);
  if (status == LS_OK) status = cli_rows_close(p->out, predict_all(p));
  ls_arena_release(&arena);
  return status;
}

static ls_status_t predict(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                           ls_trainer_t *t) {
  ls_status_t status = ls_trainer_check_norm(t);
  if (status != LS_OK) return status;
  const ls_dataset_t *d = ls_trainer_data(t);
  ls_data_config_t data = config->data;
  if (d->columns) data.columns = (ls_strings_t){(int)d->column_count, (const char *const *)d->columns};
  data.columns_trained = d->columns != NULL;
  data.indicators = d->indicators;
  int64_t positions = ls_model_positions(&config->model);
  predict_t p = {.ctx = ctx, .trainer = t, .each = positions > 0 ? positions : 1};
  const ls_data_want_t want = ls_train_want(&config->model);
  status = ls_stream_open(ctx, &data, args->extra[EXTRA_INPUT], &want, &p.in);
  if (status != LS_OK) return status;
  status = write_rows(&p, args, config);
  if (status == LS_OK) print_result(args, t, p.rows);
  ls_free(p.values);
  ls_stream_close(p.in);
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
