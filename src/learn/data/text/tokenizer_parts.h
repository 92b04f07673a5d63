/* Parts of a tokenizer, for tokenizer.c, tokenizer_model.c and tokenizer_pieces.c alone. */
#ifndef LS_DATA_TOKENIZER_PARTS_H
#define LS_DATA_TOKENIZER_PARTS_H

#include "data/text/bpe.h"
#include "data/text/wordpiece.h"

typedef struct {
  const char *text;
  size_t bytes;
} ls_token_t;

/* A token that stands for itself wherever it occurs, such as <|endoftext|>. */
typedef struct {
  const char *text;
  size_t bytes;
  int32_t token;
  bool word;        /* it counts only without a character of a word next to it */
  bool left, right; /* it takes the white space before it, and after it */
} ls_added_t;

typedef struct {
  ls_added_t *v; /* (count), sorted by text */
  int count;
  bool begins[256]; /* a byte with which one of them begins */
} ls_added_list_t;

/* Checks the neighbours of an added token. */
enum { LS_BESIDE_WORD, LS_BESIDE_SPACE, LS_BESIDE_KINDS };

/* Added tokens are looked for in the text as it is, then in what the normalizer made of the rest. */
enum { LS_ADDED_RAW, LS_ADDED_NORMALIZED, LS_ADDED_LISTS };

struct ls_tokenizer {
  ls_ctx_t *ctx;
  ls_arena_t arena;
  const char *owner;
  ls_token_t *token; /* (size) */
  ls_token_t *first; /* (size) WordPiece: the same where the token begins a text; else NULL */
  int64_t size;
  ls_strings_t list;
  uint32_t *number; /* characters: characters.h */
  bool words; /* of tokenizer.json: text is cut into words; cut.pieces says which of two models takes them */
  bool fallback; /* tokens <0x00> .. <0xFF> are bytes */
  ls_cut_t cut;
  ls_bpe_t bpe;
  ls_wordpiece_t pieces;
  ls_added_list_t added[LS_ADDED_LISTS];
  ls_pattern_t *beside[LS_BESIDE_KINDS]; /* a character of each kind; NULL: no added token asks */
};

/* Room for the tokens 0 .. size - 1. LS_ERR_MEMORY. */
ls_status_t ls_tokenizer_reserve(ls_tokenizer_t *tokenizer, int64_t size);
/* The text of a token, borrowed. LS_ERR_DATA: another one has its number. */
ls_status_t ls_tokenizer_put(ls_tokenizer_t *tokenizer, const char *text, size_t bytes, int32_t number);
/* WordPiece: the options and the vocabulary, of which the numbers have been checked. LS_ERR_DATA, LS_ERR_MEMORY. */
ls_status_t ls_tokenizer_pieces_take(ls_tokenizer_t *tokenizer, const json_t *model, json_t *vocab);
/* WordPiece: the texts that all tokens give back, added ones too. LS_ERR_UNSUPPORTED, LS_ERR_DATA, LS_ERR_MEMORY. */
ls_status_t ls_tokenizer_pieces_texts(ls_tokenizer_t *tokenizer, const json_t *decoder);
/* Reads a tokenizer.json's object. LS_ERR_UNSUPPORTED, LS_ERR_DATA, LS_ERR_MEMORY. */
ls_status_t ls_tokenizer_model(ls_tokenizer_t *tokenizer, const json_t *root);

#endif
