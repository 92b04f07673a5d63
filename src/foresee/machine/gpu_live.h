/* One GPU while a run goes on: a few questions to NVML at a time; none stays open.
 *
 * LOCKSTEP_NVML=FILE in the environment puts a recording in NVML's place, so that alerts and limits can be tried on
 * any machine. FILE is the event log of a watched run (docs/monitor.md), or written by hand: one JSON object a line
 * with `t` (seconds) and members "gpu_NAME", NAME a row of LS_GPU_NOW_TABLE; `rank` (default 0) is the process'
 * number on its host. Lines without such members are skipped. The first line's t is the moment of opening. A line
 * is valid until the next, the last one for ever. Members that a line lacks are unknown then. */
#ifndef LS_MACHINE_GPU_LIVE_H
#define LS_MACHINE_GPU_LIVE_H

#include "base/field.h"
#include "machine/machine.h"

#define LS_GPU_REPLAY_ENVIRONMENT "LOCKSTEP_NVML"

typedef struct ls_gpu_live ls_gpu_live_t;

/* X(field): one fact about a GPU, as a double; NaN: the driver refuses. Counters and bytes are sums since the
 * driver was loaded, errors (XID) since this was opened. recovery_action is NVML's number: 0 none, 1 reset, 2
 * reboot, 3 and 4 drain. */
#define LS_GPU_NOW_TABLE(X)                                                                                  \
  X(ratio) /* share of the driver's last sample period (up to a second) in which kernels ran */              \
  X(memory_bytes)                                                                                            \
  X(memory_size_bytes)                                                                                       \
  X(temperature_c)                                                                                           \
  X(memory_temperature_c)                                                                                    \
  X(margin_c) /* until clocks are slowed down */                                                             \
  X(power_w)                                                                                                 \
  X(power_limit_w)                                                                                           \
  X(energy_j)                                                                                                \
  X(clock_mhz)                                                                                               \
  X(clock_most_mhz)                                                                                          \
  X(memory_clock_mhz)                                                                                        \
  X(power_limited) /* 1 or 0, as the next two */                                                             \
  X(heat_limited)                                                                                            \
  X(brake_limited)                                                                                           \
  X(ecc_corrected)                                                                                           \
  X(ecc_uncorrected)                                                                                         \
  X(nvlink_sent_bytes)                                                                                       \
  X(nvlink_received_bytes)                                                                                   \
  X(pcie_sent_bytes)                                                                                         \
  X(pcie_received_bytes)                                                                                     \
  X(pcie_replays)                                                                                            \
  X(xid) /* the newest error's number; one that breaks the GPU stays */                                      \
  X(xid_errors)                                                                                              \
  X(recovery_action)

typedef struct {
#define LS_GPU_NOW_FIELD(field) double field;
  LS_GPU_NOW_TABLE(LS_GPU_NOW_FIELD)
#undef LS_GPU_NOW_FIELD
} ls_gpu_now_t;
/* Members are called gpu_NAME. */
extern const ls_record_t ls_gpu_now_record;

/* The GPU that is this process' CUDA device `gpu` (-1: it has none), or of a recording the one of `local_rank`.
 * *live NULL: there is none, or NVML does not start. LS_OK, unless a recording cannot be read. */
ls_status_t ls_gpu_live_open(ls_ctx_t *ctx, int gpu, int local_rank, ls_gpu_live_t **live);
void ls_gpu_live_close(ls_gpu_live_t *live); /* NULL: nothing */
/* NULL: nothing is known. again: returns the newest reading again for 20 times as long as it took, at most for 1 s. */
void ls_gpu_live_read(ls_gpu_live_t *live, bool again, ls_gpu_now_t *now);

/* True if a GPU has to be reset before it is used again after this error (NVIDIA's list of XIDs). The other errors
 * are a program's own. */
bool ls_gpu_xid_breaks(double xid);

/* gpu_replay.c */
typedef struct ls_gpu_replay ls_gpu_replay_t;
/* LS_ERR_NOT_FOUND, LS_ERR_IO; LS_ERR_CONFIG if no line is of this rank. */
ls_status_t ls_gpu_replay_open(ls_ctx_t *ctx, const char *path, int local_rank, ls_gpu_replay_t **replay);
void ls_gpu_replay_close(ls_gpu_replay_t *replay);
/* The values that were valid `at_s` seconds after the first line. Times may be asked in any order. */
void ls_gpu_replay_at(const ls_gpu_replay_t *replay, double at_s, ls_gpu_now_t *now);

#endif
