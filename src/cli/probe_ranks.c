/* The part of probe that needs several ranks. The program starts itself once per world size;
 * each such run leaves a profile in a file, whose entries are added before it is removed. */
#include "cli/probe.h"
#include "cli/stop.h"
#include "comm/transport.h"

#include <string.h>
#include <unistd.h>

int cli_probe_next(int ranks, int most) {
  if (most > CLI_PROBE_RANKS_MAX) most = CLI_PROBE_RANKS_MAX;
  if (ranks >= most) return 0;
  return 2 * ranks < most ? 2 * ranks : most;
}

/* Nanoseconds for collectives (per transport) and contention in one world; all worlds share the budget. */
static int64_t share_ns(bool quick, double full_s) {
  int worlds = 0;
  for (int ranks = 2; ranks > 0 && ranks <= ls_cpu_count(); ranks = cli_probe_next(ranks, ls_cpu_count()))
    worlds++;
  return (int64_t)(1e9 * (quick ? full_s / 10 : full_s) / (worlds > 1 ? worlds : 1));
}

static const double host_s = 2.1, device_s = 6; /* of a thorough probe, for each transport */

/* Measures the collectives of one transport, if this installation has it and there is a device for each rank. All
 * ranks see the same node, so all decide alike. */
static ls_status_t measure_transport(ls_ctx_t *ctx, ls_comm_t *control, const ls_transport_t *transport,
                                     bool quick, ls_profile_t *profile) {
  const ls_backend_t *backend = &ls_backend_cpu;
  int threads = ls_cpu_count() / control->local_size;
  cpu_set_t unbound;
  bool usable = !transport->present || transport->present();
  if (transport->backend) usable = usable && ls_backend_find(NULL, transport->backend, &backend) == LS_OK;
  if (!usable || (transport->backend ? backend->device->count(NULL) < control->local_size
                                     : threads < 1)) /* ranks that share processors would measure nothing */
    return LS_OK;
  ls_device_t *device = NULL;
  ls_comm_t *comm = control;
  char key[LS_TRANSPORT_KEY_BYTES];
  const ls_device_options_t options = {.index = control->local_rank, .threads = threads > 0 ? threads : 1};
  ls_cpu_narrow(control->local_rank, transport->backend ? 1 : control->local_size, &unbound);
  ls_status_t status = backend->device->open(ctx, &options, &device);
  status = ls_comm_agree(control, "probe: opening the devices", status);
  if (status == LS_OK) status = ls_transport_connect(ctx, transport->name, device, control, &comm);
  if (status == LS_OK)
    status = ls_probe_collectives(ctx, control, comm, ls_transport_key(transport, key), device,
                                  share_ns(quick, transport->backend ? device_s : host_s), profile);
  if (comm != control) ls_comm_destroy(comm);
  if (device) backend->device->close(device);
  ls_cpu_widen(&unbound);
  return status;
}

static ls_status_t measure_contention(ls_ctx_t *ctx, ls_comm_t *control, bool quick, ls_profile_t *profile) {
  int threads = ls_cpu_count() / control->local_size;
  if (threads < 1) return LS_OK;
  ls_device_t *device;
  cpu_set_t unbound;
  const ls_device_options_t options = {.threads = threads};
  ls_cpu_narrow(control->local_rank, control->local_size, &unbound);
  ls_status_t status = ls_backend_cpu.device->open(ctx, &options, &device);
  if (status == LS_OK) {
    status = ls_probe_contention(ctx, control, device, threads, share_ns(quick, 1.2), profile);
    ls_backend_cpu.device->close(device);
  }
  ls_cpu_widen(&unbound);
  return status;
}

ls_status_t cli_probe_rank(ls_ctx_t *ctx, const cli_args_t *args) {
  const bool quick = args->extra[CLI_PROBE_QUICK] != NULL;
  ls_comm_t *control;
  ls_profile_t *profile = NULL;
  ls_status_t status = cli_launch(ctx, args, (int)args->whole[CLI_PROBE_WORLD], LS_COMM_DEADLINE_S);
  if (status != LS_OK) return status;
  ls_machine_t *machine = ls_alloc(ctx, sizeof *machine);
  if (!machine) return LS_ERR_MEMORY;
  status = ls_comm_world_create(ctx, LS_COMM_DEADLINE_S * INT64_C(1000000000), &control);
  if (status != LS_OK) goto machine;
  ls_ctx_set_rank(ctx, control->rank, control->size);
  ls_machine_clear(machine); /* the caller knows which machine it is */
  status = ls_profile_create(ctx, machine, &profile);
  if (status == LS_OK) status = measure_contention(ctx, control, quick, profile);
  for (int i = 0; ls_transports[i] && status == LS_OK; i++)
    status = measure_transport(ctx, control, ls_transports[i], quick, profile);
  if (status == LS_OK && control->rank == 0)
    status = ls_profile_save(ctx, profile, args->extra[CLI_PROBE_RANKS]);
  if (status != LS_OK)
    ls_comm_abort(control, ls_status_exit_code(status)); /* the others may be waiting for this rank */
  ls_profile_destroy(profile);
  ls_comm_destroy(control);
machine:
  ls_free(machine);
  return status;
}

static void take_over(const char *path, int ranks, cli_probe_t *probe) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  ls_profile_t *part;
  if (!own) return;
  if (ls_profile_load(own, path, NULL, &part) == LS_OK) {
    if (ls_profile_merge(probe->profile, part) != LS_OK)
      cli_probe_note(probe, "%d ranks: out of memory", ranks);
    ls_profile_destroy(part);
  } else {
    cli_probe_note(probe, "%d ranks: %.200s", ranks, ls_ctx_error(own));
  }
  ls_ctx_destroy(own);
}

static void one_world(bool quick, int ranks, cli_probe_t *probe) {
  char number[16], what[32];
  snprintf(number, sizeof number, "%d", ranks);
  snprintf(what, sizeof what, "%d ranks", ranks);
  char *path = ls_path_join(NULL, probe->dir, "ranks.json");
  if (!path) return;
  const char *const argv[] = {"lockstep", "probe", "--ranks-into",           path,
                              "--world",  number,  quick ? "--quick" : NULL, NULL};
  if (cli_probe_child(probe, argv, NULL, what)) take_over(path, ranks, probe);
  unlink(path); /* the next world's is another */
  ls_free(path);
}

void cli_probe_worlds(bool quick, int gpus, cli_probe_t *probe) {
  int cpus = ls_cpu_count(), most = cpus > gpus ? cpus : gpus;
  if (most < 2) cli_probe_note(probe, "collectives: one CPU and at most one GPU give one rank");
  for (int ranks = cli_probe_next(1, most); ranks > 0 && !cli_stop_requested();
       ranks = cli_probe_next(ranks, most))
    one_world(quick, ranks, probe);
}
