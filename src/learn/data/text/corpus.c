/* Windows of a stream of tokens: which there are, how they are split, what they hold. */
#include "data/text/corpus.h"
#include "data/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { HASHED_BYTES_MAX = 64 << 20, HASHED_BLOCK_BYTES = 4096 };

/* Appends the places [from, until) that are tokens of one file, where a window fits. */
static void add_piece(ls_corpus_part_t *part, int64_t context, int64_t from, int64_t until) {
  int64_t starts = until - from - context; /* the last window's target is one token further */
  if (starts < 1) return;
  part->piece[part->pieces++] = (ls_corpus_piece_t){
      .first = from, .count = until - from, .windows = part->windows, .starts = part->starts};
  part->windows += (starts - 1) / part->stride + 1;
  part->starts += starts;
}

static ls_status_t too_short(ls_ctx_t *ctx, const ls_dataset_t *d, const char *what, int64_t tokens) {
  return ls_fail(ctx, LS_ERR_DATA,
                 "%s: %" PRId64 " token%s %s, and no window of %" PRId64
                 " and the token after it fits into one file of them",
                 d->source, tokens, LS_PLURAL(tokens), what, d->corpus->context);
}

static int64_t tokens_before(const ls_corpus_t *s, int file) {
  return file == 0 ? 0 : s->file[file - 1].first + s->file[file - 1].count;
}

/* The parts, of which the second begins at place `split`. */
static void lay_out(ls_corpus_t *s, int64_t split) {
  for (int p = 0; p < 2; p++) {
    s->part[p] = (ls_corpus_part_t){.piece = s->pieces + p * (s->files + 1), .stride = s->part[p].stride};
    for (int i = 0; i < s->files; i++) {
      int64_t from = s->file[i].first, until = from + s->file[i].count;
      if (p == LS_PART_TRAIN && until > split) until = split;
      if (p == LS_PART_VALIDATION && from < split) from = split;
      add_piece(&s->part[p], s->context, from, until);
    }
  }
}

ls_status_t ls_corpus_split(ls_ctx_t *ctx, double validation, ls_dataset_t *d) {
  ls_corpus_t *s = d->corpus;
  int64_t tokens = tokens_before(s, s->train_files), split = tokens;
  bool held = s->train_files < s->files;
  if (!held) split = tokens - llround((double)tokens * validation);
  lay_out(s, split);
  d->train_count = s->part[LS_PART_TRAIN].windows;
  d->validation_count = s->part[LS_PART_VALIDATION].windows;
  if (d->train_count < 1) return too_short(ctx, d, "are left to train on", split);
  if (d->validation_count < 1 && held)
    return too_short(ctx, d, "are in the validation files", tokens_before(s, s->files) - tokens);
  return d->validation_count < 1 && validation > 0.0 ? too_short(ctx, d, "are held out", tokens - split)
                                                     : LS_OK;
}

static ls_status_t check_model(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want) {
  int64_t context = config->context > 0 ? config->context : want->inputs;
  if (context != want->inputs)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.context is %" PRId64 ", but a sample of the model has %" PRId64
                   " values: set %s%" PRId64 "%s",
                   context, want->inputs, want->preset ? "model.context to " : "model.input to [", context,
                   want->preset ? "" : "]");
  if (!want->classes)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.kind: text predicts the next token: it needs loss: cross-entropy");
  if (want->positions != context)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.kind: text has a target at each of %" PRId64
                   " positions, but the model's output has %" PRId64
                   ": its last layers have to keep the positions (over: last)",
                   context, want->positions > 0 ? want->positions : 1);
  return LS_OK;
}

/* Tokens are never normalised. */
static ls_status_t no_norm(ls_dataset_t *d) {
  ls_norm_t *n = &d->norm;
  *n = (ls_norm_t){.inputs = d->inputs};
  n->mean = n->target_mean = ls_arena_array(&d->arena, (size_t)d->inputs, sizeof *n->mean);
  n->scale = n->target_scale = ls_arena_array(&d->arena, (size_t)d->inputs, sizeof *n->scale);
  if (!n->mean || !n->scale) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < d->inputs; i++) {
    n->mean[i] = 0.0;
    n->scale[i] = 1.0f;
  }
  ls_dataset_one_unit(d, 0, 1);
  return LS_OK;
}

ls_status_t ls_corpus_open(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                           ls_dataset_t *d) {
  ls_status_t status = check_model(ctx, config, want);
  if (status != LS_OK) return status;
  snprintf(d->source, sizeof d->source, "%s", config->path);
  snprintf(d->validation_source, sizeof d->validation_source, "%s",
           config->validation_path ? config->validation_path : "");
  d->inputs = want->inputs;
  d->outputs = want->outputs;
  d->classes = true;
  status = ls_corpus_read(ctx, config, want, d);
  if (status != LS_OK) return status;
  ls_corpus_t *s = d->corpus;
  s->context = want->inputs;
  s->random = config->windows == LS_WINDOWS_RANDOM;
  s->masked = config->masked;
  s->mask_token = config->mask_token;
  s->tokens = want->outputs;
  s->ignored = (int32_t)want->ignored;
  if (s->masked > 0 && s->mask_token >= (s->dtype == LS_U8 && want->outputs > 256 ? 256 : want->outputs))
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.mask_token: %" PRId64 " is no token: there are %" PRId64
                   ", and samples hold them as %s",
                   s->mask_token, want->outputs, ls_dtype_name(s->dtype));
  if (s->masked > 0 && s->mask_token < d->vocabulary.count)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.mask_token: %" PRId64
                   " is the character '%s' of the text: set it to %d, the number behind the "
                   "last character's, with a model of one class more, %d",
                   s->mask_token, LS_SHOWN(d->vocabulary.v[s->mask_token]), d->vocabulary.count,
                   d->vocabulary.count + 1);
  if (s->masked > 0 && want->ignored >= 0 && want->ignored < want->outputs)
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.masked needs a model.ignore that is no token, such as -1, for the places that are not masked; "
        "it is %" PRId64,
        want->ignored);
  s->part[LS_PART_VALIDATION].stride = s->context;
  s->part[LS_PART_TRAIN].stride = !s->random && config->stride > 0 ? config->stride : s->context;
  s->pieces = ls_arena_array(&d->arena, 2 * ((size_t)s->files + 1), sizeof *s->pieces);
  if (!s->pieces) return LS_ERR_MEMORY;
  d->sample.x = LS_SHAPE(s->dtype, s->context);
  d->sample.target = LS_SHAPE(LS_I32, s->context);
  /* Lists the runs of tokens, before any split. */
  lay_out(s, tokens_before(s, s->train_files));
  d->split_rows = s->part[LS_PART_TRAIN].windows;
  d->rows = d->split_rows + s->part[LS_PART_VALIDATION].windows;
  status = no_norm(d);
  return status == LS_OK ? ls_corpus_split(ctx, config->validation, d) : status;
}

/* The last piece that begins at or before a window or a start of the part, by either of the two counts. */
#define FIND_PIECE(part, field, value)                                                                       \
  int low = 0, high = (part)->pieces - 1;                                                                    \
  while (low < high) {                                                                                       \
    int middle = (low + high + 1) / 2;                                                                       \
    if ((part)->piece[middle].field <= (value))                                                              \
      low = middle;                                                                                          \
    else                                                                                                     \
      high = middle - 1;                                                                                     \
  }                                                                                                          \
  const ls_corpus_piece_t *piece = &(part)->piece[low];

int64_t ls_corpus_window(const ls_corpus_part_t *part, int64_t index) {
  FIND_PIECE(part, windows, index)
  return piece->first + (index - piece->windows) * part->stride;
}

int64_t ls_corpus_random(const ls_corpus_part_t *part, uint64_t seed, uint64_t position) {
  ls_rng4_t word = ls_rng(seed, LS_RNG_WINDOW, position);
  uint64_t wide = (uint64_t)word.v[1] << 32 | word.v[0];
  int64_t start = (int64_t)(wide % (uint64_t)part->starts);
  FIND_PIECE(part, starts, start)
  return piece->first + (start - piece->starts);
}

static const ls_corpus_file_t *file_of(const ls_corpus_t *s, int64_t row) {
  int low = 0, high = s->files - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (s->file[middle].first <= row)
      low = middle;
    else
      high = middle - 1;
  }
  return &s->file[low];
}

#define PUT(type)                                                                                            \
  {                                                                                                          \
    const type *from = (const type *)file->tokens + at;                                                      \
    memcpy(x, from, (size_t)context * sizeof *from);                                                         \
    for (int64_t i = 0; i < context; i++)                                                                    \
      target[i] = (int32_t)from[i + 1];                                                                      \
    break;                                                                                                   \
  }

void ls_corpus_put(const ls_corpus_t *s, int64_t row, void *x, int32_t *target) {
  const ls_corpus_file_t *file = file_of(s, row);
  int64_t at = row - file->first, context = s->context;
  switch (s->dtype) {
  case LS_U16:
    PUT(uint16_t)
  case LS_I32:
    PUT(int32_t)
  default:
    if (!s->code) PUT(uint8_t)
    const uint8_t *from = (const uint8_t *)file->tokens + at;
    for (int64_t i = 0; i < context; i++) {
      ((uint8_t *)x)[i] = s->code[from[i]];
      target[i] = s->code[from[i + 1]];
    }
  }
}

static int64_t token_at(const ls_corpus_t *s, const void *x, int64_t i) {
  return s->dtype == LS_U16   ? ((const uint16_t *)x)[i]
         : s->dtype == LS_I32 ? ((const int32_t *)x)[i]
                              : ((const uint8_t *)x)[i];
}

static void set_token(const ls_corpus_t *s, void *x, int64_t i, int64_t token) {
  if (s->dtype == LS_U16)
    ((uint16_t *)x)[i] = (uint16_t)token;
  else if (s->dtype == LS_I32)
    ((int32_t *)x)[i] = (int32_t)token;
  else
    ((uint8_t *)x)[i] = (uint8_t)token;
}

int64_t ls_corpus_mask(const ls_corpus_t *s, uint64_t seed, uint64_t position, void *x, int32_t *target) {
  int64_t count = 0;
  for (int64_t i = 0; i < s->context; i++) {
    ls_rng4_t word = ls_rng(seed, LS_RNG_MASKED, position * (uint64_t)s->context + (uint64_t)i);
    bool chosen = (double)ls_rng_unit(word.v[0]) < s->masked;
    float what = ls_rng_unit(word.v[1]);
    count += chosen;
    if (!x) continue;
    target[i] = chosen ? (int32_t)token_at(s, x, i) : s->ignored;
    if (chosen && what < 0.9f) set_token(s, x, i, what < 0.8f ? s->mask_token : word.v[2] % s->tokens);
  }
  return count;
}

uint64_t ls_corpus_hash(const ls_corpus_t *s, bool held, uint64_t hash) {
  int first = held ? s->train_files : 0, until = held ? s->files : s->train_files;
  size_t one = ls_dtype_bytes(s->dtype), all = 0;
  for (int i = first; i < until; i++)
    all += (size_t)s->file[i].count * one;
  size_t stride = HASHED_BLOCK_BYTES * (1 + all / HASHED_BYTES_MAX);
  for (int i = first; i < until; i++) {
    size_t size = (size_t)s->file[i].count * one;
    hash = XXH3_64bits_withSeed(&size, sizeof size, hash);
    for (size_t at = 0; at < size; at += stride) {
      size_t block = size - at < HASHED_BLOCK_BYTES ? size - at : HASHED_BLOCK_BYTES;
      hash = XXH3_64bits_withSeed((const char *)s->file[i].tokens + at, block, hash);
    }
  }
  return hash;
}
