/* Inside view of lockstep simulate: the results, for the files that show them. */
#ifndef LS_CLI_SIMULATE_H
#define LS_CLI_SIMULATE_H

#include "cli/cli.h"
#include "plan/workload.h"
#include "config/config.h"

/* One row of the result: a simulated point and, for workloads, what was reported for it. */
typedef struct {
  ls_sim_point_t point;
  const ls_reported_t *reported; /* NULL = none */
  ls_reported_view_t view;
  const ls_strategy_t *strategy; /* of workloads */
} cli_simulated_row_t;

typedef struct {
  ls_sim_machine_t machine;
  ls_config_t *config; /* or */
  ls_workload_t workload;
  bool has_workload;
  ls_ints_t ranks;
  ls_sim_work_t work; /* of the first row; says precision and scale */
  cli_simulated_row_t *row;
  int row_count;
  const char *contradictions;
} cli_simulation_t;

/* simulate.c: words for LS_SIM_EVEN and LS_SIM_PROPORTIONAL. */
extern const char *const cli_simulate_shares[];
/* simulate_json.c */
void cli_simulate_json(const cli_simulation_t *sim, const cli_args_t *args);
/* simulate_show.c */
void cli_simulate_show(const cli_simulation_t *sim, const cli_args_t *args);

#endif
