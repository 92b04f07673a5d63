/* WordPiece: the tokens of a word are the longest that fit, from its beginning on; those that go on with a word are marked
 * with a prefix. A word that is not all tokens, or too long, is one unknown token. Sources: Schuster, Nakajima, "Japanese and
 * Korean voice search" (2012); Devlin et al., "BERT" (2018), and its tokenization.py. */
#ifndef LS_DATA_WORDPIECE_H
#define LS_DATA_WORDPIECE_H

#include "data/text/piece.h"
#include "data/text/tokenizer.h"

typedef struct {
  uint64_t step; /* node << 8 | byte, and 1 more; 0: free */
  uint32_t node; /* where it leads */
  int32_t token; /* of the text up to there; -1: none */
} ls_wordpiece_step_t;

/* Two tries in one hash table of their steps: of a word's beginning, and of what goes on with it. */
typedef struct {
  ls_ctx_t *ctx;
  const char *prefix; /* of tokens that go on with a word; borrowed */
  int64_t longest;    /* characters of a word */
  int32_t unknown;
  ls_wordpiece_step_t *step; /* (room) at most half full; room is a power of two */
  size_t room, count;
  int32_t *token; /* (token_room) of the word at hand */
  size_t token_room;
} ls_wordpiece_t;

/* A token of the vocabulary. LS_ERR_MEMORY. */
ls_status_t ls_wordpiece_name(ls_wordpiece_t *pieces, const char *text, int32_t token);
void ls_wordpiece_release(ls_wordpiece_t *pieces);

/* Visits the tokens of a word of UTF-8. LS_ERR_MEMORY. */
ls_status_t ls_wordpiece_encode(ls_wordpiece_t *pieces, const ls_piece_t *word, ls_token_fn *put, void *user);

#endif
