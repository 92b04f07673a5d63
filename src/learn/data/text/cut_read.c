/* Reads how a tokenizer.json cuts text: its pre-tokenizer, normalizer and decoder. Source: the crate `tokenizers` of Hugging
 * Face, whose files these are. */
#include "data/text/characters.h"
#include "data/text/cut.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define BLANK LS_CUT_BLANK

/* ---- rows: cuts of a file ---- */

/* Bits of ls_cut_stage_t.joins. */
enum { GAP_GAP = 1, GAP_MATCH = 2, MATCH_GAP = 4, MATCH_MATCH = 8 };
static const struct {
  const char *name;
  unsigned joins;
  bool drops;
} behaviours[] = {
    {"Isolated", 0, false},
    {"Removed", 0, true},
    {"MergedWithPrevious", GAP_MATCH, false},
    {"MergedWithNext", MATCH_GAP, false},
    {"Contiguous", GAP_GAP | MATCH_MATCH, false},
};

/* Punctuation as \p{P} of Unicode 8, the version of the crate's table: \p{P} without the characters that later
 * versions added. No script in this tree makes or checks the ranges. */
#define PUNCTUATION_MORE "!-/:-@\\[-`{-~\\x{166D}\\x{111C9}"
#define PUNCTUATION_LATER                                                                                    \
  "[\\x{61D}\\x{9FD}-\\x{A7F}\\x{C77}-\\x{C8F}\\x{1B4E}\\x{1B4F}\\x{1B7D}-\\x{1B7F}\\x{2E43}-\\x{2E5F}"      \
  "\\x{10D6E}-\\x{10F8F}\\x{113D4}-\\x{1145F}\\x{11660}-\\x{116BF}\\x{1183B}-\\x{11FFF}\\x{12FF1}-\\x{"      \
  "12FFF}"                                                                                                   \
  "\\x{16D6D}-\\x{16FEF}\\x{1E5FF}-\\x{1E95F}]"

/* Cuts that are patterns by another name. */
static const struct {
  const char *type, *option; /* of which option, if it is set */
  const char *pattern, *behaviour;
  bool inverts;
  bool chooses; /* the file may give another behaviour */
} cuts[] = {
    {"ByteLevel", "use_regex",
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "Isolated"},
    {"Digits", "individual_digits", "\\p{N}", "Isolated"},
    {"Digits", NULL, "\\p{N}+", "Isolated"},
    {"Punctuation", NULL, "[" PUNCTUATION_MORE "]|\\p{P}(?<!" PUNCTUATION_LATER ")", "Isolated",
     .chooses = true},
    {"BertPreTokenizer", NULL,
     "(?:[^\\s\\p{P}" PUNCTUATION_MORE "]++|" PUNCTUATION_LATER ")++|[\\p{P}" PUNCTUATION_MORE "]", "Removed",
     true},
    {"Whitespace", NULL, "[" LS_CUT_WORD "]++|[^\\s" LS_CUT_WORD "]++", "Removed", true},
    {"WhitespaceSplit", NULL, "\\S++", "Removed", true},
};

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

static const char *type_of(const json_t *object) {
  const char *type = text_of(object, "type");
  return *type ? type : json_is_null(object) || !object ? "none" : "nothing known";
}

static bool is_type(const json_t *object, const char *type) {
  return strcmp(type_of(object), type) == 0;
}

/* Reads a member of a Sequence. */
static const char *name_of(const json_t *one) {
  return is_type(one, "Sequence") ? "a Sequence within a Sequence" : type_of(one);
}

static ls_status_t unsupported(const ls_cut_t *c, const char *what, const char *name) {
  return ls_tokenizer_unsupported(c->ctx, c->owner, what, name);
}

/* ---- reading ---- */

static ls_status_t add_stage(ls_cut_t *c, const char *pattern, const char *behaviour, bool inverts) {
  int row = 0;
  while (row < LS_COUNT(behaviours) && strcmp(behaviours[row].name, behaviour) != 0)
    row++;
  if (row == LS_COUNT(behaviours)) return unsupported(c, "pre_tokenizer's behavior", behaviour);
  if (c->stages == LS_CUT_STAGES_MAX)
    return unsupported(c, "pre_tokenizer", "a sequence of more than 8 cuts");
  ls_cut_stage_t *s = &c->stage[c->stages];
  *s = (ls_cut_stage_t){NULL, behaviours[row].joins, behaviours[row].drops, inverts};
  ls_status_t status = ls_pattern_open(c->ctx, c->owner, "pre_tokenizer", pattern, &s->pattern);
  if (status == LS_OK) c->stages++;
  return status;
}

/* The text itself as a pattern; the caller frees it. */
static char *plain_pattern(ls_ctx_t *ctx, const char *text) {
  char *pattern = ls_alloc(ctx, 2 * strlen(text) + 1), *to = pattern;
  for (; pattern && *text; text++) {
    if (strchr("\\^$.|?*+()[]{}-&", *text)) *to++ = '\\';
    *to++ = *text;
  }
  return pattern;
}

/* The pattern of a Split or Replace, which has one by name. The caller frees it. */
static ls_status_t read_pattern(const ls_cut_t *c, const char *what, const json_t *one, char **pattern) {
  const json_t *given = json_object_get(one, "pattern");
  const char *regex = text_of(given, "Regex"), *plain = text_of(given, "String");
  char name[32];
  const bool two = json_object_size(given) > 1, none = !*regex && !*plain;
  snprintf(name, sizeof name, "%.8s with%s", type_of(one), two ? " two patterns" : "out a pattern");
  if (two || none) return unsupported(c, what, name);
  *pattern = *regex ? ls_strdup(c->ctx, regex) : plain_pattern(c->ctx, plain);
  return *pattern ? LS_OK : LS_ERR_MEMORY;
}

static ls_status_t read_split(ls_cut_t *c, const json_t *one) {
  char *pattern = NULL;
  ls_status_t status = read_pattern(c, "pre_tokenizer", one, &pattern);
  if (status == LS_OK)
    status = add_stage(c, pattern, text_of(one, "behavior"), json_is_true(json_object_get(one, "invert")));
  ls_free(pattern);
  return status;
}

static ls_status_t read_delimiter(ls_cut_t *c, const json_t *one) {
  const char *delimiter = text_of(one, "delimiter");
  size_t bytes = strlen(delimiter);
  int32_t code;
  if (bytes == 0 || ls_character(delimiter, bytes, &code) != bytes)
    return unsupported(c, "pre_tokenizer", "CharDelimiterSplit without a delimiter of one character");
  char *pattern = plain_pattern(c->ctx, delimiter);
  ls_status_t status = pattern ? add_stage(c, pattern, "Removed", false) : LS_ERR_MEMORY;
  ls_free(pattern);
  return status;
}

static ls_status_t read_replace(ls_cut_t *c, const json_t *one) {
  char *pattern = NULL;
  if (!json_is_string(json_object_get(one, "content")))
    return unsupported(c, "normalizer", "Replace without a content");
  ls_status_t status = read_pattern(c, "normalizer", one, &pattern);
  if (status == LS_OK) status = ls_normalizer_replace(&c->normalizer, pattern, text_of(one, "content"));
  ls_free(pattern);
  return status;
}

/* The scheme of Metaspace, or what stood for it before 2024. */
static ls_status_t read_metaspace(ls_cut_t *c, const json_t *one, ls_prefix_t *prefix) {
  static const char *const schemes[] = {
      [LS_PREFIX_NONE] = "never", [LS_PREFIX_UNLESS] = "always", [LS_PREFIX_FIRST] = "first"};
  static_assert(LS_COUNT(schemes) == LS_PREFIX_EACH, "every prefix but Prepend's is a scheme");
  const char *scheme = text_of(one, "prepend_scheme");
  *prefix = json_is_false(json_object_get(one, "add_prefix_space")) ? LS_PREFIX_NONE : LS_PREFIX_UNLESS;
  if (strcmp(text_of(one, "replacement"), BLANK) != 0)
    return unsupported(c, "Metaspace's replacement", text_of(one, "replacement"));
  for (int i = 0; i < LS_COUNT(schemes) && *scheme; i++)
    if (strcmp(schemes[i], scheme) == 0) {
      *prefix = (ls_prefix_t)i;
      return LS_OK;
    }
  return *scheme ? unsupported(c, "Metaspace's prepend_scheme", scheme) : LS_OK;
}

static ls_status_t read_row(ls_cut_t *c, const json_t *one) {
  for (int i = 0; i < LS_COUNT(cuts); i++) {
    const json_t *option = cuts[i].option ? json_object_get(one, cuts[i].option) : NULL;
    const bool by_default =
        strcmp(cuts[i].type, "ByteLevel") == 0; /* the option, where a file does not have it */
    if (!is_type(one, cuts[i].type)) continue;
    if (cuts[i].option && !json_is_true(option) && !(by_default && !option)) continue;
    const char *behaviour = cuts[i].chooses ? text_of(one, "behavior") : "";
    return add_stage(c, cuts[i].pattern, *behaviour ? behaviour : cuts[i].behaviour, cuts[i].inverts);
  }
  return is_type(one, "ByteLevel") ? LS_OK : unsupported(c, "pre_tokenizer", name_of(one));
}

/* The members of a Sequence, or the one that there is. */
static size_t count_of(const json_t *one, const char *list) {
  if (is_type(one, "Sequence")) return json_array_size(json_object_get(one, list));
  return one && !json_is_null(one);
}

/* `list`: what the members of a Sequence are called in this part of the file. */
static ls_status_t check_list(const ls_cut_t *c, const char *part, const json_t *one, const char *list) {
  char name[64];
  if (!is_type(one, "Sequence") || json_is_array(json_object_get(one, list))) return LS_OK;
  snprintf(name, sizeof name, "a Sequence without its %s", list);
  return unsupported(c, part, name);
}

static const json_t *member_of(const json_t *one, const char *list, size_t i) {
  return is_type(one, "Sequence") ? json_array_get(json_object_get(one, list), i) : one;
}

/* Whether the pattern of a Split or Replace is this text and nothing else. */
static bool matches(const json_t *one, const char *text) {
  const json_t *pattern = json_object_get(one, "pattern");
  return json_object_size(pattern) == 1 && strcmp(text_of(pattern, "String"), text) == 0;
}

static bool replaces(const json_t *one, const char *from, const char *to) {
  return is_type(one, "Replace") && matches(one, from) && strcmp(text_of(one, "content"), to) == 0;
}

static ls_status_t beside(const ls_cut_t *c, const char *what, const char *one, const char *other) {
  char name[128];
  snprintf(name, sizeof name, "%.60s beside %s", one, other);
  return unsupported(c, what, name);
}

static ls_status_t read_normalizer(ls_cut_t *c, const json_t *normalizer) {
  ls_status_t status = check_list(c, "normalizer", normalizer, "normalizers");
  if (status != LS_OK) return status;
  for (size_t i = 0; i < count_of(normalizer, "normalizers"); i++) {
    const json_t *one = member_of(normalizer, "normalizers", i);
    bool known = true;
    if (replaces(one, " ", BLANK) && !c->pieces)
      c->characters = c->replaces = true;
    else if (is_type(one, "Prepend") && strcmp(text_of(one, "prepend"), BLANK) == 0)
      c->prefix = LS_PREFIX_EACH;
    else if (is_type(one, "Replace"))
      status = read_replace(c, one);
    else
      status = ls_normalizer_add(&c->normalizer, one, &known);
    if (status != LS_OK) return status;
    if (!known) return unsupported(c, "normalizer", name_of(one));
  }
  if (c->prefix != LS_PREFIX_NONE && !c->characters)
    return unsupported(c, "normalizer", "Prepend without Replace");
  return c->characters && c->normalizer.count > 0
             ? beside(c, "normalizer", c->normalizer.step[0].type, "Replace")
             : LS_OK;
}

static ls_status_t read_cut(ls_cut_t *c, const json_t *one, bool first, bool last, bool *bytes) {
  bool metaspace = is_type(one, "Metaspace");
  if (c->pieces && (metaspace || is_type(one, "ByteLevel")))
    return beside(c, "pre_tokenizer", type_of(one), "WordPiece");
  if (is_type(one, "ByteLevel")) {
    if (json_is_true(json_object_get(one, "add_prefix_space")) && !first)
      return unsupported(c, "pre_tokenizer's option", "add_prefix_space: true behind another cut");
    if (json_is_true(json_object_get(one, "add_prefix_space"))) c->prefix = LS_PREFIX_UNLESS;
    *bytes = last;
  }
  if (metaspace && first && last && c->normalizer.count == 0 && c->prefix == LS_PREFIX_NONE) {
    c->characters = true;
    c->splits = !json_is_false(json_object_get(one, "split"));
    return read_metaspace(c, one, &c->prefix);
  }
  /* Replace has left none of the blanks at which Gemma's file cuts. */
  if (c->characters && is_type(one, "Split") && matches(one, " ")) return LS_OK;
  if (metaspace && c->normalizer.count > 0)
    return beside(c, "normalizer", c->normalizer.step[0].type, "Metaspace");
  if (c->characters || metaspace)
    return beside(c, "pre_tokenizer", name_of(one), c->replaces ? "Replace" : "another cut");
  if (is_type(one, "CharDelimiterSplit")) return read_delimiter(c, one);
  return is_type(one, "Split") ? read_split(c, one) : read_row(c, one);
}

/* For words of characters: whether the first blank goes. */
static ls_status_t read_decoder(ls_cut_t *c, const json_t *decoder) {
  size_t count = count_of(decoder, "decoders");
  ls_status_t status = check_list(c, "decoder", decoder, "decoders");
  if (status != LS_OK) return status;
  if (count == 0) return unsupported(c, "decoder", "none");
  for (size_t i = 0; i < count; i++) {
    const json_t *one = member_of(decoder, "decoders", i);
    bool once = json_integer_value(json_object_get(one, "start")) == 1 &&
                json_integer_value(json_object_get(one, "stop")) == 0 &&
                strcmp(text_of(one, "content"), " ") == 0;
    if (is_type(one, "Metaspace")) {
      ls_prefix_t prefix;
      if ((status = read_metaspace(c, one, &prefix)) != LS_OK) return status;
      c->strips = prefix != LS_PREFIX_NONE;
    } else if (is_type(one, "Strip") && once)
      c->strips = true;
    else if (!replaces(one, BLANK, " ") && !is_type(one, "ByteFallback") && !is_type(one, "Fuse"))
      return unsupported(c, "decoder", name_of(one));
  }
  return LS_OK;
}

ls_status_t ls_cut_read(ls_cut_t *c, const json_t *root) {
  const json_t *cut = json_object_get(root, "pre_tokenizer");
  size_t count = count_of(cut, "pretokenizers");
  bool bytes = false;
  c->normalizer.ctx = c->ctx;
  c->normalizer.owner = c->owner;
  ls_status_t status = check_list(c, "pre_tokenizer", cut, "pretokenizers");
  if (status == LS_OK) status = read_normalizer(c, json_object_get(root, "normalizer"));
  for (size_t i = 0; i < count && status == LS_OK; i++)
    status = read_cut(c, member_of(cut, "pretokenizers", i), i == 0, i + 1 == count, &bytes);
  if (status != LS_OK || c->pieces) return status;
  if (c->characters) return read_decoder(c, json_object_get(root, "decoder"));
  return bytes ? LS_OK
               : unsupported(c, "pre_tokenizer", count ? "without ByteLevel at its end" : type_of(cut));
}
