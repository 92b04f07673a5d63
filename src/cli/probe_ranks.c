/* The part of probe that needs several ranks. The program starts itself under mpirun, once per world size,
 * and each such run leaves a profile in a file that is taken over and removed. */
#include "cli/child.h"
#include "cli/probe.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMM_DEADLINE_S = 20 };

int cli_probe_next(int ranks, int most) {
  if (most > CLI_PROBE_RANKS_MAX) most = CLI_PROBE_RANKS_MAX;
  if (ranks >= most) return 0;
  return 2 * ranks < most ? 2 * ranks : most;
}

/* Nanoseconds for collectives (per transport) and neighbours in one world; all worlds share the budget. */
static int64_t share_ns(bool quick, double full_s) {
  int worlds = 0;
  for (int ranks = 2; ranks > 0 && ranks <= ls_cpu_count(); ranks = cli_probe_next(ranks, ls_cpu_count()))
    worlds++;
  return (int64_t)(1e9 * (quick ? full_s / 10 : full_s) / (worlds > 1 ? worlds : 1));
}

/* NCCL over the GPUs of this node, when there is one for each rank. All ranks see the same node, so all
 * decide alike. */
static ls_status_t measure_nccl(ls_ctx_t *ctx, ls_comm_t *control, bool quick, ls_profile_t *profile) {
  const ls_cuda_module_t *module;
  if (ls_cuda_module_load(NULL, &module) != LS_OK || !module->nccl_create ||
      module->backend->device->count(NULL) < control->local_size)
    return LS_OK;
  ls_device_t *device = NULL;
  ls_comm_t *nccl = NULL;
  const ls_device_options_t options = {.index = control->local_rank, .threads = 1};
  ls_status_t status = module->backend->device->open(ctx, &options, &device);
  status = ls_comm_agree(control, "probe: opening the GPUs", status);
  if (status == LS_OK) status = module->nccl_create(ctx, device, control, control->deadline_ns, &nccl);
  if (status == LS_OK) status = ls_probe_collectives(ctx, control, nccl, device, share_ns(quick, 6), profile);
  ls_comm_destroy(nccl);
  if (device) module->backend->device->close(device);
  return status;
}

static ls_status_t measure_host(ls_ctx_t *ctx, ls_comm_t *control, bool quick, ls_profile_t *profile) {
  int threads = ls_cpu_count() / control->local_size;
  if (threads < 1) return LS_OK; /* ranks in each other's way: no measurement of anything */
  ls_device_t *device;
  const ls_device_options_t options = {.threads = threads};
  ls_status_t status = ls_backend_cpu.device->open(ctx, &options, &device);
  if (status != LS_OK) return status;
  status = ls_probe_crowd(ctx, control, device, threads, share_ns(quick, 1.2), profile);
  if (status == LS_OK)
    status = ls_probe_collectives(ctx, control, control, device, share_ns(quick, 2.1), profile);
  ls_backend_cpu.device->close(device);
  return status;
}

ls_status_t cli_probe_rank(ls_ctx_t *ctx, bool quick, const char *path) {
  ls_comm_t *control;
  ls_profile_t *profile = NULL;
  ls_machine_t *machine = ls_alloc(ctx, sizeof *machine);
  if (!machine) return LS_ERR_MEMORY;
  ls_status_t status = ls_comm_mpi_create(ctx, COMM_DEADLINE_S * INT64_C(1000000000), &control);
  if (status != LS_OK) goto machine;
  ls_ctx_set_rank(ctx, control->rank, control->size);
  ls_machine_clear(machine); /* the caller knows which machine it is */
  status = ls_profile_create(ctx, machine, &profile);
  if (status == LS_OK) status = measure_host(ctx, control, quick, profile);
  if (status == LS_OK) status = measure_nccl(ctx, control, quick, profile);
  if (status == LS_OK && control->rank == 0) status = ls_profile_save(ctx, profile, path);
  if (status != LS_OK)
    ls_comm_mpi_abort(ls_status_exit_code(status)); /* the others may be waiting for this rank */
  ls_profile_destroy(profile);
  ls_comm_destroy(control);
machine:
  ls_free(machine);
  return status;
}

/* In the child: this process becomes mpirun. Nothing of it may reach stdout, which is the parent's answer. */
static void become_ranks(ls_ctx_t *ctx, pid_t parent, bool quick, const char *path, int ranks) {
  cli_child_follow(parent);
  char program[] = "lockstep", command[] = "probe", into[] = "--ranks-into", fast[] = "--quick",
       file[PATH_MAX];
  snprintf(file, sizeof file, "%s", path);
  char *argv[] = {program, command, into, file, quick ? fast : NULL, NULL};
  cli_messages_t messages = {0};
  const cli_args_t args = {.argc = quick ? 5 : 4, .argv = argv, .messages = &messages};
  dup2(STDERR_FILENO, STDOUT_FILENO);
  _exit(ls_status_exit_code(cli_launch(ctx, &args, ranks)));
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

static void one_world(ls_ctx_t *ctx, bool quick, int ranks, cli_probe_t *probe) {
  char path[PATH_MAX];
  int exit_code = 0;
  if (!cli_child_file(path)) {
    cli_probe_note(probe, "%d ranks: no temporary file %.100s: %s", ranks, path, strerror(errno));
    return;
  }
  fflush(NULL);
  pid_t parent = getpid(), child = fork();
  if (child == 0) become_ranks(ctx, parent, quick, path, ranks);
  if (child < 0)
    cli_probe_note(probe, "%d ranks: %s", ranks, strerror(errno));
  else if (cli_child_wait(child, CLI_PROBE_LIMIT_S, CLI_PROBE_GRACE_S, &exit_code))
    take_over(path, ranks, probe);
  else if (exit_code == CLI_CHILD_LATE)
    cli_probe_note(probe, "%d ranks: not done within %d s", ranks, CLI_PROBE_LIMIT_S);
  else
    cli_probe_note(probe, "%d ranks: mpirun ended with exit code %d", ranks, exit_code);
  unlink(path);
}

void cli_probe_worlds(ls_ctx_t *ctx, bool quick, int gpus, cli_probe_t *probe) {
  int cpus = ls_cpu_count(), most = cpus > gpus ? cpus : gpus;
  if (most < 2) cli_probe_note(probe, "collectives: one CPU and at most one GPU give one rank");
  for (int ranks = cli_probe_next(1, most); ranks > 0 && !cli_stop_requested();
       ranks = cli_probe_next(ranks, most))
    one_world(ctx, quick, ranks, probe);
}
