/* device/cpu/elementwise: see device/device.h. */
typedef int ls_cpu_elementwise_stub_t;
