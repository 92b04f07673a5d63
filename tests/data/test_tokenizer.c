/* Tokens of text: bytes, characters, GPT-2's merges; and back. Refusals of vocabularies by name. */
#include "common.h"
#include "data/text/tokenizer.h"
#include "data/text/unicode.h"

/* The merges of GPT-2 that the texts below need, with their own numbers. */
#define GPT2_PART "tests/fuzz/seeds/tokenizer/gpt2-part.json"
enum { TOKENS_MAX = 64 };

typedef struct {
  int count;
  int32_t token[TOKENS_MAX];
} tokens_t;

static void keep(void *user, int32_t token) {
  tokens_t *t = user;
  assert_true(t->count < TOKENS_MAX);
  t->token[t->count++] = token;
}

static tokens_t tokens_of(ls_tokenizer_t *t, const char *text) {
  tokens_t out = {0};
  if (ls_tokenizer_encode(t, "text", text, strlen(text), keep, &out) != LS_OK) fail_msg("%s", said.messages);
  char back[512] = "";
  size_t used = 0;
  for (int i = 0; i < out.count; i++) {
    size_t bytes;
    const char *piece = ls_tokenizer_text(t, out.token[i], i == 0, &bytes);
    assert_non_null(piece);
    memcpy(back + used, piece, bytes);
    used += bytes;
  }
  assert_string_equal(back, text);
  return out;
}

static void assert_tokens(ls_tokenizer_t *t, const char *text, const char *want) {
  tokens_t out = tokens_of(t, text);
  char got[512] = "";
  for (int i = 0; i < out.count; i++)
    snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "", out.token[i]);
  assert_string_equal(got, want);
}

static void texts_become_the_tokens_of_gpt2(void **state) {
  static const char *const cases[][2] = {
      {"Hello, world! I'm GPT-2.", "15496 11 995 0 314 1101 402 11571 12 17 13"},
      {"  two  spaces ", "220 734 220 9029 220"},
      {"it's we'll they're I'VE", "270 338 356 1183 484 821 314 6 6089"},
      {"1234567890 3.14", "10163 2231 30924 3829 513 13 1415"},
      {"a   b", "64 220 220 275"},
      {"\n\n\n  x", "628 198 220 2124"},
      {"tabs\tand\nnew\n\nlines\r\n", "8658 82 197 392 198 3605 198 198 6615 201 198"},
      {"naïve café — “quotes”", "2616 38776 40304 851 564 250 421 6421 447 251"},
      {"½ ² ① Ⅷ ٣", "23141 1587 110 2343 239 254 2343 227 100 18923 96"},
      {"日本語のテキスト", "33768 98 17312 105 45739 252 5641 24336 25084 43302"},
      {"👋🏽 emoji", "41840 233 8582 237 121 44805"},
      {"a<|endoftext|>a", "64 50256 64"},
      {"", ""},
  };
  ls_tokenizer_t *t;
  if (ls_tokenizer_open(said.ctx, GPT2_PART, &t) != LS_OK) fail_msg("%s", said.messages);
  assert_int_equal(ls_tokenizer_size(t), 50257);
  for (int i = 0; i < LS_COUNT(cases); i++)
    assert_tokens(t, cases[i][0], cases[i][1]);
  size_t bytes;
  assert_null(ls_tokenizer_text(t, 50000, false, &bytes)); /* a number that the part leaves out */
  assert_null(ls_tokenizer_text(t, 50257, false, &bytes));
  tokens_t none = {0};
  assert_refused(ls_tokenizer_encode(t, "f", "good\nbad \xff", 10, keep, &none), LS_ERR_DATA,
                 "f:2:5: this is not UTF-8");
  ls_tokenizer_close(t);
}

#define ALL_BYTES "\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"abc\": 4, \"bc\": 5"
static void json_of(char *json, const char *model, const char *merges, const char *more) {
  sprintf(json,
          "{%s \"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"model\": {%s \"vocab\": {" ALL_BYTES
          "}, \"merges\": %s}}",
          more, model, merges);
}

static void merges_go_by_rank_then_from_the_left(void **state) {
  char json[600];
  static const char *const forms[] = {"[\"b c\", \"a b\", \"a bc\"]",
                                      "[[\"b\", \"c\"], [\"a\", \"b\"], [\"a\", \"bc\"]]"};
  for (int i = 0; i < 2; i++) {
    ls_tokenizer_t *t;
    json_of(json, "\"type\": \"BPE\", ", forms[i],
            "\"added_tokens\": [{\"id\": 9, \"content\": \"<x>\"}, "
            "{\"id\": 7, \"content\": \"<x\"}], ");
    if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
    assert_tokens(t, "abc", "4"); /* bc is first, so ab is never made */
    assert_tokens(t, "abbcab", "3 5 3");
    assert_tokens(t, "ab<x>ab<xab", "3 9 3 7 3"); /* the longer of two */
    ls_tokenizer_close(t);
  }
}

/* The vocabulary writes the byte 0xe9 as U+00E9 and a line's end as U+010A; added tokens are written as they are. */
static void an_added_token_may_be_in_the_vocabulary_as_it_is_written(void **state) {
  static const char *const texts[] = {"<\u00e9>", "<\u010a>", "<m>"};
  for (int i = 0; i < LS_COUNT(texts); i++) {
    char json[400];
    snprintf(json, sizeof json,
             "{\"added_tokens\": [{\"id\": 2, \"content\": \"%s\"}], \"pre_tokenizer\": {\"type\": "
             "\"ByteLevel\"}, \"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"%s\": 2}, \"merges\": []}}",
             texts[i], texts[i]);
    ls_tokenizer_t *t;
    if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
    static const char *const raw[] = {"a<\xc3\xa9>b", "a<\xc4\x8a>b", "a<m>b"};
    assert_tokens(t, raw[i], "0 2 1");
    ls_tokenizer_close(t);
  }
}

static void count(void *user, int32_t token) {
  assert_int_equal(token, 4);
  ++*(int64_t *)user;
}

/* n log n: a naive search of each lowest pair takes minutes for this word. */
static void a_long_word_takes_no_long_time(void **state) {
  char json[600];
  size_t size = (size_t)3 << 20;
  char *text = malloc(size);
  for (size_t i = 0; i < size; i++)
    text[i] = "abc"[i % 3];
  json_of(json, "", "[\"a b\", \"ab c\"]", "");
  ls_tokenizer_t *t;
  if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
  int64_t all = 0;
  assert_int_equal(ls_tokenizer_encode(t, "text", text, size, count, &all), LS_OK);
  assert_int_equal(all, size / 3);
  ls_tokenizer_close(t);
  free(text);
}

static void what_gives_other_tokens_is_refused_by_name(void **state) {
  static const struct {
    const char *model, *merges, *more;
    ls_status_t status;
    const char *why;
  } cases[] = {
      {"\"type\": \"WordPiece\", ", "[]", "", LS_ERR_UNSUPPORTED,
       "its pre_tokenizer is ByteLevel beside WordPiece"},
      {"\"type\": \"WordLevel\", ", "[]", "", LS_ERR_UNSUPPORTED, "its model is WordLevel"},
      {"\"type\": \"Unigram\", ", "[]", "", LS_ERR_UNSUPPORTED, "its model is Unigram"},
      {"\"byte_fallback\": true, ", "[]", "", LS_ERR_UNSUPPORTED,
       "model's option is byte_fallback beside ByteLevel"},
      {"\"unk_token\": \"<u>\", ", "[]", "", LS_ERR_DATA, "its unk_token '<u>' is not in the vocabulary"},
      {"\"end_of_word_suffix\": \"</w>\", ", "[]", "", LS_ERR_UNSUPPORTED,
       "model's option is end_of_word_suffix"},
      {"\"dropout\": 0.1, ", "[]", "", LS_ERR_UNSUPPORTED, "model's option is dropout"},
      {"", "[]", "\"normalizer\": {\"type\": \"Precompiled\"}, ", LS_ERR_UNSUPPORTED,
       "its normalizer is Precompiled"},
      {"", "[]", "\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"▁\"}, ", LS_ERR_UNSUPPORTED,
       "its normalizer is Prepend without Replace"},
      {"", "[]", "\"added_tokens\": [{\"id\": -1, \"content\": \"<m>\"}], ", LS_ERR_DATA,
       "the number of token '<m>'"},
      {"", "[]", "\"added_tokens\": [{\"id\": 1, \"content\": \"<m>\"}], ", LS_ERR_DATA,
       "added token '<m>' has number 1, which another one has"},
      {"", "[]", "\"added_tokens\": [{\"id\": 7, \"content\": \"a\"}], ", LS_ERR_DATA,
       "added token 'a' has number 7, and number 0 in the vocabulary"},
      {"", "[]", "\"added_tokens\": {\"a\": 1}, ", LS_ERR_DATA, "its added_tokens are no list"},
      {"", "[]", "\"added_tokens\": [{\"id\": 8, \"content\": \"<m>\"}, {\"id\": 9, \"content\": \"<m>\"}], ",
       LS_ERR_UNSUPPORTED, "its added token, also under another number, is <m>"},
      {"", "[]", "\"added_tokens\": [{\"id\": 3}], ", LS_ERR_DATA, "added token 0 (from 0) has no content"},
      {"", "[\"a d\"]", "", LS_ERR_DATA, "merge 0 (from 0) is of 'd', which is not in the vocabulary"},
      {"", "[\"a b\", \"a b\"]", "", LS_ERR_DATA, "merge 1 (from 0) is there twice"},
      {"", "[\"ab\"]", "", LS_ERR_DATA, "merge 0 (from 0) is no pair of tokens"},
      {"", "7", "", LS_ERR_DATA, "its model has no merges"},
  };
  static const struct {
    const char *json;
    ls_status_t status;
    const char *why;
  } whole[] = {
      {"{\"model\": {\"vocab\": {}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Sequence\"}}",
       LS_ERR_UNSUPPORTED, "its pre_tokenizer is a Sequence without its pretokenizers"},
      {"{\"model\": {\"vocab\": {}, \"merges\": []}, \"normalizer\": {\"type\": \"Sequence\", "
       "\"normalizers\": 5}}",
       LS_ERR_UNSUPPORTED, "its normalizer is a Sequence without its normalizers"},
      {"{\"model\": {\"vocab\": {}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Metaspace\", "
       "\"replacement\": "
       "\"▁\"}, \"decoder\": {\"type\": \"Sequence\"}}",
       LS_ERR_UNSUPPORTED, "its decoder is a Sequence without its decoders"},
      {"{\"model\": {\"vocab\": {}, \"merges\": []}}", LS_ERR_UNSUPPORTED, "its pre_tokenizer is none"},
      {"{\"model\": {\"vocab\": {}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
       LS_ERR_DATA, "its vocabulary is empty"},
      {"{\"model\": {\"vocab\": {\"a\": 1, \"b\": 1}, \"merges\": []}, \"pre_tokenizer\": {\"type\": "
       "\"ByteLevel\"}}",
       LS_ERR_DATA, "token 'b' has number 1, which another one has"},
      {"{\"model\": {\"vocab\": {\"日\": 1}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
       LS_ERR_UNSUPPORTED, "token '日' is not of bytes"},
      {"{\"model\": {\"vocab\": {\"a\": 99999999}, \"merges\": []}, \"pre_tokenizer\": {\"type\": "
       "\"ByteLevel\"}}",
       LS_ERR_DATA, "the number of token 'a' is not a whole number"},
      {"{}", LS_ERR_DATA, "it has no model"},
      {"{\"model\": 1", LS_ERR_DATA, "v:1:"},
      {"[\"a\", \"bc\"]", LS_ERR_DATA, "item 1 (from 0) of its vocabulary, 'bc', is no character"},
      {"[\"a\", \"a\"]", LS_ERR_DATA, "item 1 (from 0) of its vocabulary, 'a', is there twice"},
  };
  char json[900];
  ls_tokenizer_t *t;
  for (int i = 0; i < LS_COUNT(cases) + LS_COUNT(whole); i++) {
    bool made = i < LS_COUNT(cases);
    const char *text = made ? json : whole[i - LS_COUNT(cases)].json;
    if (made) json_of(json, cases[i].model, cases[i].merges, cases[i].more);
    said_clear();
    ls_status_t status = ls_tokenizer_parse(said.ctx, "v", text, strlen(text), &t);
    assert_said(made ? cases[i].why : whole[i - LS_COUNT(cases)].why);
    assert_int_equal(status, made ? cases[i].status : whole[i - LS_COUNT(cases)].status);
    assert_int_equal(ls_ctx_error_count(said.ctx), 1);
  }
}

#define SPLIT(pattern, behavior)                                                                             \
  "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern "\"}, \"behavior\": \"" behavior "\"}"
#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"use_regex\": false}"
#define METASPACE  "{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"prepend_scheme\": "
#define PREPEND    "{\"type\": \"Prepend\", \"prepend\": \"▁\"}"
#define REPLACE    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"▁\"}"
#define STRIP      "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"

static char *form_of(char *json, const char *normalizer, const char *cuts, const char *decoder,
                     const char *options) {
  sprintf(
      json,
      "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [%s]}, \"pre_tokenizer\": {\"type\": "
      "\"Sequence\", \"pretokenizers\": [%s]}, \"decoder\": %s, \"added_tokens\": [{\"id\": 9, \"content\": "
      "\"<s>\"}], \"model\": {%s \"vocab\": {" ALL_BYTES ", %s}, \"merges\": [\"a b\"]}}",
      normalizer, cuts, decoder, options,
      strstr(cuts, "ByteLevel") ? "\"Ġ\": 6, \"Ċ\": 7" : "\"▁\": 6, \"<0x0A>\": 7");
  return json;
}

static void what_cuts_otherwise_is_refused_by_name(void **state){
    static const struct {const char * normalizer, *cuts, *decoder, *why;
}
cases[] =
    {
#define REPLACES(pattern, content)                                                                           \
  {"{\"type\": \"Replace\", \"pattern\": {" pattern "}" content "}", BYTE_LEVEL, "null",
        REPLACES("\"String\": \"a\"", "") "its normalizer is Replace without a content"},
    REPLACES("\"String\": \"a\"", ", \"content\": 5") "its normalizer is Replace without a content"
}
, REPLACES("\"String\": \"a\", \"Regex\": \"b\"",
           ", \"content\": \"\"") "its normalizer is Replace with two patterns"
}
,
    {"",
     "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\", \"Regex\": 5}, \"behavior\": "
     "\"Isolated\"}, " BYTE_LEVEL,
     "null", "its pre_tokenizer is Split with two patterns"},
    {"", "{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"hello\"}, " BYTE_LEVEL, "null",
     "its pre_tokenizer is CharDelimiterSplit without a delimiter of one character"},
    {"", "{\"type\": \"CharDelimiterSplit\"}, " BYTE_LEVEL, "null",
     "its pre_tokenizer is CharDelimiterSplit without a delimiter of one character"},
    {"", SPLIT("a", "Merged") ", " BYTE_LEVEL, "null", "its pre_tokenizer's behavior is Merged"},
    {"", SPLIT("", "Isolated") ", " BYTE_LEVEL, "null", "its pre_tokenizer is Split without a pattern"},
    {"", BYTE_LEVEL ", " SPLIT("a", "Isolated"), "null", "its pre_tokenizer is without ByteLevel at its end"},
    {"", "{\"type\": \"UnicodeScripts\"}, " BYTE_LEVEL, "null", "its pre_tokenizer is UnicodeScripts"},
    {"", "{\"type\": \"CharDelimiterSplit\"}, " BYTE_LEVEL, "null",
     "its pre_tokenizer is CharDelimiterSplit without a delimiter"},
    {"{\"type\": \"Replace\", \"content\": \"a\"}", BYTE_LEVEL, "null",
     "its normalizer is Replace without a pattern"},
    {"{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a*\"}, \"content\": \"a\"}", BYTE_LEVEL, "null",
     "a match of no characters"},
    {"{\"type\": \"Prepend\", \"prepend\": \"_\"}", BYTE_LEVEL, "null", "its normalizer is Prepend"},
    {REPLACE ", {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"b\"}", "", STRIP,
     "its normalizer is Replace beside Replace"},
    {"", SPLIT("a", "Removed") ", {\"type\": \"ByteLevel\", \"add_prefix_space\": true}", "null",
     "add_prefix_space: true behind another cut"},
    {"", METASPACE "\"last\"}", STRIP, "its Metaspace's prepend_scheme is last"},
    {"", "{\"type\": \"Metaspace\", \"replacement\": \"_\"}", STRIP, "its Metaspace's replacement is _"},
    {"", METASPACE "\"first\"}", "null", "its decoder is none"},
    {"", METASPACE "\"first\"}", "{\"type\": \"WordPiece\"}", "its decoder is WordPiece"},
    {PREPEND, METASPACE "\"first\"}", STRIP, "its normalizer is Prepend without Replace"},
    {PREPEND ", " REPLACE, METASPACE "\"first\"}", STRIP, "its pre_tokenizer is Metaspace"},
    {REPLACE ", {\"type\": \"NFC\"}", "", STRIP, "its normalizer is NFC beside Replace"},
    {REPLACE ", {\"type\": \"Lowercase\"}", "", STRIP, "its normalizer is Lowercase"},
    {REPLACE, SPLIT("a", "Isolated"), STRIP, "its pre_tokenizer is Split"},
    {REPLACE, BYTE_LEVEL, STRIP, "its pre_tokenizer is ByteLevel beside Replace"},
    {"{\"type\": \"NFC\"}", METASPACE "\"always\"}", STRIP, "its normalizer is NFC beside Metaspace"},
    {"", SPLIT("a", "Isolated") ", " METASPACE "\"always\"}", STRIP,
     "its pre_tokenizer is Metaspace beside another cut"},
    {"", "{\"type\": \"Sequence\", \"pretokenizers\": []}, " BYTE_LEVEL, "null",
     "its pre_tokenizer is a Sequence within a Sequence"},
#define PATTERN(pattern, reason)                                                                             \
  { "", SPLIT(pattern, "Isolated") ", " BYTE_LEVEL, "null", "has a pattern with " reason }
    PATTERN("x|(?i)b", "a group that is none of (?: (?i: (?= (?! (?<= (?<! (?>, from byte 2 of 'x|(?i)b'"),
    PATTERN("(?<n>a)", "a group that"),
    PATTERN("(?i:ß|[a-z])", "more than ASCII within (?i:, from byte 4 of '(?i:ß|[a-z])'"),
    PATTERN("(?i:a(b|[cß]))", "more than ASCII within (?i:"),
    PATTERN("(?i:\\\\p{L})", "more than ASCII within (?i:"),
    PATTERN("(?i:[\\\\u00df])", "more than ASCII within (?i:"),
    PATTERN("(?i:\\\\S)", "more than ASCII within (?i:"),
    PATTERN("(?i:k|First)", "ss, st, ff, fi or fl within (?i:, from byte 6"),
    PATTERN("(*NO_JIT)a", "a group that"), PATTERN("(a", "missing closing parenthesis, from byte 2 of '(a'"),
    PATTERN("[a", "a class without its end"),
    PATTERN("[a-z&&[^b]]", "an intersection of classes, from byte 4"),
    PATTERN("[a[^b]]", "a negated or named class within a class"),
    PATTERN("[[:alpha:]]", "a negated or named class within a class"),
    PATTERN("a{1,3}+", "an interval with + or ? behind it, from byte 1 of 'a{1,3}+'"),
    PATTERN("a{2}?", "an interval with + or ?"), PATTERN("a{,3}", "a { that begins no interval"),
    PATTERN("\\\\w+", "an escape that the two libraries read differently, from byte 0"),
    PATTERN("a\\\\b", "an escape that"), PATTERN("[\\\\h]", "an escape that"),
    PATTERN("a\\\\Kb", "an escape that"), PATTERN("(a)\\\\1", "an escape that"),
    PATTERN("\\\\u12", "\\u without four digits"), PATTERN("\\\\pL", "a property that is not \\p{NAME}"),
    PATTERN("\\\\p{^L}", "a property that is not \\p{NAME}"),
    PATTERN("\\\\p", "a property that is not \\p{NAME}"), PATTERN("\\\\p{Nonesuch}", "unknown property"),
    {"{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"[a\"}, \"content\": \"\"}", BYTE_LEVEL, "null",
     "v: its normalizer has a pattern with a class without its end, from byte 2 of '[a'"},
    PATTERN("a*", "a match of no characters, from byte 0 of 'a*'"),
    PATTERN("a|(?=b)", "a match of no characters"),
}
;
char json[2000];
for (int i = 0; i < LS_COUNT(cases); i++) {
  ls_tokenizer_t *t;
  said_clear();
  form_of(json, cases[i].normalizer, cases[i].cuts, cases[i].decoder, "");
  ls_status_t status = ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t);
  assert_said(cases[i].why);
  assert_said("v: its ");
  assert_said("Another program can make a token file, which data.tokens: u16 or i32 reads");
  assert_int_equal(status, LS_ERR_UNSUPPORTED);
  assert_int_equal(ls_ctx_error_count(said.ctx), 1);
}
}

#define BERT                                                                                                 \
  "\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true, "    \
  "\"strip_accents\": null, \"lowercase\": true}, \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, "
#define DECODER    "\"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}, "
#define WORD_PIECE "\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", "
#define PIECES                                                                                               \
  "\"[UNK]\": 0, \"a\": 1, \"##b\": 2, \"ab\": 3, \"b\": 4, \".\": 5, \"n't\": 6, \"do not\": 7, \"##\": "   \
  "8, \"##do "                                                                                               \
  "not\": 9"
static char *pieces_of(char *json, const char *parts, const char *model) {
  sprintf(json, "{%s \"model\": {%s \"vocab\": {" PIECES "}}}", parts, model);
  return json;
}

static void wordpieces_are_refused_by_name(void **state) {
  static const struct {
    const char *parts, *model;
    ls_status_t status;
    const char *why;
  } cases[] = {
      {BERT DECODER, "\"type\": \"WordPiece\", \"unk_token\": \"none\", ", LS_ERR_DATA,
       "its unk_token 'none' is not in the vocabulary"},
      {BERT DECODER, "\"type\": \"WordPiece\", \"unk_token\": null, ", LS_ERR_DATA,
       "its model's unk_token is no text"},
      {BERT DECODER, WORD_PIECE "\"continuing_subword_prefix\": 2, ", LS_ERR_DATA,
       "its model's continuing_subword_prefix is no text"},
      {BERT DECODER, WORD_PIECE "\"max_input_chars_per_word\": 0, ", LS_ERR_DATA,
       "max_input_chars_per_word is not a whole number from 1"},
      {BERT DECODER, WORD_PIECE "\"max_input_chars_per_word\": 1.5, ", LS_ERR_DATA,
       "max_input_chars_per_word is not a whole number from 1"},
      {BERT "\"decoder\": {\"type\": \"WordPiece\", \"prefix\": 1}, ", WORD_PIECE, LS_ERR_DATA,
       "its decoder's prefix is no text"},
      {BERT "\"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": \"no\"}, ", WORD_PIECE,
       LS_ERR_DATA, "its decoder's cleanup is neither true nor false"},
      {BERT "\"decoder\": {\"type\": \"BPEDecoder\"}, ", WORD_PIECE, LS_ERR_UNSUPPORTED,
       "its decoder is BPEDecoder"},
      {BERT "\"added_tokens\": [{\"id\": 12, \"content\": \"\\u200b\", \"normalized\": true}], ", WORD_PIECE,
       LS_ERR_UNSUPPORTED, "its added token, of which the normalizer leaves nothing, is"},
      {"\"normalizer\": {\"type\": \"BertNormalizer\"}, ", WORD_PIECE, LS_ERR_DATA,
       "its normalizer's clean_text is neither true nor false"},
      {"\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true, "
       "\"lowercase\": true, \"strip_accents\": 1}, ",
       WORD_PIECE, LS_ERR_DATA, "its normalizer's strip_accents is neither true nor false"},
      {"\"normalizer\": " PREPEND ", ", WORD_PIECE, LS_ERR_UNSUPPORTED,
       "its normalizer is Prepend without Replace"},
      {"\"normalizer\": {\"type\": \"Nmt\"}, ", WORD_PIECE, LS_ERR_UNSUPPORTED, "its normalizer is Nmt"},
      {"\"pre_tokenizer\": {\"type\": \"Metaspace\"}, ", WORD_PIECE, LS_ERR_UNSUPPORTED,
       "its pre_tokenizer is Metaspace beside WordPiece"},
      {"\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}, ", WORD_PIECE, LS_ERR_UNSUPPORTED,
       "its pre_tokenizer is UnicodeScripts"},
  };
  char json[1200];
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_tokenizer_t *t;
    said_clear();
    pieces_of(json, cases[i].parts, cases[i].model);
    ls_status_t status = ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t);
    assert_said(cases[i].why);
    assert_int_equal(status, cases[i].status);
    assert_int_equal(ls_ctx_error_count(said.ctx), 1);
  }
}

/* Split and Punctuation alone have one; Hugging Face's library takes no notice of others. */
static void a_behavior_counts_where_the_type_has_one(void **state) {
  static const char *const cases[][2] = {
      {"Whitespace", "1 4"}, {"WhitespaceSplit", "1 4"}, {"Digits", "0"}, {"Punctuation", "0"}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    char parts[200], json[1200], got[64] = "";
    ls_tokenizer_t *t;
    tokens_t out = {0};
    snprintf(parts, sizeof parts, "\"pre_tokenizer\": {\"type\": \"%s\", \"behavior\": \"%s\"}, ",
             cases[i][0], i < 3 ? "none" : "Removed");
    pieces_of(json, parts, WORD_PIECE);
    if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
    assert_int_equal(ls_tokenizer_encode(t, "f", "a b", 3, keep, &out), LS_OK);
    for (int m = 0; m < out.count; m++)
      snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", m ? " " : "", out.token[m]);
    assert_string_equal(got, cases[i][1]);
    ls_tokenizer_close(t);
  }
}

static void wordpieces_give_their_text_back(void **state) {
  /* The text of a token at the begin of a text, and after another token. */
  static const char *const texts[][2] = {
      {"[UNK]", " [UNK]"}, {"a", " a"},    {"##b", "b"},         {"ab", " ab"}, {"b", " b"},
      {".", "."},          {"n't", "n't"}, {"do not", " don't"}, {"##", ""},    {"##do not", "do not"}};
  char json[1200];
  ls_tokenizer_t *t;
  pieces_of(json, BERT DECODER, WORD_PIECE);
  if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
  assert_false(ls_tokenizer_keeps(t));
  for (int i = 0; i < LS_COUNT(texts); i++)
    for (int behind = 0; behind < 2; behind++) {
      size_t bytes;
      const char *text = ls_tokenizer_text(t, i, !behind, &bytes);
      assert_int_equal(bytes, strlen(texts[i][behind]));
      assert_memory_equal(text, texts[i][behind], bytes);
    }
  ls_tokenizer_close(t);
}

/* Without a trie, each of a word's places would hash each length up to that of the longest token. */
static void a_long_word_of_pieces_takes_no_long_time(void **state) {
  enum { LONG = 16 << 10 };
  char *json = malloc(LONG + 300), *text = malloc(LONG + 1);
  memset(text, 'a', LONG);
  text[LONG] = '\0';
  snprintf(json, LONG + 300,
           "{\"model\": {\"type\": \"WordPiece\", \"continuing_subword_prefix\": \"\", "
           "\"max_input_chars_per_word\": 10000000, \"vocab\": {\"[UNK]\": 3, \"%sb\": 5, \"a\": 4}}}",
           text);
  ls_tokenizer_t *t;
  if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
  int64_t all = 0;
  assert_int_equal(ls_tokenizer_encode(t, "text", text, LONG, count, &all), LS_OK);
  assert_int_equal(all, LONG);
  ls_tokenizer_close(t);
  free(json);
  free(text);
}

static ls_status_t encode_status(const char *json, const char *text) {
  ls_tokenizer_t *t;
  tokens_t none = {0};
  said_clear();
  if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
  ls_status_t status = ls_tokenizer_encode(t, "f", text, strlen(text), keep, &none);
  ls_tokenizer_close(t);
  assert_int_equal(ls_ctx_error_count(said.ctx), status == LS_OK ? 0 : 1);
  return status;
}

/* Words of zero bytes had no symbols, and what stood before them in memory was written. */
static void zero_bytes_are_tokens_like_others(void **state) {
#define ZEROS(kind, vocab)                                                                                   \
  "{\"model\": {\"type\": \"BPE\", " kind " \"vocab\": {\"<u>\": 0, \"a\": 1, \"b\": 2" vocab                \
  "}, \"merges\": []}, "
#define OF_CHARACTERS "\"normalizer\": " REPLACE ", \"decoder\": {\"type\": \"Fuse\"}}"
#define OF_BYTES      "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}}"
#define FALLS_BACK    "\"byte_fallback\": true,"
#define UNKNOWN       "\"unk_token\": \"<u>\","
  static const struct {
    const char *json, *tokens[3]; /* of each text */
    const char *why;
  } cases[] = {
      {ZEROS(FALLS_BACK, ", \"<0x00>\": 3") OF_CHARACTERS, {"1 3 2", "3 3 3", "3"}, NULL},
      {ZEROS(FALLS_BACK UNKNOWN, "") OF_CHARACTERS, {"1 0 2", "0 0 0", "0"}, NULL},
      {ZEROS(UNKNOWN "\"fuse_unk\": true,", "") OF_CHARACTERS, {"1 0 2", "0", "0"}, NULL},
      {ZEROS(FALLS_BACK, "") OF_CHARACTERS, {NULL}, "character '\\x00' has no token in the vocabulary"},
      {ZEROS("", ", \"\u0100\": 3") OF_BYTES, {"1 3 2", "3 3 3", "3"}, NULL},
      {ZEROS(UNKNOWN, "") OF_BYTES, {"1 0 2", "0 0 0", "0"}, NULL},
      {ZEROS("", "") OF_BYTES, {NULL}, "byte 0x00 has no token in the vocabulary"},
  };
  static const struct {
    const char *text;
    size_t bytes;
  } texts[] = {{"a\0b", 3}, {"\0\0\0", 3}, {"\0", 1}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_tokenizer_t *t;
    if (ls_tokenizer_parse(said.ctx, "v", cases[i].json, strlen(cases[i].json), &t) != LS_OK)
      fail_msg("%s", said.messages);
    for (int k = 0; k < LS_COUNT(texts); k++) {
      tokens_t out = {0};
      char got[64] = "";
      said_clear();
      ls_status_t status = ls_tokenizer_encode(t, "f", texts[k].text, texts[k].bytes, keep, &out);
      if (cases[i].why) assert_said(cases[i].why);
      assert_int_equal(status, cases[i].why ? LS_ERR_DATA : LS_OK);
      for (int m = 0; m < out.count; m++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", m ? " " : "", out.token[m]);
      if (!cases[i].why) assert_string_equal(got, cases[i].tokens[k]);
    }
    ls_tokenizer_close(t);
  }
}

typedef struct {
  tokens_t tokens;
  char *from, *end; /* what the first token's visit overwrites, and with what */
  int byte;
} overwritten_t;

static void keep_and_overwrite(void *user, int32_t token) {
  overwritten_t *o = user;
  keep(&o->tokens, token);
  memset(o->from, o->byte, (size_t)(o->end - o->from));
}

/* Another program overwrites the text, as it may do with a mapped file: lower case went nowhere, and patterns read
 * bytes that were not UTF-8. */
static void a_text_that_is_overwritten_meanwhile_has_an_end(void **state) {
#define FIRST                                                                                                \
  "\"added_tokens\": [{\"id\": 20, \"content\": \"<s>\", \"lstrip\": true, \"single_word\": true}], "
  static const struct {
    const char *parts;
    int from, end, byte; /* of the text */
    int tokens;
    const char *why; /* NULL: all tokens of the text as it was */
  } cases[] = {
      {FIRST "\"normalizer\": {\"type\": \"Lowercase\"}, ", 9, 16, 0xff, 2, "f:1:10: this is not UTF-8"},
      {FIRST "\"normalizer\": {\"type\": \"NFC\"}, ", 9, 16, 0xff, 2, "f:1:10: this is not UTF-8"},
      {FIRST "\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, ", 9, 16, 0xff, 3, "f:1:10: this is not"},
      {FIRST BERT, 0, 16, 0xff, 3, "f:1:9: this is not UTF-8"},
      {FIRST BERT, 0, 13, 0x80, 3, "f:1:9: this is not UTF-8"},
      {"\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, ", 0, 16, 0xff, 2, "f:1:1: this is not UTF-8"},
      {"\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, ", 0, 16,
       0xff, 5, NULL},
  };
  for (int i = 0; i < LS_COUNT(cases) && ls_unicode_there(); i++) {
    char json[1200], text[] = "a \xc3\xa9 <s> a \xc3\xa9<s>";
    ls_tokenizer_t *t;
    said_clear();
    pieces_of(json, cases[i].parts, WORD_PIECE);
    if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
    overwritten_t o = {.from = text + cases[i].from, .end = text + cases[i].end, .byte = cases[i].byte};
    ls_status_t status = ls_tokenizer_encode(t, "f", text, sizeof text - 1, keep_and_overwrite, &o);
    if (cases[i].why) assert_said(cases[i].why);
    assert_int_equal(status, cases[i].why ? LS_ERR_DATA : LS_OK);
    assert_int_equal(o.tokens.count, cases[i].tokens);
    ls_tokenizer_close(t);
  }
}

static void forms_name_text_that_is_no_utf8(void **state) {
  static const char text[] = "\nab\xc3\xa9\xff";
  for (int form = 0; form < LS_UNICODE_EACH && ls_unicode_there(); form++) {
    ls_bytes_t to = {.ctx = said.ctx};
    said_clear();
    const ls_piece_t line = {
        .bytes = text + 1, .count = 5, .file = "f", .text = text, .at = 1, .size = sizeof text - 1};
    assert_refused(ls_unicode_put((ls_unicode_t)form, &line, &to), LS_ERR_DATA,
                   form == LS_UNICODE_LOWER ? "f:2:5: this is not UTF-8" : "f:2:1: this is not UTF-8");
    ls_free(to.bytes);
  }
}

static void text_that_cannot_be_cut_is_refused_at_its_place(void **state) {
  char json[2000];
  form_of(json, "", SPLIT("(?:a|aa)+$", "Isolated") ", " BYTE_LEVEL, "null", "");
  assert_refused(encode_status(json, "abc\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"),
                 LS_ERR_DATA, "f:1:1: the pattern of v gives up here: match limit exceeded");
  /* More than the stack of compiled patterns, less than the interpreter's memory, and more than both. */
  enum { LONG = 173807, TOO_LONG = 4 << 20 };
  char *text = calloc(1, TOO_LONG + 1);
  memset(text, 'a', TOO_LONG);
  form_of(json, "", SPLIT("(?:\\\\p{L}|\\\\p{M})+", "Removed") ", " BYTE_LEVEL, "null", "");
  assert_refused(encode_status(json, text), LS_ERR_DATA,
                 "limit exceeded. Break the text up behind this place, with a line's end for example");
  text[LONG] = '\0';
  assert_int_equal(encode_status(json, text), LS_OK);
  free(text);
#define TENFOLD "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaaaaaaaa\"}"
  form_of(json, TENFOLD ", " TENFOLD ", " TENFOLD ", " TENFOLD ", " TENFOLD ", " TENFOLD, BYTE_LEVEL, "null",
          "");
  assert_refused(encode_status(json, "b\na"), LS_ERR_DATA,
                 "Replace in the normalizer of v makes the text more than 64 times as long");
  char *once = malloc(sizeof json + LONG); /* a single match */
  sprintf(once, "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"%0*d\"}", (int)LONG,
          0);
  char *long_json = malloc(sizeof json + LONG);
  form_of(long_json, once, BYTE_LEVEL, "null", "");
  assert_refused(encode_status(long_json, "b\nba"), LS_ERR_DATA,
                 "f:2:2: with this match, Replace in the normalizer of v makes");
  free(once);
  free(long_json);
  form_of(json, REPLACE, "", STRIP, "\"byte_fallback\": true, ");
  assert_int_equal(encode_status(json, "ab a\n"), LS_OK);
  assert_int_equal(encode_status(json, "ab a\n\xc3\xa9"), LS_ERR_DATA); /* no token for its bytes */
  assert_said("f:2:1: character 'é' has no token in the vocabulary");
  assert_refused(encode_status(json, "ab\n a\xff"), LS_ERR_DATA, "f:2:3: this is not UTF-8");
}

static void a_sequence_of_one_and_no_dropout_are_plain(void **state) {
  ls_tokenizer_t *t;
  static const char json[] =
      "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}]}, "
      "\"model\": {\"dropout\": 0.0, \"vocab\": {" ALL_BYTES "}, \"merges\": [\"a b\"]}}";
  if (ls_tokenizer_parse(said.ctx, "v", json, strlen(json), &t) != LS_OK) fail_msg("%s", said.messages);
  assert_tokens(t, "abc", "3 2");
  ls_tokenizer_close(t);
}

static void bytes_and_characters(void **state) {
  ls_tokenizer_t *t;
  assert_int_equal(ls_tokenizer_bytes(said.ctx, &t), LS_OK);
  assert_tokens(t, "a\xff\n", "97 255 10");
  assert_int_equal(ls_tokenizer_size(t), 256);
  ls_tokenizer_close(t);
  assert_int_equal(ls_tokenizer_scan(said.ctx, "f", "naïve", 6, &t), LS_OK);
  assert_int_equal(ls_tokenizer_size(t), 5);
  assert_tokens(t, "naïve", "2 0 4 3 1");
  ls_strings_t list = ls_tokenizer_list(t);
  ls_tokenizer_t *again;
  assert_int_equal(ls_tokenizer_characters(said.ctx, "the checkpoint", &list, &again), LS_OK);
  assert_tokens(again, "van", "3 0 2");
  ls_tokenizer_close(again);
  ls_tokenizer_close(t);
}

static ls_status_t attempt(ls_ctx_t *ctx, void *json) {
  ls_tokenizer_t *t = NULL;
  tokens_t out = {0};
  ls_status_t status = ls_tokenizer_parse(ctx, "v", json, strlen(json), &t);
  if (status == LS_OK) status = ls_tokenizer_encode(t, "text", "abcab", 5, keep, &out);
  ls_tokenizer_close(t);
  return status;
}

static void memory_may_run_out(void **state) {
  char json[600], list[] = "[\"a\", \"b\", \"c\"]";
  json_of(json, "", "[\"a b\", \"ab c\"]", "\"added_tokens\": [{\"id\": 9, \"content\": \"<x>\"}], ");
  each_alloc_fails(attempt, json);
  each_alloc_fails(attempt, list);
  char form[2000];
  each_alloc_fails(attempt,
                   form_of(form, "", SPLIT("\\\\s|b", "Isolated") ", {\"type\": \"ByteLevel\"}", "null", ""));
  each_alloc_fails(attempt, form_of(form, PREPEND ", " REPLACE, "", STRIP, ""));
  each_alloc_fails(attempt, pieces_of(form, BERT DECODER, WORD_PIECE));
  each_alloc_fails(attempt,
                   pieces_of(form,
                             "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"c\"}, "
                             "\"content\": \"CCC\"}, \"pre_tokenizer\": {\"type\": \"CharDelimiterSplit\", "
                             "\"delimiter\": \"C\"}, ",
                             WORD_PIECE));
}

TESTS(said_open, said_close, texts_become_the_tokens_of_gpt2, merges_go_by_rank_then_from_the_left,
      an_added_token_may_be_in_the_vocabulary_as_it_is_written, a_long_word_takes_no_long_time,
      what_gives_other_tokens_is_refused_by_name, what_cuts_otherwise_is_refused_by_name,
      wordpieces_are_refused_by_name, a_behavior_counts_where_the_type_has_one,
      wordpieces_give_their_text_back, a_long_word_of_pieces_takes_no_long_time,
      zero_bytes_are_tokens_like_others, a_text_that_is_overwritten_meanwhile_has_an_end,
      forms_name_text_that_is_no_utf8, text_that_cannot_be_cut_is_refused_at_its_place,
      a_sequence_of_one_and_no_dropout_are_plain, bytes_and_characters, memory_may_run_out)
