/* device/cpu/linear: see device/device.h. */
typedef int ls_cpu_linear_stub_t;
