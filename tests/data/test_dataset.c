/* Opening: files of every kind, the split, and every way in which data and model can fail to fit. */
#include "common.h"
#include "data/parts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2,
                                       0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 4, 0, 1, 2, 1};
static const unsigned char short_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 2};
static const char table[] =
    "day,a,b,c\n2001-01-01,1,2,0\n2001-01-02,3,4,1\n2001-01-03,5,6,2.5\n2001-01-04,7,8,-1\n";

typedef struct {
  ls_data_config_t config;
  ls_data_memory_t memory;
  ls_data_want_t want;
} case_t;

static ls_status_t open_case(ls_ctx_t *ctx, const case_t *c, ls_dataset_t **d) {
  return ls_dataset_open(ctx, &c->config, &c->memory, &c->want, 3, NULL, d);
}

static case_t idx_case(void) {
  return (case_t){.config = {.kind = LS_DATA_IDX,
                             .features = file_make("images", images, sizeof images),
                             .targets = file_make("labels", labels, sizeof labels)},
                  .want = {2, 3, true}};
}

static const char *const names[] = {"a", "b", "bb", "day", "c", "y"};

static case_t csv_case(void) {
  return (case_t){.config = {.kind = LS_DATA_CSV,
                             .path = file_make("table.csv", table, sizeof table - 1),
                             .target = {1, names + 1}},
                  .want = {2, 1, false}};
}

static void test_idx(void **state) {
  case_t c = idx_case();
  c.config.normalize = true;
  ls_dataset_t *d;
  assert_int_equal(open_case(said.ctx, &c, &d), LS_OK);
  assert_int_equal(d->rows, 4);
  assert_int_equal(d->inputs, 2);
  assert_true(d->classes);
  static const int32_t want[] = {0, 1, 2, 1};
  assert_memory_equal(d->targets, want, sizeof want);
  assert_int_equal(d->norm.outputs, 0);
  /* Pixels share one mean and scale: 4.5 and 1 / sqrt(5.25). */
  assert_true(d->norm.mean[0] == 4.5f && d->norm.mean[1] == 4.5f);
  assert_true(d->norm.scale[0] == d->norm.scale[1]);
  ls_dataset_close(d);
}

/* Bytes of images are not blown up: a quarter of the memory, in their own shape, and the model gets the bits
 * that a host would have made of them. */
static void test_several_files_are_one_set(void **state) {
  static const unsigned char first[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6};
  static const unsigned char last[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 7, 8};
  static const unsigned char wide[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, 7, 8, 9};
  case_t c = idx_case();
  ls_dataset_t *whole, *parts;
  assert_int_equal(open_case(said.ctx, &c, &whole), LS_OK);
  file_make("x-2", last, sizeof last);
  char pattern[200];
  snprintf(pattern, sizeof pattern, "%s", file_make("x-1", first, sizeof first));
  strcpy(pattern + strlen(pattern) - 1, "*");
  c.config.features = pattern;
  assert_int_equal(open_case(said.ctx, &c, &parts), LS_OK);
  assert_int_equal(parts->rows, whole->rows);
  assert_int_equal(parts->sample.x.rank, whole->sample.x.rank);
  assert_memory_equal(parts->features, whole->features, 8);
  ls_dataset_close(whole);
  ls_dataset_close(parts);
  file_make("x-3", wide, sizeof wide);
  assert_refused(open_case(said.ctx, &c, &parts), LS_ERR_DATA, "x-3: its rows are u8 (3, 1), those of ");
  assert_int_equal(ls_ctx_error_count(said.ctx), 1);
}

static void test_bytes_stay_bytes(void **state) {
  case_t c = idx_case();
  c.config.normalize = true;
  ls_dataset_t *d, *wide;
  assert_int_equal(open_case(said.ctx, &c, &d), LS_OK);
  const ls_shape_t image = LS_SHAPE(LS_U8, 2, 1), label = {.dtype = LS_I32};
  assert_true(ls_shape_equal(&d->sample.x, &image));
  assert_true(ls_shape_equal(&d->sample.target, &label));
  assert_memory_equal(d->features, images + 16, 8);

  /* The same values as f32, which the host normalises. */
  float values[8], mean_scale[2];
  for (int i = 0; i < 8; i++)
    values[i] = images[16 + i];
  static const int32_t classes[] = {0, 1, 2, 1};
  ls_data_config_t config = {.kind = LS_DATA_MEMORY, .normalize = true};
  ls_data_memory_t memory = {.rows = 4, .inputs = 2, .features = values, .classes = classes};
  assert_int_equal(ls_dataset_open(said.ctx, &config, &memory, &c.want, 3, &d->norm, &wide), LS_OK);
  assert_int_equal(wide->sample.x.dtype, LS_F32);
  assert_true(wide->mean[0] == 0 && wide->scale[0] == 1);
  mean_scale[0] = d->mean[0];
  mean_scale[1] = d->scale[0];
  assert_true(mean_scale[0] == 4.5f && (double)mean_scale[1] == (double)d->norm.scale[0]);
  for (int64_t row = 0; row < 4; row++) {
    float got[2];
    ls_dataset_features(d, row, 0, 2, got);
    assert_memory_equal(got, (float *)wide->features + row * 2, sizeof got);
  }
  char a[LS_DATASET_HASH_BYTES],
      b[LS_DATASET_HASH_BYTES]; /* a checkpoint knows its data, however they are held */
  ls_dataset_hash(d, 0, 4, a);
  ls_dataset_hash(wide, 0, 4, b);
  assert_string_equal(a, b);

  /* Each column its own mean: the host normalises. */
  ls_norm_t apart = d->norm;
  double mean[] = {4.5, 5};
  apart.mean = mean;
  ls_dataset_close(wide);
  assert_int_equal(ls_dataset_open(said.ctx, &c.config, NULL, &c.want, 3, &apart, &wide), LS_OK);
  assert_int_equal(wide->sample.x.dtype, LS_F32);
  ls_dataset_close(wide);
  ls_dataset_close(d);

  /* Bytes of a program that embeds the library. */
  memory.features = NULL;
  memory.bytes = images + 16;
  assert_int_equal(ls_dataset_open(said.ctx, &config, &memory, &c.want, 3, NULL, &d), LS_OK);
  assert_int_equal(d->sample.x.dtype, LS_U8);
  ls_dataset_hash(d, 0, 4, b);
  assert_string_equal(a, b);
  ls_dataset_close(d);
}

/* Tokens: integers of the file's size, with a class for each position. */
static void test_tokens(void **state) {
  static const char u16[] = "\x93NUMPY\1\0\x39\0{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3)}"
                            "\1\0\2\0\xff\xff\4\0\5\0\6\0";
  static const char i64[] = "\x93NUMPY\1\0\x39\0{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3)}"
                            "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                            "\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0";
  ls_data_config_t config = {.kind = LS_DATA_NPY,
                             .features = file_make("x.npy", u16, sizeof u16 - 1),
                             .targets = file_make("y.npy", i64, sizeof i64 - 1),
                             .normalize = true};
  ls_data_want_t want = {.inputs = 3, .outputs = 6, .classes = true, .positions = 3, .whole = true};
  ls_dataset_t *d;
  if (ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  const ls_shape_t tokens = LS_SHAPE(LS_U16, 3), classes = LS_SHAPE(LS_I32, 3);
  static const uint16_t x[] = {1, 2, 65535, 4, 5, 6};
  static const int32_t y[] = {0, 1, 2, 3, 4, 5};
  assert_true(ls_shape_equal(&d->sample.x, &tokens));
  assert_true(ls_shape_equal(&d->sample.target, &classes));
  assert_memory_equal(d->features, x, sizeof x);
  assert_memory_equal(d->targets, y, sizeof y);
  assert_true(d->mean[0] == 0 && d->scale[0] == 1);
  ls_dataset_close(d);

  config.features = config.targets; /* 64 bits in the file, 32 here */
  if (ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  assert_int_equal(d->sample.x.dtype, LS_I32);
  assert_memory_equal(d->features, y, sizeof y);
  ls_dataset_close(d);

  want.outputs = 5;
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &d), LS_ERR_DATA,
                 "row 1 (from 0): class 5, but the model's last layer has 5 units");
  want.outputs = 6;
  want.positions = 2;
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &d), LS_ERR_DATA,
                 "has 3 class numbers per sample, but the model's output has 2 positions");
  want.positions = 3;
  char half[sizeof i64];
  memcpy(half, i64, sizeof i64);
  memcpy(strstr(half + 10, "i8"), "f8", 2);
  config.features = file_make("half.npy", half, sizeof half - 1);
  memcpy(half + sizeof half - 9, "\0\0\0\0\0\0\xe0\x3f", 8); /* 0.5 */
  config.features = file_make("half.npy", half, sizeof half - 1);
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &d), LS_ERR_DATA,
                 "is no whole number of 32 bits");
}

static void test_csv(void **state) {
  case_t c = csv_case();
  ls_dataset_t *d;
  assert_int_equal(open_case(said.ctx, &c, &d), LS_OK);
  static const float x[] = {1, 0, 3, 1, 5, 2.5f, 7, -1}, y[] = {2, 4, 6, 8};
  assert_memory_equal(d->features, x, sizeof x);
  assert_memory_equal(d->targets, y, sizeof y);
  assert_string_equal(d->source, c.config.path);
  ls_dataset_close(d);
}

/* The two parts share no row and cover all. */
static void test_split(void **state) {
  static const double parts[] = {0.0, 0.1, 0.2, 0.5, 0.9};
  for (int k = 0; k < LS_COUNT(parts); k++) {
    ls_dataset_t *d = counting_dataset(said.ctx, 1000, 1, parts[k], false);
    assert_int_equal(d->validation_count, (int64_t)(1000 * parts[k] + 0.5));
    assert_int_equal(d->train_count + d->validation_count, 1000);
    unsigned char seen[1000] = {0};
    for (int64_t i = 0; i < d->train_count; i++)
      seen[ls_dataset_row(d, LS_PART_TRAIN, i)]++;
    for (int64_t i = 0; i < d->validation_count; i++)
      seen[ls_dataset_row(d, LS_PART_VALIDATION, i)]++;
    for (int i = 0; i < 1000; i++)
      assert_int_equal(seen[i], 1);
    ls_dataset_close(d);
  }
}

/* A section of files in the folder of `images`, "labels", "table.csv" and others, from text. */
static void section_of(const char *text, ls_arena_t *arena, ls_data_config_t *config) {
  ls_doc_t doc;
  char whole[200], folder[200];
  snprintf(whole, sizeof whole, "data: {%s}", text);
  snprintf(folder, sizeof folder, "%s", file_make("images", images, sizeof images));
  *strrchr(folder, '/') = '\0';
  file_make("labels", labels, sizeof labels);
  file_make("short", short_labels, sizeof short_labels);
  file_make("cut", images, sizeof images - 1);
  file_make("table.csv", table, sizeof table - 1);
  assert_int_equal(ls_doc_parse(said.ctx, "c.yaml", whole, strlen(whole), &doc), LS_OK);
  assert_int_equal(ls_doc_start_paths(&doc, doc.root, folder), LS_OK);
  assert_int_equal(
      ls_option_parse(said.ctx, arena, &ls_data_section, ls_doc_get(doc.root, "data"), NULL, config), LS_OK);
  ls_doc_release(&doc);
}

#define IDX    "kind: idx, "
#define CSV    "kind: csv, "
#define LABELS ", targets: labels"
#define TABLE  "path: table.csv"
static void test_refuses(void **state) {
  static const struct {
    const char *text;
    ls_data_want_t want;
    ls_status_t status;
    const char *part;
  } rows[] = {
      {IDX "targets: labels", {2, 3, true}, LS_ERR_CONFIG, "data.features is needed with data.kind: idx"},
      {IDX "features: images", {2, 3, true}, LS_ERR_CONFIG, "data.targets is needed with data.kind: idx"},
      {IDX "features: images" LABELS ", path: x.csv",
       {2, 3, true},
       LS_ERR_CONFIG,
       "data.path does not go with data.kind: idx"},
      {IDX "features: /nowhere/images" LABELS, {2, 3, true}, LS_ERR_NOT_FOUND, "/nowhere/images"},
      {IDX "features: images, targets: short", {2, 3, true}, LS_ERR_DATA, "images has 4 samples, but"},
      {IDX "features: images" LABELS,
       {784, 3, true},
       LS_ERR_DATA,
       "2 features per sample, but the model's input is 784: set model.input to [2, 1]"},
      {IDX "features: images" LABELS,
       {2, 2, true},
       LS_ERR_DATA,
       "row 2 (from 0): class 2, but the model's last layer has 2 units"},
      {IDX "features: images" LABELS,
       {2, 3, false},
       LS_ERR_DATA,
       "1 target per sample, but the model's last layer has 3 units: give it 1, or use loss: cross"},
      {IDX "features: images, targets: images",
       {2, 3, true},
       LS_ERR_DATA,
       "class numbers are one column, but there are 2"},
      {IDX "features: images" LABELS ", validation: 0.999",
       {2, 3, true},
       LS_ERR_DATA,
       "leaves none to train on"},
      {IDX "features: cut" LABELS, {2, 3, true}, LS_ERR_DATA, "it is truncated"},
      {"kind: npy, features: images" LABELS, {2, 3, true}, LS_ERR_DATA, "not a .npy file"},
      {IDX "features: images" LABELS, {0, 3, true}, LS_ERR_ARGUMENT, "0 inputs"},
      {CSV TABLE, {2, 1, false}, LS_ERR_CONFIG, "data.target is needed with data.kind: csv"},
      {CSV "target: b", {2, 1, false}, LS_ERR_CONFIG, "data.path is needed with data.kind: csv"},
      {CSV TABLE ", target: bb", {2, 1, false}, LS_ERR_DATA, "there is no column 'bb'"},
      {CSV TABLE ", target: day", {2, 1, false}, LS_ERR_DATA, "column 'day': a date is not a number"},
      {CSV TABLE ", target: b, columns: [a, b]",
       {2, 1, false},
       LS_ERR_DATA,
       "cannot be both a feature and a target"},
      {CSV TABLE ", target: c",
       {2, 3, true},
       LS_ERR_DATA,
       "table.csv:4:16: column 'c': target 2.5 is not a class number"},
      {CSV TABLE ", target: a",
       {2, 7, true},
       LS_ERR_DATA,
       "table.csv:5:12: column 'a': class 7, but the model's last layer has 7 units: classes are 0 to 6"},
      {CSV TABLE ", target: [a, b]",
       {1, 3, true},
       LS_ERR_DATA,
       "class numbers are one column, but there are 2"},
      {CSV TABLE ", target: b, columns: a",
       {2, 1, false},
       LS_ERR_DATA,
       "1 feature per sample, but the model's input is 2"},
      {CSV TABLE ", target: b, features: x",
       {2, 1, false},
       LS_ERR_CONFIG,
       "data.features does not go with data.kind: csv"},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    case_t c = {.want = rows[i].want};
    ls_arena_t arena;
    ls_arena_init(&arena, said.ctx);
    section_of(rows[i].text, &arena, &c.config);
    ls_dataset_t *d = NULL;
    said_clear();
    ls_status_t status = open_case(said.ctx, &c, &d);
    if (status != rows[i].status) fail_msg("case %d: status %d: %s", i, status, said.messages);
    assert_said(rows[i].part);
    const bool two = strstr(rows[i].text, "target: c"); /* its column has a fraction and a negative class */
    if (ls_ctx_error_count(said.ctx) != 1 + two)
      fail_msg("case %d: another number of errors:\n%s", i, said.messages);
    assert_null(d);
    ls_arena_release(&arena);
    files_remove();
  }
}

/* Samples, and fields of a section, that a program gives. */
static void test_refuses_what_a_program_gives(void **state) {
  static float x[4] = {1, 2, 3, 4}, y[2] = {1, 2};
  static int32_t classes[2] = {0, 5};
  const struct {
    ls_data_config_t config;
    ls_data_memory_t memory;
    ls_data_want_t want;
    ls_status_t status;
    const char *part;
  } rows[] = {
      {{.kind = LS_DATA_IDX, .validation = 1.0}, {0}, {2, 3, true}, LS_ERR_CONFIG, "less than 1"},
      {{.kind = 77}, {0}, {2, 3, true}, LS_ERR_ARGUMENT, "unknown kind"},
      {{.kind = LS_DATA_MEMORY},
       {0, 2, 1, .features = x, .targets = y},
       {2, 1, false},
       LS_ERR_ARGUMENT,
       "at least one row"},
      {{.kind = LS_DATA_MEMORY},
       {2, 2, 1, .targets = y},
       {2, 1, false},
       LS_ERR_ARGUMENT,
       "features and targets"},
      {{.kind = LS_DATA_MEMORY},
       {2, 2, 1, .features = x, .targets = y},
       {2, 1, true},
       LS_ERR_ARGUMENT,
       "features and classes"},
      {{.kind = LS_DATA_MEMORY},
       {2, 0, 1, .features = x, .targets = y},
       {2, 1, false},
       LS_ERR_ARGUMENT,
       "2 x 0 features"},
      {{.kind = LS_DATA_MEMORY},
       {INT64_MAX, 2, 1, .features = x, .targets = y},
       {2, 1, false},
       LS_ERR_ARGUMENT,
       "make no dataset"},
      {{.kind = LS_DATA_MEMORY},
       {2, 2, 1, .features = x, .targets = y, .classes = classes},
       {2, 3, true},
       LS_ERR_DATA,
       "row 1 (from 0): class 5"},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const case_t c = {rows[i].config, rows[i].memory, rows[i].want};
    ls_dataset_t *d = NULL;
    said_clear();
    assert_refused(open_case(said.ctx, &c, &d), rows[i].status, rows[i].part);
    assert_int_equal(ls_ctx_error_count(said.ctx), 1);
    assert_null(d);
  }
}

static void test_memory_values_must_be_finite(void **state) {
  float x[4] = {1, 2, 0, 4}, y[2] = {1, 2};
  const float zero = x[2];
  ls_data_memory_t memory = {.rows = 2, .inputs = 2, .outputs = 1, .features = x, .targets = y};
  case_t c = {.config = {.kind = LS_DATA_MEMORY}, .memory = memory, .want = {2, 1, false}};
  ls_dataset_t *d = NULL;
  x[3] = 1.0f / zero;
  assert_refused(open_case(said.ctx, &c, &d), LS_ERR_DATA,
                 "given features: row 1, column 1 (from 0) is not finite");
  x[3] = 4;
  y[0] = zero / zero;
  said_clear();
  assert_refused(open_case(said.ctx, &c, &d), LS_ERR_DATA,
                 "given targets: row 0, column 0 (from 0) is not finite");
}

static void test_tiny_validation_is_said(void **state) {
  ls_dataset_t *d = counting_dataset(said.ctx, 4, 1, 0.1, false);
  assert_int_equal(d->validation_count, 0);
  assert_said("there is no validation part");
  ls_dataset_close(d);
}

static ls_status_t attempt(ls_ctx_t *ctx, void *arg) {
  ls_dataset_t *d;
  ls_status_t status = open_case(ctx, arg, &d);
  if (status == LS_OK) ls_dataset_close(d);
  return status;
}

static void test_every_allocation_may_fail(void **state) {
  float x[4] = {1, 2, 3, 4}, y[2] = {1, 2};
  int32_t classes[2] = {0, 1};
  case_t cases[] = {
      idx_case(),
      csv_case(),
      {.config = {.kind = LS_DATA_SYNTHETIC, .samples = 20}, .want = {3, 2, false}},
      {.config = {.kind = LS_DATA_MEMORY},
       .memory = {.rows = 2, .inputs = 2, .outputs = 1, .features = x, .targets = y},
       .want = {2, 1, false}},
      {.config = {.kind = LS_DATA_MEMORY},
       .memory = {.rows = 2, .inputs = 2, .features = x, .classes = classes},
       .want = {2, 2, true}},
  };
  for (int i = 0; i < LS_COUNT(cases); i++) {
    cases[i].config.normalize = true;
    each_alloc_fails(attempt, &cases[i]);
  }
}

/* The rows of the section: defaults, limits, choices. */
static void test_section(void **state) {
  ls_arena_t arena;
  ls_arena_init(&arena, said.ctx);
  ls_doc_t doc;
  static const char good[] = "data: {kind: synthetic, validation: 0.2}";
  assert_int_equal(ls_doc_parse(said.ctx, "c.yaml", good, strlen(good), &doc), LS_OK);
  ls_data_config_t config = {0};
  assert_int_equal(
      ls_option_parse(said.ctx, &arena, &ls_data_section, ls_doc_get(doc.root, "data"), NULL, &config),
      LS_OK);
  assert_int_equal(config.kind, LS_DATA_SYNTHETIC);
  assert_int_equal(config.samples, 10000);
  assert_int_equal(config.data_seed, 42);
  assert_true(config.noise == 0.1 && config.validation == 0.2 && !config.normalize);
  assert_null(config.features);
  assert_int_equal(config.target.count, 0);
  assert_int_equal(ls_data_config_check(said.ctx, &config), LS_OK);
  ls_doc_release(&doc);

  static const char bad[] = "data: {kind: cvs, validation: 1.5, samples: 0, columms: [a]}";
  assert_int_equal(ls_doc_parse(said.ctx, "c.yaml", bad, strlen(bad), &doc), LS_OK);
  assert_int_equal(
      ls_option_parse(said.ctx, &arena, &ls_data_section, ls_doc_get(doc.root, "data"), NULL, &config),
      LS_ERR_CONFIG);
  assert_int_equal(ls_ctx_error_count(said.ctx), 4);
  ls_doc_release(&doc);
  ls_arena_release(&arena);
}

/* The validation part can have a file of its own: every training row is trained on, and the normalisation is
 * that of the training file, although the other file's decimals are no f32. */
static void test_validation_from_its_own_file(void **state) {
  static const char train[] = "a,y\n1,10\n2,20\n3,30\n4,40\n", held_out[] = "a,y\n1000.1,1\n2.5,25\n",
                    other[] = "b,y\n1,1\n";
  ls_data_config_t config = {.kind = LS_DATA_CSV,
                             .path = file_make("train.csv", train, strlen(train)),
                             .validation_path = file_make("held.csv", held_out, strlen(held_out)),
                             .target = {1, names + 5},
                             .normalize = true};
  ls_data_want_t want = {.inputs = 1, .outputs = 1};
  ls_dataset_t *d, *none = NULL;
  assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &d), LS_OK);
  assert_int_equal(d->train_count, 4);
  assert_int_equal(d->validation_count, 2);
  assert_true(d->norm.mean[0] == 2.5 && d->norm.target_mean[0] == 25.0);
  ls_data_config_t alone = config; /* a validation file changes neither the order of training nor the norm */
  ls_data_config_all(&alone);
  ls_dataset_t *same;
  assert_int_equal(ls_dataset_open(said.ctx, &alone, NULL, &want, 3, NULL, &same), LS_OK);
  for (int i = 0; i < 4; i++)
    assert_int_equal(ls_dataset_row(d, LS_PART_TRAIN, i), ls_dataset_row(same, LS_PART_TRAIN, i));
  char with[LS_DATASET_HASH_BYTES], without[LS_DATASET_HASH_BYTES];
  ls_dataset_hash(d, 0, d->split_rows, with);
  ls_dataset_hash(same, 0, same->split_rows, without);
  assert_string_equal(with, without);
  ls_dataset_close(same);
  assert_int_equal(ls_dataset_row(d, LS_PART_VALIDATION, 0), 4);
  assert_int_equal(ls_dataset_row(d, LS_PART_VALIDATION, 1), 5);
  assert_true(((float *)d->features)[5] == 0.0f && ((float *)d->targets)[5] == 0.0f &&
              ((float *)d->features)[4] > 800.0f);
  assert_int_equal(ls_dataset_split(said.ctx, 0.5, d), LS_OK);
  assert_int_equal(d->validation_count, 2);
  ls_dataset_close(d);

  config.validation = 0.25;
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &none), LS_ERR_CONFIG,
                 "data.validation_path names a file: give one of the two");
  config.validation = 0;
  config.validation_path = file_make("other.csv", other, strlen(other));
  assert_refused(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &none), LS_ERR_DATA,
                 "is column 'b', in ");
  float one[] = {1, 2}; /* samples in memory take the place of every file */
  ls_data_memory_t memory = {.rows = 2, .inputs = 1, .outputs = 1, .features = one, .targets = one};
  ls_data_config_t held = {.kind = LS_DATA_MEMORY, .validation_path = "nowhere.csv"};
  assert_int_equal(ls_dataset_open(said.ctx, &held, &memory, &want, 3, NULL, &d), LS_OK);
  assert_int_equal(d->train_count, 2);
  ls_dataset_close(d);
  config.validation_targets = "y.npy";
  assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &none), LS_ERR_CONFIG);
  assert_null(none);
}

/* Fills the place of the hash's state, at a multiple of 64 bytes. */
__attribute__((noinline)) static void fill_stack(uint64_t seed) {
  _Alignas(64) volatile uint64_t word[1024];
  for (int i = 0; i < LS_COUNT(word); i++)
    word[i] = i % 8 == offsetof(XXH3_state_t, seed) / 8 % 8 ? seed : 0;
}

/* A row's hash began with what the stack held: if that was the same seed, its secret was taken as made. */
static void test_a_hash_does_not_depend_on_the_stack(void **state) {
  float x[100] = {1}, y[1] = {2};
  const case_t c = {.config = {.kind = LS_DATA_MEMORY},
                    .memory = {.rows = 1, .inputs = 100, .outputs = 1, .features = x, .targets = y},
                    .want = {100, 1, false}};
  const int64_t sizes[] = {1, 100, 1, false}; /* the first row's seed is their hash */
  char clean[LS_DATASET_HASH_BYTES], dirty[LS_DATASET_HASH_BYTES];
  ls_dataset_t *d;
  assert_int_equal(open_case(said.ctx, &c, &d), LS_OK);
  fill_stack(0);
  ls_dataset_hash(d, 0, 1, clean);
  fill_stack(XXH3_64bits_withSeed(sizes, sizeof sizes, 0));
  ls_dataset_hash(d, 0, 1, dirty);
  assert_string_equal(clean, dirty);
  ls_dataset_close(d);
}

TESTS(said_open, said_close, test_validation_from_its_own_file, test_idx, test_several_files_are_one_set,
      test_bytes_stay_bytes, test_tokens, test_csv, test_split, test_refuses,
      test_refuses_what_a_program_gives, test_memory_values_must_be_finite, test_tiny_validation_is_said,
      test_every_allocation_may_fail, test_section, test_a_hash_does_not_depend_on_the_stack)
