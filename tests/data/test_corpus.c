/* Text: tokens of files, vocabulary, windows, the split from the end, random starts, refusals. */
#include "common.h"
#include "data/text/characters.h"
#include "data/text/corpus.h"

enum { T = 4 };

static const ls_data_want_t want = {.inputs = T, .outputs = 256, .classes = true, .positions = T};

static ls_dataset_t *open_text(ls_data_config_t config, const ls_data_want_t *need) {
  ls_dataset_t *d = NULL;
  config.kind = LS_DATA_TEXT;
  if (ls_dataset_open(said.ctx, &config, NULL, need, 7, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  return d;
}

static void refused(ls_data_config_t config, ls_data_want_t need, ls_status_t status, const char *why) {
  ls_dataset_t *d = NULL;
  config.kind = LS_DATA_TEXT;
  said_clear();
  assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &need, 7, NULL, &d), status);
  assert_int_equal(ls_ctx_error_count(said.ctx), 1);
  assert_said(why);
}

static int32_t value(ls_dtype_t dtype, const void *x, int64_t i) {
  return dtype == LS_U8    ? ((const uint8_t *)x)[i]
         : dtype == LS_U16 ? ((const uint16_t *)x)[i]
                           : ((const int32_t *)x)[i];
}

/* One window by its row: x as i32, and its target. */
static void window_at(const ls_dataset_t *d, int64_t row, int32_t x[T], int32_t target[T]) {
  int32_t raw[T + 1];
  memset(raw, 0x7b, sizeof raw);
  ls_corpus_put(d->corpus, row, raw, target);
  const unsigned char *fence = (const unsigned char *)raw + T * ls_dtype_bytes(d->sample.x.dtype);
  assert_int_equal(*fence, 0x7b);
  for (int i = 0; i < T; i++)
    x[i] = value(d->sample.x.dtype, raw, i);
}

static void assert_window(const ls_dataset_t *d, ls_part_t part, int64_t index, int32_t first) {
  int32_t x[T], target[T];
  window_at(d, ls_dataset_row(d, part, index), x, target);
  for (int i = 0; i < T; i++) {
    assert_int_equal(x[i], first + i);
    assert_int_equal(target[i], first + i + 1);
  }
}

/* Tokens 0, 1, 2, ... of a dtype. */
static const char *counting_file(const char *name, ls_dtype_t dtype, const char *header, size_t header_bytes,
                                 int first, int count) {
  unsigned char bytes[2048] = {0};
  size_t one = ls_dtype_bytes(dtype);
  if (header_bytes > 0) memcpy(bytes, header, header_bytes);
  for (int32_t i = 0, token = first; i < count; i++, token++)
    memcpy(bytes + header_bytes + (size_t)i * one, &token, one);
  return file_make(name, bytes, header_bytes + (size_t)count * one);
}

static void windows_follow_each_other_and_the_split_is_at_the_end(void **state) {
  const char *path = counting_file("count", LS_U8, "", 0, 0, 40);
  ls_data_config_t config = {
      .path = path, .tokens = LS_TOKENS_BYTES, .windows = LS_WINDOWS_STRIDED, .validation = 0.25};
  ls_dataset_t *d = open_text(config, &want);
  /* 30 tokens to train on: windows at 0, 4, .. 24; 10 held out: at 30 and 34. */
  assert_int_equal(d->train_count, 7);
  assert_int_equal(d->validation_count, 2);
  assert_int_equal(d->sample.x.dtype, LS_U8);
  for (int i = 0; i < 7; i++)
    assert_window(d, LS_PART_TRAIN, i, 4 * i);
  assert_window(d, LS_PART_VALIDATION, 0, 30);
  assert_window(d, LS_PART_VALIDATION, 1, 34);
  char hash[LS_DATASET_HASH_BYTES], again[LS_DATASET_HASH_BYTES];
  ls_dataset_hash(d, 0, d->split_rows, hash);
  assert_int_equal(ls_dataset_split(said.ctx, 0, d), LS_OK);
  assert_int_equal(d->train_count, 9);
  assert_int_equal(d->train_count, d->split_rows);
  ls_dataset_hash(d, 0, d->split_rows, again);
  assert_string_equal(hash, again);
  ls_dataset_close(d);
  config.stride = 3;
  d = open_text(config, &want);
  assert_int_equal(d->train_count, 9); /* 0, 3, .. 24 */
  assert_window(d, LS_PART_TRAIN, 8, 24);
  assert_int_equal(d->validation_count, 2);
  ls_dataset_close(d);
  config.validation = 0;
  config.validation_path = counting_file("held", LS_U8, "", 0, 100, 12);
  d = open_text(config, &want);
  assert_int_equal(d->validation_count, 2);
  assert_true(d->rows > d->split_rows);
  assert_window(d, LS_PART_VALIDATION, 1, 104);
  ls_dataset_close(d);
}

static void token_files_of_nanogpt_and_llmc(void **state) {
  static const struct {
    ls_dtype_t dtype;
    int tokens;
    int32_t header[256];
  } cases[] = {{LS_U16, LS_TOKENS_U16},
               {LS_I32, LS_TOKENS_I32},
               {LS_U16, LS_TOKENS_AUTO, {20240520, 1, 100}},
               {LS_I32, LS_TOKENS_AUTO, {20240801, 7, 100}},
               {LS_U16, LS_TOKENS_U16, {20240520, 1, 100}}};
  const ls_data_want_t wide = {.inputs = T, .outputs = 50257, .classes = true, .positions = T};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    const char *path = counting_file("tokens", cases[i].dtype, (const char *)cases[i].header,
                                     cases[i].header[0] ? sizeof cases[i].header : 0, 300, 100);
    ls_dataset_t *d = open_text(
        (ls_data_config_t){.path = path, .tokens = cases[i].tokens, .windows = LS_WINDOWS_STRIDED}, &wide);
    assert_int_equal(d->sample.x.dtype, cases[i].dtype);
    assert_int_equal(d->train_count, 24);
    assert_window(d, LS_PART_TRAIN, 23, 392);
    assert_int_equal(d->vocabulary.count, 0);
    ls_dataset_close(d);
  }
}

static void windows_stay_in_their_file(void **state) {
  counting_file("shard-b", LS_U8, "", 0, 50, 7);
  const char *a = counting_file("shard-a", LS_U8, "", 0, 0, 10);
  counting_file("shard-c", LS_U8, "", 0, 90, 3); /* too short */
  counting_file("shard-d", LS_U8, "", 0, 120, 9);
  char pattern[200];
  snprintf(pattern, sizeof pattern, "%.*s*", (int)strlen(a) - 1, a);
  ls_data_config_t config = {.path = pattern, .tokens = LS_TOKENS_BYTES, .windows = LS_WINDOWS_STRIDED};
  ls_dataset_t *d = open_text(config, &want);
  static const int32_t first[] = {0, 4, 50, 120, 124};
  assert_int_equal(d->train_count, LS_COUNT(first));
  for (int i = 0; i < LS_COUNT(first); i++)
    assert_window(d, LS_PART_TRAIN, i, first[i]);
  ls_dataset_close(d);
  /* Anywhere, but never over an end: 6 + 3 + 5 places, each of which comes up. */
  config.windows = LS_WINDOWS_RANDOM;
  d = open_text(config, &want);
  int seen[256] = {0}, places = 0;
  for (uint64_t position = 0; position < 2000; position++) {
    int32_t x[T], target[T];
    window_at(d, ls_corpus_random(&d->corpus->part[LS_PART_TRAIN], 3, position), x, target);
    for (int i = 0; i < T; i++)
      assert_true(x[i] == x[0] + i && target[i] == x[i] + 1);
    places += seen[x[0]]++ == 0;
  }
  assert_int_equal(places, 6 + 3 + 5);
  ls_dataset_close(d);
}

/* One step's windows, filled by `ranks`. */
static void fill(const ls_dataset_t *d, int64_t step, int ranks, uint8_t x[6 * T], int32_t target[6 * T]) {
  for (int rank = 0; rank < ranks; rank++) {
    int64_t first = 6 * rank / ranks, count = 6 * (rank + 1) / ranks - first;
    float weight[6];
    ls_step_params_t params;
    ls_loader_spec_t spec = {.part = LS_PART_TRAIN,
                             .seed = 11,
                             .shuffle = true,
                             .global_batch = 6,
                             .first = first,
                             .rows = count,
                             .micro_batches = 1,
                             .total_samples = 6000,
                             .total_steps = 1000};
    ls_batch_fill(d, &spec, step, &(ls_batch_t){x + first * T, target + first * T, weight, &params});
    assert_true(weight[0] == (float)(1.0 / 6));
  }
}

static void random_windows_are_a_function_of_seed_and_position(void **state) {
  const char *path = counting_file("count", LS_U8, "", 0, 0, 200);
  ls_dataset_t *d =
      open_text((ls_data_config_t){.path = path, .tokens = LS_TOKENS_BYTES, .validation = 0.5}, &want);
  assert_int_equal(d->train_count, 24); /* 100 tokens */
  int64_t different = 0;
  uint8_t before[6 * T] = {0};
  for (int64_t step = 0; step < 30; step++) { /* over more than an epoch */
    uint8_t one[6 * T], other[6 * T];
    int32_t y_one[6 * T], y_other[6 * T];
    fill(d, step, 1, one, y_one);
    for (int ranks = 2; ranks <= 3; ranks++) {
      fill(d, step, ranks, other, y_other);
      assert_memory_equal(one, other, sizeof one);
      assert_memory_equal(y_one, y_other, sizeof y_one);
    }
    for (int i = 0; i < 6 * T; i++)
      assert_true(y_one[i] == one[i] + 1 && y_one[i] < 100);
    different += memcmp(before, one, sizeof one) != 0;
    memcpy(before, one, sizeof one);
  }
  assert_int_equal(different, 30);
  ls_dataset_close(d);
}

static void assert_text(const ls_dataset_t *d, const char *text) {
  char made[64] = "";
  for (int64_t i = 0; i < d->train_count; i++) {
    int32_t x[T], target[T];
    window_at(d, ls_dataset_row(d, LS_PART_TRAIN, i), x, target);
    for (int k = 0; k < T; k++)
      strcat(made, d->vocabulary.v[x[k]]);
    if (i + 1 == d->train_count) strcat(made, d->vocabulary.v[target[T - 1]]);
  }
  assert_string_equal(made, text);
}

static void count_put(void *puts, int32_t number) {
  (void)number;
  ++*(int64_t *)puts;
}

/* Found by an address sanitizer: as many bytes of ASCII, written over a text after it was counted, went beyond their memory. */
static void a_text_that_changes_after_it_was_counted_is_an_error(void **state) {
  static const char *const texts[] = {"ab\xc3\xa9\xc3\xa9", "abcdef", "\xc3\xa9\xc3\xa9\xc3\xa9"};
  uint32_t *number = calloc(LS_CODE_POINTS, sizeof *number);
  assert_non_null(number);
  for (int i = 0; i < LS_COUNT(texts); i++)
    assert_int_equal(ls_characters_mark(said.ctx, "text", texts[i], 6, number), LS_OK);
  ls_characters_t of = {.ctx = said.ctx, .file = "text", .number = number, .owner = "text", .count = 7};
  for (int i = 0; i < LS_COUNT(texts); i++) {
    of.counted = 4;
    int64_t puts = 0;
    said_clear();
    assert_int_equal(ls_characters_visit(&of, texts[i], 6, count_put, &puts), i == 0 ? LS_OK : LS_ERR_IO);
    assert_int_equal(puts, i == 2 ? 3 : 4);
    if (i > 0) assert_said("text: changed while it was read: a data file must not change during a run");
  }
  free(number);
}

static void characters_are_numbered_in_order(void **state) {
  static const char *const texts[] = {"hello, old world!",
                                      "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80 abcd efghij"};
  for (int i = 0; i < LS_COUNT(texts); i++) {
    ls_data_config_t config = {.path = file_make("text", texts[i], strlen(texts[i])),
                               .windows = LS_WINDOWS_STRIDED};
    ls_dataset_t *d = open_text(config, &want);
    for (int k = 1; k < d->vocabulary.count; k++)
      assert_true(strcmp(d->vocabulary.v[k - 1], d->vocabulary.v[k]) < 0);
    assert_text(d, texts[i]);
    /* Another text in the same numbers, and one that has no number. */
    config.vocabulary = d->vocabulary;
    config.path = file_make("other", texts[i] + 2, 9);
    ls_dataset_t *other = open_text(config, &want);
    assert_int_equal(other->vocabulary.count, d->vocabulary.count);
    char part[10] = "";
    memcpy(part, texts[i] + 2, 9);
    if (i == 0) assert_text(other, part);
    ls_dataset_close(other);
    config.path = file_make("strange", "hell\xc3\xa9llo", 9);
    refused(config, want, LS_ERR_MISMATCH,
            i == 0 ? "strange:1:5: character '\xc3\xa9' (U+00E9) is none of the 10 in the vocabulary of the "
                     "checkpoint"
                   : "strange:1:3: character 'l' (U+006C) is none of the 16");
    ls_dataset_close(d);
  }
}

static void tokens_may_begin_like_another_header(void **state) {
  static const int32_t begin[256] = {20240520, 2, 100};
  const ls_data_config_t config = {
      .path = counting_file("raw", LS_U16, (const char *)begin, sizeof begin, 0, 100),
      .tokens = LS_TOKENS_U16};
  ls_data_want_t wide = want;
  wide.outputs = 1 << 16;
  ls_dataset_t *d = open_text(config, &wide);
  assert_int_equal(d->corpus->file[0].count, 512 + 100);
  assert_said("header of version 2, but is read as u16 without a header");
  ls_dataset_close(d);
}

/* Tokens of 32 bits were read as twice as many of 16, in silence. */
static void wide_tokens_are_never_read_as_narrow_ones(void **state) {
  enum { WIDE = 70301 };
  ls_data_want_t wide = want, narrow = want;
  wide.outputs = WIDE;
  narrow.outputs = 1 << 16;
  const char *i32 = counting_file("wide.bin", LS_I32, "", 0, 65500, 100);
  const char *small = counting_file("small.bin", LS_I32, "", 0, 0, 100);
  const char *u16 = counting_file("narrow.bin", LS_U16, "", 0, 0, 100);
  static const char zeros[200];
  const char *zero = file_make("zero.bin", zeros, sizeof zeros);
  const char *odd = file_make("odd.bin", "\1\0\0\0\1\0\0\0\1\0\0\0\1\0", 14);
  for (int i = 0; i < 2; i++)
    refused(
        (ls_data_config_t){.path = i ? u16 : i32}, wide, LS_ERR_DATA,
        "the model's last layer has 70301 units, more than 16 bits count: set data.tokens to i32, or to u16");
  for (int i = 0; i < 2; i++)
    refused((ls_data_config_t){.path = i ? small : i32}, narrow, LS_ERR_DATA,
            "looks like tokens of 32 bits, not of 16: set data.tokens, or --type, to i32, or to u16");
  const struct {
    const char *path;
    int tokens;
    const ls_data_want_t *want;
    int64_t count;
  } cases[] = {{i32, LS_TOKENS_I32, &wide, 100},     {i32, LS_TOKENS_U16, &narrow, 200},
               {u16, LS_TOKENS_U16, &wide, 100},     {u16, LS_TOKENS_AUTO, &narrow, 100},
               {zero, LS_TOKENS_AUTO, &narrow, 100}, {odd, LS_TOKENS_AUTO, &narrow, 7}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_dataset_t *d =
        open_text((ls_data_config_t){.path = cases[i].path, .tokens = cases[i].tokens}, cases[i].want);
    assert_int_equal(d->corpus->file[0].count, cases[i].count);
    ls_dataset_close(d);
  }
}

static void what_cannot_be_read_is_refused(void **state) {
  static const int32_t header[256] = {20240520, 1, 101};
  const char *text = file_make("a.txt", "some text of ours", 17),
             *bytes = file_make("b", "some\xfftext\n", 10);
  const char *odd = file_make("odd.bin", "abcdefghijk", 11), *zero = file_make("z", "some\n\n\0 text", 11);
  const char *cut = counting_file("cut.bin", LS_U16, (const char *)header, sizeof header, 0, 100);
  static const int32_t newer[256] = {20240520, 2, 100};
  const char *other = counting_file("new.bin", LS_U16, (const char *)newer, sizeof newer, 0, 100);
  const char *named = counting_file("v2.tok", LS_U16, (const char *)newer, sizeof newer, 0, 100);
  const char *tokens = counting_file("t.bin", LS_U16, "", 0, 250, 12), *empty = file_make("e", "", 0);
  ls_data_want_t few = want, one = want, real = want;
  few.outputs = 8;
  one.positions = 0;
  real.classes = false;
  refused((ls_data_config_t){.path = bytes}, want, LS_ERR_DATA, "b:1:5: this is not UTF-8");
  refused((ls_data_config_t){.path = zero}, want, LS_ERR_DATA, "z:3:1: a zero byte: is this text?");
  refused((ls_data_config_t){.path = odd}, want, LS_ERR_DATA,
          "11 bytes are no whole number of tokens of 2 bytes");
  refused((ls_data_config_t){.path = cut}, want, LS_ERR_DATA,
          "promises 101 tokens of 2 bytes, but 200 bytes");
  refused((ls_data_config_t){.path = other}, want, LS_ERR_UNSUPPORTED,
          "it begins like llm.c's header of version 2");
  refused((ls_data_config_t){.path = named}, want, LS_ERR_UNSUPPORTED,
          "If the file has no header, set data.tokens, or --type, to u16");
  refused((ls_data_config_t){.path = named, .tokens = LS_TOKENS_U16}, want, LS_ERR_DATA,
          "token 0 (from 0; byte offset 0) is 55432, but the model's last layer has 256 units");
  refused((ls_data_config_t){.path = cut, .tokens = LS_TOKENS_I32}, want, LS_ERR_DATA,
          "set data.tokens, or --type, to u16");
  refused((ls_data_config_t){.path = tokens}, want, LS_ERR_DATA,
          "token 6 (from 0; byte offset 12) is 256, but the model's last layer has 256 units: tokens are 0 "
          "to 255");
  refused((ls_data_config_t){.path = text}, few, LS_ERR_DATA,
          "10 different characters, but the model's last layer has 8");
  ls_data_want_t masked = want;
  masked.ignored = -1;
  refused((ls_data_config_t){.path = text, .masked = 0.15}, masked, LS_ERR_CONFIG,
          "data.mask_token: 0 is the character ' ' of the text: set it to 10, the number behind the last "
          "character's, with a model of one class more, 11");
  refused((ls_data_config_t){.path = text}, one, LS_ERR_CONFIG, "a target at each of 4 positions");
  refused((ls_data_config_t){.path = text}, real, LS_ERR_CONFIG, "needs loss: cross-entropy");
  refused((ls_data_config_t){.path = text, .context = 8}, want, LS_ERR_CONFIG, "set model.input to [8]");
  refused((ls_data_config_t){.path = text, .stride = 8}, want, LS_ERR_CONFIG,
          "goes with data.windows: strided");
  refused((ls_data_config_t){.path = text, .validation = 0.9}, want, LS_ERR_DATA,
          "2 tokens are left to train on");
  refused((ls_data_config_t){.path = text, .validation = 0.1}, want, LS_ERR_DATA, "2 tokens are held out");
  refused((ls_data_config_t){.path = text, .validation_path = empty}, want, LS_ERR_DATA,
          "0 tokens are in the validation");
  refused((ls_data_config_t){.path = empty}, want, LS_ERR_DATA, "0 tokens are left");
  refused((ls_data_config_t){.path = "/nowhere/*.bin"}, want, LS_ERR_NOT_FOUND, "/nowhere/*.bin");
  refused((ls_data_config_t){.path = text, .normalize = true}, want, LS_ERR_CONFIG,
          "data.normalize does not go");
}

static void packed_text_is_unpacked(void **state) {
  size_t size;
  unsigned char *packed = gzip("hello, old world!", 17, &size);
  ls_dataset_t *d = open_text(
      (ls_data_config_t){.path = file_make("t.gz", packed, size), .windows = LS_WINDOWS_STRIDED}, &want);
  assert_text(d, "hello, old world!");
  ls_dataset_close(d);
  free(packed);
}

static void memory_may_run_out(void **state) {
  static const char text[] = "na\xc3\xafve \xe2\x82\xac text";
  ls_data_config_t config = {.kind = LS_DATA_TEXT, .path = file_make("text", text, sizeof text - 1)};
  each_alloc_fails(dataset_attempt, &(dataset_attempt_t){&config, &want});
}

/* 15 % of the tokens are targets; of them 80 % are the mask, 10 % any token, 10 % as they were; a place of the stream always
 * has the same. */
static void test_masked_tokens(void **state) {
  enum { LONG = 64, DRAWS = 2000 };
  const char *path = counting_file("masked", LS_U16, "", 0, 100, 400);
  const ls_data_want_t need = {
      .inputs = LONG, .outputs = 1000, .classes = true, .positions = LONG, .ignored = -1};
  ls_data_config_t config = {.path = path, .tokens = LS_TOKENS_U16, .masked = 0.15, .mask_token = 999};
  ls_dataset_t *d = open_text(config, &need);
  int64_t chosen = 0, mask = 0, kept = 0;
  for (uint64_t position = 0; position < DRAWS; position++) {
    uint16_t x[LONG], again[LONG];
    int32_t target[LONG], same[LONG];
    ls_corpus_put(d->corpus, 7, x, target);
    ls_corpus_put(d->corpus, 7, again, same);
    int64_t count = ls_corpus_mask(d->corpus, 5, position, x, target), counted = 0;
    assert_int_equal(ls_corpus_mask(d->corpus, 5, position, again, same), count);
    assert_memory_equal(x, again, sizeof x);
    assert_memory_equal(target, same, sizeof target);
    assert_int_equal(ls_corpus_mask(d->corpus, 5, position, NULL, NULL), count);
    for (int i = 0; i < LONG; i++) {
      if (target[i] < 0) {
        assert_int_equal(target[i], -1);
        assert_int_equal(x[i], 107 + i);
        continue;
      }
      assert_int_equal(target[i], 107 + i);
      counted++;
      mask += x[i] == 999;
      kept += x[i] == 107 + i;
    }
    assert_int_equal(counted, count);
    chosen += count;
  }
  assert_in_range(chosen * 1000 / (DRAWS * LONG), 145, 155);
  assert_in_range(mask * 1000 / chosen, 790, 812);
  assert_in_range(kept * 1000 / chosen, 92, 110);
  ls_dataset_close(d);
  config.mask_token = 1000;
  refused(config, need, LS_ERR_CONFIG, "data.mask_token: 1000 is no token: there are 1000");
}

static void test_shakespeare(void **state) {
  char path[600];
  const char *dir = getenv("LOCKSTEP_DATA");
  snprintf(path, sizeof path, "%s/text/shakespeare.txt", dir ? dir : "../shared/data");
  if (!ls_path_exists(path)) skip();
  const ls_data_want_t need = {.inputs = 256, .outputs = 65, .classes = true, .positions = 256};
  ls_dataset_t *d = open_text((ls_data_config_t){.path = path, .validation = 0.1, .context = 256}, &need);
  assert_int_equal(d->vocabulary.count, 65);
  assert_string_equal(d->vocabulary.v[0], "\n");
  assert_string_equal(d->vocabulary.v[64], "z");
  assert_int_equal(d->train_count, (1115394 - 111539 - 1) / 256);
  assert_int_equal(d->validation_count, (111539 - 1) / 256);
  assert_int_equal(d->sample.x.dtype, LS_U8);
  assert_int_equal(ls_dataset_bytes(d), 0);
  ls_dataset_close(d);
}

TESTS(said_open, said_close, windows_follow_each_other_and_the_split_is_at_the_end,
      token_files_of_nanogpt_and_llmc, windows_stay_in_their_file,
      random_windows_are_a_function_of_seed_and_position,
      a_text_that_changes_after_it_was_counted_is_an_error, characters_are_numbered_in_order,
      tokens_may_begin_like_another_header, wide_tokens_are_never_read_as_narrow_ones,
      what_cannot_be_read_is_refused, packed_text_is_unpacked, memory_may_run_out, test_masked_tokens,
      test_shakespeare)
