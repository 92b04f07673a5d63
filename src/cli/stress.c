/* lockstep stress: burns this machine in and says whether it is sound. */
#include "cli/stress.h"
#include "cli/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
     "Fill the host's memory up to this share, too, and check it beside the GPUs.", CLI_SHARE(0)},
    {"--disk", "DIR[:SIZE]",
     "Write a file there and read it back, beside the rest (default: 256M; units K, M, G, T). It has no "
     "name, so that nothing is left of it."},
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

/* ---- options ---- */

static ls_status_t read_parts(ls_ctx_t *ctx, const char *text, unsigned *parts) {
  *parts = text ? 0 : (1u << LS_STRESS_PARTS) - 1;
  if (text && !strcmp(text, "none")) return LS_OK;
  for (const char *name = text; name;) {
    const size_t len = strcspn(name, ",");
    int i = 0;
    while (ls_stress_part_names[i] &&
           (strncmp(name, ls_stress_part_names[i], len) || ls_stress_part_names[i][len]))
      i++;
    if (!ls_stress_part_names[i])
      return ls_fail(ctx, LS_ERR_ARGUMENT, "--parts takes compute, memory and links, not \"%.*s\"", (int)len,
                     name);
    *parts |= 1u << i;
    name = name[len] ? name + len + 1 : NULL;
  }
  return LS_OK;
}

/* "link:0-1" */
static ls_status_t read_plant(ls_ctx_t *ctx, const char *text, ls_plant_t *plant) {
  *plant = (ls_plant_t){.a = -1, .b = -1};
  for (int i = 1; text && i < LS_PLANT_KINDS; i++) {
    size_t len = strlen(ls_plant_names[i]);
    bool pair = i >= LS_PLANT_TRANSFER;
    if (strncmp(text, ls_plant_names[i], len) || text[len] != ':') continue;
    int end = 0;
    if (pair)
      sscanf(text + len, ":%d-%d%n", &plant->a, &plant->b, &end);
    else
      sscanf(text + len, ":%d%n", &plant->a, &end);
    if (end > 0 && !text[len + (size_t)end]) plant->kind = i;
  }
  if (!text || plant->kind) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT,
                 "--plant takes product:RANK, memory:RANK, host-memory:RANK, disk:RANK, transfer:FROM-TO or "
                 "link:FROM-TO, not \"%s\"",
                 text);
}

/* Nobody would find a fault that no rank makes. */
static ls_status_t check_plant(ls_ctx_t *ctx, const char *text, const ls_stress_options_t *o, int ranks) {
  const ls_plant_t *plant = &o->plant;
  const bool pair = plant->kind >= LS_PLANT_TRANSFER;
  const bool runs[LS_PLANT_KINDS] = {[LS_PLANT_NONE] = true,
                                     [LS_PLANT_PRODUCT] = o->parts & LS_STRESS_COMPUTE,
                                     [LS_PLANT_MEMORY] = o->parts & LS_STRESS_MEMORY,
                                     [LS_PLANT_HOST] = o->host_share > 0,
                                     [LS_PLANT_DISK] = o->disk,
                                     [LS_PLANT_TRANSFER] = o->parts & LS_STRESS_LINKS,
                                     [LS_PLANT_LINK] = o->parts & LS_STRESS_LINKS};
  if (!runs[plant->kind])
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "--plant %s: the part that finds it does not run (--parts, --host-memory, --disk)", text);
  if (!plant->kind || (plant->a >= 0 && plant->a < ranks &&
                       (!pair || (plant->b >= 0 && plant->b < ranks && plant->a != plant->b))))
    return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "--plant %s: %s of 0 to %d expected (--ranks)", text,
                 pair ? "two different ranks" : "a rank", ranks - 1);
}

/* Of the ranks of a host the first one writes. */
static ls_status_t check_disk(ls_ctx_t *ctx, const char *text, const ls_stress_options_t *o,
                              const ls_comm_t *control) {
  if (o->plant.kind != LS_PLANT_DISK || o->plant.a != control->rank || control->local_rank == 0) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT,
                 "--plant %s: rank %d writes no file; the first rank of each host does, such as 0", text,
                 control->rank);
}

/* "/scratch", "/scratch:4G". A colon that no size follows belongs to the folder. */
static ls_status_t read_disk(ls_ctx_t *ctx, const char *text, ls_stress_options_t *o, char **dir) {
  static const char units[] = "KMGT";
  const char *colon = text ? strrchr(text, ':') : NULL;
  size_t len = text ? strlen(text) : 0;
  if (colon && colon[1] >= '0' && colon[1] <= '9') {
    char *end;
    double size = strtod(colon + 1, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (int i = 0; unit && i <= unit - units; i++)
      size *= 1024;
    if (*end && (!unit || end[1])) size = NAN;
    if (!(size >= 1 && size < 1e18))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "--disk takes DIR or DIR:SIZE (4G), not \"%s\"", text);
    o->disk_bytes = (int64_t)size;
    len = (size_t)(colon - text);
  }
  if (!text) return LS_OK;
  if (!(*dir = ls_alloc(ctx, len + 1))) return LS_ERR_MEMORY;
  memcpy(*dir, text, len);
  o->disk = *dir;
  return LS_OK;
}

static ls_status_t read_options(ls_ctx_t *ctx, const cli_args_t *args, ls_stress_options_t *o, char **dir) {
  const double host = args->percent[HOST_MEMORY];
  ls_status_t status = read_disk(ctx, args->extra[DISK], o, dir);
  if (status == LS_OK) status = read_parts(ctx, args->extra[PARTS], &o->parts);
  if (status == LS_OK) status = read_plant(ctx, args->extra[PLANT], &o->plant);
  if (status == LS_OK)
    status = ls_backend_find(ctx, args->extra[BACKEND] ? args->extra[BACKEND] : "auto", &o->backend);
  if (status == LS_OK && !o->parts && !args->extra[NETWORK] && !o->disk && !(host > 0))
    status = ls_fail(ctx, LS_ERR_ARGUMENT,
                     "--parts none leaves nothing to do: add --network, --disk or --host-memory");
  if (status != LS_OK) return status;
  o->seconds = (double)args->whole[SECONDS];
  o->memory_share = args->percent[MEMORY] / 100;
  if (host > 0 && !o->backend->host_memory) o->host_share = host / 100;
  if (host > 0 && o->backend->host_memory) { /* it is the device's */
    o->memory_share = host / 100;
    o->parts |= LS_STRESS_MEMORY;
    if (o->plant.kind == LS_PLANT_HOST) o->plant.kind = LS_PLANT_MEMORY;
  }
  o->network = args->extra[NETWORK];
  o->transport = "auto";
  o->stop = cli_stop_requested;
  return LS_OK;
}

/* ---- the run ---- */

static ls_profile_t *open_profile(ls_ctx_t *ctx, bool tell) {
  ls_machine_t *machine = ls_alloc(ctx, sizeof *machine);
  ls_ctx_t *own = ls_ctx_create(NULL, NULL); /* its absence is no error */
  ls_profile_t *profile = NULL;
  char *path =
      machine && own && ls_machine_read(own, machine) == LS_OK ? ls_profile_default_path(own, machine) : NULL;
  if (path && ls_profile_load(own, path, machine, &profile) != LS_OK && tell)
    ls_log(ctx, LS_LOG_WARN,
           "rates are not compared with this machine's profile: there is none, or it does not fit; lockstep "
           "probe measures it");
  ls_free(path);
  ls_ctx_destroy(own);
  ls_free(machine);
  return profile;
}

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
  ls_profile_t *profile = open_profile(ctx, control->rank == 0);
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
    status = conclude(ctx, report, control->rank);
    ls_stress_release(report);
  }
  ls_profile_destroy(profile);
  return status;
}

static ls_status_t with_ranks(ls_ctx_t *ctx, const cli_args_t *args, ls_stress_options_t *o) {
  ls_comm_t *control;
  int rank, size,
      ranks = args->ranks                   ? (int)args->ranks
              : o->backend->host_processors ? 1
                                            : o->backend->device->count(ctx);
  bool launched = ls_comm_launched(&rank, &size);
  ls_status_t status = check_plant(ctx, args->extra[PLANT], o, launched ? size : ranks);
  if (status == LS_OK) status = cli_launch(ctx, args, ranks, DEADLINE_S);
  if (status != LS_OK) return status;
  status = launched ? ls_comm_mpi_create(ctx, DEADLINE_S * INT64_C(1000000000), &control)
                    : ls_comm_self_create(ctx, &control);
  if (status != LS_OK) return status;
  ls_world_t world = {.comm = control};
  ls_ctx_set_rank(ctx, control->rank, control->size);
  if (launched) cli_messages_gather(args->messages);
  cli_stop_t mode = cli_stop_mode(CLI_STOP_TWICE);
  status = ls_comm_agree(control, "stress", check_disk(ctx, args->extra[PLANT], o, control));
  if (status == LS_OK) status = burn(ctx, control, args, o);
  cli_stop_mode(mode);
  cli_messages_settle(args->messages, &world);
  bool verdict = status == LS_OK || status == LS_ERR_BELOW || status == LS_ERR_DEVICE;
  if (launched && !verdict)
    ls_comm_mpi_abort(ls_status_exit_code(status)); /* the others may be waiting for this rank */
  rank = control->rank;
  ls_comm_destroy(control);
  if (status != LS_OK || !cli_stop_requested()) return status;
  return rank > 0 || (launched && getenv(CLI_ENV_LAUNCHER)) /* who got the signal names it */
             ? LS_ERR_INTERRUPTED
             : ls_fail(ctx, LS_ERR_INTERRUPTED, "interrupted by %s", cli_stop_name(cli_stop_requested()));
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_stress_options_t o = {0};
  char *dir = NULL;
  ls_status_t status = read_options(ctx, args, &o, &dir);
  if (status == LS_OK) status = with_ranks(ctx, args, &o);
  ls_free(dir);
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
