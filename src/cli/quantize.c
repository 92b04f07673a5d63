/* lockstep quantize: weights as 8-bit integers for predict, and what they change: size, speed, loss, accuracy. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { EXTRA_OUTPUT, EXTRA_SAMPLES, EXTRA_BEST };
static const cli_extra_t extra[] = {
    [EXTRA_OUTPUT] = {"--output", "FILE", "The file to write, for lockstep predict --int8."},
    [EXTRA_SAMPLES] = {"--samples", "N",
                       "Training samples on which the ranges of activations are measured (default: 1024)."},
    [EXTRA_BEST] = {"--best", NULL,
                    "Take the run's best checkpoint, the one with the lowest validation loss, instead "
                    "of the newest."},
    {NULL, NULL, NULL}};

/* A form of the model: size of its weights, time and result of an evaluation. */
typedef struct {
  const char *name;
  int64_t bytes, ns;
  ls_eval_report_t eval;
} form_t;
enum { F32, INT8, FORMS };

typedef struct {
  ls_ctx_t *ctx;
  const cli_args_t *args;
  const ls_config_t *config;
  ls_world_t *world;
  form_t form[FORMS];
} quantize_t;

static ls_status_t open_trainer(const quantize_t *q, bool ranges, const char *int8, ls_trainer_t **t) {
  const ls_trainer_options_t options = {.checkpoint = q->args->checkpoint,
                                        .no_training = true,
                                        .ranges = ranges,
                                        .int8 = int8,
                                        .best = q->args->extra[EXTRA_BEST] != NULL,
                                        .stuck = cli_messages_stuck,
                                        .stuck_user = q->args->messages};
  return ls_trainer_create(q->ctx, q->world, q->config, &options, t);
}

/* The first evaluation warms up; the faster of two more counts. */
static ls_status_t evaluate(form_t *form, ls_trainer_t *t) {
  ls_status_t status = ls_trainer_evaluate(t, &form->eval);
  for (int i = 0; i < 2 && status == LS_OK; i++) {
    int64_t begin = ls_clock_ns();
    status = ls_trainer_evaluate(t, &form->eval);
    int64_t ns = ls_clock_ns() - begin;
    if (i == 0 || ns < form->ns) form->ns = ns;
  }
  return status;
}

static ls_status_t measure(quantize_t *q, const char *output, int64_t samples) {
  ls_trainer_t *t = NULL;
  ls_arena_t arena;
  ls_int8_t int8;
  ls_arena_init(&arena, q->ctx);
  ls_status_t status = open_trainer(q, true, NULL, &t);
  if (status == LS_OK) status = ls_trainer_ranges(t, samples, &arena, &int8);
  if (status == LS_OK) status = ls_trainer_write_int8(t, &int8, output);
  ls_trainer_destroy(t);
  ls_arena_release(&arena);
  return status;
}

static ls_status_t compare(quantize_t *q, const char *output) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < FORMS && status == LS_OK; i++) {
    ls_trainer_t *t = NULL;
    struct stat file;
    status = open_trainer(q, false, i == INT8 ? output : NULL, &t);
    if (status == LS_OK) status = evaluate(&q->form[i], t);
    if (status == LS_OK && i == F32) {
      const ls_graph_t *g = ls_trainer_engine(t)->step[LS_STEP_EVALUATE].graph;
      for (int k = 0; k < g->tensor_count; k++)
        if (g->tensors[k].role == LS_ROLE_PARAM || g->tensors[k].role == LS_ROLE_STATE)
          q->form[i].bytes += (int64_t)ls_shape_bytes(&g->tensors[k].shape);
    }
    if (i == INT8 && stat(output, &file) == 0) q->form[i].bytes = file.st_size;
    ls_trainer_destroy(t);
  }
  return status;
}

static double samples_per_s(const form_t *form) {
  return (double)form->eval.samples / ((double)form->ns * 1e-9);
}

static void print_result(const quantize_t *q, const char *output) {
  json_t *forms = json_array();
  for (int i = 0; i < FORMS; i++) {
    const form_t *f = &q->form[i];
    json_array_append_new(
        forms, json_pack("{s:s, s:I, s:o, s:o, s:o}", "form", f->name, "bytes", (json_int_t)f->bytes,
                         "samples_per_s", ls_json_number(samples_per_s(f)), "loss",
                         ls_json_number(f->eval.loss), "accuracy", ls_json_number(f->eval.accuracy)));
  }
  if (q->args->json) {
    cli_print_json(json_pack("{s:s, s:o, s:I, s:s, s:o}", "command", "quantize", "output",
                             ls_json_text(output), "samples", (json_int_t)q->form[F32].eval.samples, "part",
                             q->form[F32].eval.validation ? "validation" : "all", "forms", forms));
    return;
  }
  json_decref(forms);
  cli_print("  %-8s %12s %14s %12s %10s\n", "weights", "bytes", "samples/s", "loss", "accuracy");
  for (int i = 0; i < FORMS; i++) {
    const form_t *f = &q->form[i];
    char accuracy[32] = "-";
    if (isfinite(f->eval.accuracy)) snprintf(accuracy, sizeof accuracy, "%.2f %%", 100 * f->eval.accuracy);
    cli_print("  %-8s %12s %14.5g %12.6g %10s\n", f->name, cli_count(f->bytes), samples_per_s(f),
              f->eval.loss, accuracy);
  }
  cli_print("  %s samples (%s); %s\n", cli_count(q->form[F32].eval.samples),
            q->form[F32].eval.validation ? "validation part" : "all", cli_shown(output));
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  quantize_t q = {.ctx = ctx, .args = args, .form = {[F32] = {.name = "f32"}, [INT8] = {.name = "int8"}}};
  const char *output = args->extra[EXTRA_OUTPUT];
  ls_config_t *config;
  int64_t samples;
  if (!args->checkpoint || !output)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep quantize: %s is missing; see lockstep quantize --help",
                   output ? "--checkpoint DIR" : "--output FILE");
  ls_status_t status = cli_file_not(ctx, output, args->config);
  if (status == LS_OK)
    status = cli_args_whole(ctx, &cli_quantize, args, EXTRA_SAMPLES, 1, 1 << 30, 1024, &samples);
  if (status == LS_OK) status = cli_config_load(ctx, args, args->sets, args->set_count, &config);
  if (status != LS_OK) return status;
  q.config = config;
  status = ls_world_open(ctx, config->parallel.deadline_s, &q.world);
  if (status != LS_OK) goto config;
  if (ls_world_size(q.world) > 1)
    status = ls_fail(ctx, LS_ERR_ARGUMENT, "this command uses one process, but a launcher started %d",
                     ls_world_size(q.world));
  if (status == LS_OK) status = measure(&q, output, samples);
  if (status == LS_OK) status = compare(&q, output);
  if (status == LS_OK) print_result(&q, output);
  if (status != LS_OK) ls_world_abort(q.world, ls_status_exit_code(status));
  ls_world_close(q.world);
config:
  ls_config_destroy(config);
  return status;
}

const cli_command_t cli_quantize = {
    .name = "quantize",
    .summary = "Writes a checkpoint's weights as 8-bit integers, and says what that changes.",
    .details =
        "Products of convolutions (of one group) and of dense layers then work on 8-bit integers: weights "
        "with a "
        "scale for each output,\ntheir inputs with a scale for each tensor, from its range over training "
        "samples. Batch norms become part of the product.\nThe table compares size, speed, loss and accuracy "
        "on "
        "the validation part. On CPUs alone.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_CHECKPOINT | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
