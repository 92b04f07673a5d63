/* device/cpu/simd_avx512: see device/device.h. */
typedef int ls_cpu_simd_avx512_stub_t;
