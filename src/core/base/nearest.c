/* Did you mean: the closest of a few names. The distance counts insertions, deletions, replacements and
 * transpositions of neighbours (optimal string alignment, Boytsov 2011), whatever the case of letters. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/hints.h"
#include "base/option.h"

enum { NAME_MAX_BYTES = 64 };

static int least(int a, int b) {
  return a < b ? a : b;
}

static bool same(char a, char b) {
  return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static int distance(const char *a, int a_len, const char *b, int b_len) {
  int rows[3][NAME_MAX_BYTES + 1]; /* of the table: two ago, last, this */
  int *before = rows[0], *last = rows[1], *now = rows[2];
  for (int j = 0; j <= b_len; j++)
    last[j] = j;
  for (int i = 1; i <= a_len; i++) {
    now[0] = i;
    for (int j = 1; j <= b_len; j++) {
      now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + !same(a[i - 1], b[j - 1]));
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        now[j] = least(now[j], before[j - 2] + 1);
    }
    int *oldest = before;
    before = last;
    last = now;
    now = oldest;
  }
  return last[b_len];
}

const char *ls_nearest(const char *text, const char *const *names) {
  size_t len = strlen(text);
  if (len > NAME_MAX_BYTES) return NULL;
  const char *nearest = NULL;
  int best = (int)(len + 1) / 3 + 1; /* a third of the length, rounded; must be beaten */
  for (int i = 0; names[i]; i++) {
    size_t name_len = strlen(names[i]);
    if (name_len > NAME_MAX_BYTES) continue;
    int d = distance(text, (int)len, names[i], (int)name_len);
    if (d >= best) continue;
    best = d;
    nearest = names[i];
  }
  return nearest;
}

const char *ls_nearest_text(const char *where, const char *text, const char *const *names,
                            char buf[LS_NAMES_TEXT_BYTES]) {
  const char *hint = ls_hint(where, text), *nearest = hint ? NULL : ls_nearest(text, names);
  buf[0] = '\0';
  if (hint) snprintf(buf, LS_NAMES_TEXT_BYTES, "; %s", hint);
  if (nearest) snprintf(buf, LS_NAMES_TEXT_BYTES, "; did you mean `%.200s`?", nearest);
  return buf;
}

const char *ls_names_text(const char *const *names, char buf[LS_NAMES_TEXT_BYTES]) {
  static const char more[] = ", ...";
  snprintf(buf, LS_NAMES_TEXT_BYTES, "none");
  for (size_t i = 0, used = 0; names[i]; i++) {
    bool fits = used + strlen(names[i]) + 2 * sizeof more < LS_NAMES_TEXT_BYTES;
    used += (size_t)snprintf(buf + used, LS_NAMES_TEXT_BYTES - used, "%s%s", i > 0 && fits ? ", " : "",
                             fits ? names[i] : more);
    if (!fits) break;
  }
  return buf;
}
