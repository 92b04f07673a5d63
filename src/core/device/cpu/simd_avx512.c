/* The inner loops for x86-64 with AVX-512 (F, DQ, VL, BW), and products of 8-bit integers with VNNI. */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define LS_SIMD_TABLE   ls_simd_avx512
#define LS_SIMD_NAME    "avx512"
#define LS_VECTOR_BYTES 64
#include "device/cpu/simd.h"
extern const ls_simd_t LS_SIMD_TABLE;
#include "device/cpu/simd_table.h"

#define INT8(name)          vnni_##name
#define INT8_TARGET         __attribute__((target("avx512vnni")))
#define INT8_DOT(sum, x, w) ((veci_t)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(x), (__m512i)(w)))
typedef uint8_t vnni_value_t;
#include "device/cpu/simd_int8.h"
extern const ls_simd_int8_t ls_simd_avx512_vnni;
const ls_simd_int8_t ls_simd_avx512_vnni = {1, LANES, vnni_round, vnni_product};
#else
typedef int ls_simd_avx512_is_not_for_this_cpu_t;
#endif
