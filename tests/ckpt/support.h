/* Shared by the tests of checkpoints: a context that keeps its messages, a directory of its own, and a small state
 * whose every number follows from the step, so that any checkpoint can be verified exactly. */
#ifndef TESTS_CKPT_SUPPORT_H
#define TESTS_CKPT_SUPPORT_H

#include <stdint.h>

#include "unit.h"

#include "ckpt/ckpt.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

enum { PARAM_COUNT = 3, OPTIM_COUNT = 3, GUARD_BYTES = 16, LOG_BYTES = 1 << 16 };

typedef struct {
  ls_ctx_t *ctx;
  char dir[256];
  char log[LOG_BYTES]; /* "E message\n", "W message\n", .. */
} fixture_t;

extern fixture_t *f; /* of the running test */
int fixture_setup(void **state);
int fixture_teardown(void **state);
void fixture_forget(void); /* clears messages and the kept error */

/* Numbers as a function of the step, each tensor fenced by guard bytes. */
typedef struct {
  ls_ckpt_tensor_t param[PARAM_COUNT], optim[OPTIM_COUNT];
  unsigned char *block;
  size_t block_bytes;
} state_t;

void state_create(state_t *s, int64_t width); /* the largest parameter has 4 * width numbers; poisoned */
void state_destroy(state_t *s);
void state_fill(state_t *s, int64_t step);
void state_poison(state_t *s);
bool state_is(const state_t *s, int64_t step); /* every number, and every guard */
bool state_is_poison(const state_t *s);

ls_status_t save_state(ls_ctx_t *ctx, const char *dir, const state_t *s, int64_t step, double metric,
                       int keep);
/* Saves the state of `step` (width 3) and asserts success. */
void save_good(int64_t step, double metric, int keep);
/* Opens the newest, asserts that it reads back exactly, and returns its step. */
int64_t newest_good(void);

/* "a b c": names in the directory, sorted. Static buffer. */
const char *listing(const char *dir);
char *joined(const char *dir, const char *name); /* static buffers, used in turn */
void put_file(const char *path, const void *bytes, size_t size);
char *get_file(const char *path, size_t *size); /* ls_free */

#define assert_contains(text, part) assert_contains_at(text, part, __FILE__, __LINE__)
void assert_contains_at(const char *text, const char *part, const char *file, int line);
/* The call gives this status, and the kept error contains `part`. */
#define assert_refused(call, status, part)                                                                   \
  do {                                                                                                       \
    assert_int_equal(call, status);                                                                          \
    assert_contains(ls_ctx_error(f->ctx), part);                                                             \
  } while (0)

#endif
