/* A configuration or a workload on a described machine, at several numbers of ranks. All figures are simulated; reported
 * figures stand with them only if the workload's file has some. */
#ifndef LS_PLAN_SIMULATION_H
#define LS_PLAN_SIMULATION_H

#include "config/config.h"
#include "plan/workload.h"

/* A simulated point and, for workloads, the figures that were reported for it. */
typedef struct {
  ls_sim_point_t point;
  const ls_reported_t *reported; /* NULL = none */
  ls_reported_view_t view;
  const ls_strategy_t *strategy; /* of workloads */
} ls_simulated_row_t;

/* The caller sets machine, ranks, and config or workload; the run adds the rest. */
typedef struct {
  ls_sim_machine_t machine;
  ls_config_t *config;     /* or a workload */
  const char *config_name; /* for people; borrowed */
  ls_workload_t workload;
  bool has_workload;
  ls_ints_t ranks;
  ls_sim_work_t work; /* of the newest row; says precision and scale */
  ls_simulated_row_t *row;
  int row_count;
  const char *contradictions;
} ls_simulation_t;

extern const char *const ls_sim_share_names[]; /* of LS_SIM_EVEN and LS_SIM_PROPORTIONAL */

ls_status_t ls_simulation_run(ls_ctx_t *ctx, ls_simulation_t *simulation);
/* The document of lockstep simulate. New reference. */
json_t *ls_simulation_json(const ls_simulation_t *simulation);
void ls_simulation_release(ls_simulation_t *simulation); /* also of a part of it, the rest being 0 */

#endif
