/* A piece of text on its way to tokens, and the bytes that a normalizer makes of one. */
#ifndef LS_DATA_PIECE_H
#define LS_DATA_PIECE_H

#include "base/base.h"

/* A message's place is counted in `text`, the whole of it as the file has it; what a normalizer put in or took away shifts it
 * by that much. */
typedef struct {
  const char *bytes; /* (count) */
  size_t count;
  const char *file, *text;
  size_t at, size; /* the piece begins at text[at], of text[0 .. size) */
  bool part;     /* a word that is longer for the library, which therefore does not look for it as a token */
  bool prefixed; /* its blank in front is there already, or belongs to a piece before it */
} ls_piece_t;

/* The byte of `text` that a message about bytes[at] names. Pure. */
static inline size_t ls_piece_place(const ls_piece_t *piece, size_t at) {
  return piece->at + at < piece->size ? piece->at + at : piece->at;
}

/* Bytes that grow. Zeroed except for ctx; the owner frees `bytes` (ls_free). */
typedef struct {
  ls_ctx_t *ctx;
  char *bytes; /* (count), and a zero after them */
  size_t count, room;
} ls_bytes_t;

/* Appends. false: out of memory, reported. */
bool ls_bytes_put(ls_bytes_t *to, const char *bytes, size_t count);

#endif
