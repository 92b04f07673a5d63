/* Fuzz target of texts and token files: any bytes give windows of tokens below the limit, or one refusal. The first byte
 * says how they are read. */
#include "data/text/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { T = 8, LIMIT = 500 };

static void check(const ls_dataset_t *d) {
  int32_t x[T], target[T];
  for (int part = 0; part < 2; part++) {
    int64_t count = part == LS_PART_TRAIN ? d->train_count : d->validation_count;
    for (int64_t i = 0; i < count; i++) {
      ls_corpus_put(d->corpus, ls_dataset_row(d, (ls_part_t)part, i), x, target);
      for (int k = 0; k < T; k++)
        if (target[k] < 0 || target[k] >= LIMIT) abort();
    }
  }
  for (uint64_t i = 0; i < 8; i++)
    ls_corpus_put(d->corpus, ls_corpus_random(&d->corpus->part[LS_PART_TRAIN], 1, i), x, target);
  char hash[LS_DATASET_HASH_BYTES];
  ls_dataset_hash(d, 0, d->split_rows, hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size < 1) return 0;
  int file = memfd_create("fuzz", 0);
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx || file < 0 || write(file, bytes + 1, size - 1) != (ssize_t)size - 1) abort();
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ls_data_config_t config = {.kind = LS_DATA_TEXT,
                                   .path = path,
                                   .tokens = bytes[0] % 5,
                                   .windows = bytes[0] / 8 % 2,
                                   .stride = bytes[0] / 8 % 2 ? bytes[0] / 16 : 0,
                                   .validation = bytes[0] / 128 * 0.25};
  const ls_data_want_t want = {.inputs = T, .outputs = LIMIT, .classes = true, .positions = T};
  ls_dataset_t *d = NULL;
  ls_status_t status = ls_dataset_open(ctx, &config, NULL, &want, 7, NULL, &d);
  if (status == LS_OK)
    check(d);
  else if (status != LS_ERR_DATA || ls_ctx_error_count(ctx) != 1)
    abort();
  ls_dataset_close(d);
  ls_ctx_destroy(ctx);
  close(file);
  return 0;
}
