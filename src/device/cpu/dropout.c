/* device/cpu/dropout: see device/device.h. */
typedef int ls_cpu_dropout_stub_t;
