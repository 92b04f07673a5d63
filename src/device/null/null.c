/* device/null/null: see device/device.h. */
typedef int ls_null_null_stub_t;
