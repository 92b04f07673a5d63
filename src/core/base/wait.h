/* Waiting for memory that another thread or process changes: a pause between looks, sleeping in the kernel until a word
 * changes, and a counter of things that have happened, made of both. All are safe from any thread; none allocates or
 * fails. */
#ifndef LS_BASE_WAIT_H
#define LS_BASE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Between two looks of a spinning thread: leaves the core's resources to its sibling. */
static inline void ls_wait_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Who may change the word: threads of this process, or of any that maps its memory. */
typedef enum { LS_WAIT_THREADS, LS_WAIT_PROCESSES } ls_wait_scope_t;
/* Sleeps while *word is `seen`, at most timeout_ns (0: without limit). It may return early: callers look again. */
void ls_wait_sleep(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns, ls_wait_scope_t scope);
/* Wakes all that sleep on the word, which may have ceased to be one: a stray wake-up is harmless. */
void ls_wait_wake(_Atomic uint32_t *word, ls_wait_scope_t scope);

/* How many things have happened. Count (upper half) and sleepers (lower half) are one word, so that adding is the
 * adder's last access: a waiter for the count may free the signal at once. */
typedef struct {
  _Atomic uint64_t word;
} ls_signal_t;

void ls_signal_add(ls_signal_t *signal);
/* Waits until at least `target` things have happened (modulo 2^32), at most deadline_ns (0 = for ever): spins, then
 * gives the core away, then sleeps, so it is quick on an idle core and harmless on a shared one. */
bool ls_signal_wait(ls_signal_t *signal, uint32_t target, int64_t deadline_ns);
/* The same asleep from the beginning. */
bool ls_signal_sleep(ls_signal_t *signal, uint32_t target, int64_t deadline_ns);
static inline bool ls_signal_reached(ls_signal_t *signal, uint32_t target) {
  uint32_t count = (uint32_t)(atomic_load_explicit(&signal->word, memory_order_acquire) >> 32);
  return (int32_t)(count - target) >= 0;
}

#endif
