/* Shared by the tests of the data module: a context that keeps its messages, files in a temporary folder,
 * allocation failures one by one. */
#ifndef LS_TESTS_DATA_COMMON_H
#define LS_TESTS_DATA_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "data/order.h"

typedef struct {
  ls_ctx_t *ctx;
  char messages[8192]; /* all that were delivered, one per line */
} said_t;

/* Names of columns as an option has them. */
#define NAMES(...)                                                                                           \
  {                                                                                                          \
    LS_COUNT(((const char *const[]){__VA_ARGS__})), (const char *const[]) {                                  \
      __VA_ARGS__                                                                                            \
    }                                                                                                        \
  }

/* Set-up and tear-down of every test of this folder: a new context, and no files left. */
extern said_t said;
int said_open(void **state);
int said_close(void **state);
void said_clear(void);
/* Fails the test, showing everything, unless `part` was said. */
void assert_said(const char *part);
/* The call gives this status, and `part` was said. */
#define assert_refused(call, status, part)                                                                   \
  do {                                                                                                       \
    assert_int_equal(call, status);                                                                          \
    assert_said(part);                                                                                       \
  } while (0)

/* A file in a temporary folder of this process; the path stays valid until the end of the test, or files_remove. */
const char *file_make(const char *name, const void *bytes, size_t size);
void files_remove(void);

/* Opens and closes a dataset: an attempt for each_alloc_fails. */
typedef struct {
  const ls_data_config_t *config;
  const ls_data_want_t *want;
} dataset_attempt_t;
ls_status_t dataset_attempt(ls_ctx_t *ctx, void *arg);

/* gzip of bytes, in a new block (free). */
unsigned char *gzip(const void *bytes, size_t size, size_t *out_size);

/* Calls fn with every allocation failing in turn, until it succeeds. fn frees what it made. Each failure must
 * be LS_ERR_MEMORY, reported once. */
typedef ls_status_t (*attempt_fn)(ls_ctx_t *ctx, void *arg);
void each_alloc_fails(attempt_fn fn, void *arg);

/* A dataset of `rows` samples given in memory: feature = row number, target = 2 * row. Not normalised. */
ls_dataset_t *counting_dataset(ls_ctx_t *ctx, int64_t rows, int64_t inputs, double validation, bool classes);

/* The training sample at place `index` of an epoch. */
static inline uint64_t order_of(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t index) {
  ls_order_key_t key;
  ls_order_key_make(seed, LS_ORDER_EPOCH, epoch, n, &key);
  return ls_order_at(&key, index);
}

#endif
