/* device/host/signal: see device/device.h. */
typedef int ls_host_signal_stub_t;
