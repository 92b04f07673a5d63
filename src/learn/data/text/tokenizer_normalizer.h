/* The `normalizer` of a tokenizer.json, which changes text before it is cut. Each step replaces the matches of a
 * pattern, or takes one of Unicode's forms. */
#ifndef LS_DATA_TOKENIZER_NORMALIZER_H
#define LS_DATA_TOKENIZER_NORMALIZER_H

#include "data/text/pattern.h"
#include "data/text/unicode.h"

#include <jansson.h>

enum { LS_NORMALIZER_STEPS_MAX = 16 };

typedef struct {
  const char *type;      /* of tokenizer.json, for messages */
  unsigned char first;   /* of UTF-8, only characters that begin with at least this byte may change */
  ls_pattern_t *pattern; /* NULL: `form` */
  char *owned;           /* of `to` */
  const char *to;        /* what a match becomes */
  bool around;           /* it stays, between two of `to` */
  ls_unicode_t form;
} ls_normalizer_step_t;

typedef struct {
  ls_ctx_t *ctx;
  const char *owner; /* the file, for messages; borrowed */
  int count;
  ls_normalizer_step_t step[LS_NORMALIZER_STEPS_MAX];
} ls_normalizer_t;

/* Adds the steps of a member of tokenizer.json. *known: false, if there are none of this type. LS_ERR_UNSUPPORTED,
 * LS_ERR_DATA, LS_ERR_MEMORY. */
ls_status_t ls_normalizer_add(ls_normalizer_t *normalizer, const json_t *one, bool *known);
/* Matches of `pattern` become `to`. */
ls_status_t ls_normalizer_replace(ls_normalizer_t *normalizer, const char *pattern, const char *to);
void ls_normalizer_release(ls_normalizer_t *normalizer);

/* *made (ls_free): *count bytes and a zero; NULL: the piece as it is. LS_ERR_MEMORY; LS_ERR_DATA: a pattern gave up, or replacements make the
 * text more than 64 times as long and 64 KiB;
 * LS_ERR_UNSUPPORTED: a build without utf8proc, and a character that a form could change. */
ls_status_t ls_normalizer_run(const ls_normalizer_t *normalizer, const ls_piece_t *piece, char **made,
                              size_t *count);

#endif
