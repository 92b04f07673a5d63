/* lockstep generate: a model of text goes on with a prompt, token by token. */
#include "cli/cli.h"

#include "base/rng.h"
#include "data/text/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct {
  float p;
  int32_t token;
} chance_t;

typedef struct {
  ls_ctx_t *ctx;
  const cli_args_t *args;
  ls_trainer_t *trainer;
  ls_tokenizer_t *tokenizer; /* NULL: tokens are just numbers */
  int64_t context, classes;
  int64_t drawn; /* tokens that can be drawn: those that have a text */
  int64_t wanted, top, seed;
  double temperature;
  int32_t *token; /* (count): prompt and text */
  int64_t count, capacity;
  float *x, *p; /* (context), (context, classes) */
  chance_t *chance;
} generate_t;

/* ---- tokens as text ---- */

static ls_status_t add(generate_t *g, int64_t token) {
  if (token < 0 || token >= g->classes)
    return ls_fail(g->ctx, LS_ERR_DATA, "--prompt: token %lld, but the model has 0 to %lld", (long long)token,
                   (long long)(g->classes - 1));
  if (g->count == g->capacity) {
    int64_t capacity = g->capacity ? 2 * g->capacity : 256;
    int32_t *grown = ls_realloc_array(g->ctx, g->token, (size_t)capacity, sizeof *grown);
    if (!grown) return LS_ERR_MEMORY;
    g->token = grown;
    g->capacity = capacity;
  }
  g->token[g->count++] = (int32_t)token;
  return LS_OK;
}

static ls_status_t add_number(generate_t *g, const char *text, size_t *size) {
  char *end;
  long long number = strtoll(text, &end, 10);
  if (end == text)
    return ls_fail(
        g->ctx, LS_ERR_ARGUMENT,
        "--prompt: the model's tokens are numbers, as in \"464 7\", not \"%s\"; --vocabulary FILE names "
        "the tokenizer.json that made them of text",
        LS_SHOWN(text));
  end += strspn(end, " ,\n");
  *size = (size_t)(end - text);
  return add(g, number);
}

/* The token that is a line end, else the first one. */
static int64_t line_end(const generate_t *g) {
  for (int64_t i = 0; g->tokenizer && i < g->drawn; i++) {
    size_t size;
    const char *text = ls_tokenizer_text(g->tokenizer, i, false, &size);
    if (size == 1 && *text == '\n') return i;
  }
  return 0;
}

typedef struct {
  generate_t *g;
  ls_status_t status;
} adding_t;
static void add_encoded(void *adding_, int32_t token) {
  adding_t *adding = adding_;
  if (adding->status == LS_OK) adding->status = add(adding->g, token);
}

static ls_status_t take_prompt(generate_t *g, const char *prompt) {
  adding_t adding = {g, LS_OK};
  if (!prompt || !*prompt) return add(g, line_end(g)); /* a model goes on from something */
  if (g->tokenizer) {
    ls_status_t status =
        ls_tokenizer_encode(g->tokenizer, "--prompt", prompt, strlen(prompt), add_encoded, &adding);
    return status ? status : adding.status;
  }
  for (size_t size = 0; *prompt && adding.status == LS_OK; prompt += size)
    adding.status = add_number(g, prompt, &size);
  return adding.status;
}

/* Tokens that are only numbers have a space between them. */
static void say(const generate_t *g, int64_t i, FILE *to) {
  size_t size = 0;
  const char *text = g->tokenizer ? ls_tokenizer_text(g->tokenizer, g->token[i], i == 0, &size) : NULL;
  if (text)
    fwrite(text, 1, size, to);
  else
    fprintf(to, "%d ", g->token[i]);
}

/* ---- the next token ---- */

static int by_chance(const void *a, const void *b) {
  const chance_t *x = a, *y = b;
  if (x->p != y->p) return x->p < y->p ? 1 : -1;
  return x->token - y->token;
}

/* One of the tokens with these probabilities; `n` numbers the draws. */
static int32_t draw(generate_t *g, const float *p, int64_t n) {
  const ls_rng4_t words = ls_rng((uint64_t)g->seed, LS_RNG_GENERATE, (uint64_t)n);
  const double unit = ((double)(words.v[0] >> 5) * 0x1p26 + (double)(words.v[1] >> 6)) * 0x1p-53;
  const int64_t top = g->temperature == 0 ? 1 : g->top;
  double sum = 0, below = 0;
  for (int64_t i = 0; i < g->drawn; i++)
    g->chance[i] = (chance_t){p[i], (int32_t)i};
  qsort(g->chance, (size_t)g->drawn, sizeof *g->chance, by_chance);
  const double first = (double)g->chance[0].p;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < top; i++) {
      double weight = top == 1 ? 1 : pow((double)g->chance[i].p / first, 1 / g->temperature);
      if (pass == 0)
        sum += weight;
      else if ((below += weight) > unit * sum)
        return g->chance[i].token;
    }
  return g->chance[top - 1].token;
}

/* The newest tokens stand at the front, as in training; what follows them is not seen by a causal model. */
static ls_status_t next(generate_t *g, int64_t n) {
  int64_t seen = g->count < g->context ? g->count : g->context;
  for (int64_t i = 0; i < g->context; i++)
    g->x[i] = i < seen ? (float)g->token[g->count - seen + i] : 0;
  ls_status_t status = ls_trainer_predict(g->trainer, 1, g->x, g->p);
  return status == LS_OK ? add(g, draw(g, g->p + (seen - 1) * g->classes, n)) : status;
}

static ls_status_t generate_all(generate_t *g) {
  const bool speaks = !g->args->json;
  for (int64_t i = 0; i < g->count && speaks; i++)
    say(g, i, stdout);
  for (int64_t n = 0; n < g->wanted; n++) {
    ls_status_t status = next(g, n);
    if (status != LS_OK) return status;
    if (speaks) say(g, g->count - 1, stdout);
    if (speaks && fflush(stdout) != 0) return cli_output_lost(g->ctx);
  }
  if (speaks) putchar('\n');
  return LS_OK;
}

static ls_status_t print_json(const generate_t *g, int64_t prompt) {
  int64_t step;
  char *text = NULL;
  size_t size = 0;
  json_t *tokens = json_array();
  FILE *to = g->tokenizer ? open_memstream(&text, &size) : NULL;
  for (int64_t i = 0; i < g->count; i++) {
    json_array_append_new(tokens, json_integer(g->token[i]));
    if (to) say(g, i, to);
  }
  if (to) fclose(to);
  const char *checkpoint = ls_trainer_checkpoint(g->trainer, &step);
  cli_print_json(json_pack("{s:s, s:o, s:I, s:I, s:o, s:o}", "command", "generate", "checkpoint",
                           ls_json_text(checkpoint), "step", (json_int_t)step, "prompt_tokens",
                           (json_int_t)prompt, "tokens", tokens, "text",
                           text ? ls_json_text(text) : json_null()));
  free(text);
  return LS_OK;
}

/* The checkpoint's characters, a file, or the bytes of the configuration. */
static ls_status_t open_tokenizer(generate_t *g, const ls_config_t *config) {
  const ls_strings_t *list = &ls_trainer_data(g->trainer)->vocabulary;
  const char *file = g->args->extra[EXTRA_VOCABULARY];
  bool bytes = config->data.kind == LS_DATA_TEXT && config->data.tokens == LS_TOKENS_BYTES;
  if (file && (bytes || list->count > 0))
    return ls_fail(g->ctx, LS_ERR_ARGUMENT, "--vocabulary: this model's tokens are %s",
                   bytes ? "bytes" : "the characters of its checkpoint");
  ls_status_t status = LS_OK;
  if (file)
    status = ls_tokenizer_open(g->ctx, file, &g->tokenizer);
  else if (list->count > 0)
    status = ls_tokenizer_characters(g->ctx, "the checkpoint", list, &g->tokenizer);
  else if (bytes)
    status = ls_tokenizer_bytes(g->ctx, &g->tokenizer);
  int64_t size = status == LS_OK && g->tokenizer ? ls_tokenizer_size(g->tokenizer) : g->classes;
  g->drawn = size < g->classes ? size : g->classes;
  return status;
}

static ls_status_t read_flags(generate_t *g) {
  const char *temperature = g->args->extra[EXTRA_TEMPERATURE];
  char *end = NULL;
  g->temperature = temperature ? strtod(temperature, &end) : 1;
  if (temperature && (*end || end == temperature || !(g->temperature >= 0 && g->temperature <= 100)))
    return ls_fail(g->ctx, LS_ERR_ARGUMENT, "--temperature takes a number from 0 to 100, not \"%s\"",
                   temperature);
  g->wanted = g->args->whole[EXTRA_TOKENS];
  g->top = g->args->whole[EXTRA_TOP_K];
  g->seed = g->args->whole[EXTRA_SEED];
  if (g->top > g->drawn) g->top = g->drawn;
  return LS_OK;
}

static ls_status_t generate(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                            ls_trainer_t *t) {
  const ls_model_config_t *model = &config->model;
  generate_t g = {.ctx = ctx,
                  .args = args,
                  .trainer = t,
                  .context = ls_model_positions(model),
                  .classes = ls_model_classes(model)};
  if (g.context == 0 || g.context != ls_model_inputs(model))
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "lockstep generate needs a model that has a class for every position of its input, the next token");
  ls_status_t status = open_tokenizer(&g, config);
  if (status == LS_OK) status = read_flags(&g);
  g.x = ls_alloc_array(ctx, (size_t)g.context, sizeof *g.x);
  g.p = ls_alloc_array(ctx, (size_t)(g.context * g.classes), sizeof *g.p);
  g.chance = ls_alloc_array(ctx, (size_t)g.classes, sizeof *g.chance);
  if (status == LS_OK && (!g.x || !g.p || !g.chance)) status = LS_ERR_MEMORY;
  if (status == LS_OK) status = take_prompt(&g, args->extra[EXTRA_PROMPT]);
  int64_t prompt = g.count;
  if (status == LS_OK) status = generate_all(&g);
  if (status == LS_OK && args->json) status = print_json(&g, prompt);
  ls_tokenizer_close(g.tokenizer);
  ls_free(g.token);
  ls_free(g.x);
  ls_free(g.p);
  ls_free(g.chance);
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
