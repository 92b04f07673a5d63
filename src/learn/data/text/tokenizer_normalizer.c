/* See tokenizer_normalizer.h. Source: the crate `tokenizers` of Hugging Face. It knows which characters are marks from Unicode
 * 8 and 9 (2015 and 2016), in whichever version the rest is: those that came or changed later are left out here. */
#include "data/text/tokenizer_normalizer.h"
#include "data/text/characters.h"

#include <stdio.h>
#include <string.h>

/* Limit on the growth of a text by a file's own replacements. No language needs more, and each step could multiply
 * the text. */
enum { GROWTH_MAX = 64, GROWTH_BYTES = 64 << 10 };

/* ---- rows ---- */

/* Ranges that have \p{Mn} or \p{M} of later versions alone. No script in this tree makes or checks
 * them. */
#define LATER_NONSPACING                                                                                     \
  "\\x{7FD}-\\x{7FF}\\x{897}-\\x{8E2}\\x{9FE}\\x{9FF}\\x{AFA}-\\x{AFF}\\x{B55}\\x{C04}-\\x{C3D}\\x{D00}"     \
  "\\x{D3B}-\\x{D3F}\\x{D81}-\\x{D8F}\\x{EBA}\\x{ECE}\\x{ECF}\\x{180F}-\\x{188F}\\x{1ABF}-\\x{1AEF}"         \
  "\\x{1DF6}-\\x{1DFB}\\x{A82C}-\\x{A82F}\\x{A8C5}-\\x{A8CF}\\x{A8FF}\\x{A9BD}-\\x{A9BF}\\x{10D24}-\\x{"     \
  "10F8F}"                                                                                                   \
  "\\x{11070}-\\x{1107E}\\x{110C2}-\\x{110CF}\\x{111C9}\\x{111CF}\\x{1123E}-\\x{1124F}\\x{1133B}"            \
  "\\x{113BB}-\\x{1145F}\\x{1182F}-\\x{1612F}\\x{16F4F}\\x{16FE4}-\\x{16FEF}\\x{1CF00}-\\x{1CF4F}"           \
  "\\x{1E000}-\\x{1E6FF}\\x{1E944}-\\x{1E94F}"
#define LATER_MARKS                                                                                          \
  "\\x{7FD}-\\x{7FF}\\x{897}-\\x{8D3}\\x{9FE}\\x{9FF}\\x{AFA}-\\x{AFF}\\x{B55}\\x{C04}-\\x{C3D}"             \
  "\\x{CF3}-\\x{D00}\\x{D3B}-\\x{D3D}\\x{D81}\\x{EBA}\\x{ECE}\\x{ECF}\\x{1715}-\\x{171F}\\x{180F}"           \
  "\\x{1ABF}-\\x{1AEF}\\x{1CF7}\\x{1DF6}-\\x{1DFA}\\x{A82C}-\\x{A82F}\\x{A8FF}\\x{10D24}-\\x{10F8F}"         \
  "\\x{11070}-\\x{1107E}\\x{110C2}-\\x{110CF}\\x{11145}-\\x{1114F}\\x{111C9}\\x{111CE}\\x{111CF}"            \
  "\\x{11241}-\\x{1124F}\\x{1133B}\\x{113B8}-\\x{113EF}\\x{1145E}\\x{1145F}\\x{1182C}-\\x{11B6F}"            \
  "\\x{11D31}-\\x{1612F}\\x{16F4F}\\x{16F7F}-\\x{16F8E}\\x{16FE4}-\\x{16FFF}\\x{1CF00}-\\x{1CF4F}"           \
  "\\x{1E08F}-\\x{1E6FF}"

/* The steps of a type, in order. */
static const struct {
  const char *type, *option; /* of which option, if it is set */
  const char *pattern;       /* NULL: form */
  const char *to;
  bool around;
  ls_unicode_t form;
  unsigned char first;
} rows[] = {
    /* Controls, formats and private use, but \t \n \r */
    {"BertNormalizer", "clean_text",
     "[\\x{0}-\\x{8}\\x{B}\\x{C}\\x{E}-\\x{1F}\\x{7F}-\\x{9F}\\x{AD}\\x{600}-\\x{605}\\x{61C}\\x{6DD}\\x{70F}"
     "\\x{180E}\\x{200B}-\\x{200F}\\x{202A}-\\x{202E}\\x{2060}-\\x{2064}\\x{2066}-\\x{206F}\\x{E000}-\\x{"
     "F8FF}"
     "\\x{FEFF}\\x{FFF9}-\\x{FFFB}\\x{FFFD}\\x{110BD}\\x{1BCA0}-\\x{1BCA3}\\x{1D173}-\\x{1D17A}\\x{E0001}"
     "\\x{E0020}-\\x{E007F}\\x{F0000}-\\x{FFFFD}\\x{100000}-\\x{10FFFD}]",
     ""},
    {"BertNormalizer", "clean_text",
     "[\\t\\n\\r\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}]", " "},
    {"BertNormalizer", "handle_chinese_chars",
     "[\\x{3400}-\\x{4DBF}\\x{4E00}-\\x{9FFF}\\x{F900}-\\x{FAFF}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B81F}"
     "\\x{2B920}-\\x{2CEAF}\\x{2F800}-\\x{2FA1F}]",
     " ", .around = true, .first = 0xE3},
    {"BertNormalizer", "strip_accents", .form = LS_UNICODE_NFD},
    {"BertNormalizer", "strip_accents", "\\p{Mn}(?<![" LATER_NONSPACING "])|[\\x{1734}\\x{1171E}]", "",
     .first = 0xCC},
    {"BertNormalizer", "lowercase", .form = LS_UNICODE_LOWER},
    {"Lowercase", .form = LS_UNICODE_LOWER},
    {"StripAccents", NULL, "\\p{M}(?<![" LATER_MARKS "])|[\\x{1CF2}\\x{1CF3}]", "", .first = 0xCC},
    {"NFC", .form = LS_UNICODE_NFC},
    {"NFD", .form = LS_UNICODE_NFD},
    {"NFKC", .form = LS_UNICODE_NFKC},
    {"NFKD", .form = LS_UNICODE_NFKD},
};

/* First bytes of UTF-8 characters that may change: from U+0300, U+00C0, U+0080 on. */
static const unsigned char form_first[LS_UNICODE_EACH] = {
    [LS_UNICODE_NFC] = 0xCC,  [LS_UNICODE_NFD] = 0xC3,   [LS_UNICODE_NFKC] = 0xC2,
    [LS_UNICODE_NFKD] = 0xC2, [LS_UNICODE_LOWER] = 0xC3,
};

/* ---- reading ---- */

static ls_status_t add_step(ls_normalizer_t *n, const char *pattern, ls_normalizer_step_t step) {
  if (n->count == LS_NORMALIZER_STEPS_MAX)
    return ls_tokenizer_unsupported(n->ctx, n->owner, "normalizer", "a sequence of more than 16 steps");
  ls_status_t status =
      pattern ? ls_pattern_open(n->ctx, n->owner, "normalizer", pattern, &step.pattern) : LS_OK;
  if (status == LS_OK) n->step[n->count++] = step;
  return status;
}

ls_status_t ls_normalizer_replace(ls_normalizer_t *n, const char *pattern, const char *to) {
  char *owned = ls_strdup(n->ctx, to);
  if (!owned) return LS_ERR_MEMORY;
  ls_status_t status =
      add_step(n, pattern, (ls_normalizer_step_t){.type = "Replace", .owned = owned, .to = owned});
  if (status != LS_OK) ls_free(owned);
  return status;
}

/* strip_accents follows lowercase where the file leaves it open. */
static ls_status_t read_option(const ls_normalizer_t *n, const json_t *one, const char *option, bool *set) {
  const json_t *value = json_object_get(one, option);
  if (strcmp(option, "strip_accents") == 0 && (!value || json_is_null(value)))
    return read_option(n, one, "lowercase", set);
  *set = json_is_true(value);
  if (json_is_boolean(value)) return LS_OK;
  return ls_fail(n->ctx, LS_ERR_DATA, "%s: its normalizer's %s is neither true nor false", n->owner, option);
}

ls_status_t ls_normalizer_add(ls_normalizer_t *n, const json_t *one, bool *known) {
  const char *type = json_string_value(json_object_get(one, "type"));
  ls_status_t status = LS_OK;
  *known = false;
  for (int i = 0; i < LS_COUNT(rows) && type && status == LS_OK; i++) {
    bool set = strcmp(rows[i].type, type) == 0;
    if (!set) continue;
    *known = true;
    if (rows[i].option) status = read_option(n, one, rows[i].option, &set);
    if (status == LS_OK && set)
      status = add_step(n, rows[i].pattern,
                        (ls_normalizer_step_t){.type = rows[i].type,
                                               .first = rows[i].first,
                                               .to = rows[i].to,
                                               .around = rows[i].around,
                                               .form = rows[i].form});
  }
  return status;
}

void ls_normalizer_release(ls_normalizer_t *n) {
  for (int i = 0; i < n->count; i++) {
    ls_pattern_close(n->step[i].pattern);
    ls_free(n->step[i].owned);
  }
}

/* ---- running ---- */

/* The first byte that is at least `first`; `count`: there is none. */
static size_t seek(const char *text, size_t count, unsigned char first) {
  size_t at = 0;
  while (at < count && (unsigned char)text[at] < first)
    at++;
  return at;
}

static ls_status_t grew(const ls_normalizer_t *n, const ls_normalizer_step_t *s, const ls_piece_t *p,
                        size_t at) {
  char what[512];
  snprintf(what, sizeof what,
           "with this match, %s in the normalizer of %s makes the text more than %d times as long", s->type,
           LS_SHOWN(n->owner), GROWTH_MAX);
  return ls_place_fail(n->ctx, p->file, p->text, ls_piece_place(p, at), LS_ERR_DATA, what);
}

static ls_status_t replace(const ls_normalizer_t *n, const ls_normalizer_step_t *s, const ls_piece_t *p,
                           size_t most, ls_bytes_t *to) {
  size_t length = strlen(s->to), begin, end = 0;
  const size_t grows = s->around ? 2 * length : length;
  bool put = true;
  for (size_t at = 0; at < p->count && put; at = end) {
    const char *why = ls_pattern_find(s->pattern, p->bytes, p->count, at, &begin, &end);
    if (why) return ls_pattern_gave_up(n->ctx, n->owner, p, at, why);
    if (begin == p->count && at == 0) return LS_OK;
    size_t kept = (s->around ? end : begin) - at;
    if (to->count + kept + (begin < end ? grows : 0) > most) return grew(n, s, p, begin);
    put = ls_bytes_put(to, p->bytes + at, begin - at) && (begin == end || ls_bytes_put(to, s->to, length));
    if (put && s->around && begin < end)
      put = ls_bytes_put(to, p->bytes + begin, end - begin) && ls_bytes_put(to, s->to, length);
  }
  return put ? LS_OK : LS_ERR_MEMORY;
}

static ls_status_t no_tables(const ls_normalizer_t *n, const ls_normalizer_step_t *s, const ls_piece_t *p,
                             size_t at) {
  char what[256];
  snprintf(
      what, sizeof what,
      "the vocabulary's normalizer, %s, could change this character, and this build cannot tell: utf8proc "
      "(libutf8proc-dev) was not there",
      s->type);
  return ls_place_fail(n->ctx, p->file, p->text, ls_piece_place(p, at), LS_ERR_UNSUPPORTED, what);
}

static void lower_ascii(char *text, size_t count) {
  for (size_t i = 0; i < count; i++)
    text[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 32 : text[i]);
}

/* Line by line. */
static ls_status_t take_form(const ls_normalizer_t *n, const ls_normalizer_step_t *s, const ls_piece_t *p,
                             ls_bytes_t *to) {
  const unsigned char first = form_first[s->form];
  size_t change = seek(p->bytes, p->count, first);
  ls_status_t status = LS_OK;
  if (change < p->count && !ls_unicode_there()) return no_tables(n, s, p, change);
  if (change == p->count && s->form != LS_UNICODE_LOWER) return LS_OK;
  for (size_t at = 0; at < p->count && status == LS_OK;) {
    ls_piece_t line = *p;
    line.bytes += at;
    line.at += at;
    const char *end = memchr(line.bytes, '\n', p->count - at);
    line.count = end ? (size_t)(end - line.bytes) + 1 : p->count - at;
    if (seek(line.bytes, line.count, first) < line.count)
      status = ls_unicode_put(s->form, &line, to);
    else if (!ls_bytes_put(to, line.bytes, line.count))
      status = LS_ERR_MEMORY;
    at += line.count;
  }
  if (status == LS_OK && s->form == LS_UNICODE_LOWER) lower_ascii(to->bytes, to->count);
  return status;
}

ls_status_t ls_normalizer_run(const ls_normalizer_t *n, const ls_piece_t *piece, char **made, size_t *count) {
  const size_t most =
      piece->count < SIZE_MAX / GROWTH_MAX / 2 ? GROWTH_MAX * piece->count + GROWTH_BYTES : SIZE_MAX;
  ls_piece_t now = *piece;
  ls_status_t status = LS_OK;
  *made = NULL;
  for (int i = 0; i < n->count && now.count > 0 && status == LS_OK; i++) {
    const ls_normalizer_step_t *s = &n->step[i];
    ls_bytes_t to = {.ctx = n->ctx};
    if (!s->pattern)
      status = take_form(n, s, &now, &to);
    else if (seek(now.bytes, now.count, s->first) < now.count)
      status = replace(n, s, &now, most, &to);
    if (status == LS_OK && to.bytes) {
      ls_free(*made);
      *made = to.bytes;
      now.bytes = to.bytes;
      now.count = to.count;
    } else
      ls_free(to.bytes);
  }
  *count = now.count;
  if (status == LS_OK) return LS_OK;
  ls_free(*made);
  *made = NULL;
  return status;
}
