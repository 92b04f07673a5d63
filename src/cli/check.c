/* lockstep check: finds everything that can be found wrong before a run: configuration, data, schedules of
 * all ranks. */
#include "ckpt/ckpt.h"
#include "cli/cli.h"
#include "plan/world.h"

static void print_result(const cli_args_t *args, const ls_config_t *config, const ls_plan_world_t *lowered,
                         const ls_dataset_t *data) {
  int64_t tasks = ls_program_step_tasks(&lowered->program[0]);
  if (args->json) {
    cli_print_json(json_pack("{s:s, s:b, s:I, s:i, s:s, s:s, s:I, s:I, s:I}", "command", "check", "ok", 1,
                             "params", (json_int_t)ls_graph_param_count(lowered->graph[0]), "world_size",
                             lowered->world_size, "strategy", config->parallel.strategy, "backend",
                             lowered->backend, "train_samples", (json_int_t)data->train_count,
                             "validation_samples", (json_int_t)data->validation_count, "tasks_per_step",
                             (json_int_t)tasks));
    return;
  }
  cli_print("  configuration  ok\n  data           ok: %s training and %s validation samples (%s)\n",
            cli_count(data->train_count), cli_count(data->validation_count), cli_shown(data->source));
  cli_print("  schedules      ok: %s, %d rank%s, %lld tasks per step, %s parameters (%s)\n",
            config->parallel.strategy, lowered->world_size, LS_PLURAL(lowered->world_size), (long long)tasks,
            cli_count(ls_graph_param_count(lowered->graph[0])), lowered->backend);
}

/* More ranks than the node has devices: train starts all of them here, a launcher may spread them over nodes.
 */
static void look_for_devices(ls_ctx_t *ctx, const ls_config_t *config) {
  const ls_backend_t *backend;
  if (ls_backend_find(ctx, config->parallel.backend, &backend) != LS_OK || backend->host_processors) return;
  int devices = backend->device->count(ctx);
  if (config->parallel.ranks > devices)
    ls_log(
        ctx, LS_LOG_WARN,
        "%lld ranks need as many %s devices, and this node has %d: train refuses to start them here; start "
        "fewer ranks, or spread them over nodes with your launcher",
        (long long)config->parallel.ranks, backend->name, devices);
}

/* Refuses what the start of a run would refuse. A configuration that train takes only with --supervise, or only without it,
 * gets a warning. A supervised run has a place for the records that safety needs. */
static ls_status_t check_run(ls_ctx_t *ctx, const ls_config_t *config) {
  const bool supervised = config->checkpoint.dir != NULL;
  ls_status_t status = supervised ? LS_OK : ls_config_safety_check(ctx, config);
  if (status == LS_OK && ls_config_safety_check(NULL, config) != LS_OK)
    ls_log(ctx, LS_LOG_WARN,
           "safety needs monitor.dir: without it only lockstep train --supervise takes this configuration");
  if (status == LS_OK && ls_config_least_check(NULL, config) != LS_OK)
    ls_log(
        ctx, LS_LOG_WARN,
        "supervise.ranks.least is %lld and the run has %lld rank%s: lockstep train --supervise refuses this "
        "configuration",
        (long long)config->supervise_ranks.least, (long long)config->parallel.ranks,
        LS_PLURAL(config->parallel.ranks));
  return status == LS_OK ? ls_train_dir_check(ctx, config) : status;
}

static ls_status_t check_weights(ls_ctx_t *ctx, const ls_config_t *config) {
  ls_ckpt_t *weights;
  if (!config->model.weights) return LS_OK;
  ls_status_t status = ls_ckpt_open_weights(ctx, config->model.weights, &weights);
  if (status == LS_OK) ls_ckpt_close(weights);
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  ls_dataset_t *data = NULL;
  ls_plan_world_t lowered;
  ls_train_place_t end;
  ls_status_t status = cli_config_load_ranks(ctx, args, &config);
  if (status != LS_OK) return status;
  status = check_run(ctx, config);
  if (status != LS_OK) goto config;
  if (config->checkpoint.dir) ls_ckpt_lock_look(ctx, config->checkpoint.dir);
  ls_data_want_t want = ls_train_want(&config->model);
  status = ls_dataset_open(ctx, &config->data, NULL, &want, ls_train_split_seed(config), NULL, &data);
  if (status != LS_OK) goto config;
  status = ls_train_data_check(ctx, config, data);
  if (status == LS_OK)
    status = ls_train_end(ctx, &config->train, data->train_count, (ls_train_place_t){0}, &end);
  if (status == LS_OK) status = ls_dataset_verify(ctx, data);
  if (status == LS_OK) status = check_weights(ctx, config);
  if (status != LS_OK) goto data;
  status = ls_plan_world_create(ctx, config, data, &lowered);
  if (status != LS_OK) goto data;
  look_for_devices(ctx, config);
  ls_train_hints(ctx, config, data, end.steps);
  print_result(args, config, &lowered, data);
  ls_plan_world_release(&lowered);
data:
  ls_dataset_close(data);
config:
  ls_config_destroy(config);
  return status;
}

static const cli_command_t command = {
    .name = "check",
    .place = 41,
    .summary = "Checks configuration, data and the schedules of all ranks, without training.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_RANKS | CLI_FLAG_VERBOSE,
    .run = run};
CLI_COMMAND(command)
