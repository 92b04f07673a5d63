/* Lists in one word: "1,2,4". */
#ifndef LS_BASE_LIST_H
#define LS_BASE_LIST_H

#include "base/ctx.h"

enum { LS_LIST_MAX = 16, LS_LIST_WORD_BYTES = 24 };
typedef struct {
  char word[LS_LIST_MAX][LS_LIST_WORD_BYTES];
  int64_t number[LS_LIST_MAX];
  int count;
} ls_list_t;

/* Reads "a,b,c", whole numbers from 1 on when `numbers`. Reports LS_ERR_ARGUMENT with the flag `name`; an entry that is there
 * twice is an error. */
ls_status_t ls_list_read(ls_ctx_t *ctx, const char *name, const char *text, bool numbers, ls_list_t *list);

#endif
