/* Kernels divide the scratch of an LSTM or GRU chain into packed weights and the floats that the gradient carries. */
#ifndef LS_DEVICE_CHAIN_H
#define LS_DEVICE_CHAIN_H

#include <stdint.h>

/* The weights (gates h, h) in the order of tuned versions: units in groups of up to 16. */
static inline int64_t ls_chain_packed_floats(int64_t gates, int64_t h) {
  return gates * h * ((h + 15) / 16 * 16);
}

/* Two states for each of n samples, and one more; at least two of f64. */
static inline int64_t ls_chain_carried_floats(int64_t n, int64_t h) {
  return (2 * n + 2) * h;
}

#endif
