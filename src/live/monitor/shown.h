/* One writer shows a block of words to any reader without either waiting: a sequence lock. The writer's cost is a
 * store per word. Every word is atomic, so that no access is a race. */
#ifndef LS_MONITOR_SHOWN_H
#define LS_MONITOR_SHOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LS_SHOWN_WORDS = 32 };

typedef struct {
  _Alignas(64) _Atomic uint64_t turn; /* odd while the block is written */
  _Atomic uint64_t word[LS_SHOWN_WORDS];
} ls_shown_t;

/* Both take at most LS_SHOWN_WORDS words of 8 bytes. */
static inline void ls_shown_write(ls_shown_t *s, const void *block, size_t size_bytes) {
  uint64_t own[LS_SHOWN_WORDS], turn = atomic_load_explicit(&s->turn, memory_order_relaxed);
  const size_t words = size_bytes / sizeof own[0];
  memcpy(own, block, size_bytes);
  atomic_store_explicit(&s->turn, turn + 1, memory_order_relaxed);
  for (size_t i = 0; i < words; i++) /* release: not before the odd turn */
    atomic_store_explicit(&s->word[i], own[i], memory_order_release);
  atomic_store_explicit(&s->turn, turn + 2, memory_order_release);
}

/* False, with nothing read: the writer was writing each time. */
static inline bool ls_shown_read(ls_shown_t *s, void *block, size_t size_bytes) {
  enum { TRIES = 1000 };
  uint64_t own[LS_SHOWN_WORDS];
  const size_t words = size_bytes / sizeof own[0];
  for (int i = 0; i < TRIES; i++) {
    uint64_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);
    for (size_t k = 0; k < words; k++) /* acquire: the turn below is not read before */
      own[k] = atomic_load_explicit(&s->word[k], memory_order_acquire);
    if (turn % 2 == 0 && atomic_load_explicit(&s->turn, memory_order_relaxed) == turn) {
      memcpy(block, own, size_bytes);
      return true;
    }
  }
  return false;
}

#endif
