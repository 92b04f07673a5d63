/* device/cpu/cpu: see device/device.h. */
typedef int ls_cpu_cpu_stub_t;
