/* What NVML says of one GPU at this moment. */
#include "machine/gpu_live.h"

#include "machine/nvml.h"

#include <math.h>

/* nvmlClocksEventReasons */
enum {
  LIMITED_POWER = 0x4,
  LIMITED_BY_HARDWARE = 0x8,
  LIMITED_HEAT = 0x20,
  LIMITED_HEAT_BY_HARDWARE = 0x40,
  LIMITED_BRAKE = 0x80
};

struct ls_gpu_live {
  ls_nvml_t nvml;
  ls_nvml_device_t device;
};

ls_gpu_live_t *ls_gpu_live_open(int index) {
  char why[256];
  ls_gpu_live_t *live = ls_alloc(NULL, sizeof *live);
  if (!live) return NULL;
  if (!ls_nvml_open(&live->nvml, why, sizeof why)) {
    ls_free(live);
    return NULL;
  }
  if (live->nvml.handle((unsigned)index, &live->device) == 0) return live;
  ls_gpu_live_close(live);
  return NULL;
}

void ls_gpu_live_close(ls_gpu_live_t *live) {
  if (!live) return;
  ls_nvml_close(&live->nvml);
  ls_free(live);
}

void ls_gpu_live_read(const ls_gpu_live_t *live, ls_gpu_now_t *now) {
  *now = (ls_gpu_now_t){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
  if (!live) return;
  const ls_nvml_t *n = &live->nvml;
  ls_nvml_device_t d = live->device;
  ls_nvml_utilization_t used;
  ls_nvml_memory_t memory;
  unsigned value;
  unsigned long long wide;
  if (n->utilization && n->utilization(d, &used) == 0) now->busy_ratio = 1e-2 * used.gpu;
  if (n->memory && n->memory(d, &memory) == 0) {
    now->memory_used_bytes = (double)memory.used;
    now->memory_bytes = (double)memory.total;
  }
  if (n->temperature && n->temperature(d, LS_NVML_TEMPERATURE_GPU, &value) == 0) now->temperature_c = value;
  if (n->power && n->power(d, &value) == 0) now->power_w = 1e-3 * value;
  if (n->energy && n->energy(d, &wide) == 0) now->energy_j = 1e-3 * (double)wide;
  if (n->clock && n->clock(d, LS_NVML_CLOCK_SM, &value) == 0) now->clock_mhz = value;
  if (n->throttle && n->throttle(d, &wide) == 0) {
    now->power_limited = (wide & LIMITED_POWER) != 0;
    now->heat_limited = (wide & (LIMITED_HEAT | LIMITED_HEAT_BY_HARDWARE)) != 0;
    now->brake_limited = (wide & (LIMITED_BY_HARDWARE | LIMITED_BRAKE)) != 0;
  }
}
