/* Samples GPUs during a measurement. A thread asks NVML every 20 ms, so that short throttling is seen and the
 * measured steps wait for nothing. A window is the time between begin and end. */
#ifndef LS_MACHINE_GPU_SAMPLER_H
#define LS_MACHINE_GPU_SAMPLER_H

#include "machine/machine.h"

typedef struct ls_gpu_sampler ls_gpu_sampler_t;

/* NAN and -1: not known, because the driver refuses or nothing is sampled. */
typedef struct {
  int64_t samples;
  double window_s;
  int64_t throttle_reasons; /* NVML's bits, of all samples and devices together */
  double busy_percent;      /* mean share of time in which kernels ran; only for windows longer than a
                             * second, the time over which NVML averages */
  double energy_j;          /* of all devices; the driver's counter moves every 20 to 100 ms */
  double memory_used_bytes; /* the peak of any one device, whoever used it */
} ls_gpu_sampler_report_t;

/* Samples the `count` GPUs with these NVML indices. With count 0 it samples all GPUs and knows only
 * throttle_reasons, because other programs may use some of them. LS_ERR_UNSUPPORTED (not reported) if NVML
 * does not start. */
ls_status_t ls_gpu_sampler_start(ls_ctx_t *ctx, const int *gpus, int count, ls_gpu_sampler_t **sampler);
void ls_gpu_sampler_stop(ls_gpu_sampler_t *sampler); /* NULL: nothing */
/* Begin takes no time. End takes a last sample, waits for it, and reports. `sampler` may be NULL. */
void ls_gpu_sampler_begin(ls_gpu_sampler_t *sampler);
void ls_gpu_sampler_end(ls_gpu_sampler_t *sampler, ls_gpu_sampler_report_t *report);
/* Takes one more sample now. */
void ls_gpu_sampler_sample(ls_gpu_sampler_t *sampler);

/* The NVML indices of this process' first `count` CUDA devices, from the value of CUDA_VISIBLE_DEVICES (NULL:
 * not set). Returns count, or 0 if the value names devices otherwise than by number. */
int ls_gpu_sampler_visible(const char *visible, int count, int *gpus);

#endif
