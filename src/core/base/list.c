/* Reads lists of words or whole numbers. */
#include "base/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const long long number_max = 1000000000;

ls_status_t ls_list_read(ls_ctx_t *ctx, const char *name, const char *text, bool numbers, ls_list_t *list) {
  *list = (ls_list_t){.count = 0};
  for (const char *at = text;; at++) {
    size_t len = strcspn(at, ",");
    if (list->count == LS_LIST_MAX)
      return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: more than %d entries", name, LS_LIST_MAX);
    if (len == 0 || len >= LS_LIST_WORD_BYTES)
      return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: an entry of \"%s\" is %s", name, text,
                     len ? "too long" : "empty");
    char *word = list->word[list->count], *end;
    memcpy(word, at, len);
    word[len] = '\0';
    errno = 0;
    int64_t number = list->number[list->count] = strtoll(word, &end, 10);
    if (numbers && (errno || *end || *word < '0' || *word > '9' || number < 1 || number > number_max))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "%s takes whole numbers from 1 on, not \"%s\"", name, word);
    for (int i = 0; i < list->count; i++)
      if (numbers ? list->number[i] == number : !strcmp(list->word[i], word))
        return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: \"%s\" is there twice", name, word);
    list->count++;
    at += len;
    if (!*at) return LS_OK;
  }
}
