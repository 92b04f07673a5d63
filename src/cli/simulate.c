/* lockstep simulate: prices a configuration or a workload on another machine (plan/simulation.h). */
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

static ls_status_t read_all(ls_ctx_t *ctx, const cli_args_t *args, ls_simulation_t *sim) {
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
  sim->config_name = args->config;
  if (!workload) return cli_config_load(ctx, args, args->sets, args->set_count, &sim->config);
  status = ls_shipped(ctx, "workloads", workload, &path);
  if (status != LS_OK) return status;
  status = ls_workload_read(ctx, path, NULL, 0, &sim->workload);
  ls_free(path);
  sim->has_workload = status == LS_OK;
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_simulation_t sim = {0};
  ls_status_t status = read_all(ctx, args, &sim);
  if (status == LS_OK) status = ls_simulation_run(ctx, &sim);
  if (status == LS_OK) {
    if (args->json)
      cli_print_json(ls_simulation_json(&sim));
    else
      cli_simulate_show(&sim);
  }
  ls_simulation_release(&sim);
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
