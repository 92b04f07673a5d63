/* device/cpu/norm: see device/device.h. */
typedef int ls_cpu_norm_stub_t;
