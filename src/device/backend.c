/* device/backend: see device/device.h. */
typedef int ls_backend_stub_t;
