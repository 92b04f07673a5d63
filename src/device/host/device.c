/* device/host/device: see device/device.h. */
typedef int ls_host_device_stub_t;
