/* What GPUs do while something is measured: a thread asks NVML every 20 ms, so that a short throttle is seen
 * and the measured steps wait for nothing. A window is what happens between begin and end. */
#ifndef LS_MACHINE_GPU_SAMPLER_H
#define LS_MACHINE_GPU_SAMPLER_H

#include "machine/machine.h"

typedef struct ls_gpu_sampler ls_gpu_sampler_t;

/* NAN and -1: not known, because the driver refuses or nothing is sampled. */
typedef struct {
  int64_t samples;
  double window_s;
  int64_t throttle_reasons; /* NVML's bits, of all samples and devices together */
  double busy_percent;      /* mean share of time in which kernels ran; only of windows longer than NVML's own
                             * averaging, a second */
  double energy_j;          /* of all devices; the driver's counter moves every 20 to 100 ms */
  double memory_used_bytes; /* the most that one device had in use, by whomever */
} ls_gpu_sampler_report_t;

/* Watches the `count` GPUs of these NVML indices; count 0: all, and then only throttle_reasons is known,
 * because somebody else may use some of them. LS_ERR_UNSUPPORTED (not reported) where NVML does not start. */
ls_status_t ls_gpu_sampler_start(ls_ctx_t *ctx, const int *gpus, int count, ls_gpu_sampler_t **sampler);
void ls_gpu_sampler_stop(ls_gpu_sampler_t *sampler); /* NULL: nothing */
/* Begin takes no time. End takes a last sample, waits for it, and reports. `sampler` may be NULL. */
void ls_gpu_sampler_begin(ls_gpu_sampler_t *sampler);
void ls_gpu_sampler_end(ls_gpu_sampler_t *sampler, ls_gpu_sampler_report_t *report);
/* One more sample now. */
void ls_gpu_sampler_sample(ls_gpu_sampler_t *sampler);

/* The NVML indices of this process' first `count` CUDA devices by the value of CUDA_VISIBLE_DEVICES (NULL:
 * not set). Returns count, or 0 where that names devices in another way than by number. */
int ls_gpu_sampler_visible(const char *visible, int count, int *gpus);

#endif
