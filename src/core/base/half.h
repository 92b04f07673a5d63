/* The two 16-bit floats: bf16, the upper half of an f32, and f16 (IEEE 754 binary16). Rounded to nearest, ties to
 * even; a NaN stays a NaN, what is too large becomes infinite. Integer arithmetic without branches, in the common
 * subset of C and CUDA C++: compilers make vectors of it, and every processor gives the same bits. */
#ifndef LS_BASE_HALF_H
#define LS_BASE_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define LS_HALF static __host__ __device__ __forceinline__
#else
#define LS_HALF static inline
#endif

LS_HALF uint32_t ls_bits_of_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

LS_HALF float ls_f32_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

LS_HALF uint16_t ls_bf16_of_f32(float x) {
  uint32_t bits = ls_bits_of_f32(x), rounded = bits + 0x7fff + (bits >> 16 & 1);
  return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded) >> 16);
}

LS_HALF float ls_f32_of_bf16(uint16_t h) {
  return ls_f32_of_bits((uint32_t)h << 16);
}

/* Giesen, "Float->half variants": below 2^-14 an addition rounds at the last bit of a subnormal. */
LS_HALF uint16_t ls_f16_of_f32(float x) {
  uint32_t bits = ls_bits_of_f32(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  uint32_t normal = (size + 0xc8000fff + (size >> 13 & 1)) >> 13;
  uint32_t small = ls_bits_of_f32(ls_f32_of_bits(size < 0x38800000 ? size : 0) + 0.5f) - 0x3f000000;
  uint32_t special = size > 0x7f800000 ? 0x7e00 : 0x7c00;
  return (uint16_t)(sign | (size >= 0x47800000 ? special : size < 0x38800000 ? small : normal));
}

LS_HALF float ls_f32_of_f16(uint16_t h) {
  uint32_t size = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t normal = size + (size >= 0x0f800000 ? 0x70000000u : 0x38000000u);
  uint32_t small =
      ls_bits_of_f32(ls_f32_of_bits((size < 0x00800000 ? size : 0) + 0x38800000) - 6.103515625e-5f);
  return ls_f32_of_bits(sign | (size < 0x00800000 ? small : normal));
}

#endif
