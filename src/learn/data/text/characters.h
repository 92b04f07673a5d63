/* Characters of UTF-8 text that need not end with a NUL, and vocabularies of them. */
#ifndef LS_DATA_CHARACTERS_H
#define LS_DATA_CHARACTERS_H

#include "base/base.h"

enum { LS_CODE_POINTS = 0x110000, LS_UTF8_BYTES_MAX = 4 };

/* The character at `text`, of which `left` >= 1 bytes are there. Returns its bytes; 0: malformed. Pure. */
size_t ls_character(const char *text, size_t left, int32_t *code);

/* Writes a character as UTF-8 and a zero after it. Returns its bytes. */
size_t ls_character_write(int32_t code, char text[LS_UTF8_BYTES_MAX + 1]);

/* Reports "FILE:LINE:COLUMN: what" for byte `at` of a text; columns count bytes from 1. Returns `status`. */
ls_status_t ls_place_fail(ls_ctx_t *ctx, const char *file, const char *text, size_t at, ls_status_t status,
                          const char *what);
/* The same for text that is not UTF-8. */
ls_status_t ls_place_fail_utf8(ls_ctx_t *ctx, const char *file, const char *text, size_t at);

/* number (LS_CODE_POINTS): a character's number and 1 more; 0: it is not in the vocabulary. */
/* Marks every character of a text with 1. LS_ERR_DATA: malformed, or a zero byte. */
ls_status_t ls_characters_mark(ls_ctx_t *ctx, const char *file, const char *text, size_t size,
                               uint32_t *number);
/* Numbers the marked characters in the order of their code points; the list, in `arena`, has them as texts. */
ls_status_t ls_characters_number(ls_arena_t *arena, uint32_t *number, ls_strings_t *list);
/* Numbers the characters of a list, which is copied into `arena`. `owner`: whose it is, for messages. `damaged`: what it
 * returns if an item is no character, or comes twice. */
ls_status_t ls_characters_take(ls_arena_t *arena, const char *owner, const ls_strings_t *given,
                               ls_status_t damaged, uint32_t *number, ls_strings_t *list);

/* Visits the numbers of a text's characters. `put` may be NULL. LS_ERR_DATA as above, LS_ERR_MISMATCH: a character
 * that is none of `owner`'s, which has `count`. LS_ERR_IO: the file changed since `counted` characters were
 * counted; `put` has been called at most `counted` times. */
typedef struct {
  ls_ctx_t *ctx;
  const char *file;
  const uint32_t *number;
  const char *owner;
  int count;
  int64_t counted; /* by an earlier visit of the same text; 0: by none */
} ls_characters_t;
ls_status_t ls_characters_visit(const ls_characters_t *of, const char *text, size_t size,
                                void (*put)(void *user, int32_t number), void *user);

#endif
