/* lockstep export: a checkpoint for other programs, as weights or as a network. */
#include "cli/cli.h"

#include "infer/infer.h"
#include "model/names.h"

#include <string.h>

enum { EXTRA_OUTPUT, EXTRA_FORMAT, EXTRA_MAP, EXTRA_BEST };
static const cli_extra_t extra[] = {
    [EXTRA_OUTPUT] = {"--output", "FILE", "The file to write; it is there as a whole or not at all."},
    [EXTRA_FORMAT] = {"--format", "NAME",
                      "safetensors: the weights; onnx: the network for inference, opset 17 (default: the "
                      "ending of the output's "
                      "name, safetensors if it has none)."},
    [EXTRA_MAP] =
        {"--map", "NAME",
         "safetensors: names and layouts of the tensors: names, torchvision, hf-gpt2 or hf-bert (default: "
         "model.map)."},
    [EXTRA_BEST] = {"--best", NULL,
                    "Take the run's best checkpoint, by train.best of its validation part, instead "
                    "of the newest."},
    {NULL, NULL, NULL}};

static const char *const formats[] = {"safetensors", "onnx", NULL};
enum { SAFETENSORS, ONNX };

static ls_status_t choose_map(ls_ctx_t *ctx, const char *word, int fallback, int *chosen) {
  char list[LS_NAMES_TEXT_BYTES];
  *chosen = fallback;
  if (!word) return LS_OK;
  for (*chosen = 0; ls_names_choices[*chosen]; ++*chosen)
    if (!strcmp(ls_names_choices[*chosen], word)) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "--map: \"%s\" is not one of %s", LS_SHOWN(word),
                 ls_names_text(ls_names_choices, list));
}

static ls_status_t export(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config, ls_trainer_t *t) {
  int format, map, tensors;
  const char *output = args->extra[EXTRA_OUTPUT];
  int64_t step;
  ls_status_t status = cli_file_format(ctx, output, args->extra[EXTRA_FORMAT], formats, &format);
  if (status == LS_OK) status = choose_map(ctx, args->extra[EXTRA_MAP], config->model.map, &map);
  if (status == LS_OK && format == ONNX && args->extra[EXTRA_MAP])
    status = ls_fail(ctx, LS_ERR_ARGUMENT, "--map is for --format safetensors: ONNX has names of its own");
  if (status == LS_OK)
    status = format == ONNX ? ls_infer_export_onnx(t, output, &tensors)
                            : ls_infer_export(t, output, map, &tensors);
  if (status != LS_OK) return status;
  const char *checkpoint = ls_trainer_checkpoint(t, &step);
  if (args->json)
    cli_print_json(json_pack("{s:s, s:o, s:I, s:s, s:s?, s:i, s:o}", "command", "export", "checkpoint",
                             ls_json_text(checkpoint), "step", (json_int_t)step, "format", formats[format],
                             "map", ls_names_choices[map], "tensors", tensors, "output",
                             ls_json_text(output)));
  else
    cli_print("  %-16s %s\n  %-16s %lld\n  %-16s %s (%s, %d tensors)\n", "checkpoint", cli_shown(checkpoint),
              "step", (long long)step, "output", cli_shown(output),
              format == ONNX ? "ONNX" : ls_names_choices[map], tensors);
  return LS_OK;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  if (!args->extra[EXTRA_OUTPUT])
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep export: --output FILE is missing; see lockstep export --help");
  if (!strcmp(args->extra[EXTRA_OUTPUT], "-"))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep export writes a file: --output cannot be stdout");
  return cli_with_model(ctx, args,
                        &(cli_model_use_t){.use = export,
                                           .best = args->extra[EXTRA_BEST] != NULL,
                                           .output = args->extra[EXTRA_OUTPUT]});
}

static const cli_command_t command = {
    .name = "export",
    .place = 33,
    .summary = "Writes a checkpoint for other programs: its weights, or the network as ONNX.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL | CLI_FLAG_CHECKPOINT | CLI_FLAG_SET | CLI_FLAG_JSON |
             CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
