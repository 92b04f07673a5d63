/* device/cpu/gemm: see device/device.h. */
typedef int ls_cpu_gemm_stub_t;
