/* Lists of rank counts, as people write them: "1,2,4..1024". */
#include "plan/simulate.h"

#include <errno.h>
#include <stdlib.h>

enum { RANKS_MAX = 65536 };

static const char *const form = "a list such as 1,2,4..1024 (ascending; A..B doubles from A and ends with B)";

/* One number, and where it ended. 0 = none. */
static int64_t number(const char **text) {
  char *end;
  if (**text < '0' || **text > '9') return 0;
  errno = 0;
  long long value = strtoll(*text, &end, 10);
  if (errno || value < 1 || value > RANKS_MAX) return 0;
  *text = end;
  return value;
}

/* False when the list is full or not ascending. */
static bool append(ls_ints_t *list, int64_t value) {
  if (list->count == LS_OPT_LIST_MAX || (list->count > 0 && value <= list->v[list->count - 1])) return false;
  list->v[list->count++] = value;
  return true;
}

static bool parse(const char *text, ls_ints_t *list) {
  for (;;) {
    int64_t first = number(&text), last = first;
    if (first == 0) return false;
    if (text[0] == '.' && text[1] == '.') {
      text += 2;
      last = number(&text);
      if (last <= first) return false;
    }
    for (int64_t n = first; n < last; n *= 2)
      if (!append(list, n)) return false;
    if (!append(list, last)) return false;
    if (*text == '\0') return true;
    if (*text++ != ',') return false;
  }
}

ls_status_t ls_sim_ranks_parse(ls_ctx_t *ctx, const char *text, ls_ints_t *ranks) {
  ls_ints_t list = {0};
  if (!parse(text, &list))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--ranks takes %s of at most %d numbers from 1 to %d, not \"%s\"",
                   form, LS_OPT_LIST_MAX, RANKS_MAX, text);
  *ranks = list;
  return LS_OK;
}
