/* device/cpu/simd_base: see device/device.h. */
typedef int ls_cpu_simd_base_stub_t;
