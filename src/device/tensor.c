/* device/tensor: see device/device.h. */
typedef int ls_tensor_stub_t;
