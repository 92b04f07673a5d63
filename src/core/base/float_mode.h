/* The floating-point mode of the calling thread: rounding, and whether denormal numbers are flushed to zero.
 * Many processors take up to a hundred times as long for arithmetic with denormal numbers (Intel SDM vol. 1,
 * 10.2.3; Arm ARM, FPCR.FZ). On processors other than x86-64 and AArch64 nothing is read or set. */
#ifndef LS_BASE_FLOAT_MODE_H
#define LS_BASE_FLOAT_MODE_H

#include <stdint.h>

typedef uint64_t ls_float_mode_t;

static inline ls_float_mode_t ls_float_mode(void) {
  ls_float_mode_t mode = 0;
#if defined(__x86_64__)
  mode = __builtin_ia32_stmxcsr();
#elif defined(__aarch64__)
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
#endif
  return mode;
}

static inline void ls_float_mode_set(ls_float_mode_t mode) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr((unsigned)mode);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
  (void)mode;
#endif
}

/* `mode` with denormal operands and results flushed to zero. */
static inline ls_float_mode_t ls_float_mode_flushing(ls_float_mode_t mode) {
#if defined(__x86_64__)
  enum { FLUSH_RESULTS = 0x8000, OPERANDS_ARE_ZERO = 0x40 };
  return mode | FLUSH_RESULTS | OPERANDS_ARE_ZERO;
#elif defined(__aarch64__)
  return mode | (UINT64_C(1) << 24);
#else
  return mode;
#endif
}

#endif
