/* device/host/stream: see device/device.h. */
typedef int ls_host_stream_stub_t;
