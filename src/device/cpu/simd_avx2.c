/* device/cpu/simd_avx2: see device/device.h. */
typedef int ls_cpu_simd_avx2_stub_t;
