/* Keys of a profile. Each kind has one format, which writes them and takes them apart. */
#include "machine/profile.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* B: backend or transport, N: name, R: ranks, T: threads; everything else stands for itself. An op's
 * attributes and shapes follow its key. */
static const char *const formats[] = {[LS_KEY_OP] = "op B tT N",
                                      [LS_KEY_DEVICE] = "N B tT",
                                      [LS_KEY_COLLECTIVE] = "N B R",
                                      [LS_KEY_CONTENTION] = "contention B RxT N",
                                      [LS_KEY_LIBRARIES] = "libraries B wRN",
                                      [LS_KEY_CAPACITY] = "capacity B"};

const char *ls_profile_key(char buf[LS_PROFILE_KEY_BYTES], ls_profile_key_t key) {
  int used = 0;
  for (const char *f = formats[key.what]; *f && used < LS_PROFILE_KEY_BYTES; f++) {
    char *to = buf + used;
    size_t left = (size_t)(LS_PROFILE_KEY_BYTES - used);
    if (*f == 'B' || *f == 'N')
      used += snprintf(to, left, "%s", *f == 'B' ? key.backend : key.name ? key.name : "");
    else if (*f == 'R' || *f == 'T')
      used += snprintf(to, left, "%d", *f == 'R' ? key.ranks : key.threads);
    else
      used += snprintf(to, left, "%c", *f);
  }
  return buf;
}

/* The begin and end of each word. */
typedef struct {
  const char *begin[2], *end[2];
  int ranks, threads;
} match_t;

static const char *match(const char *f, const char *text, match_t *m);

/* Matches the shortest word after which the rest matches. A backend may include its precision: "cuda tf32". */
static const char *match_word(const char *f, const char *text, match_t *m) {
  int spaces = 0, which = *f == 'N';
  for (const char *end = text + (f[1] != '\0' || f[-1] == ' ');; end++) {
    const char *rest = match(f + 1, end, m);
    if (rest) {
      m->begin[which] = text;
      m->end[which] = end;
      return rest;
    }
    spaces += *end == ' ';
    if (!*end || spaces > (*f == 'B')) return NULL;
  }
}

/* Returns the rest of the text; NULL: it does not match. */
static const char *match(const char *f, const char *text, match_t *m) {
  if (!*f) return *text == ' ' || !*text ? text : NULL;
  if (*f == 'B' || *f == 'N') return match_word(f, text, m);
  if (*f != 'R' && *f != 'T') return *text == *f ? match(f + 1, text + 1, m) : NULL;
  char *end;
  long number = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : -1;
  if (number < 0 || number > INT32_MAX) return NULL;
  *(*f == 'R' ? &m->ranks : &m->threads) = (int)number;
  return match(f + 1, end, m);
}

bool ls_profile_key_read(const char *text, ls_key_what_t what, char buf[LS_PROFILE_KEY_BYTES],
                         ls_profile_key_t *key) {
  match_t m = {.begin = {text, text}, .end = {text, text}};
  const char *rest = strlen(text) < LS_PROFILE_KEY_BYTES ? match(formats[what], text, &m) : NULL;
  if (!rest || (*rest && what != LS_KEY_OP)) return false;
  strcpy(buf, text);
  *key = (ls_profile_key_t){.what = what,
                            .backend = buf + (m.begin[0] - text),
                            .name = buf + (m.begin[1] - text),
                            .ranks = m.ranks,
                            .threads = m.threads};
  buf[m.end[0] - text] = buf[m.end[1] - text] = '\0';
  int64_t *d = key->dim;
  if (sscanf(rest, " f32 (%" SCNd64 ", %" SCNd64 ") f32 (%" SCNd64 ", %" SCNd64 ")", &d[0], &d[1], &d[2],
             &d[3]) != 4)
    memset(d, 0, sizeof key->dim);
  return true;
}
