/* One GPU while a run goes on: a few questions to NVML at a time, none of which stays open. */
#ifndef LS_MACHINE_GPU_LIVE_H
#define LS_MACHINE_GPU_LIVE_H

#include "machine/machine.h"

typedef struct ls_gpu_live ls_gpu_live_t;

/* NAN: the driver refuses. */
typedef struct {
  double busy_ratio; /* share of the driver's last sample period (up to a second) in which kernels ran */
  double memory_used_bytes, memory_bytes;
  double temperature_c, power_w, energy_j, clock_mhz;
  double power_limited, heat_limited, brake_limited; /* 1 or 0 */
} ls_gpu_now_t;

/* The GPU with this NVML index. NULL: NVML does not start, or has no such GPU. */
ls_gpu_live_t *ls_gpu_live_open(int index);
void ls_gpu_live_close(ls_gpu_live_t *live); /* NULL: nothing */
/* NULL: nothing is known. */
void ls_gpu_live_read(const ls_gpu_live_t *live, ls_gpu_now_t *now);

#endif
