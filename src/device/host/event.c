/* device/host/event: see device/device.h. */
typedef int ls_host_event_stub_t;
