/* The points of a simulation: one for each number of ranks, two where shares may be even or proportional. */
#include "plan/simulation.h"

const char *const ls_sim_share_names[] = {"even", "proportional"};

static const ls_reported_t *find_reported(const ls_workload_t *w, int64_t ranks) {
  for (int i = 0; i < w->reported_count; i++)
    if (w->reported[i].ranks == ranks) return &w->reported[i];
  return NULL;
}

/* Rows of a workload take batch and strategy from the reported ones. */
static ls_status_t simulate_workload_row(ls_ctx_t *ctx, ls_simulation_t *sim, int ranks, int shares,
                                         ls_simulated_row_t *row) {
  row->reported = find_reported(&sim->workload, ranks);
  row->strategy = row->reported ? row->reported->strategy : sim->workload.strategy;
  const ls_workload_run_t run = {&sim->workload, row->strategy};
  ls_sim_work_t work;
  ls_status_t status = ls_workload_work(ctx, &sim->machine, &run, &work);
  if (status != LS_OK) return status;
  if (row->reported && work.batch_per_device > 0)
    work.batch_per_device = ls_reported_batch(&sim->workload, row->reported);
  status = ls_sim_point(ctx, &sim->machine, &work, ranks, shares, &row->point);
  sim->work = work;
  sim->work.user = NULL;
  if (status != LS_OK || !row->reported || row->point.note[0]) return status;
  ls_sim_point_t single;
  work.batch_per_device = sim->workload.batch_per_device;
  status = ls_sim_point(ctx, &sim->machine, &work, 1, LS_SIM_EVEN, &single);
  if (status == LS_OK) ls_reported_compare(&sim->workload, row->reported, &row->point, &single, &row->view);
  return status;
}

static ls_status_t simulate_row(ls_ctx_t *ctx, ls_simulation_t *sim, int ranks, int shares) {
  ls_simulated_row_t *row = &sim->row[sim->row_count++];
  if (sim->has_workload) return simulate_workload_row(ctx, sim, ranks, shares, row);
  ls_status_t status = ls_sim_work_config(ctx, sim->config, &sim->work);
  return status == LS_OK ? ls_sim_point(ctx, &sim->machine, &sim->work, ranks, shares, &row->point) : status;
}

ls_status_t ls_simulation_run(ls_ctx_t *ctx, ls_simulation_t *sim) {
  sim->row = ls_alloc_array(ctx, 2 * (size_t)sim->ranks.count, sizeof *sim->row);
  ls_status_t status = sim->row ? LS_OK : LS_ERR_MEMORY;
  for (int i = 0; status == LS_OK && i < sim->ranks.count; i++) {
    int ranks = (int)sim->ranks.v[i], shares = sim->machine.shares;
    bool unequal = sim->machine.kinds > 1 && ranks > 1 && ranks <= ls_sim_machine_devices(&sim->machine);
    if (!unequal || shares != LS_SIM_PROPORTIONAL) status = simulate_row(ctx, sim, ranks, LS_SIM_EVEN);
    if (status == LS_OK && unequal && shares != LS_SIM_EVEN)
      status = simulate_row(ctx, sim, ranks, LS_SIM_PROPORTIONAL);
  }
  if (status == LS_OK && sim->has_workload) {
    sim->contradictions = ls_reported_contradictions(&sim->workload);
    if (!sim->contradictions) status = LS_ERR_MEMORY;
  }
  return status;
}

void ls_simulation_release(ls_simulation_t *sim) {
  ls_free(sim->row);
  if (sim->has_workload) ls_workload_release(&sim->workload);
  ls_config_destroy(sim->config);
  ls_sim_machine_release(&sim->machine);
}
