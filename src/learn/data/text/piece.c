/* See piece.h. */
#include "data/text/piece.h"

#include <string.h>

bool ls_bytes_put(ls_bytes_t *to, const char *bytes, size_t count) {
  if (to->room - to->count <= count) {
    size_t room = to->count + count + to->count / 2 + 64;
    char *grown = ls_realloc_array(to->ctx, to->bytes, room, 1);
    if (!grown) return false;
    to->bytes = grown;
    to->room = room;
  }
  if (count > 0) memcpy(to->bytes + to->count, bytes, count);
  to->count += count;
  to->bytes[to->count] = '\0';
  return true;
}
