/* Text from a model of text, token by token. */
#include "infer/infer.h"

#include "base/rng.h"
#include "data/text/tokenizer.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  float p;
  int32_t token;
} chance_t;

struct ls_generator {
  ls_ctx_t *ctx;
  ls_trainer_t *model;
  ls_generate_t how;
  ls_tokenizer_t *tokenizer; /* NULL: tokens are just numbers */
  int64_t context, classes;
  int64_t drawn; /* tokens that can be drawn: those that have a text */
  int64_t draws;
  int32_t *token; /* (count): prompt and text */
  int64_t count, capacity;
  float *x, *p; /* (context), (context, classes) */
  chance_t *chance;
};

/* ---- tokens as text ---- */

static ls_status_t add(ls_generator_t *g, int64_t token) {
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

static ls_status_t add_number(ls_generator_t *g, const char *text, size_t *size) {
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
static int64_t line_end(const ls_generator_t *g) {
  for (int64_t i = 0; g->tokenizer && i < g->drawn; i++) {
    size_t size;
    const char *text = ls_tokenizer_text(g->tokenizer, i, false, &size);
    if (size == 1 && *text == '\n') return i;
  }
  return 0;
}

typedef struct {
  ls_generator_t *g;
  ls_status_t status;
} adding_t;
static void add_encoded(void *adding_, int32_t token) {
  adding_t *adding = adding_;
  if (adding->status == LS_OK) adding->status = add(adding->g, token);
}

static ls_status_t take_prompt(ls_generator_t *g, const char *prompt) {
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

/* ---- the next token ---- */

static int by_chance(const void *a, const void *b) {
  const chance_t *x = a, *y = b;
  if (x->p != y->p) return x->p < y->p ? 1 : -1;
  return x->token - y->token;
}

/* One of the tokens with these probabilities; `n` numbers the draws. */
static int32_t draw(ls_generator_t *g, const float *p, int64_t n) {
  const ls_rng4_t words = ls_rng((uint64_t)g->how.seed, LS_RNG_GENERATE, (uint64_t)n);
  const double unit = ((double)(words.v[0] >> 5) * 0x1p26 + (double)(words.v[1] >> 6)) * 0x1p-53;
  const int64_t top = g->how.temperature == 0 ? 1 : g->how.top;
  double sum = 0, below = 0;
  for (int64_t i = 0; i < g->drawn; i++)
    g->chance[i] = (chance_t){p[i], (int32_t)i};
  qsort(g->chance, (size_t)g->drawn, sizeof *g->chance, by_chance);
  const double first = (double)g->chance[0].p;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < top; i++) {
      double weight = top == 1 ? 1 : pow((double)g->chance[i].p / first, 1 / g->how.temperature);
      if (pass == 0)
        sum += weight;
      else if ((below += weight) > unit * sum)
        return g->chance[i].token;
    }
  return g->chance[top - 1].token;
}

/* The newest tokens are put at the front, as in training. A causal model does not see what follows them. */
ls_status_t ls_generator_next(ls_generator_t *g) {
  int64_t seen = g->count < g->context ? g->count : g->context;
  for (int64_t i = 0; i < g->context; i++)
    g->x[i] = i < seen ? (float)g->token[g->count - seen + i] : 0;
  ls_status_t status = ls_trainer_predict(g->model, 1, g->x, g->p);
  return status == LS_OK ? add(g, draw(g, g->p + (seen - 1) * g->classes, g->draws++)) : status;
}

/* ---- opening ---- */

/* The checkpoint's characters, a file, or the bytes of the configuration. */
static ls_status_t open_tokenizer(ls_generator_t *g) {
  const ls_data_config_t *data = &g->model->config->data;
  const ls_strings_t *list = &g->model->dataset->vocabulary;
  const char *file = g->how.vocabulary;
  bool bytes = data->kind == LS_DATA_TEXT && data->tokens == LS_TOKENS_BYTES;
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

static ls_status_t fill(ls_generator_t *g) {
  ls_status_t status = open_tokenizer(g);
  if (g->how.top > g->drawn) g->how.top = g->drawn;
  g->x = ls_alloc_array(g->ctx, (size_t)g->context, sizeof *g->x);
  g->p = ls_alloc_array(g->ctx, (size_t)(g->context * g->classes), sizeof *g->p);
  g->chance = ls_alloc_array(g->ctx, (size_t)g->classes, sizeof *g->chance);
  if (status == LS_OK && (!g->x || !g->p || !g->chance)) status = LS_ERR_MEMORY;
  return status == LS_OK ? take_prompt(g, g->how.prompt) : status;
}

ls_status_t ls_generator_open(ls_ctx_t *ctx, ls_trainer_t *t, const ls_generate_t *how,
                              ls_generator_t **out) {
  const ls_model_config_t *model = &t->config->model;
  const int64_t context = ls_model_positions(model);
  if (context == 0 || context != ls_model_inputs(model))
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "lockstep generate needs a model that has a class for every position of its input, the next token");
  ls_generator_t *g = ls_alloc(ctx, sizeof *g);
  if (!g) return LS_ERR_MEMORY;
  *g = (ls_generator_t){
      .ctx = ctx, .model = t, .how = *how, .context = context, .classes = ls_model_classes(model)};
  ls_status_t status = fill(g);
  if (status != LS_OK)
    ls_generator_close(g);
  else
    *out = g;
  return status;
}

void ls_generator_close(ls_generator_t *g) {
  if (!g) return;
  ls_tokenizer_close(g->tokenizer);
  ls_free(g->token);
  ls_free(g->x);
  ls_free(g->p);
  ls_free(g->chance);
  ls_free(g);
}

int64_t ls_generator_count(const ls_generator_t *g, const int32_t **token) {
  *token = g->token;
  return g->count;
}

bool ls_generator_speaks(const ls_generator_t *g) {
  return g->tokenizer != NULL;
}

void ls_generator_say(const ls_generator_t *g, int64_t i, FILE *to) {
  size_t size = 0;
  const char *text = g->tokenizer ? ls_tokenizer_text(g->tokenizer, g->token[i], i == 0, &size) : NULL;
  if (text)
    fwrite(text, 1, size, to);
  else
    fprintf(to, "%d ", g->token[i]);
}
