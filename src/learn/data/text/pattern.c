/* See pattern.h. Sources: Oniguruma's doc/RE and doc/SYNTAX.md, pcre2pattern(3). */
#include "data/text/pattern.h"
#include "data/text/characters.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
  PATTERN_BYTES_MAX = 16 << 10,
  GROWTH = 9, /* a rewritten pattern's bytes for each byte */
  STEPS_MAX = 10000000,
  HEAP_KIB_MAX = 256 << 10,
  STACK_BYTES = 32 << 10,
  STACK_BYTES_MAX = 4 << 20
};

struct ls_pattern {
  pcre2_code *code;
  pcre2_match_data *match;
  pcre2_match_context *limits;
  pcre2_jit_stack *stack;
  char why[128];
};

ls_status_t ls_tokenizer_unsupported(ls_ctx_t *ctx, const char *owner, const char *what, const char *name) {
  return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                 "%s: its %s is %s, which lockstep does not do. Another program can make a token file, which "
                 "data.tokens: u16 or i32 reads",
                 owner, what, LS_SHOWN(name));
}

/* ---- Oniguruma's pattern as PCRE2's ---- */

typedef struct {
  const char *at; /* what is left */
  char *to;
  const char *why;     /* NULL: so far it can be written */
  int depth, caseless; /* groups around it; the depth of the one that is (?i:, 0: none */
} rewrite_t;

static void put(rewrite_t *r, const char *text) {
  r->to = stpcpy(r->to, text);
}

static void copy(rewrite_t *r, size_t bytes) {
  memcpy(r->to, r->at, bytes);
  r->to += bytes;
  r->at += bytes;
}

/* PCRE2's \s has U+180E, and its \d and \w depend on the version. */
static const struct {
  char name;
  const char *written;
} escapes[] = {{'s', "\\p{White_Space}"},
               {'S', "\\P{White_Space}"},
               {'d', "\\p{Nd}"},
               {'D', "\\P{Nd}"},
               {'r', "\\r"},
               {'n', "\\n"},
               {'t', "\\t"},
               {'f', "\\f"}};

/* Oniguruma folds some characters to several: ß in a caseless class matches "ss", and ss matches ß. PCRE2 folds to one
 * character alone, so that only what no such folding can reach is the same. */
static void check_caseless(rewrite_t *r, bool in_class) {
  static const char *const several[] = {"ss", "st", "ff", "fi", "fl"};
  if (!r->caseless) return;
  if ((unsigned char)*r->at >= 0x80 || (*r->at == '\\' && r->at[1] && strchr("uxpPSD", r->at[1])))
    r->why = "more than ASCII within (?i:";
  for (int i = 0; i < LS_COUNT(several) && !in_class; i++)
    if (strncasecmp(r->at, several[i], 2) == 0) r->why = "ss, st, ff, fi or fl within (?i:";
}

/* \p{L}, \p{Alphabetic}: as they are; \p{Han}: a script. Since 10.40 PCRE2 means script extensions by a plain name. */
static void put_property(rewrite_t *r) {
  static const char categories[] = " C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf "
                                   "Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs Alphabetic White_Space ";
  const char *name = r->at + (r->at[2] == '{' ? 3 : 2);
  size_t bytes = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");
  char word[24];
  if (r->at[2] != '{' || bytes == 0 || name[bytes] != '}') {
    r->why = "a property that is not \\p{NAME}";
    return;
  }
  snprintf(word, sizeof word, " %.*s ", bytes < sizeof word - 2 ? (int)bytes : 0, name);
  copy(r, 3);
  if (!strstr(categories, word) || word[1] == ' ') put(r, "sc:");
  copy(r, bytes + 1);
}

static void put_code(rewrite_t *r) {
  const char *digits = r->at + 2;
  size_t count = strspn(digits, "0123456789abcdefABCDEF");
  if (count < 4) {
    r->why = "\\u without four digits";
    return;
  }
  put(r, "\\x{");
  r->at += 2;
  copy(r, 4);
  put(r, "}");
}

static void put_escape(rewrite_t *r) {
  const unsigned char name = (unsigned char)r->at[1];
  bool word = (name | 32) >= 'a' && (name | 32) <= 'z', digit = name >= '0' && name <= '9';
  if (name == 'p' || name == 'P') {
    put_property(r);
  } else if (name == 'u') {
    put_code(r);
  } else if (name == 'x' && r->at[2] == '{') {
    copy(r, 3);
  } else if (!word && !digit && name != '\0' && name < 0x80) {
    copy(r, 2);
  } else {
    for (int i = 0; i < LS_COUNT(escapes); i++)
      if (escapes[i].name == name) {
        put(r, escapes[i].written);
        r->at += 2;
        return;
      }
    r->why = "an escape that the two libraries read differently";
  }
}

/* A class, and classes within it, whose members PCRE2 wants in one list. */
static void put_class(rewrite_t *r) {
  int depth = 1;
  bool first = true, edge = true; /* of a class: a ] is a member there; a - is one at both of its ends */
  copy(r, r->at[1] == '^' ? 2 : 1);
  while (depth > 0 && !r->why) {
    check_caseless(r, true);
    const char c = *r->at, next = c ? r->at[1] : '\0';
    if (r->why) return;
    if (c == '\0')
      r->why = "a class without its end";
    else if (c == '\\')
      put_escape(r);
    else if (c == '&' && next == '&')
      r->why = "an intersection of classes";
    else if (c == '[' && (next == '^' || next == ':'))
      r->why = "a negated or named class within a class";
    else if (c == '[' || (c == ']' && !first)) {
      depth += c == '[' ? 1 : -1;
      if (depth == 0) put(r, "]");
      r->at++;
    } else {
      if (c == ']' || (c == '-' && (edge || next == ']' || next == '['))) put(r, "\\");
      copy(r, 1);
    }
    edge = c == '[' || c == ']';
    first = c == '[';
  }
}

static void put_group(rewrite_t *r) {
  static const char *const kinds[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
  r->depth++;
  if (r->at[1] != '?' && r->at[1] != '*') {
    copy(r, 1);
    return;
  }
  for (int i = 0; i < LS_COUNT(kinds); i++)
    if (strncmp(r->at, kinds[i], strlen(kinds[i])) == 0) {
      if (r->at[2] == 'i' && !r->caseless) r->caseless = r->depth;
      copy(r, strlen(kinds[i]));
      return;
    }
  r->why = "a group that is none of (?: (?i: (?= (?! (?<= (?<! (?>";
}

/* {n}, {n,} or {n,m}. A + or ? after it means something else in Ruby's syntax. */
static void put_interval(rewrite_t *r) {
  size_t bytes = 1 + strspn(r->at + 1, "0123456789");
  if (bytes > 1 && r->at[bytes] == ',') bytes += 1 + strspn(r->at + bytes + 1, "0123456789");
  if (bytes == 1 || r->at[bytes] != '}')
    r->why = "a { that begins no interval";
  else if (r->at[bytes + 1] == '+' || r->at[bytes + 1] == '?')
    r->why = "an interval with + or ? behind it";
  else
    copy(r, bytes + 1);
}

static void rewrite(rewrite_t *r) {
  while (*r->at) {
    check_caseless(r, false);
    if (r->why) break;
    switch (*r->at) {
    case '\\':
      put_escape(r);
      break;
    case '[':
      put_class(r);
      break;
    case '(':
      put_group(r);
      break;
    case '{':
      put_interval(r);
      break;
    case ')':
      if (r->caseless == r->depth--) r->caseless = 0;
      copy(r, 1);
      break;
    default:
      copy(r, 1);
    }
  }
  *r->to = '\0';
}

/* ---- PCRE2 ---- */

/* Whose pattern it is. */
typedef struct {
  ls_ctx_t *ctx;
  const char *owner, *part, *text;
} whose_t;

static ls_status_t refuse(const whose_t *w, size_t at, const char *why) {
  char name[512];
  snprintf(name, sizeof name, "%s, from byte %zu of '%s'", why, at, LS_SHOWN(w->text));
  return ls_fail(w->ctx, LS_ERR_UNSUPPORTED,
                 "%s: its %s has a pattern with %s, which lockstep does not do. Another program can "
                 "make a token file, which data.tokens: u16 or i32 reads",
                 w->owner, w->part, name);
}

static ls_status_t compile(const whose_t *w, const char *written, ls_pattern_t *p) {
  int error = 0;
  PCRE2_SIZE at = 0;
  uint32_t nothing = 0;
  pcre2_compile_context *how = pcre2_compile_context_create(NULL);
  if (how) pcre2_set_newline(how, PCRE2_NEWLINE_LF);
  p->code = pcre2_compile((PCRE2_SPTR)written, PCRE2_ZERO_TERMINATED,
                          PCRE2_MATCH_INVALID_UTF | PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE |
                              PCRE2_NEVER_BACKSLASH_C,
                          &error, &at, how);
  pcre2_compile_context_free(how);
  if (!p->code && error != PCRE2_ERROR_HEAP_FAILED) {
    pcre2_get_error_message(error, (PCRE2_UCHAR *)p->why, sizeof p->why);
    return refuse(w, at, p->why);
  }
  if (p->code && pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &nothing) == 0 && nothing)
    return refuse(w, 0, "a match of no characters");
  p->match = p->code ? pcre2_match_data_create(1, NULL) : NULL;
  p->limits = p->match ? pcre2_match_context_create(NULL) : NULL;
  if (!p->limits) return ls_fail(w->ctx, LS_ERR_MEMORY, "out of memory: the pattern of %s", w->owner);
  pcre2_set_match_limit(p->limits, STEPS_MAX);
  pcre2_set_heap_limit(p->limits, HEAP_KIB_MAX);
  /* Without permission for executable memory, or without a compiler for this CPU, PCRE2's interpreter matches the
   * same. */
  if (pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) != 0) return LS_OK;
  p->stack = pcre2_jit_stack_create(STACK_BYTES, STACK_BYTES_MAX, NULL);
  if (p->stack) pcre2_jit_stack_assign(p->limits, NULL, p->stack);
  return LS_OK;
}

ls_status_t ls_pattern_open(ls_ctx_t *ctx, const char *owner, const char *part, const char *text,
                            ls_pattern_t **pattern) {
  const whose_t w = {ctx, owner, part, text};
  size_t bytes = strlen(text);
  if (bytes > PATTERN_BYTES_MAX) return refuse(&w, 0, "more than 16,384 bytes");
  ls_pattern_t *p = ls_alloc(ctx, sizeof *p);
  char *written = p ? ls_alloc(ctx, GROWTH * bytes + 1) : NULL;
  rewrite_t r = {.at = text, .to = written};
  ls_status_t status = LS_ERR_MEMORY;
  if (written) {
    rewrite(&r);
    status = r.why ? refuse(&w, (size_t)(r.at - text), r.why) : compile(&w, written, p);
  }
  ls_free(written);
  if (status == LS_OK)
    *pattern = p;
  else
    ls_pattern_close(p);
  return status;
}

void ls_pattern_close(ls_pattern_t *p) {
  if (!p) return;
  pcre2_jit_stack_free(p->stack);
  pcre2_match_context_free(p->limits);
  pcre2_match_data_free(p->match);
  pcre2_code_free(p->code);
  ls_free(p);
}

bool ls_pattern_takes_any(const ls_pattern_t *pattern) {
  return pattern->stack != NULL;
}

const char *ls_pattern_find(ls_pattern_t *p, const char *text, size_t size, size_t from, size_t *begin,
                            size_t *end) {
  /* The compiled pattern is called at once, where there is one: pcre2_match would check its arguments for each word. */
  int found = (p->stack ? pcre2_jit_match : pcre2_match)(
      p->code, (PCRE2_SPTR)text, size, from, p->stack ? 0 : PCRE2_NO_UTF_CHECK, p->match, p->limits);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter takes memory as it needs it */
    found = pcre2_match(p->code, (PCRE2_SPTR)text, size, from, PCRE2_NO_JIT, p->match, p->limits);
  *begin = *end = size;
  if (found == PCRE2_ERROR_NOMATCH) return NULL;
  if (found < 0) {
    pcre2_get_error_message(found, (PCRE2_UCHAR *)p->why, sizeof p->why);
    return p->why;
  }
  const PCRE2_SIZE *place = pcre2_get_ovector_pointer(p->match);
  *begin = place[0];
  *end = place[1];
  return NULL;
}

ls_status_t ls_pattern_gave_up(ls_ctx_t *ctx, const char *owner, const ls_piece_t *p, size_t at,
                               const char *why) {
  char what[512];
  snprintf(what, sizeof what,
           "the pattern of %s gives up here: %s. Break the text up behind this place, with a line's end for "
           "example, "
           "or have another program make the token file",
           LS_SHOWN(owner), why);
  return ls_place_fail(ctx, p->file, p->text, ls_piece_place(p, at), LS_ERR_DATA, what);
}
