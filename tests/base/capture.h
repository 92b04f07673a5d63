/* A context whose messages a test can read, and the loop in which every allocation fails once. */
#ifndef TESTS_BASE_CAPTURE_H
#define TESTS_BASE_CAPTURE_H

#include "base/base.h"

#include "unit.h"
#include <stdio.h>
#include <string.h>

typedef struct {
  ls_ctx_t *ctx;
  char text[16384]; /* all messages, a line end after each */
  int count;
} capture_t;

static inline void capture_message(void *user, ls_log_level_t level, const char *message) {
  capture_t *capture = user;
  (void)level;
  size_t used = strlen(capture->text);
  snprintf(capture->text + used, sizeof capture->text - used, "%s\n", message);
  capture->count++;
}

static inline int capture_setup(void **state) {
  static capture_t capture;
  memset(&capture, 0, sizeof capture);
  capture.ctx = ls_ctx_create(capture_message, &capture);
  *state = &capture;
  return capture.ctx ? 0 : -1;
}

static inline int capture_teardown(void **state) {
  capture_t *capture = *state;
  ls_ctx_destroy(capture->ctx);
  return 0;
}

static inline void capture_clear(capture_t *capture) {
  ls_ctx_clear(capture->ctx);
  capture->text[0] = '\0';
  capture->count = 0;
}

/* Every call makes one allocation more succeed, until none fails: `fn` must say LS_ERR_MEMORY each time
 * before, and leak nothing (the sanitizers' part). Returns how many allocations there are. */
static inline int capture_fail_each_alloc(capture_t *capture, ls_status_t (*fn)(capture_t *capture)) {
  for (int n = 1;; n++) {
    assert_true(n < 10000);
    ls_ctx_fail_alloc(capture->ctx, n);
    ls_status_t status = fn(capture);
    bool failed = ls_ctx_fail_alloc(capture->ctx, 0) >= n;
    if (!failed) {
      assert_int_equal(status, LS_OK);
      return n - 1;
    }
    assert_int_equal(status, LS_ERR_MEMORY);
    assert_non_null(strstr(capture->text, "out of memory"));
    capture_clear(capture);
  }
}

#endif
