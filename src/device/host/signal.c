/* Waiting for a counter: spin, yield, then sleep on the counter itself (futex). Two ranks on two cores make
 * the communication thread share its core with compute, so a waiter must not spin for long. */
#include "device/host/host.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 256, YIELDS = 64, NAP_NS_MAX = 100000000 };

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

enum { COUNT_SHIFT = 32 };

/* The kernel compares 32 bits: the half with the count. */
static void *count_half(ls_signal_t *signal) {
  return (char *)(uintptr_t)&signal->word + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 4 : 0);
}

/* After the addition only the address is used, which may already belong to something else: a stray wake-up is
 * harmless, because every sleeper looks again. */
void ls_signal_add(ls_signal_t *signal) {
  void *half = count_half(signal);
  uint32_t sleepers = (uint32_t)atomic_fetch_add(&signal->word, (uint64_t)1 << COUNT_SHIFT);
  if (sleepers) syscall(SYS_futex, half, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps while the count is `seen`. The sleeper is in the word before the kernel compares the count, so
 * either the adder sees the sleeper or the kernel sees the new count. */
static void sleep_on(ls_signal_t *signal, uint32_t seen, int64_t nap_ns) {
  struct timespec nap = {.tv_sec = nap_ns / 1000000000, .tv_nsec = nap_ns % 1000000000};
  atomic_fetch_add(&signal->word, 1);
  syscall(SYS_futex, count_half(signal), FUTEX_WAIT_PRIVATE, seen, &nap, NULL, 0);
  atomic_fetch_sub(&signal->word, 1);
}

bool ls_signal_wait(ls_signal_t *signal, uint32_t target, int64_t deadline_ns) {
  for (int i = 0; i < SPINS; i++) {
    if (ls_signal_reached(signal, target)) return true;
    pause_cpu();
  }
  for (int i = 0; i < YIELDS; i++) {
    sched_yield();
    if (ls_signal_reached(signal, target)) return true;
  }
  int64_t start_ns = ls_clock_ns();
  for (;;) {
    uint32_t seen = (uint32_t)(atomic_load(&signal->word) >> COUNT_SHIFT);
    if ((int32_t)(seen - target) >= 0) return true;
    int64_t nap_ns = NAP_NS_MAX;
    if (deadline_ns > 0) {
      int64_t left_ns = deadline_ns - (ls_clock_ns() - start_ns);
      if (left_ns <= 0) return ls_signal_reached(signal, target);
      if (left_ns < nap_ns) nap_ns = left_ns;
    }
    sleep_on(signal, seen, nap_ns);
  }
}
