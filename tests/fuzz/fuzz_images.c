/* Fuzz target of lists of images: any bytes as a CSV file give paths and classes below the limit, or one refusal. */
#include "data/picture/images.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { CLASSES = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  int file = memfd_create("fuzz", 0);
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx || file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ls_data_config_t config = {.kind = LS_DATA_IMAGES, .path = path, .decode = LS_DECODE_ALWAYS};
  const ls_data_want_t want = {
      .inputs = 12, .outputs = CLASSES, .classes = true, .x = LS_SHAPE(LS_F32, 2, 2, 3)};
  ls_dataset_t *d = NULL;
  ls_status_t status = ls_dataset_open(ctx, &config, NULL, &want, 7, NULL, &d);
  for (int64_t i = 0; status == LS_OK && i < d->rows; i++) {
    char *name;
    int32_t class = ((const int32_t *)d->targets)[i];
    if (class < 0 || class >= CLASSES || ls_images_path(d, i, &name) != LS_OK) abort();
    ls_free(name);
  }
  if (status != LS_OK && (status != LS_ERR_DATA || ls_ctx_error_count(ctx) != 1)) abort();
  ls_dataset_close(d);
  ls_ctx_destroy(ctx);
  close(file);
  return 0;
}
