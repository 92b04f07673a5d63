/* lockstep stress: burns this machine in and says whether it is sound. */
#include "cli/stress.h"
#include "cli/stop.h"

#include <stdlib.h>

enum { SECONDS_MAX = 7 * 24 * 3600, THREADS_MAX = 1024 };
enum { SECONDS, PARTS, MEMORY, HOST_MEMORY, DISK, NETWORK, BACKEND, THREADS, PLANT };
static const cli_extra_t extra[] = {
    {"--seconds", "S", "How long (default: 60).", CLI_NUMBER(1, SECONDS_MAX, 60)},
    {"--parts", "NAMES",
     "What to load: compute, memory, links, separated by commas, or none (default: all)."},
    {"--memory", "PERCENT",
     "Fill the device's memory up to this share, what other programs use included (default: 80).",
     CLI_SHARE(80)},
    {"--host-memory", "PERCENT",
     "Also fill the host's memory up to this share, and check it while the GPUs work.", CLI_SHARE(0)},
    {"--disk", "DIR[:SIZE]",
     "Also write a file there and read it back (default: 256M; units K, M, G, T). It has no name, so nothing "
     "of it is left."},
    {"--network", "NAME",
     "Train this network on all ranks in the last third of the time: a preset (extreme: mlp-extreme) or a "
     "configuration. Alone with --parts none."},
    {"--backend", "NAME",
     "auto, cpu, cuda or ref (default: auto). A rank for each GPU; one for the processors."},
    {"--threads", "N", "Threads of a rank on processors (default: an equal part of them).",
     CLI_NUMBER(1, THREADS_MAX, 0)},
    {"--plant", "FAULT",
     "Plant a fault to see that it is found: product:RANK, memory:RANK, host-memory:RANK, disk:RANK, "
     "transfer:FROM-TO, link:FROM-TO."},
    {NULL, NULL, NULL}};

enum { DEADLINE_S = 120 };

static ls_status_t conclude(ls_ctx_t *ctx, const ls_stress_report_t *report, int rank) {
  ls_status_t status = ls_stress_status(report);
  if (status == LS_OK || rank != 0) return status;
  return ls_fail(ctx, status,
                 status == LS_ERR_DEVICE ? "this machine is not sound: results were wrong"
                                         : "this machine is below a target; its results were right");
}

static ls_status_t burn(ls_ctx_t *ctx, ls_comm_t *control, const cli_args_t *args, ls_stress_options_t *o) {
  const int threads = (int)args->whole[THREADS];
  cpu_set_t unbound;
  ls_stress_report_t *report;
  bool host = o->backend->host_processors;
  ls_profile_t *profile = ls_stress_profile(ctx, control->rank == 0);
  if (host) ls_cpu_narrow(control->local_rank, control->local_size, &unbound);
  o->threads = threads ? threads : host ? ls_cpu_count() : 1;
  o->index = control->local_rank;
  o->begin = cli_stress_begin;
  o->round = cli_stress_round;
  o->user = (void *)(uintptr_t)args;
  o->profile = profile;
  ls_status_t status = ls_stress_run(ctx, control, o, &report);
  if (status == LS_OK) {
    if (control->rank == 0) cli_stress_show(report, args);
    fflush(stdout);
    status = conclude(ctx, report, control->rank);
    ls_comm_barrier(control, "stress: report"); /* the first rank that leaves with a status ends the others */
    ls_stress_release(report);
  }
  ls_profile_destroy(profile);
  return status;
}

static ls_status_t with_ranks(ls_ctx_t *ctx, const cli_args_t *args, const ls_stress_request_t *request,
                              ls_stress_options_t *o) {
  ls_comm_t *control;
  int rank, size,
      ranks = args->ranks                   ? (int)args->ranks
              : o->backend->host_processors ? 1
                                            : o->backend->device->count(ctx);
  bool launched = ls_comm_launched(&rank, &size);
  ls_status_t status = ls_stress_check_plant(ctx, request, o, launched ? size : ranks);
  if (status == LS_OK) status = cli_launch(ctx, args, ranks, DEADLINE_S);
  if (status != LS_OK) return status;
  status = ls_comm_world_create(ctx, DEADLINE_S * INT64_C(1000000000), &control);
  if (status != LS_OK) return status;
  ls_world_t world = {.comm = control};
  ls_ctx_set_rank(ctx, control->rank, control->size);
  if (launched) cli_messages_gather(args->messages);
  cli_stop_t mode = cli_stop_mode(CLI_STOP_TWICE);
  status = ls_comm_agree(control, "stress", ls_stress_check_disk(ctx, request, o, control));
  if (status == LS_OK) status = burn(ctx, control, args, o);
  cli_stop_mode(mode);
  cli_messages_settle(args->messages, &world);
  bool verdict = status == LS_OK || status == LS_ERR_BELOW || status == LS_ERR_DEVICE;
  if (!verdict)
    ls_comm_abort(control, ls_status_exit_code(status)); /* the others may be waiting for this rank */
  rank = control->rank;
  ls_comm_destroy(control);
  if (status != LS_OK || !cli_stop_requested()) return status;
  return rank > 0
             ? LS_ERR_INTERRUPTED
             : ls_fail(ctx, LS_ERR_INTERRUPTED, "interrupted by %s", cli_stop_name(cli_stop_requested()));
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  const ls_stress_request_t request = {.seconds = (double)args->whole[SECONDS],
                                       .memory_percent = args->percent[MEMORY],
                                       .host_percent = args->percent[HOST_MEMORY],
                                       .parts = args->extra[PARTS],
                                       .disk = args->extra[DISK],
                                       .plant = args->extra[PLANT],
                                       .network = args->extra[NETWORK],
                                       .backend = args->extra[BACKEND]};
  ls_stress_options_t o;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  ls_status_t status = ls_stress_options_read(ctx, &arena, &request, &o);
  o.stop = cli_stop_requested;
  if (status == LS_OK) status = with_ranks(ctx, args, &request, &o);
  ls_arena_release(&arena);
  return status;
}

static const cli_command_t command = {
    .name = "stress",
    .place = 74,
    .summary = "Burns this machine in: products, memory and transfers at full load, every result checked.",
    .flags = CLI_FLAG_JSON | CLI_FLAG_RANKS | CLI_FLAG_QUIET | CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
