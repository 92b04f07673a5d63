/* A context for every test of a file, where its messages do not matter (else base/capture.h). */
#ifndef TESTS_BASE_CONTEXT_H
#define TESTS_BASE_CONTEXT_H

#include "base/base.h"

static ls_ctx_t *ctx;

static inline int context_setup(void **state) {
  (void)state;
  ctx = ls_ctx_create(NULL, NULL);
  return ctx ? 0 : -1;
}

static inline int context_teardown(void **state) {
  (void)state;
  ls_ctx_destroy(ctx);
  return 0;
}

#endif
