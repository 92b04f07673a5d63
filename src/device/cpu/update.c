/* device/cpu/update: see device/device.h. */
typedef int ls_cpu_update_stub_t;
