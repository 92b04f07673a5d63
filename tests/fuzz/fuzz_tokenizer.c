/* Fuzz target of vocabularies: any bytes give a tokenizer or one refusal; a tokenizer's tokens give the
 * text back, where it says so. */
#include "data/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct {
  const ls_tokenizer_t *tokenizer;
  const char *left; /* (bytes) of the text */
  size_t bytes;
} back_t;

static void put(void *user, int32_t token) {
  back_t *b = user;
  size_t size;
  const char *text = ls_tokenizer_text(b->tokenizer, token, false, &size);
  if (!text || !ls_tokenizer_text(b->tokenizer, token, true, &size)) abort();
  text = ls_tokenizer_text(b->tokenizer, token, false, &size);
  if (!ls_tokenizer_keeps(b->tokenizer)) return;
  if (size > b->bytes || memcmp(b->left, text, size) != 0) abort();
  b->left += size;
  b->bytes -= size;
}

static void encode(ls_tokenizer_t *t, const char *text, size_t size) {
  back_t back = {t, text, size};
  ls_status_t status = ls_tokenizer_encode(t, "text", text, size, put, &back);
  if (status == LS_OK && ls_tokenizer_keeps(t) && back.bytes > 0) abort();
  if (status != LS_OK && status != LS_ERR_DATA && status != LS_ERR_MISMATCH && status != LS_ERR_UNSUPPORTED)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char text[] = "Hello, world! I'm  caf\xc3\xa9 123 \xe2\x80\x94 ab\n\nc<|endoftext|>aab [MASK] "
                             "\xe4\xba\xac E\xcc\x81 \xc4\xb0\xe2\x80\x8b\xef\xac\x81 unaffable";
  static const char zeros[] = "a\0b \0\0 c\0", wrong[] = "a\0b\xff <|endoftext|>\xe2\x80";
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_tokenizer_t *t = NULL;
  if (!ctx) return 0;
  ls_status_t status = ls_tokenizer_parse(ctx, "fuzz", (const char *)bytes, size, &t);
  if (status != LS_OK &&
      ((status != LS_ERR_DATA && status != LS_ERR_UNSUPPORTED) || ls_ctx_error_count(ctx) != 1))
    abort();
  if (status == LS_OK) {
    encode(t, text, sizeof text - 1);
    encode(t, zeros, sizeof zeros - 1);
    encode(t, zeros + 1, 1); /* a word of nothing else */
    encode(t, wrong, sizeof wrong - 1);
  }
  ls_tokenizer_close(t);
  ls_ctx_destroy(ctx);
  return 0;
}
