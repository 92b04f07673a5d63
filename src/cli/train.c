/* lockstep train: the run with a progress line, and its report. */
#include "cli/planner.h"
#include "cli/progress.h"
#include "cli/stop.h"
#include "config/spare.h"
#include "plan/spent.h"
#include "train/document.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool stop_hook(void *user) {
  (void)user;
  return cli_stop_requested() != 0;
}

static void print_json(const ls_train_report_t *r, ls_status_t status, double predicted_us,
                       const ls_plan_spent_t *memory) {
  json_t *j = ls_train_report_json(r, status, predicted_us);
  json_object_set_new(j, "bytes_per_device", ls_plan_spent_json(memory));
  cli_print_json(j);
}

static void print_part(const char *name, int64_t ns, double mean_us) {
  double us = (double)ns * 1e-3;
  cli_print("    %-22s %10.1f us  %5.1f %%\n", name, us, mean_us > 0 ? 100 * us / mean_us : 0);
}

/* The mean and its parts, which add up to it; the median covers the same steps. */
static void print_parts(const ls_train_report_t *r) {
  const ls_step_parts_t *p = &r->parts;
  const double mean_us = r->step_time_mean_us;
  cli_print("  %-24s %9.1f us (rank 0, %s steps%s)\n", "time per step, mean", mean_us,
            cli_count(r->step_time_count), r->step_time_count < r->steps ? " after the warm-up" : "");
  if (!p->measured) {
    cli_print("    (parts are not timed inside a captured step)\n");
    return;
  }
  print_part("input", p->input_ns, mean_us);
  print_part("forward", p->forward_ns, mean_us);
  print_part("backward", p->backward_ns, mean_us);
  print_part("exposed communication", p->comm_ns, mean_us);
  print_part("optimizer", p->optimizer_ns, mean_us);
  print_part("rest", p->rest_ns, mean_us);
}

static const char *number(double value, char text[32]) {
  snprintf(text, 32, "%.6g", value);
  return text;
}

static void print_saved(const ls_train_report_t *r) {
  if (r->unsaved[0])
    cli_print("  %-24s nothing (%s)\n", "saved", r->unsaved);
  else if (r->saves == 0)
    cli_print("  %-24s nothing: %s is as it was\n", "saved", cli_shown(r->checkpoint));
  else
    cli_print("  %-24s %s\n", "saved", cli_shown(r->checkpoint));
}

static void print_memory(const ls_plan_spent_t *m) {
  const int64_t used_bytes = m->need.device_used_bytes, predicted_bytes = m->predicted_bytes;
  if (predicted_bytes > 0)
    cli_print("  %-24s %12s predicted (libraries %s)", "memory of a device", cli_bytes(predicted_bytes),
              cli_bytes(m->library_bytes));
  else
    cli_print("  %-24s %12s needed by schedule and data (%s)", "memory of a device",
              cli_bytes(m->need.device_bytes), ls_plan_no_libraries);
  if (used_bytes > 0) cli_print(", %s measured", cli_bytes(used_bytes));
  if (used_bytes > 0 && predicted_bytes > 0)
    cli_print(", %+.1f %%", 100 * ((double)predicted_bytes / (double)used_bytes - 1));
  cli_print("\n");
  if (m->need.samples_ranks > 1)
    cli_print("  %-24s %12s shared by the %lld ranks of a node\n", "memory of the samples",
              cli_bytes(m->need.samples_bytes), (long long)m->need.samples_ranks);
}

/* The best of its evaluations, where that is not the last one. */
static void print_best(const ls_train_report_t *r, int64_t last_step) {
  char name[64], value[32];
  if (r->best.step < 0 || r->best.step == last_step) return;
  snprintf(name, sizeof name, "best validation %s", r->best.name);
  snprintf(value, sizeof value, r->best.share ? "%.2f %%" : "%.6g",
           (r->best.share ? 100 : 1) * r->best.value);
  cli_print("  %-24s %*s at epoch %s, step %s (%s)\n", name, r->best.share ? 13 : 12, value,
            cli_count(r->best.epoch), cli_count(r->best.step),
            r->saves > 0 ? "eval, predict and export take it with --best" : "not saved");
}

/* Prints results first; details last, or only with --verbose. */
static void print_table(const ls_train_report_t *r, double predicted_us, const ls_plan_spent_t *memory,
                        bool verbose) {
  char first[32], last[32];
  const int64_t last_step = (r->resumed_from > 0 ? r->resumed_from : 0) + r->steps;
  cli_print("\n");
  if (isfinite(r->val_accuracy))
    cli_print("  %-24s %11.2f %%\n", "validation accuracy", 100 * r->val_accuracy);
  if (r->val_samples > 0)
    cli_print("  %-24s %12s -> %s (before training -> at the end)\n", "validation loss",
              number(r->val_loss_first, first), r->val_ended ? number(r->val_loss, last) : "not evaluated");
  if (isfinite(r->val_perplexity)) cli_print("  %-24s %12.6g\n", "validation perplexity", r->val_perplexity);
  cli_metrics_print(&r->val_metrics, "validation ", 24, 12);
  print_best(r, last_step);
  if (r->train_loss_steps > 0)
    cli_print("  %-24s %12s -> %s (first step -> mean of the last %s step%s)\n", "train loss",
              number(r->train_loss_first, first), number(r->train_loss, last), cli_count(r->train_loss_steps),
              LS_PLURAL(r->train_loss_steps));
  for (int i = 0; i < r->notes; i++)
    cli_print("  %-24s %s\n", "note", r->note[i]);
  if (r->stopped_early[0]) cli_print("  %-24s %s\n", "stopped early", r->stopped_early);
  cli_print("  %-24s %12s of %s, global batch %lld\n", "steps", cli_count(r->steps),
            cli_count(r->total_steps), (long long)r->global_batch);
  if (r->resumed_from >= 0) cli_print("  %-24s %12s\n", "resumed from step", cli_count(r->resumed_from));
  if (r->skipped_steps > 0 || verbose)
    cli_print("  %-24s %12lld\n", "skipped steps", (long long)r->skipped_steps);
  if (r->loss_scale > 0) cli_print("  %-24s %12.6g\n", "loss scale", r->loss_scale);
  if (r->world_size > 1 || verbose)
    cli_print("  %-24s %12s, %d rank%s x %d thread%s (%s, %s)\n", "strategy", r->strategy, r->world_size,
              LS_PLURAL(r->world_size), r->threads_per_rank, LS_PLURAL(r->threads_per_rank), r->backend,
              r->precision);
  if (strstr(r->device, "through")) cli_print("  %-24s %s\n", "device", r->device);
  if (r->steps > 0) {
    cli_print("  %-24s %12s\n", "samples/s", cli_count((int64_t)r->samples_per_s));
    cli_print("  %-24s %9.1f us (95 %% below %.1f us)\n", "time per step, median", r->step_time_median_us,
              r->step_time_p95_us);
    if (verbose) print_parts(r);
    if (predicted_us > 0)
      cli_print("  %-24s %9.1f us, %+.1f %% of the median\n", "predicted by the plan", predicted_us,
                100 * (predicted_us / r->step_time_median_us - 1));
  }
  print_memory(memory);
  if (verbose) cli_print("  %-24s %12s\n", "parameters", cli_count(r->params));
  if (verbose) cli_print("  %-24s %s\n", "parameters' XXH3-128", r->params_xxh3);
  print_saved(r);
  cli_print("  %-24s %9.2f s (evaluation %.2f, saving %.2f)\n", "whole run", r->wall_s, r->eval_s, r->save_s);
}

/* Every rank reaches this end at the same step, so none waits for another. */
static bool ended_together(ls_status_t status) {
  return status == LS_OK || status == LS_ERR_INTERRUPTED || status == LS_ERR_AGAIN ||
         status == LS_ERR_NONFINITE;
}

/* Another rank may wait for this one, so a failure ends them all, with this one's exit code. */
static ls_status_t leave(ls_world_t *world, ls_status_t status) {
  if (!ended_together(status)) ls_world_abort(world, ls_status_exit_code(status));
  ls_world_close(world);
  return status;
}

enum { EXTRA_INIT, EXTRA_ALLOW_DATA_CHANGE, EXTRA_SUPERVISE, EXTRA_HOSTS };
static const cli_extra_t extra[] = {
    [EXTRA_INIT] = {"--init", "PATH",
                    "Begin with the weights of a checkpoint, a run's directory or a .safetensors file."},
    [EXTRA_ALLOW_DATA_CHANGE] = {"--allow-data-change", NULL,
                                 "With --resume: accept other data, split or seed than the checkpoint's."},
    [EXTRA_SUPERVISE] =
        {"--supervise", NULL,
         "Start the run again from its newest good checkpoint when a rank dies, hangs or diverges."},
    [EXTRA_HOSTS] = {"--hosts", "FILE",
                     "Hosts for the ranks, instead of parallel.hosts: NAME or NAME slots=N in each line."},
    {NULL, NULL, NULL}};

/* Before an earlier run is moved aside: the trace is written when everything is over. */
static ls_status_t check_trace(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config) {
  const char *path = args->trace;
  const ls_config_input_t inputs[] = {
      {"--init", args->extra[EXTRA_INIT]}, {"--hosts", args->extra[EXTRA_HOSTS]}, {0}};
  const ls_status_t status = ls_config_writable(ctx, "--trace", path);
  return status == LS_OK ? ls_config_spares(ctx, path, inputs, config) : status;
}

/* Creates a trainer, runs it, and again as often as a rung of safety asks for another micro-batch. */
static ls_status_t run_trainer(ls_ctx_t *ctx, ls_world_t *world, ls_config_t *config, const cli_args_t *args,
                               ls_trainer_options_t *options, const ls_train_hooks_t *hooks,
                               ls_train_report_t *report) {
  ls_status_t status = LS_ERR_AGAIN;
  *report = (ls_train_report_t){.accumulate_next = config->train.accumulate};
  for (bool first = true; status == LS_ERR_AGAIN && report->accumulate_next > 0; first = false) {
    ls_trainer_t *trainer;
    if (!first) {
      ls_config_resize(config, report->accumulate_next);
      options->resume = true;
      options->init = NULL;
      if (ls_world_rank(world) == 0)
        ls_log(ctx, LS_LOG_WARN, "safety: goes on with micro-batches of %s: %lld to a step",
               config->train.smaller ? "half the size" : "the usual size",
               (long long)config->train.accumulate);
    }
    status = ls_trainer_create(ctx, world, config, options, &trainer);
    if (first) cli_messages_settle(args->messages, world);
    if (status != LS_OK) return status;
    if (first) cli_progress_begin(hooks->user, args->messages);
    status = ls_trainer_run(trainer, hooks, report);
    ls_trainer_destroy(trainer);
  }
  cli_progress_end(hooks->user);
  return status;
}

/* Rank 0 reads a profile and prints, perhaps for a reader who takes his time; parallel.deadline_s is for training. */
static const int64_t report_ns = INT64_C(3600) * 1000000000;

static ls_status_t train_in(ls_ctx_t *ctx, ls_world_t *world, ls_config_t *config, const cli_args_t *args) {
  cli_progress_t progress;
  ls_train_hooks_t hooks = {.progress = args->quiet ? NULL : cli_progress_show,
                            .stop = stop_hook,
                            .user = &progress,
                            .trace_path = args->trace};
  ls_trainer_options_t options = {.resume = args->resume,
                                  .trace = args->trace != NULL,
                                  .init = args->extra[EXTRA_INIT],
                                  .allow_data_change = args->extra[EXTRA_ALLOW_DATA_CHANGE] != NULL,
                                  .stuck = cli_messages_stuck,
                                  .stuck_user = args->messages};
  ls_train_report_t report;
  ls_status_t status = args->trace && ls_world_rank(world) == 0 ? check_trace(ctx, args, config) : LS_OK;
  if (args->trace) status = ls_comm_agree(world->comm, "looking at the trace's folder", status);
  if (status == LS_OK)
    status = run_trainer(ctx, world, config, args, &options, &hooks, &report);
  else
    cli_messages_settle(args->messages, world);
  const ls_status_t end = status == LS_OK ? report.trace : status;
  if (!ended_together(status)) return end;
  world->comm->deadline_ns = report_ns; /* of the others, which wait for rank 0 at the end */
  if (ls_world_rank(world) != 0) return end;
  if (status == LS_ERR_INTERRUPTED || status == LS_ERR_AGAIN)
    ls_fail(ctx, status, "%s after %lld of %lld steps; %s",
            status == LS_ERR_AGAIN ? "a limit of safety ended the run" : "interrupted",
            (long long)(report.resumed_from > 0 ? report.resumed_from + report.steps : report.steps),
            (long long)report.total_steps,
            config->checkpoint.dir ? "go on with --resume"
                                   : "nothing was saved, because train.checkpoint.dir is not set");
  ls_plan_spent_t memory;
  ls_plan_spent(config, &report, &memory);
  if (args->json)
    print_json(&report, status, config->parallel.predicted_us, &memory);
  else
    print_table(&report, config->parallel.predicted_us, &memory, args->verbose);
  fflush(stdout); /* the others are ended when the first rank leaves with a status */
  return end;
}

/* The supervising process: it reads the configuration, and leaves everything else to the run. */
static ls_status_t supervise(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  ls_status_t status = cli_config_load_ranks(ctx, args, &config);
  if (status != LS_OK) return status;
  status = cli_supervise(ctx, config, args);
  ls_config_destroy(config);
  return status;
}

static ls_status_t run_with(ls_ctx_t *ctx, cli_args_t *args) {
  ls_config_t *config;
  ls_world_t *world = NULL;
  if (cli_ranks_started(args)) cli_stop_mode(CLI_STOP_TWICE); /* the launcher may ask already */
  ls_status_t status = cli_config_load_ranks(ctx, args, &config);
  if (status == LS_OK && (status = cli_planner_auto(ctx, config, args)) != LS_OK) ls_config_destroy(config);
  if (status != LS_OK) return cli_world_open(ctx, args->messages, 0, status, &world);
  status = cli_launch_hosts(ctx, args, &config->parallel);
  if (status == LS_OK) {
    cli_stop_mode(CLI_STOP_TWICE);
    status = cli_world_open(ctx, args->messages, config->parallel.deadline_s, status, &world);
  }
  if (status == LS_OK) status = leave(world, train_in(ctx, world, config, args));
  ls_config_destroy(config);
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  cli_args_t own = *args;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  ls_status_t status = cli_hosts_take(ctx, &arena, &own, args->extra[EXTRA_HOSTS]);
  if (status == LS_OK) status = args->extra[EXTRA_SUPERVISE] ? supervise(ctx, &own) : run_with(ctx, &own);
  ls_arena_release(&arena);
  return status;
}

static const cli_command_t command = {
    .name = "train",
    .place = 10,
    .summary = "Trains the configured network and reports loss, speed and what was saved.",
    .details = "With more than one rank, lockstep starts the ranks itself. Under mpirun or srun it "
               "uses the ranks that were\nstarted. On SIGINT or SIGTERM the run saves, then "
               "ends. If you started mpirun yourself, send it SIGUSR1\ninstead: after other "
               "signals mpirun kills the ranks within two seconds.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_TOGETHER | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_RANKS |
             CLI_FLAG_RESUME | CLI_FLAG_TRACE | CLI_FLAG_QUIET | CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
