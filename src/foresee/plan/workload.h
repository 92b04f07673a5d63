/* A workload: gradients and compute described without a graph (layers with parameters, FLOPs and bytes per
 * sample), for networks that lockstep cannot train yet or that somebody else measured. It becomes a graph of
 * opaque ops, which the strategies lower as they lower any other. It may carry what somebody reported, to be
 * compared. */
#ifndef LS_PLAN_WORKLOAD_H
#define LS_PLAN_WORKLOAD_H

#include "engine/engine.h"
#include "plan/simulate.h"

typedef struct {
  const char *name;
  int64_t repeat; /* so many layers alike, one after the other */
  int64_t parameters;
  double flops_per_sample; /* forward */
  double bytes_per_sample; /* forward: activations read and written */
} ls_workload_layer_t;

extern const ls_strategy_t ls_strategy_sharded; /* sharded.c: for simulation alone */

/* One row of somebody's table. 0 = not said (ranks always is). */
typedef struct {
  int64_t ranks, batch_per_device;
  const char *strategy_name;     /* "same": the workload's */
  const ls_strategy_t *strategy; /* what that means */
  double samples_per_s, step_time_ms, efficiency_percent, communication_percent;
} ls_reported_t;

typedef struct {
  ls_arena_t arena;
  const char *name, *source;
  int precision, calibrate;               /* calibrate: 1 = to the reported single device */
  const char *strategy_name;              /* NULL: not given */
  const ls_strategy_t *strategy;          /* what that means; the usual one of several ranks */
  int64_t batch_per_device, global_batch; /* exactly one is not 0 */
  int64_t gradient_element_bytes;         /* as it travels */
  double bucket_bytes, backward_factor, optimizer_bytes_per_parameter;
  int layer_count;
  ls_workload_layer_t *layer;
  const char *reported_source;
  int reported_count;
  ls_reported_t *reported;
} ls_workload_t;

/* Reads a text, or, if it is NULL, the file of that name. All errors are reported, each at its place. Released
 * by the caller after LS_OK. */
ls_status_t ls_workload_read(ls_ctx_t *ctx, const char *name, const char *text, size_t len,
                             ls_workload_t *workload);
void ls_workload_release(ls_workload_t *workload);
int64_t ls_workload_parameters(const ls_workload_t *workload);

/* workload_graph.c: one training step of one rank with `rows` samples. One rank alone takes what one rank uses. */
ls_status_t ls_workload_lower(ls_ctx_t *ctx, const ls_workload_t *workload, const ls_strategy_t *strategy,
                              int rank, int ranks, int64_t rows, ls_program_t *program);

/* A workload with one of its strategies, as work to simulate; `run` is borrowed. With calibrate: reported,
 * times of ops are scaled on this machine's best device. */
typedef struct {
  const ls_workload_t *workload;
  const ls_strategy_t *strategy;
} ls_workload_run_t;
ls_status_t ls_workload_work(ls_ctx_t *ctx, const ls_sim_machine_t *machine, const ls_workload_run_t *run,
                             ls_sim_work_t *work);

/* workload_report.c: a reported row compared with the simulated one. */
typedef struct {
  double reported_efficiency; /* of 1; NAN = neither said nor derivable */
  double simulated_efficiency;
  double unhidden_efficiency; /* simulated, if no communication were hidden */
  double lost_ns;             /* by which the reported step is longer than the reported single device's */
  double unexplained_ns;      /* of that, what not even unhidden communication gives; >= 0 */
  char why[256];              /* one sentence */
} ls_reported_view_t;
/* Samples per device of a row: as stated, or, where throughput and time contradict that, what those two make.
 */
int64_t ls_reported_batch(const ls_workload_t *workload, const ls_reported_t *row);
/* `simulated` is the row's world, `single` one device with the workload's batch. */
void ls_reported_compare(const ls_workload_t *workload, const ls_reported_t *row,
                         const ls_sim_point_t *simulated, const ls_sim_point_t *single,
                         ls_reported_view_t *view);
/* Contradictions within the reported table: one sentence a line, "" = none. In the workload's arena;
 * NULL when memory is short. */
const char *ls_reported_contradictions(ls_workload_t *workload);

#endif
