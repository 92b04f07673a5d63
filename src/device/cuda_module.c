/* device/cuda_module: see device/device.h. */
typedef int ls_cuda_module_stub_t;
