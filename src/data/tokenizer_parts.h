/* What a tokenizer is made of; for tokenizer.c and tokenizer_model.c alone. */
#ifndef LS_DATA_TOKENIZER_PARTS_H
#define LS_DATA_TOKENIZER_PARTS_H

#include "data/bpe.h"

typedef struct {
  const char *text;
  size_t bytes;
} ls_token_t;

/* A token that stands for itself wherever it occurs, such as <|endoftext|>. */
typedef struct {
  const char *text;
  size_t bytes;
  int32_t token;
  bool word;        /* it counts only where no character of a word stands beside it */
  bool left, right; /* it takes the white space in front of it, and behind it */
} ls_added_t;

typedef struct {
  ls_added_t *v; /* (count), sorted by text */
  int count;
  bool begins[256]; /* a byte with which one of them begins */
} ls_added_list_t;

/* What stands beside an added token. */
enum { LS_BESIDE_WORD, LS_BESIDE_SPACE, LS_BESIDE_KINDS };

/* Added tokens are looked for in the text as it is, then in what the normalizer made of the rest. */
enum { LS_ADDED_RAW, LS_ADDED_NORMALIZED, LS_ADDED_LISTS };

struct ls_tokenizer {
  ls_ctx_t *ctx;
  ls_arena_t arena;
  const char *owner;
  ls_token_t *token; /* (size) */
  int64_t size;
  ls_strings_t list;
  uint32_t *number; /* characters: characters.h */
  bool merges;      /* BPE: */
  bool fallback;    /* tokens <0x00> .. <0xFF> are bytes */
  ls_cut_t cut;
  ls_bpe_t bpe;
  ls_added_list_t added[LS_ADDED_LISTS];
  ls_pattern_t *beside[LS_BESIDE_KINDS]; /* a character of each kind; NULL: no added token asks */
};

/* Room for the tokens 0 .. size - 1. LS_ERR_MEMORY. */
ls_status_t ls_tokenizer_reserve(ls_tokenizer_t *tokenizer, int64_t size);
/* Reads a tokenizer.json's object. LS_ERR_UNSUPPORTED, LS_ERR_DATA, LS_ERR_MEMORY. */
ls_status_t ls_tokenizer_model(ls_tokenizer_t *tokenizer, const json_t *root);

#endif
