/* From files to tokens: bytes, token files of nanoGPT (u16 or i32, nothing else) and llm.c (a header before them), or
 * UTF-8 text, whose characters are numbered in the order of their code points. What can stay in its file is mapped:
 * everything but text that is not ASCII. */
#include "data/parts.h"
#include "data/text/characters.h"
#include "data/text/corpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ASCII = 128, CHARACTERS_MAX = 1 << 16 };

/* llm.c's header: 256 numbers of 32 bits, of which the first three say what follows (dev/data/data_common.py). */
typedef struct {
  int32_t magic, version, tokens;
} llmc_t;
static const struct {
  int32_t magic, version;
  ls_dtype_t dtype;
} llmc_kinds[] = {{20240520, 1, LS_U16}, {20240801, 7, LS_I32}};

typedef struct {
  ls_ctx_t *ctx;
  const ls_data_want_t *want;
  ls_dataset_t *dataset;
  ls_corpus_t *corpus;
  int tokens;       /* of the first file: ls_tokens_t, never auto */
  uint32_t *number; /* (LS_CODE_POINTS): a character's number and 1 more; 0: it is none of the vocabulary's */
  const char *vocabulary; /* whose it is, for messages */
} reader_t;

void ls_corpus_header(ls_dtype_t dtype, int32_t tokens, char header[LS_CORPUS_HEADER_BYTES]) {
  const int kind = dtype == LS_U16 ? 0 : 1;
  const llmc_t first = {llmc_kinds[kind].magic, llmc_kinds[kind].version, tokens};
  memset(header, 0, LS_CORPUS_HEADER_BYTES);
  memcpy(header, &first, sizeof first);
}

typedef enum { LLMC_NONE, LLMC_KNOWN, LLMC_OTHER } llmc_header_t;

/* Whether the file begins with llm.c's header, of the known version or another. *dtype: of its tokens, by the magic. */
static llmc_header_t read_header(const ls_view_t *view, llmc_t *header, ls_dtype_t *dtype) {
  if (view->size < LS_CORPUS_HEADER_BYTES) return LLMC_NONE;
  memcpy(header, view->bytes, sizeof *header);
  for (int i = 0; i < LS_COUNT(llmc_kinds); i++) {
    *dtype = llmc_kinds[i].dtype;
    if (header->magic == llmc_kinds[i].magic)
      return header->version == llmc_kinds[i].version ? LLMC_KNOWN : LLMC_OTHER;
  }
  return LLMC_NONE;
}

int ls_corpus_guess(const ls_corpus_file_t *f) {
  llmc_t header;
  ls_dtype_t dtype;
  size_t length = strlen(f->path);
  if (read_header(&f->view, &header, &dtype) != LLMC_NONE)
    return dtype == LS_U16 ? LS_TOKENS_U16 : LS_TOKENS_I32;
  return length > 4 && strcmp(f->path + length - 4, ".bin") == 0 ? LS_TOKENS_U16 : LS_TOKENS_CHARACTERS;
}

/* ---- token files ---- */

/* Whether u16 read in that order are most likely halves of i32: those in odd places, which would be the upper halves, are
 * far smaller than the others. */
static bool are_halves(const uint16_t *token, size_t count) {
  enum { LOOKED_AT = 1 << 20, UPPER_MAX = 255 };
  uint16_t most[2] = {0, 0};
  if (count % 2 != 0) return false;
  for (size_t i = 0; i < count && i < LOOKED_AT && most[1] <= UPPER_MAX; i++)
    if (token[i] > most[i % 2]) most[i % 2] = token[i];
  return most[1] == 0 ? most[0] > 0 : most[1] <= UPPER_MAX && most[0] / (UPPER_MAX + 1) > most[1];
}

ls_status_t ls_corpus_numbers(ls_ctx_t *ctx, ls_dtype_t dtype, bool chosen, ls_corpus_file_t *f) {
  llmc_t header;
  ls_dtype_t found;
  size_t one = ls_dtype_bytes(dtype), skip = 0;
  const llmc_header_t kind = read_header(&f->view, &header, &found);
  if (kind == LLMC_OTHER && !chosen)
    return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                   "%s: it begins like llm.c's header of version %" PRId32
                   ", which lockstep does not know: write the tokens anew. If the file has no header, "
                   "set data.tokens, or --type, to %s",
                   f->path, header.version, found == LS_U16 ? "u16" : "i32");
  if (kind == LLMC_OTHER)
    ls_log(ctx, LS_LOG_WARN,
           "%s: it begins like llm.c's header of version %" PRId32
           ", but is read as %s without a header, as data.tokens or --type says",
           f->path, header.version, one == 2 ? "u16" : "i32");
  if (kind == LLMC_KNOWN) {
    skip = LS_CORPUS_HEADER_BYTES;
    if (found != dtype)
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: its header says that it holds tokens of %zu bytes, not of %zu: "
                     "set data.tokens, or --type, to %s",
                     f->path, ls_dtype_bytes(found), one, found == LS_U16 ? "u16" : "i32");
    if (header.tokens < 0 || (uint64_t)header.tokens * one != f->view.size - skip)
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: its header promises %" PRId32
                     " tokens of %zu bytes, but %zu bytes follow it: the file is "
                     "truncated or damaged",
                     f->path, header.tokens, one, f->view.size - skip);
  }
  if ((f->view.size - skip) % one != 0)
    return ls_fail(ctx, LS_ERR_DATA, "%s: %zu bytes are no whole number of tokens of %zu bytes", f->path,
                   f->view.size - skip, one);
  f->tokens = f->view.bytes + skip;
  f->count = (int64_t)((f->view.size - skip) / one);
  if (chosen || skip > 0 || dtype != LS_U16 || !are_halves(f->tokens, (size_t)f->count)) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_DATA,
      "%s: it has no header that says how wide its tokens are, and looks like tokens of 32 bits, not of "
      "16: set data.tokens, or --type, to i32, or to u16 if it holds u16",
      f->path);
}

/* The first token that is not below `limit`, as i32 values are compared without sign; `count` if there is none. */
#define FIRST_BEYOND(type)                                                                                   \
  for (int64_t begin = 0; begin < f->count; begin += BLOCK) {                                                \
    const type *t = (const type *)f->tokens;                                                                 \
    int64_t end = f->count - begin < BLOCK ? f->count : begin + BLOCK;                                       \
    type most = 0;                                                                                           \
    for (int64_t i = begin; i < end; i++)                                                                    \
      most = t[i] > most ? t[i] : most;                                                                      \
    for (int64_t i = begin; most >= limit && i < end; i++)                                                   \
      if (t[i] >= limit) return i;                                                                           \
  }                                                                                                          \
  return f->count;

static int64_t first_beyond(const ls_corpus_file_t *f, ls_dtype_t dtype, uint32_t limit) {
  enum { BLOCK = 1 << 14 };
  switch (dtype) {
  case LS_U16:
    FIRST_BEYOND(uint16_t)
  case LS_I32:
    FIRST_BEYOND(uint32_t)
  default:
    FIRST_BEYOND(uint8_t)
  }
}

/* The model's part that knows fewest tokens, and their number. */
static const char *narrowest(const ls_data_want_t *want, int64_t *units) {
  bool embedding = want->ids > 0 && want->ids < want->outputs;
  *units = embedding ? want->ids : want->outputs;
  return embedding ? "embedding" : "last layer";
}

/* Files without a header hold u16 by their name alone, which a large vocabulary does not fit. */
static ls_status_t check_width(reader_t *r) {
  const ls_corpus_file_t *f = &r->corpus->file[0];
  llmc_t header;
  ls_dtype_t dtype;
  int64_t limit;
  const char *part = narrowest(r->want, &limit);
  if (limit <= UINT16_MAX + 1 || read_header(&f->view, &header, &dtype) != LLMC_NONE) return LS_OK;
  return ls_fail(r->ctx, LS_ERR_DATA,
                 "%s: it has no header that says how wide its tokens are, and the model's %s has %" PRId64
                 " units, more than 16 bits count: set data.tokens to i32, or to u16 if the file holds u16",
                 f->path, part, limit);
}

static ls_status_t check_numbers(reader_t *r, const ls_corpus_file_t *f) {
  ls_dtype_t dtype = r->corpus->dtype;
  size_t one = ls_dtype_bytes(dtype);
  int64_t limit;
  const char *part = narrowest(r->want, &limit);
  int64_t at = first_beyond(f, dtype, (uint32_t)limit);
  if (at == f->count) return LS_OK;
  const char *place = (const char *)f->tokens + (size_t)at * one;
  const int32_t token = dtype == LS_U16   ? ((const uint16_t *)f->tokens)[at]
                        : dtype == LS_I32 ? ((const int32_t *)f->tokens)[at]
                                          : ((const uint8_t *)f->tokens)[at];
  return ls_fail(r->ctx, LS_ERR_DATA,
                 "%s: token %" PRId64 " (from 0; byte offset %zu) is %" PRId32
                 ", but the model's %s has %" PRId64 " unit%s: tokens are 0 to %" PRId64,
                 f->path, at, (size_t)(place - f->view.bytes), token, part, limit, LS_PLURAL(limit),
                 limit - 1);
}

/* ---- text ---- */

static ls_status_t check_vocabulary(reader_t *r) {
  int64_t count = r->dataset->vocabulary.count, units;
  const char *part = narrowest(r->want, &units);
  if (count > CHARACTERS_MAX)
    return ls_fail(r->ctx, LS_ERR_DATA,
                   "%s: %" PRId64 " different characters; at most %d are supported: use "
                   "data.tokens: bytes",
                   r->dataset->source, count, CHARACTERS_MAX);
  if (count <= units) return LS_OK;
  return ls_fail(r->ctx, LS_ERR_DATA,
                 "%s: %" PRId64 " different characters, but the model's %s has %" PRId64
                 " unit%s: %s %" PRId64,
                 r->dataset->source, count, part, units, LS_PLURAL(units),
                 r->want->preset ? "set model.vocabulary to" : "give its embedding and last layer", count);
}

/* counted: the f->count of an earlier visit; 0: there was none. Another program may write to the file between the
 * two. */
static ls_status_t visit(reader_t *r, ls_corpus_file_t *f, int64_t counted,
                         void (*put)(void *file, int32_t number)) {
  const ls_characters_t of = {.ctx = r->ctx,
                              .file = f->path,
                              .number = r->number,
                              .owner = r->vocabulary,
                              .count = r->dataset->vocabulary.count,
                              .counted = counted};
  f->count = 0;
  return ls_characters_visit(&of, f->view.bytes, f->view.size, put, f);
}

static void count_one(void *file, int32_t number) {
  (void)number;
  ((ls_corpus_file_t *)file)->count++;
}

static void put_u8(void *file, int32_t number) {
  ls_corpus_file_t *f = file;
  ((uint8_t *)f->own)[f->count++] = (uint8_t)number;
}

static void put_u16(void *file, int32_t number) {
  ls_corpus_file_t *f = file;
  ((uint16_t *)f->own)[f->count++] = (uint16_t)number;
}

/* Text of ASCII characters stays in its file; a table maps bytes to numbers. */
static ls_status_t keep_ascii(reader_t *r) {
  uint8_t *code = ls_arena_alloc(&r->dataset->arena, 256);
  if (!code) return LS_ERR_MEMORY;
  for (int i = 0; i < ASCII; i++)
    code[i] = (uint8_t)(r->number[i] > 0 ? r->number[i] - 1 : 0);
  r->corpus->code = code;
  ls_status_t status = LS_OK;
  for (int i = 0; i < r->corpus->files && status == LS_OK; i++) {
    ls_corpus_file_t *f = &r->corpus->file[i];
    status = visit(r, f, 0, NULL);
    f->tokens = f->view.bytes;
    f->count = (int64_t)f->view.size;
  }
  return status;
}

static ls_status_t encode(reader_t *r, ls_corpus_file_t *f) {
  ls_status_t status = visit(r, f, 0, count_one);
  if (status != LS_OK) return status;
  f->own = ls_alloc_array(r->ctx, (size_t)f->count + 1, ls_dtype_bytes(r->corpus->dtype));
  if (!f->own) return LS_ERR_MEMORY;
  status = visit(r, f, f->count, r->corpus->dtype == LS_U8 ? put_u8 : put_u16);
  if (status != LS_OK || ls_watch_failed(f->view.mapped)) return status; /* ls_dataset_open asks the view */
  f->tokens = f->own;
  int64_t bytes = (int64_t)f->view.size;
  if (!f->view.mapped && bytes > r->dataset->reading_bytes) r->dataset->reading_bytes = bytes;
  ls_view_close(&f->view);
  return status;
}

static ls_status_t number_characters(reader_t *r, const ls_strings_t *given) {
  ls_corpus_t *s = r->corpus;
  ls_arena_t *arena = &r->dataset->arena;
  ls_strings_t *v = &r->dataset->vocabulary;
  ls_status_t status = LS_OK;
  r->vocabulary = given->count > 0 ? "the checkpoint" : r->dataset->source;
  if (given->count > 0)
    status = ls_characters_take(arena, r->vocabulary, given, LS_ERR_CORRUPT, r->number, v);
  for (int i = 0; given->count == 0 && i < s->train_files && status == LS_OK; i++)
    status =
        ls_characters_mark(r->ctx, s->file[i].path, s->file[i].view.bytes, s->file[i].view.size, r->number);
  if (status == LS_OK && given->count == 0) status = ls_characters_number(arena, r->number, v);
  if (status == LS_OK) status = check_vocabulary(r);
  if (status != LS_OK) return status;
  s->dtype = v->count <= 256 ? LS_U8 : LS_U16;
  bool ascii = true;
  for (int i = 0; i < v->count; i++)
    ascii &= (unsigned char)v->v[i][0] < ASCII;
  if (ascii) return keep_ascii(r);
  for (int i = 0; i < s->files && status == LS_OK; i++)
    status = encode(r, &s->file[i]);
  return status;
}

/* ---- files ---- */

static ls_status_t find_files(ls_ctx_t *ctx, const ls_data_config_t *config, ls_dataset_t *d,
                              ls_corpus_t *s) {
  ls_strings_t train, held = {0};
  ls_status_t status = ls_files_find(&d->arena, config->path, true, &train);
  if (status == LS_OK && config->validation_path)
    status = ls_files_find(&d->arena, config->validation_path, true, &held);
  if (status != LS_OK) return status;
  s->file = ls_arena_array(&d->arena, (size_t)train.count + (size_t)held.count, sizeof *s->file);
  if (!s->file) return LS_ERR_MEMORY;
  s->train_files = train.count;
  int count = train.count + held.count;
  for (; s->files < count && status == LS_OK; s->files++) {
    ls_corpus_file_t *f = &s->file[s->files];
    f->path = s->files < train.count ? train.v[s->files] : held.v[s->files - train.count];
    status = ls_view_open(ctx, f->path, true, &f->view);
  }
  return status;
}

static ls_status_t take_files(reader_t *r, const ls_data_config_t *config) {
  static const ls_dtype_t dtypes[] = {
      [LS_TOKENS_BYTES] = LS_U8, [LS_TOKENS_U16] = LS_U16, [LS_TOKENS_I32] = LS_I32};
  ls_corpus_t *s = r->corpus;
  r->tokens = config->tokens != LS_TOKENS_AUTO ? config->tokens : ls_corpus_guess(&s->file[0]);
  if (r->tokens == LS_TOKENS_CHARACTERS) {
    r->number = ls_alloc_array(r->ctx, LS_CODE_POINTS, sizeof *r->number);
    ls_status_t status = r->number ? number_characters(r, &config->vocabulary) : LS_ERR_MEMORY;
    ls_free(r->number);
    return status;
  }
  s->dtype = dtypes[r->tokens];
  ls_status_t status = config->tokens == LS_TOKENS_AUTO ? check_width(r) : LS_OK;
  for (int i = 0; i < s->files && status == LS_OK; i++) {
    ls_corpus_file_t *f = &s->file[i];
    f->tokens = f->view.bytes;
    f->count = (int64_t)f->view.size;
    if (s->dtype != LS_U8) status = ls_corpus_numbers(r->ctx, s->dtype, config->tokens != LS_TOKENS_AUTO, f);
    if (status == LS_OK) status = check_numbers(r, f);
  }
  return status;
}

ls_status_t ls_corpus_read(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                           ls_dataset_t *d) {
  ls_corpus_t *s = d->corpus = ls_arena_alloc(&d->arena, sizeof *s);
  if (!s) return LS_ERR_MEMORY;
  reader_t r = {.ctx = ctx, .want = want, .dataset = d, .corpus = s};
  ls_status_t status = find_files(ctx, config, d, s);
  if (status == LS_OK) status = take_files(&r, config);
  for (int i = 1; i < s->files; i++)
    s->file[i].first = s->file[i - 1].first + s->file[i - 1].count;
  return status;
}

int64_t ls_corpus_bytes(const ls_corpus_t *s) {
  int64_t bytes = 0;
  for (int i = 0; i < s->files; i++) {
    const ls_corpus_file_t *f = &s->file[i];
    bytes += f->own           ? f->count * (int64_t)ls_dtype_bytes(s->dtype)
             : f->view.mapped ? 0
                              : (int64_t)f->view.size;
  }
  return bytes;
}

void ls_corpus_close(ls_corpus_t *s) {
  for (int i = 0; s && i < s->files; i++) {
    ls_view_close(&s->file[i].view);
    ls_free(s->file[i].own);
  }
}
