/* lockstep generate: a model of text goes on with a prompt, token by token. */
#include "cli/cli.h"

#include "infer/infer.h"

#include <stdlib.h>

enum { EXTRA_PROMPT, EXTRA_VOCABULARY, EXTRA_TOKENS, EXTRA_TEMPERATURE, EXTRA_TOP_K, EXTRA_SEED, EXTRA_BEST };
static const cli_extra_t extra[] = {
    [EXTRA_PROMPT] = {"--prompt", "TEXT",
                      "What the text begins with; for tokens without characters, their numbers (default, "
                      "also for an empty "
                      "one: a line end, else token 0)."},
    [EXTRA_VOCABULARY] =
        {"--vocabulary", "FILE",
         "The tokens' text: the tokenizer.json or list of characters with which lockstep tokenize made the "
         "token file (default: that of the checkpoint)."},
    [EXTRA_TOKENS] = {"--tokens", "N", "How many tokens follow (default: 200).", CLI_NUMBER(1, 1 << 30, 200)},
    [EXTRA_TEMPERATURE] =
        {"--temperature", "T",
         "Probabilities to the power of 1 / T, 0 to 100: 0 always takes the most probable token "
         "(default: 1)."},
    [EXTRA_TOP_K] = {"--top-k", "K", "Only the K most probable tokens (default: all).",
                     CLI_NUMBER(1, 1 << 30, 1 << 30)},
    [EXTRA_SEED] = {"--seed", "S",
                    "Seed of the random choices: the same seed gives the same text (default: 0).",
                    CLI_NUMBER(0, INT64_MAX, 0)},
    [EXTRA_BEST] = {"--best", NULL,
                    "Take the run's best checkpoint, by train.best of its validation part, instead "
                    "of the newest."},
    {NULL, NULL, NULL}};

static ls_status_t read_flags(ls_ctx_t *ctx, const cli_args_t *args, ls_generate_t *how) {
  const char *temperature = args->extra[EXTRA_TEMPERATURE];
  char *end = NULL;
  *how = (ls_generate_t){.prompt = args->extra[EXTRA_PROMPT],
                         .vocabulary = args->extra[EXTRA_VOCABULARY],
                         .temperature = temperature ? strtod(temperature, &end) : 1,
                         .top = args->whole[EXTRA_TOP_K],
                         .seed = args->whole[EXTRA_SEED]};
  if (!temperature || (!*end && end > temperature && how->temperature >= 0 && how->temperature <= 100))
    return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "--temperature takes a number from 0 to 100, not \"%s\"", temperature);
}

static ls_status_t speak(ls_ctx_t *ctx, ls_generator_t *g, int64_t wanted) {
  const int32_t *token;
  int64_t count = ls_generator_count(g, &token);
  for (int64_t i = 0; i < count; i++)
    ls_generator_say(g, i, stdout);
  for (int64_t n = 0; n < wanted; n++) {
    ls_status_t status = ls_generator_next(g);
    if (status != LS_OK) return status;
    ls_generator_say(g, count++, stdout);
    if (fflush(stdout) != 0) return cli_output_lost(ctx);
  }
  putchar('\n');
  return LS_OK;
}

static ls_status_t print_json(ls_generator_t *g, const ls_trainer_t *t, int64_t wanted) {
  const int32_t *token;
  const int64_t prompt = ls_generator_count(g, &token);
  ls_status_t status = LS_OK;
  for (int64_t n = 0; n < wanted && status == LS_OK; n++)
    status = ls_generator_next(g);
  if (status != LS_OK) return status;
  int64_t step;
  char *text = NULL;
  size_t size = 0;
  json_t *tokens = json_array();
  FILE *to = ls_generator_speaks(g) ? open_memstream(&text, &size) : NULL;
  const int64_t count = ls_generator_count(g, &token);
  for (int64_t i = 0; i < count; i++) {
    json_array_append_new(tokens, json_integer(token[i]));
    if (to) ls_generator_say(g, i, to);
  }
  if (to) fclose(to);
  const char *checkpoint = ls_trainer_checkpoint(t, &step);
  cli_print_json(json_pack("{s:s, s:o, s:I, s:I, s:o, s:o}", "command", "generate", "checkpoint",
                           ls_json_text(checkpoint), "step", (json_int_t)step, "prompt_tokens",
                           (json_int_t)prompt, "tokens", tokens, "text",
                           text ? ls_json_text(text) : json_null()));
  free(text);
  return LS_OK;
}

static ls_status_t generate(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                            ls_trainer_t *t) {
  (void)config;
  ls_generate_t how;
  ls_generator_t *g = NULL;
  const int64_t wanted = args->whole[EXTRA_TOKENS];
  ls_status_t status = read_flags(ctx, args, &how);
  if (status == LS_OK) status = ls_generator_open(ctx, t, &how, &g);
  if (status == LS_OK) status = args->json ? print_json(g, t, wanted) : speak(ctx, g, wanted);
  ls_generator_close(g);
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  return cli_with_model(
      ctx, args, &(cli_model_use_t){.use = generate, .best = args->extra[EXTRA_BEST] != NULL, .rows = 1});
}

static const cli_command_t command = {.name = "generate",
                                      .place = 35,
                                      .summary = "Goes on with a text, token by token.",
                                      .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL |
                                               CLI_FLAG_CHECKPOINT | CLI_FLAG_SET | CLI_FLAG_JSON |
                                               CLI_FLAG_VERBOSE,
                                      .extra = extra,
                                      .run = run};
CLI_COMMAND(command)
