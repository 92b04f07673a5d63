/* Stands for nfc.c in a build without utf8proc. */
#include "data/characters.h"
#include "data/nfc.h"

ls_status_t ls_nfc(ls_ctx_t *ctx, const ls_piece_t *p, char **composed, size_t *count) {
  (void)count;
  *composed = NULL;
  for (size_t i = 0; i < p->count; i++)
    if ((unsigned char)p->bytes[i] >= LS_NFC_FIRST)
      return ls_place_fail(ctx, p->file, p->text, p->at + i, LS_ERR_UNSUPPORTED,
                           "the vocabulary's normalizer, NFC, could change this character, and this build "
                           "cannot tell: utf8proc (libutf8proc-dev) was not there");
  return LS_OK;
}
