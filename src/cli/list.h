/* Lists on the command line: "1,2,4". */
#ifndef LS_CLI_LIST_H
#define LS_CLI_LIST_H

#include "base/ctx.h"

enum { CLI_LIST_MAX = 16, CLI_WORD_BYTES = 24 };
typedef struct {
  char word[CLI_LIST_MAX][CLI_WORD_BYTES];
  int64_t number[CLI_LIST_MAX];
  int count;
} cli_list_t;

/* "a,b,c", for the flag `name`; whole numbers from 1 on when `numbers`. Reports LS_ERR_ARGUMENT; repeated
 * entries are refused: they would be compared with themselves. */
ls_status_t cli_list_read(ls_ctx_t *ctx, const char *name, const char *text, bool numbers, cli_list_t *list);

#endif
