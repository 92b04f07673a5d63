/* 8-bit integers for products: u8 of activations, one scale and zero point for a tensor; s8 of weights, symmetric, one scale
 * for each output. Shared by the plain C of the op rows and the tuned version, so that both round alike. */
#ifndef LS_DEVICE_INT8_H
#define LS_DEVICE_INT8_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LS_INT8_DEPTH_MAX = 1 << 16 }; /* products of one sum: 255 127 2^16 fits 31 bits */

/* x / scale + zero, rounded and clipped. `inverse`: 1 / scale. */
static inline uint8_t ls_int8_value(float x, float inverse, float zero) {
  float q = x * inverse + zero;
  q = q > 0 ? q : 0;
  return (uint8_t)(int32_t)((q < 255 ? q : 255) + 0.5f);
}

/* The weights of an output, and their sum. Returns the scale. Magnitudes are compared as integers, which compilers turn
 * into vectors. If none is above 127 * FLT_MIN, all count as 0; if one is not finite, neither is the scale. */
static inline float ls_int8_row(const float *w, int64_t count, int8_t *q, int32_t *sum) {
  int32_t bits = 0, all = 0;
  float most;
  for (int64_t i = 0; i < count; i++) {
    int32_t one;
    memcpy(&one, &w[i], sizeof one);
    one &= INT32_MAX;
    bits = one > bits ? one : bits;
  }
  memcpy(&most, &bits, sizeof most);
  const float inverse = most > 127 * FLT_MIN ? 127 / most : 0;
  for (int64_t i = 0; i < count; i++) {
    float v = w[i] * inverse;
    v = v > -127 ? v : -127; /* NaN, too, which is no integer */
    v = v < 127 ? v : 127;
    int32_t one = (int32_t)(v + copysignf(0.5f, v));
    q[i] = (int8_t)one;
    all += one;
  }
  *sum = all;
  return most / 127;
}

#endif
