/* Sleeping on a word by futex (Linux), and the counter. Two ranks on two cores make the communication thread share its
 * core with compute, so a waiter must not spin for long. */
#include "base/wait.h"

#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static int operation(int kind, ls_wait_scope_t scope) {
  return scope == LS_WAIT_THREADS ? kind | FUTEX_PRIVATE_FLAG : kind;
}

void ls_wait_sleep(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns, ls_wait_scope_t scope) {
  const struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
  syscall(SYS_futex, word, operation(FUTEX_WAIT, scope), seen, timeout_ns > 0 ? &timeout : NULL, NULL, 0);
}

void ls_wait_wake(_Atomic uint32_t *word, ls_wait_scope_t scope) {
  syscall(SYS_futex, word, operation(FUTEX_WAKE, scope), INT_MAX, NULL, NULL, 0);
}

enum { COUNT_SHIFT = 32 };

/* The kernel compares 32 bits: the half with the count. */
static _Atomic uint32_t *count_half(ls_signal_t *signal) {
  return (_Atomic uint32_t *)(uintptr_t)&signal->word + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
}

/* After the addition only the address is used, which may already belong to something else. */
void ls_signal_add(ls_signal_t *signal) {
  _Atomic uint32_t *half = count_half(signal);
  uint32_t sleepers = (uint32_t)atomic_fetch_add(&signal->word, (uint64_t)1 << COUNT_SHIFT);
  if (sleepers) ls_wait_wake(half, LS_WAIT_THREADS);
}

/* The sleeper is in the word before the kernel compares the count, so either the adder sees the sleeper or the kernel
 * sees the new count. */
bool ls_signal_sleep(ls_signal_t *signal, uint32_t target, int64_t deadline_ns) {
  const int64_t nap_ns_max = 100000000, start_ns = deadline_ns > 0 ? ls_clock_ns() : 0;
  for (;;) {
    uint32_t seen = (uint32_t)(atomic_load(&signal->word) >> COUNT_SHIFT);
    if ((int32_t)(seen - target) >= 0) return true;
    int64_t nap_ns = nap_ns_max;
    if (deadline_ns > 0) {
      int64_t left_ns = deadline_ns - (ls_clock_ns() - start_ns);
      if (left_ns <= 0) return ls_signal_reached(signal, target);
      if (left_ns < nap_ns) nap_ns = left_ns;
    }
    atomic_fetch_add(&signal->word, 1);
    ls_wait_sleep(count_half(signal), seen, nap_ns, LS_WAIT_THREADS);
    atomic_fetch_sub(&signal->word, 1);
  }
}

bool ls_signal_wait(ls_signal_t *signal, uint32_t target, int64_t deadline_ns) {
  enum { SPINS = 256, YIELDS = 64 };
  for (int i = 0; i < SPINS; i++) {
    if (ls_signal_reached(signal, target)) return true;
    ls_wait_pause();
  }
  for (int i = 0; i < YIELDS; i++) {
    sched_yield();
    if (ls_signal_reached(signal, target)) return true;
  }
  return ls_signal_sleep(signal, target, deadline_ns);
}
