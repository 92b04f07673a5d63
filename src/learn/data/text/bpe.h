/* Byte-pair encoding of a word: its first symbols are bytes or characters, and pairs are merged, that of lowest rank
 * first. Sources: Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units" (2016); Radford et
 * al., "Language models are unsupervised multitask learners" (2019), and its encoder.py. */
#ifndef LS_DATA_BPE_H
#define LS_DATA_BPE_H

#include "data/text/cut.h"
#include "data/text/tokenizer.h"

typedef struct {
  uint64_t pair; /* left << 32 | right, and 1 more; 0: free */
  uint32_t rank;
  int32_t made;
} ls_bpe_merge_t;

typedef struct {
  int32_t token;
  int32_t before, after; /* neighbours, -1: none; after the merge that took it away, token is -1 */
} ls_bpe_symbol_t;

typedef struct {
  uint32_t rank;
  int32_t at, made;
} ls_bpe_candidate_t;

typedef struct {
  const char *text; /* (bytes) NULL: free */
  size_t bytes;
  int32_t token;
} ls_bpe_name_t;

typedef struct {
  ls_ctx_t *ctx;
  bool characters;              /* the first symbols are characters, else bytes */
  bool whole;                   /* a word that is a token is not cut (ignore_merges) */
  bool fuses;                   /* consecutive characters without a token are one unknown token */
  int32_t unknown;              /* -1: a character without a token is an error */
  int32_t fallback[256];        /* the token of a byte of a character without a token; -1: none */
  int32_t of_byte[256];         /* the token that is this byte, or this character of one byte; -1: none */
  ls_bpe_name_t *name;          /* (name_room) a hash table of tokens by their text, at most half full */
  ls_bpe_merge_t *merge;        /* (merge_room) a hash table of pairs, at most half full */
  size_t name_room, merge_room; /* powers of two */
  ls_bpe_symbol_t *symbol;
  ls_bpe_candidate_t *heap; /* (3 room) */
  size_t room, heaped;      /* symbols that a word may have; candidates */
} ls_bpe_t;

/* Room for so many tokens and merges. LS_ERR_MEMORY. */
ls_status_t ls_bpe_reserve(ls_bpe_t *bpe, size_t tokens, size_t merges);
/* A token of the vocabulary; its text is borrowed. Of two with one text the first counts. */
void ls_bpe_name(ls_bpe_t *bpe, const char *text, size_t bytes, int32_t token);
/* false: the pair has a merge already. */
bool ls_bpe_add(ls_bpe_t *bpe, int32_t left, int32_t right, uint32_t rank, int32_t made);
void ls_bpe_release(ls_bpe_t *bpe);

/* Visits the tokens of a word, which is UTF-8 where symbols are characters, and may have zero bytes. A word of no bytes has no
 * tokens. LS_ERR_DATA: a byte or character has no token; not UTF-8. */
ls_status_t ls_bpe_encode(ls_bpe_t *bpe, const ls_piece_t *word, ls_token_fn *put, void *user);

#endif
