/* The inner loops for any CPU (on x86-64: SSE2). */
#define LS_SIMD_TABLE   ls_simd_base
#define LS_SIMD_NAME    "base"
#define LS_VECTOR_BYTES 16
#include "device/cpu/simd.h"
extern const ls_simd_t LS_SIMD_TABLE;
#include "device/cpu/simd_table.h"
