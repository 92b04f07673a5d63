/* device/cpu/loss: see device/device.h. */
typedef int ls_cpu_loss_stub_t;
