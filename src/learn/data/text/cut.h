/* How a tokenizer.json cuts a text into words: its normalizer, its pre_tokenizer, and what its decoder takes back. Three
 * forms are done. In words of bytes (pre_tokenizer ByteLevel: GPT, Llama 3, Qwen) patterns cut the text. In words of characters
 * (SentencePiece: Llama 2, Mistral, Gemma) blanks are written U+2581; lockstep writes them as blanks on both sides. Words that
 * WordPiece takes apart (BERT) are cut by patterns too, and the blanks between them are left out. */
#ifndef LS_DATA_CUT_H
#define LS_DATA_CUT_H

#include "data/text/tokenizer_normalizer.h"

#define LS_CUT_BLANK "\u2581" /* a blank, in vocabularies of characters */
/* Members of a class: Rust's \w. */
#define LS_CUT_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200C\\u200D"
enum { LS_CUT_STAGES_MAX = 8, LS_CUT_BYTES = 256 };

typedef enum {
  LS_PREFIX_NONE,
  LS_PREFIX_UNLESS, /* a blank goes in front of each piece of text between added tokens that does not begin with one */
  LS_PREFIX_FIRST, /* of the text, if it does not begin with a blank */
  LS_PREFIX_EACH   /* of each piece, also of one that begins with a blank (the normalizer Prepend) */
} ls_prefix_t;

/* A pattern that cuts: what is done with its matches and with what is between them. */
typedef struct {
  ls_pattern_t *pattern;
  unsigned joins; /* bit 2 * before + now: this part is one with the part before; a part is 1 (match) or 0 */
  bool drops;     /* matches belong to no word */
  bool inverts;   /* what is between matches is the match */
} ls_cut_stage_t;

typedef struct {
  ls_ctx_t *ctx;
  const char *owner; /* the file, for messages; borrowed */
  bool characters;   /* words are of characters, not of bytes */
  bool splits;       /* characters: every blank begins a word */
  bool strips;       /* decoding leaves out a text's first blank */
  bool pieces;       /* words are for WordPiece. The vocabulary's owner sets it before reading */
  bool replaces;     /* the normalizer writes blanks as U+2581 */
  ls_normalizer_t normalizer;
  ls_prefix_t prefix;
  bool spans
      [LS_CUT_BYTES]; /* characters: a token may go on over a blank after this byte. The vocabulary's owner sets it */
  size_t
      uncut; /* characters without splits: a piece of so many bytes may be one token. The vocabulary's owner sets it */
  int stages;
  ls_cut_stage_t stage[LS_CUT_STAGES_MAX];
  char *room; /* a piece with its prefix, or a word with its blanks */
  size_t room_bytes;
} ls_cut_t;

/* Reads everything but the model, and for pieces the decoder. `cut` is zeroed but for ctx, owner and pieces.
 * LS_ERR_UNSUPPORTED: what would give other tokens, by its name; LS_ERR_DATA, LS_ERR_MEMORY. ls_cut_release in any case. */
ls_status_t ls_cut_read(ls_cut_t *cut, const json_t *root);
void ls_cut_release(ls_cut_t *cut);

/* Whether pieces may be no UTF-8: there is no normalizer, and every pattern takes them. Words may then be none either. */
bool ls_cut_takes_any(const ls_cut_t *cut);

/* Runs the normalizer on a piece, Prepend included. *made (ls_free): *count bytes and a zero; NULL: the piece as it
 * is. Errors: see ls_normalizer_run. */
ls_status_t ls_cut_normalize(const ls_cut_t *cut, const ls_piece_t *piece, char **made, size_t *count);

/* Visits the words of a piece of UTF-8, in order, until one fails. LS_ERR_DATA: a pattern gave up; LS_ERR_MEMORY. */
typedef ls_status_t ls_word_fn(void *user, const ls_piece_t *word);
ls_status_t ls_cut_words(ls_cut_t *cut, const ls_piece_t *piece, ls_word_fn *word, void *user);

/* Bytes of the blank at `text`, of which `left` are there: a space or U+2581; 0: there is none. Pure. */
size_t ls_cut_blank(const char *text, size_t left);

#endif
