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

void ls_signal_add(ls_signal_t *signal) {
  atomic_fetch_add(&signal->value, 1);
  if (atomic_load(&signal->sleepers))
    syscall(SYS_futex, &signal->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps while the value is `seen`. Both sides order "value, sleepers" sequentially consistently, so either
 * the waker sees the sleeper or the futex sees the new value. */
static void sleep_on(ls_signal_t *signal, uint32_t seen, int64_t nap_ns) {
  struct timespec nap = {.tv_sec = nap_ns / 1000000000, .tv_nsec = nap_ns % 1000000000};
  atomic_fetch_add(&signal->sleepers, 1);
  syscall(SYS_futex, &signal->value, FUTEX_WAIT_PRIVATE, seen, &nap, NULL, 0);
  atomic_fetch_sub(&signal->sleepers, 1);
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
    uint32_t seen = atomic_load(&signal->value);
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
