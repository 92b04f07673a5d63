/* Arrays that stay in their files give the samples, batches and fingerprint of those that are read. */
#include "common.h"
#include "data/picture/augment.h"

enum { ROWS = 7, MORE = 4, COLS = 12, BATCH = 9 };

static const char *npy_make(const char *name, const char *descr, const char *shape, const void *values,
                            size_t bytes) {
  char file[4096];
  int text = snprintf(file + 10, 118, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
  memset(file + 10 + text, ' ', (size_t)(118 - text));
  memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
  file[127] = '\n';
  memcpy(file + 128, values, bytes);
  return file_make(name, file, 128 + bytes);
}

/* ROWS samples of [2, 2, 3] and MORE in a second file, values that every type holds. */
static void make(const char *type, int64_t rows, int64_t first, const char *name, const char *target_name,
                 const char **features, const char **targets) {
  static unsigned char bytes[ROWS * COLS * 8];
  char shape[32], descr[8];
  int32_t class[ROWS];
  size_t one = (size_t)(type[2] - '0');
  for (int64_t i = 0; i < rows * COLS; i++) {
    int value = (int)((i + first * COLS) * 5 % 120);
    unsigned char w[8] = {0};
    float f = (float)value;
    double d = value;
    uint16_t half = 0;
    for (int e = 0; e < 7 && value > 0; e++) /* exact: value < 2^11 */
      if (value >> e == 1) half = (uint16_t)((15 + e) << 10 | ((value - (1 << e)) << (10 - e)));
    if (type[1] == 'f' && one == 2) memcpy(w, &half, 2);
    if (type[1] == 'f' && one == 4) memcpy(w, &f, 4);
    if (type[1] == 'f' && one == 8) memcpy(w, &d, 8);
    if (type[1] != 'f') w[0] = (unsigned char)value;
    for (size_t b = 0; b < one; b++)
      bytes[(size_t)i * one + b] = w[type[0] == '>' ? one - 1 - b : b];
  }
  for (int64_t r = 0; r < rows; r++)
    class[r] = (int32_t)((r + first) % 3);
  snprintf(descr, sizeof descr, "%s", type);
  snprintf(shape, sizeof shape, "(%d, 2, 2, 3)", (int)rows);
  *features = npy_make(name, descr, shape, bytes, (size_t)(rows * COLS) * one);
  snprintf(shape, sizeof shape, "(%d,)", (int)rows);
  *targets = npy_make(target_name, "<i4", shape, class, (size_t)rows * sizeof *class);
}

static const ls_data_want_t want = {
    .inputs = COLS, .outputs = 3, .classes = true, .x = {LS_F32, 3, {2, 2, 3}}};

typedef struct {
  float x[BATCH * COLS];
  int32_t target[BATCH];
  float weight[BATCH];
  ls_step_params_t step;
  char hash[2][LS_DATASET_HASH_BYTES];
} seen_t;

static void look(ls_data_config_t *config, seen_t *s) {
  ls_dataset_t *d = NULL;
  memset(s, 0, sizeof *s);
  if (ls_dataset_open(said.ctx, config, NULL, &want, 3, NULL, &d) != LS_OK) fail_msg("%s", said.messages);
  assert_int_equal(d->mapped != NULL, config->mapped == LS_MAPPED_TRUE);
  if (d->mapped) assert_int_equal(ls_dataset_bytes(d), d->rows * (int64_t)sizeof(int32_t));
  for (int part = 0; part < 2; part++) {
    const ls_loader_spec_t spec = {.part = (ls_part_t)part,
                                   .seed = 5,
                                   .shuffle = part == 0,
                                   .global_batch = BATCH,
                                   .rows = BATCH,
                                   .micro_batches = 1,
                                   .total_samples = 100,
                                   .total_steps = 1};
    int64_t count = part == 0 ? d->train_count : d->validation_count;
    const ls_batch_t to = {s->x, s->target, s->weight, &s->step, NULL};
    if (count > 0 && part == 1) continue; /* training batches are compared; validation by its fingerprint */
    if (count > 0) assert_int_equal(ls_batch_fill(d, &spec, 0, &to), LS_OK);
  }
  ls_dataset_hash(d, 0, d->split_rows, s->hash[0]);
  if (d->split_rows < d->rows) ls_dataset_hash(d, d->split_rows, d->rows - d->split_rows, s->hash[1]);
  ls_dataset_close(d);
}

static void mapped_and_read_are_the_same(void **state) {
  static const char *const types[] = {"<f2", ">f2", "<f4", ">f8", "<i2", "<i4", "|u1", "|i1"};
  for (int t = 0; t < LS_COUNT(types); t++)
    for (int held = 0; held < 2; held++) {
      said_clear();
      const char *x, *y, *more, *more_y;
      make(types[t], ROWS, 0, "x-1.npy", "y-1.npy", &x, &y);
      make(types[t], MORE, ROWS, "x-2.npy", "y-2.npy", &more, &more_y);
      char features[300], targets[300];
      snprintf(features, sizeof features, "%.*s*.npy", (int)(strlen(x) - 5), x);
      snprintf(targets, sizeof targets, "%.*s*.npy", (int)(strlen(y) - 5), y);
      ls_data_config_t config = {
          .kind = LS_DATA_NPY, .features = held ? x : features, .targets = held ? y : targets};
      if (held) config.validation_features = more;
      if (held) config.validation_targets = more_y;
      config.flip = true;
      config.padding = 1;
      static seen_t seen[2];
      for (int m = 0; m < 2; m++) {
        config.mapped = m == 0 ? LS_MAPPED_FALSE : LS_MAPPED_TRUE;
        look(&config, &seen[m]);
      }
      if (memcmp(&seen[0], &seen[1], sizeof seen[0]) != 0) fail_msg("%s: mapped samples differ", types[t]);
      files_remove();
    }
}

static void what_cannot_stay_is_refused(void **state) {
  const char *x, *y;
  make("<f4", ROWS, 0, "x.npy", "y.npy", &x, &y);
  size_t size;
  unsigned char *packed = gzip("\x93NUMPY", 6, &size);
  const char *gz = file_make("x.npy.gz", packed, size);
  free(packed);
  const char *cut = file_make("cut.npy", "\x93NUMPY\1\0\x76\0{", 11);
  const struct {
    ls_data_config_t config;
    ls_status_t status;
    const char *said;
  } rows[] = {
      {{.features = gz}, LS_ERR_DATA, "a packed file cannot stay where it is: unpack it"},
      {{.features = cut}, LS_ERR_DATA, "cut.npy: offset 8: a header of 118 bytes, but the file ends"},
      {{.features = x, .normalize = true},
       LS_ERR_CONFIG,
       "data.mapped: true does not go with data.normalize"},
      {{.features = "none.npy"}, LS_ERR_NOT_FOUND, "none.npy: No such file"},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    said_clear();
    ls_data_config_t config = rows[i].config;
    config.kind = LS_DATA_NPY;
    config.mapped = LS_MAPPED_TRUE;
    config.targets = y;
    ls_dataset_t *d = NULL;
    assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &d), rows[i].status);
    assert_said(rows[i].said);
  }
}

static void no_match_is_said_once(void **state) {
  ls_dataset_t *d = NULL;
  const ls_data_config_t config = {.kind = LS_DATA_NPY, .features = "none-*.npy", .targets = "none.npy"};
  assert_int_equal(ls_dataset_open(said.ctx, &config, NULL, &want, 3, NULL, &d), LS_ERR_NOT_FOUND);
  const char *first = strstr(said.messages, "none-*.npy");
  assert_non_null(first);
  assert_null(strstr(first + 1, "none-*.npy"));
}

static void every_allocation_may_fail(void **state) {
  const char *x, *y;
  make("<f2", ROWS, 0, "x.npy", "y.npy", &x, &y);
  ls_data_config_t config = {.kind = LS_DATA_NPY, .features = x, .targets = y, .mapped = LS_MAPPED_TRUE};
  dataset_attempt_t attempt = {&config, &want};
  each_alloc_fails(dataset_attempt, &attempt);
}

TESTS(said_open, said_close, mapped_and_read_are_the_same, what_cannot_stay_is_refused, no_match_is_said_once,
      every_allocation_may_fail)
