/* Byte-pair encoding as GPT-2 does it: text is cut into words, whose bytes are merged, the pair of lowest rank first.
 * Sources: Sennrich, Haddow, Birch, "Neural machine translation of rare words with subword units" (2016); Radford et al.,
 * "Language models are unsupervised multitask learners" (2019), and its encoder.py. */
#ifndef LS_DATA_BPE_H
#define LS_DATA_BPE_H

#include "data/tokenizer.h"

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
  ls_ctx_t *ctx;
  int32_t of_byte[256];  /* token; -1: none */
  ls_bpe_merge_t *merge; /* (merge_room) a hash table, at most half full */
  size_t merge_room;     /* a power of two */
  ls_bpe_symbol_t *symbol;
  ls_bpe_candidate_t *heap; /* (3 room) */
  size_t room, heaped;      /* symbols that a word may have; candidates */
} ls_bpe_t;

/* Room for so many merges. LS_ERR_MEMORY. */
ls_status_t ls_bpe_reserve(ls_bpe_t *bpe, size_t merges);
/* false: the pair has a merge already. */
bool ls_bpe_add(ls_bpe_t *bpe, int32_t left, int32_t right, uint32_t rank, int32_t made);
void ls_bpe_release(ls_bpe_t *bpe);

/* Tokens of text[at .. end), of which [.. size) is there for messages. */
ls_status_t ls_bpe_encode(ls_bpe_t *bpe, const char *file, const char *text, size_t at, size_t end,
                          ls_token_fn *put, void *user);

#endif
