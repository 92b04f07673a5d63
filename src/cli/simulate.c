/* lockstep simulate: prices a configuration or a workload on another machine. Every figure that it prints is
 * simulated; reported figures stand beside them only if the workload file has some. */
#include "cli/simulate.h"
#include "base/shipped.h"

enum { EXTRA_MACHINE, EXTRA_RANKS, EXTRA_WORKLOAD };

static const cli_extra_t extras[] = {
    [EXTRA_MACHINE] = {"--machine", "FILE",
                       "The machine to simulate: a file, or the name of a shipped one, such as h200."},
    [EXTRA_RANKS] = {"--ranks", "LIST",
                     "Numbers of ranks, such as 1,2,4..1024 (A..B doubles); default: 1 to all of the "
                     "machine's devices."},
    [EXTRA_WORKLOAD] = {"--workload", "FILE",
                        "Describes gradients and compute instead of CONFIG: a file, or the name of a "
                        "shipped one."},
    {NULL, NULL, NULL}};

const char *const cli_simulate_shares[] = {"even", "proportional"};

static const ls_reported_t *find_reported(const ls_workload_t *w, int64_t ranks) {
  for (int i = 0; i < w->reported_count; i++)
    if (w->reported[i].ranks == ranks) return &w->reported[i];
  return NULL;
}

/* Rows of a workload take batch and strategy from the reported ones. */
static ls_status_t simulate_workload_row(ls_ctx_t *ctx, cli_simulation_t *sim, int ranks, int shares,
                                         cli_simulated_row_t *row) {
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

static ls_status_t simulate_row(ls_ctx_t *ctx, cli_simulation_t *sim, int ranks, int shares) {
  cli_simulated_row_t *row = &sim->row[sim->row_count++];
  if (sim->has_workload) return simulate_workload_row(ctx, sim, ranks, shares, row);
  ls_status_t status = ls_sim_work_config(ctx, sim->config, &sim->work);
  return status == LS_OK ? ls_sim_point(ctx, &sim->machine, &sim->work, ranks, shares, &row->point) : status;
}

static ls_status_t simulate_all(ls_ctx_t *ctx, cli_simulation_t *sim) {
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

static ls_status_t read_all(ls_ctx_t *ctx, const cli_args_t *args, cli_simulation_t *sim) {
  const char *machine = args->extra[EXTRA_MACHINE], *ranks = args->extra[EXTRA_RANKS];
  const char *workload = args->extra[EXTRA_WORKLOAD];
  if (!machine)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep simulate: --machine FILE is missing; see machines/");
  if ((workload != NULL) == (args->config != NULL))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep simulate takes either CONFIG or --workload FILE");
  if (workload && args->set_count > 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "--set %s: it changes an option of CONFIG; a workload has its numbers in its own file",
                   args->sets[0]);
  char *path;
  ls_status_t status = ls_shipped(ctx, "machines", machine, &path);
  if (status != LS_OK) return status;
  status = ls_sim_machine_read(ctx, path, NULL, 0, &sim->machine);
  ls_free(path);
  if (status != LS_OK) return status;
  char all[32];
  int devices = ls_sim_machine_devices(&sim->machine);
  snprintf(all, sizeof all, devices > 1 ? "1..%d" : "%d", devices);
  status = ls_sim_ranks_parse(ctx, ranks ? ranks : all, &sim->ranks);
  if (status != LS_OK) return status;
  if (!workload) return cli_config_load(ctx, args, args->sets, args->set_count, &sim->config);
  status = ls_shipped(ctx, "workloads", workload, &path);
  if (status != LS_OK) return status;
  status = ls_workload_read(ctx, path, NULL, 0, &sim->workload);
  ls_free(path);
  sim->has_workload = status == LS_OK;
  return status;
}

static void release(cli_simulation_t *sim) {
  ls_free(sim->row);
  if (sim->has_workload) ls_workload_release(&sim->workload);
  ls_config_destroy(sim->config);
  ls_sim_machine_release(&sim->machine);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  cli_simulation_t sim = {0};
  ls_status_t status = read_all(ctx, args, &sim);
  if (status == LS_OK) status = simulate_all(ctx, &sim);
  if (status == LS_OK) {
    if (args->json)
      cli_simulate_json(&sim, args);
    else
      cli_simulate_show(&sim, args);
  }
  release(&sim);
  return status;
}

static const cli_command_t command = {
    .name = "simulate",
    .place = 52,
    .summary = "Predicts the step time on a machine that a file describes, from the schedules "
               "that training runs.",
    .details = "All figures are simulated; --json names the source of each "
               "figure of the machine. See docs/simulate.md.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
    .extra = extras,
    .run = run};
CLI_COMMAND(command)
