/* lockstep quantize: weights as 8-bit integers for predict, and a table of what they, and pruning before them, change. */
#include "cli/cli.h"
#include "config/spare.h"
#include "infer/infer.h"

#include <math.h>

enum { EXTRA_OUTPUT, EXTRA_SAMPLES, EXTRA_UNPRUNED, EXTRA_BEST };
static const cli_extra_t extra[] = {
    [EXTRA_OUTPUT] = {"--output", "FILE", "The file to write, for lockstep predict --int8."},
    [EXTRA_SAMPLES] = {"--samples", "N",
                       "Training samples on which the ranges of activations are measured (default: 1024).",
                       CLI_NUMBER(1, 1 << 30, 1024)},
    [EXTRA_UNPRUNED] =
        {"--unpruned", "DIR",
         "Checkpoints of the same model before pruning, with which the table begins: a run without "
         "pruning, or one step's directory of this run."},
    [EXTRA_BEST] = {"--best", NULL,
                    "Take the run's best checkpoint, the one with the lowest validation loss, instead "
                    "of the newest."},
    {NULL, NULL, NULL}};

static const char *const form_names[] = {"f32", "int8"};

static double samples_per_s(const ls_quantize_form_t *form) {
  return (double)form->eval.samples / ((double)form->ns * 1e-9);
}

static void print_json(const ls_quantize_report_t *r, const ls_quantize_t *how) {
  const ls_quantize_form_t *first = &r->form[0][LS_QUANTIZE_F32];
  json_t *forms = json_array();
  for (int k = 0; k < r->models * LS_QUANTIZE_FORMS; k++) {
    const int form = k % LS_QUANTIZE_FORMS;
    const bool last = k / LS_QUANTIZE_FORMS == r->models - 1;
    const ls_quantize_form_t *f = &r->form[k / LS_QUANTIZE_FORMS][form];
    json_array_append_new(
        forms,
        json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "form", form_names[form], "checkpoint",
                  last ? how->checkpoint : how->unpruned, "bytes", (json_int_t)f->bytes, "packed_bytes",
                  (json_int_t)f->packed, "kept", ls_json_number(ls_quantize_kept(f)), "samples_per_s",
                  ls_json_number(samples_per_s(f)), "sample_us", ls_json_number(1e6 / samples_per_s(f)),
                  "loss", ls_json_number(f->eval.loss), "accuracy", ls_json_number(f->eval.accuracy)));
  }
  cli_print_json(json_pack("{s:s, s:o, s:I, s:s, s:o}", "command", "quantize", "output",
                           ls_json_text(how->output), "samples", (json_int_t)first->eval.samples, "part",
                           first->eval.validation ? "validation" : "all", "forms", forms));
}

static void print_result(const ls_quantize_report_t *r, const ls_quantize_t *how) {
  const ls_quantize_form_t *first = &r->form[0][LS_QUANTIZE_F32];
  cli_print("  %-14s %8s %12s %12s %12s %10s %12s %10s\n", "weights", "kept", "bytes", "packed", "samples/s",
            "us/sample", "loss", "accuracy");
  for (int k = 0; k < r->models * LS_QUANTIZE_FORMS; k++) {
    const int form = k % LS_QUANTIZE_FORMS;
    const bool last = k / LS_QUANTIZE_FORMS == r->models - 1;
    const ls_quantize_form_t *f = &r->form[k / LS_QUANTIZE_FORMS][form];
    char name[32], accuracy[32] = "-";
    snprintf(name, sizeof name, "%s%s",
             r->models == 1 ? ""
             : last         ? "pruned "
                            : "unpruned ",
             form_names[form]);
    if (isfinite(f->eval.accuracy)) snprintf(accuracy, sizeof accuracy, "%.2f %%", 100 * f->eval.accuracy);
    cli_print("  %-14s %6.1f %% %12s %12s %12.5g %10.4g %12.6g %10s\n", name, 100 * ls_quantize_kept(f),
              cli_count(f->bytes), cli_count(f->packed), samples_per_s(f), 1e6 / samples_per_s(f),
              f->eval.loss, accuracy);
  }
  cli_print("  %s samples (%s); %s\n", cli_count(first->eval.samples),
            first->eval.validation ? "validation part" : "all", cli_shown(how->output));
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  const ls_trainer_options_t stuck = {.stuck = cli_messages_stuck, .stuck_user = args->messages};
  const ls_quantize_t how = {.checkpoint = args->checkpoint,
                             .unpruned = args->extra[EXTRA_UNPRUNED],
                             .best = args->extra[EXTRA_BEST] != NULL,
                             .samples = args->whole[EXTRA_SAMPLES],
                             .output = args->extra[EXTRA_OUTPUT],
                             .options = &stuck};
  ls_quantize_report_t report;
  ls_world_t *world = NULL;
  ls_config_t *config;
  if (!how.checkpoint || !how.output)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep quantize: %s is missing; see lockstep quantize --help",
                   how.output ? "--checkpoint DIR" : "--output FILE");
  ls_status_t status = cli_config_load(ctx, args, args->sets, args->set_count, &config);
  if (status != LS_OK) return status;
  status = ls_config_spares(ctx, how.output, NULL, config);
  if (status == LS_OK) status = ls_infer_world(ctx, config, &world);
  if (status == LS_OK) status = ls_infer_quantize(ctx, world, config, &how, &report);
  if (status == LS_OK) args->json ? print_json(&report, &how) : print_result(&report, &how);
  if (status != LS_OK && world) ls_world_abort(world, ls_status_exit_code(status));
  ls_world_close(world);
  ls_config_destroy(config);
  return status;
}

static const cli_command_t command = {
    .name = "quantize",
    .place = 34,
    .summary = "Writes a checkpoint's weights as 8-bit integers, and says what that changes.",
    .details =
        "Products of convolutions (of one group) and of dense layers then work on 8-bit integers: weights "
        "with a "
        "scale for each output,\ntheir inputs with a scale for each tensor, from its range over training "
        "samples. Batch norms become part of the product.\nThe table compares size, speed, loss and accuracy "
        "on the validation part, and with --unpruned also the same network without pruning. On CPUs alone.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL | CLI_FLAG_CHECKPOINT | CLI_FLAG_SET | CLI_FLAG_JSON |
             CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
