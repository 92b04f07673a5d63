/* simulate: prices schedules on other machines. A machine is a YAML file of figures, each with its source.
 * The cost of an op is a roofline, that of a collective the classical alpha-beta formulas (docs/simulate.md).
 * The schedules are those that training would run. All results are simulated. */
#ifndef LS_PLAN_SIMULATE_H
#define LS_PLAN_SIMULATE_H

#include "base/option.h"
#include "plan/price.h"

/* One number of a machine, and its source. source NULL: not given, value is the default. */
typedef struct {
  double value;
  const char *source;
} ls_sim_figure_t;

typedef enum {
  LS_SIM_FP32,
  LS_SIM_TF32,
  LS_SIM_FP16,
  LS_SIM_BF16,
  LS_SIM_PRECISION_COUNT
} ls_sim_precision_t;
extern const char *const ls_sim_precisions[]; /* "fp32" .., NULL-terminated */

typedef enum { LS_SIM_HOST_BRIDGE, LS_SIM_NVLINK, LS_SIM_SWITCH } ls_sim_topology_t;
typedef enum { LS_SIM_EVEN, LS_SIM_PROPORTIONAL, LS_SIM_BOTH } ls_sim_shares_t;

/* One kind of device. */
typedef struct {
  const char *name;
  int64_t count; /* per node */
  ls_sim_figure_t memory_bytes, memory_bytes_per_s, memory_achieved;
  ls_sim_figure_t flops_per_s[LS_SIM_PRECISION_COUNT]; /* 0 = the device has none */
  ls_sim_figure_t achieved, achieved_tensor;           /* of large products: fp32; the others */
  ls_sim_figure_t half_flops, half_flops_tensor;       /* product that runs at half of that */
  ls_sim_figure_t launch_ns;
} ls_sim_device_t;

/* The links between the devices of one node. */
typedef struct {
  int topology; /* ls_sim_topology_t */
  ls_sim_figure_t link_latency_ns, link_bytes_per_s, bridge_bytes_per_s;
  ls_sim_figure_t collective_overhead_ns, quick_overhead_ns, quick_bytes_per_s;
  ls_sim_figure_t host_bytes_per_s, step_overhead_ns, overlap_slowdown;
} ls_sim_node_t;

/* The links between nodes. nodes 1: there is no network. */
typedef struct {
  int64_t nodes;
  ls_sim_figure_t latency_ns, bytes_per_s;
} ls_sim_network_t;

typedef struct {
  ls_arena_t arena;
  const char *name, *notes;
  int shares; /* ls_sim_shares_t */
  int kinds;  /* device kinds */
  ls_sim_device_t *device;
  int node_devices; /* on one node */
  ls_sim_node_t node;
  ls_sim_network_t network;
} ls_sim_machine_t;

/* Reads a text, or, if it is NULL, the file of that name. All errors are reported, each at its place. Released
 * by the caller after LS_OK. */
ls_status_t ls_sim_machine_read(ls_ctx_t *ctx, const char *name, const char *text, size_t len,
                                ls_sim_machine_t *machine);
void ls_sim_machine_release(ls_sim_machine_t *machine);
/* Every figure with its source; new reference, NULL when memory is short. */
json_t *ls_sim_machine_json(const ls_sim_machine_t *machine);
int ls_sim_machine_devices(const ls_sim_machine_t *machine); /* on all nodes */
/* Ranks fill one node after the other, on each node the kinds in the order of the file. */
int ls_sim_machine_kind(const ls_sim_machine_t *machine, int rank);

/* simulate_links.c: a collective over `ranks` devices. `bytes` is the large buffer: of all-reduce and
 * broadcast what every rank has, of reduce-scatter and all-gather all ranks' parts together. algorithm
 * (static text) may be NULL. */
double ls_sim_collective_ns(const ls_sim_machine_t *machine, ls_collective_kind_t kind, double bytes,
                            int ranks, const char **algorithm);

/* simulate_cost.c: what one rank's tasks cost. */
typedef struct {
  const ls_sim_machine_t *machine;
  const ls_sim_device_t *device;
  int precision; /* ls_sim_precision_t */
  int ranks;
  double compute_scale; /* 1; times of ops are multiplied by it (calibration) */
} ls_sim_cost_t;

double ls_sim_compute_ns(const ls_sim_cost_t *cost, double flops, double bytes);
double ls_sim_task_ns(const ls_sim_cost_t *cost, const ls_schedule_t *s, int task);
ls_cost_model_t ls_sim_cost_model(ls_sim_cost_t *cost); /* borrows cost */

/* The object of a simulation: the program of a rank with `rows` samples of the global batch. */
typedef struct {
  ls_status_t (*lower)(ls_ctx_t *ctx, const void *user, int rank, int ranks, int64_t rows,
                       ls_program_t *program);
  const void *user;
  int precision;
  int64_t global_batch;     /* fixed (strong scaling), or 0 */
  int64_t batch_per_device; /* fixed (weak scaling), or 0 */
  int64_t shards;           /* of a reproducible step: the ranks have equally many; 0 = it is not */
  double compute_scale;
  const char *strategy; /* its name, static or borrowed */
  const char *left_out; /* static: the option that a configuration has on and no model prices; NULL = none */
} ls_sim_work_t;

enum { LS_SIM_NOTE_BYTES = 160 };

/* One row of the result. */
typedef struct {
  int ranks;
  int shares;                          /* LS_SIM_EVEN or LS_SIM_PROPORTIONAL */
  char note[LS_SIM_NOTE_BYTES];        /* not empty: the reason why this count cannot be simulated; the
                                        * rest is 0 */
  const char *device;                  /* of the slowest rank */
  const char *algorithm;               /* of the largest collective; NULL without one */
  int64_t batch, rows;                 /* global; of the slowest rank */
  double step_ns, exposed_ns, comm_ns; /* comm: all collectives, hidden or not */
  double input_ns;                     /* what compute waits for copies of its input */
  double samples_per_s, speedup, efficiency;
  int64_t device_bytes,
      memory_bytes; /* of the rank with the fullest memory; exact buffers against the device's memory */
  bool fits;
} ls_sim_point_t;

/* Prices one number of ranks. Speed-up is against the best single device, efficiency against the sum of what
 * every device would do alone (the same for equal devices). */
ls_status_t ls_sim_point(ls_ctx_t *ctx, const ls_sim_machine_t *machine, const ls_sim_work_t *work, int ranks,
                         int shares, ls_sim_point_t *point);

/* simulate_config.c: the work of a configuration (borrowed), in its own precision and strategy. */
struct ls_config;
ls_status_t ls_sim_work_config(ls_ctx_t *ctx, const struct ls_config *config, ls_sim_work_t *work);

/* simulate_ranks.c. "1,2,4..1024": numbers ascending, A..B doubles from A and ends with B. LS_ERR_ARGUMENT
 * says what is wrong. */
ls_status_t ls_sim_ranks_parse(ls_ctx_t *ctx, const char *text, ls_ints_t *ranks);

#endif
