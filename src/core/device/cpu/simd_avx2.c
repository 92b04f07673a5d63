/* The inner loops for x86-64 with AVX2 and FMA. */
#if defined(__AVX2__) && defined(__FMA__)
#define LS_SIMD_TABLE   ls_simd_avx2
#define LS_SIMD_NAME    "avx2"
#define LS_VECTOR_BYTES 32
#include "device/cpu/simd.h"
extern const ls_simd_t LS_SIMD_TABLE;
#include "device/cpu/simd_table.h"
#else
typedef int ls_simd_avx2_is_not_for_this_cpu_t;
#endif
