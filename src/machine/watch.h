/* What GPUs do while something is measured: a thread asks NVML every 20 ms, so that a short throttle is seen
 * and the measured steps wait for nothing. A window is what happens between begin and end. */
#ifndef LS_MACHINE_WATCH_H
#define LS_MACHINE_WATCH_H

#include "machine/machine.h"

typedef struct ls_watch ls_watch_t;

/* NAN and -1: not known, because the driver refuses or nothing is watched. */
typedef struct {
  int64_t samples;
  double window_s;
  int64_t throttle_reasons; /* NVML's bits, of all samples and devices together */
  double busy_percent;      /* mean share of time in which kernels ran; only of windows longer than NVML's own
                             * averaging, a second */
  double energy_j;          /* of all devices; the driver's counter moves every 20 to 100 ms */
  double memory_used_bytes; /* the most that one device had in use, by whomever */
} ls_watch_report_t;

/* Watches the `count` GPUs of these NVML indices; count 0: all, and then only throttle_reasons is known,
 * because somebody else may use some of them. LS_ERR_UNSUPPORTED (not reported) where NVML does not start. */
ls_status_t ls_watch_start(ls_ctx_t *ctx, const int *gpus, int count, ls_watch_t **watch);
void ls_watch_stop(ls_watch_t *watch); /* NULL: nothing */
/* Begin takes no time. End takes a last sample, waits for it, and reports. `watch` may be NULL. */
void ls_watch_begin(ls_watch_t *watch);
void ls_watch_end(ls_watch_t *watch, ls_watch_report_t *report);
/* One more sample now. */
void ls_watch_sample(ls_watch_t *watch);

/* The NVML indices of this process' first `count` CUDA devices by the value of CUDA_VISIBLE_DEVICES (NULL:
 * not set). Returns count, or 0 where that names devices in another way than by number. */
int ls_watch_visible(const char *visible, int count, int *gpus);

#endif
