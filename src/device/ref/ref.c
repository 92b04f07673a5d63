/* device/ref/ref: see device/device.h. */
typedef int ls_ref_ref_stub_t;
