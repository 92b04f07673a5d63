/* 8-bit integers for products: u8 of activations, one scale and zero point for a tensor; s8 of weights, symmetric, one scale
 * for each output. Shared by the plain C of the op rows and the tuned version, so that both round alike. */
#ifndef LS_DEVICE_INT8_H
#define LS_DEVICE_INT8_H

#include <math.h>
#include <stdint.h>

enum { LS_INT8_DEPTH_MAX = 1 << 16 }; /* products of one sum: 255 127 2^16 fits 31 bits */

/* x / scale + zero, rounded and clipped. `inverse`: 1 / scale. */
static inline uint8_t ls_int8_value(float x, float inverse, float zero) {
  float q = x * inverse + zero;
  q = q > 0 ? q : 0;
  return (uint8_t)((q < 255 ? q : 255) + 0.5f);
}

/* The weights of an output, and their sum. Returns the scale. */
static inline float ls_int8_row(const float *w, int64_t count, int8_t *q, int32_t *sum) {
  float most = 0;
  for (int64_t i = 0; i < count; i++)
    most = fabsf(w[i]) > most ? fabsf(w[i]) : most;
  const float inverse = most > 0 ? 127 / most : 0;
  *sum = 0;
  for (int64_t i = 0; i < count; i++) {
    float v = w[i] * inverse;
    q[i] = (int8_t)(v < 0 ? v - 0.5f : v + 0.5f);
    *sum += q[i];
  }
  return most / 127;
}

#endif
