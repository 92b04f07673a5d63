/* The inner loops for x86-64 with AVX-512 (F, DQ, VL, BW). */
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define LS_SIMD_TABLE   ls_simd_avx512
#define LS_SIMD_NAME    "avx512"
#define LS_VECTOR_BYTES 64
#include "device/cpu/simd.h"
extern const ls_simd_t LS_SIMD_TABLE;
#include "device/cpu/simd_table.h"
#else
typedef int ls_simd_avx512_is_not_for_this_cpu_t;
#endif
