/* device/host/queue: see device/device.h. */
typedef int ls_host_queue_stub_t;
