/* Measures a machine's abilities and puts them into a profile (machine/profile.h), through the same tables that
 * training runs on: backends' kernels, streams and copies, transports' collectives. All measurements are short
 * repetitions in turn, so that a disturbance hits everything a little instead of one thing a lot. A time is the
 * median and the interval with 90 % of single measurements.
 *
 * docs/probe.md lists the keys and their measurements. Measurements for which the budget is too short are left out
 * of the profile. */
#ifndef LS_PROBE_PROBE_H
#define LS_PROBE_PROBE_H

#include "comm/comm.h"
#include "graph/op.h"
#include "machine/profile.h"

/* One device: matrix products over a grid of shapes (in every precision of the backend), memory, launches,
 * hand-overs, copies. *left_out: products that would take more than a second each on this device, and are not measured. Local. */
ls_status_t ls_probe_device(ls_ctx_t *ctx, const ls_backend_t *backend, int index, int threads,
                            int64_t budget_ns, ls_profile_t *profile, int *left_out);

/* The largest linear layer of that grid, (rows, width) times (width, width). */
void ls_probe_largest_product(const ls_backend_t *backend, int64_t *rows, int64_t *width);
/* The key that the planner uses for the time of this op on these shapes. */
void ls_probe_op_key(const ls_backend_t *backend, ls_math_t math, int threads, const ls_op_t *op,
                     const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out,
                     char key[LS_PROFILE_KEY_BYTES]);

/* Copies between devices 0..count-1 of this process, directly if the machine allows it: one pair at a time,
 * then all at once, each checked byte by byte. *wrong: pairs whose copies arrived wrong; *staged: pairs (i to
 * j and j to i are two) whose copies went through the host's memory. Local. Keys "device-copy cuda 0-1"
 * (curve), "device-copy cuda all" (time of the slowest when all pairs copy the largest size at once). */
ls_status_t ls_probe_peers(ls_ctx_t *ctx, const ls_backend_t *backend, int count, int64_t budget_ns,
                           ls_profile_t *profile, int *wrong, int *staged);

/* All-reduce, reduce-scatter, all-gather and broadcast from 64 B to 64 MB over `comm` with buffers of
 * `device`; `transport` is the key of its curves. Costs are those of the slowest rank. `control` is a host communicator of the same ranks (may be
 * `comm`). Collective; every rank's profile gets the same. */
ls_status_t ls_probe_collectives(ls_ctx_t *ctx, ls_comm_t *control, ls_comm_t *comm, const char *transport,
                                 ls_device_t *device, int64_t budget_ns, ls_profile_t *profile);

/* Measures how much slower a memory-bound and a compute-bound op become when all ranks of this node compute at once
 * (LS_KEY_CONTENTION). Collective. All ranks have to be on one node, else nothing is measured. */
ls_status_t ls_probe_contention(ls_ctx_t *ctx, ls_comm_t *control, ls_device_t *device, int threads,
                                int64_t budget_ns, ls_profile_t *profile);

#endif
