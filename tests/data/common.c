/* See common.h. */
#include "common.h"

#include <unistd.h>
#include <zlib.h>

said_t said;

static void keep(void *user, ls_log_level_t level, const char *message) {
  size_t used = strlen(said.messages);
  snprintf(said.messages + used, sizeof said.messages - used, "%s\n", message);
}

int said_open(void **state) {
  said = (said_t){.ctx = ls_ctx_create(keep, NULL)};
  return said.ctx ? 0 : -1;
}

int said_close(void **state) {
  ls_ctx_destroy(said.ctx);
  files_remove();
  return 0;
}

void said_clear(void) {
  said.messages[0] = '\0';
  ls_ctx_clear(said.ctx);
}

void assert_said(const char *part) {
  if (strstr(said.messages, part)) return;
  fail_msg("expected '%s' in:\n%s", part, said.messages);
}

static char folder[64], paths[16][160];
static int path_count;

const char *file_make(const char *name, const void *bytes, size_t size) {
  if (!folder[0]) {
    snprintf(folder, sizeof folder, "/tmp/lockstep-data-XXXXXX");
    assert_non_null(mkdtemp(folder));
  }
  assert_true(path_count < LS_COUNT(paths));
  char *path = paths[path_count++];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  return path;
}

void files_remove(void) {
  while (path_count > 0)
    unlink(paths[--path_count]);
  if (folder[0]) rmdir(folder);
  folder[0] = '\0';
}

unsigned char *gzip(const void *bytes, size_t size, size_t *out_size) {
  z_stream z = {0};
  assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  size_t bound = deflateBound(&z, size);
  unsigned char *out = malloc(bound), *copy = malloc(size + 1);
  assert_non_null(out);
  assert_non_null(copy);
  memcpy(copy, bytes, size);
  z.next_in = copy;
  z.avail_in = (uInt)size;
  z.next_out = out;
  z.avail_out = (uInt)bound;
  assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
  *out_size = z.total_out;
  deflateEnd(&z);
  free(copy);
  return out;
}

void each_alloc_fails(attempt_fn fn, void *arg) {
  for (int64_t n = 1;; n++) {
    assert_true(n < 10000);
    said_clear();
    ls_ctx_fail_alloc(said.ctx, n);
    ls_status_t status = fn(said.ctx, arg);
    int64_t made = ls_ctx_fail_alloc(said.ctx, 0);
    if (made < n) { /* the failing one was never reached */
      assert_int_equal(status, LS_OK);
      assert_true(n > 1);
      return;
    }
    assert_int_equal(status, LS_ERR_MEMORY);
    assert_int_equal(ls_ctx_error_count(said.ctx), 1);
  }
}

ls_dataset_t *counting_dataset(ls_ctx_t *ctx, int64_t rows, int64_t inputs, double validation, bool classes) {
  float *x = malloc((size_t)(rows * inputs) * sizeof *x), *y = malloc((size_t)rows * sizeof *y);
  int32_t *labels = malloc((size_t)rows * sizeof *labels);
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < inputs; j++)
      x[i * inputs + j] = (float)(i + 1000 * j);
    y[i] = 2.0f * (float)i;
    labels[i] = (int32_t)i;
  }
  ls_data_memory_t memory = {.rows = rows,
                             .inputs = inputs,
                             .outputs = classes ? 0 : 1,
                             .features = x,
                             .targets = y,
                             .classes = labels};
  ls_data_want_t want = {.inputs = inputs, .outputs = classes ? rows : 1, .classes = classes};
  ls_data_config_t config = {.kind = LS_DATA_MEMORY, .validation = validation};
  ls_dataset_t *d = NULL;
  assert_int_equal(ls_dataset_open(ctx, &config, &memory, &want, 7, NULL, &d), LS_OK);
  free(x);
  free(y);
  free(labels);
  return d;
}

ls_status_t dataset_attempt(ls_ctx_t *ctx, void *arg) {
  const dataset_attempt_t *a = arg;
  ls_dataset_t *d = NULL;
  ls_status_t status = ls_dataset_open(ctx, a->config, NULL, a->want, 7, NULL, &d);
  ls_dataset_close(d);
  return status;
}
