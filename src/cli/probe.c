/* lockstep probe: describes, measures and diagnoses this machine. plan reads the profile that it saves. */
#include "cli/probe.h"
#include "cli/stop.h"
#include "comm/transport.h"
#include "config/spare.h"
#include "machine/load.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const cli_extra_t extra[] = {
    {"--output", "FILE", "Write the profile to FILE (default: the user's cache, where plan looks for it)."},
    {"--machine", "FILE", "Show a recorded machine or profile instead of measuring this machine."},
    {"--quick", NULL,
     "Measure for about 3 s instead of about 10; adds to a full profile, never replaces it."},
    {"--ranks-into", "FILE", "Internal: what probe starts to measure between ranks."},
    {"--world", "N", "Internal, with --ranks-into: how many ranks.", CLI_NUMBER(1, CLI_PROBE_RANKS_MAX, 1)},
    {"--fresh", NULL,
     "Discard the earlier profile of this machine, including the times that plan added "
     "to it."},
    {NULL, NULL, NULL}};

/* Seconds for each part. A kind of GPU takes gpu + peers, and the time that probe_ranks.c spends on NCCL. */
typedef struct {
  double cpu, gpu, peers;
} budget_t;
static const budget_t full = {.cpu = 2.2, .gpu = 5, .peers = 2},
                      quick = {.cpu = 0.5, .gpu = 0.5, .peers = 0.5};

/* 1: of a full measurement, 0: of a quick one. */
static const char thorough_key[] = "probe thorough";

void cli_probe_note(cli_probe_t *probe, const char *fmt, ...) {
  if (probe->note_count == CLI_PROBE_NOTES_MAX) return;
  char *note = probe->note[probe->note_count++];
  va_list args;
  va_start(args, fmt);
  vsnprintf(note, sizeof probe->note[0], fmt, args);
  va_end(args);
  char *end = strchr(note, '\n'); /* one line each: the first sentence of a longer message */
  if (!end) return;
  *end = '\0';
  char *sentence = strrchr(note, ';');
  if (sentence) *sentence = '\0';
}

bool cli_probe_child(cli_probe_t *probe, const char *const *argv, const char *stdout_path, const char *what) {
  /* Measuring takes seconds, on a busy machine or with sanitizers many more. Launchers and mpirun give their
   * own children two seconds. */
  enum { LIMIT_S = 120, GRACE_S = 5, SAID_BYTES = 16384 };
  char said[SAID_BYTES], reason[LS_CHILD_WORDS_BYTES];
  ls_child_end_t end;
  ls_child_spec_t spec = {.argv = argv,
                          .self = true,
                          .limit_s = LIMIT_S,
                          .grace_s = GRACE_S,
                          .said = said,
                          .said_bytes = sizeof said};
  spec.stream[STDOUT_FILENO].file = stdout_path ? stdout_path : "/dev/null";
  if (cli_stop_run(&spec, &end)) return true;
  ls_child_reason(&end, said, reason);
  cli_probe_note(probe, "%s: %s", what, reason);
  if (!cli_stop_requested())
    ls_log(probe->ctx, LS_LOG_WARN, "not measured: %s: %s; measure again: lockstep probe", what, reason);
  return false;
}

/* Notes products that were left out: the rest of the profile is still worth having. */
static void note_left_out(cli_probe_t *probe, const char *device, int left_out) {
  if (left_out > 0)
    cli_probe_note(probe, "%s: %d product%s would take more than a second each", device, left_out,
                   LS_PLURAL(left_out));
}

/* Measures the CPU with the numbers of threads that the ranks of each world would have. */
static ls_status_t measure_cpu(ls_ctx_t *ctx, double budget_s, cli_probe_t *probe) {
  int counts[CLI_PROBE_RANKS_MAX], count = 0, cpus = ls_cpu_count(), left_out = 0, most = 0;
  for (int ranks = 1; ranks > 0; ranks = cli_probe_next(ranks, cpus))
    if (count == 0 || counts[count - 1] != cpus / ranks) counts[count++] = cpus / ranks;
  ls_status_t status = LS_OK;
  for (int i = 0; i < count && status == LS_OK; i++) {
    status = ls_probe_device(ctx, &ls_backend_cpu, 0, counts[i], (int64_t)(budget_s * 1e9 / count),
                             probe->profile, &left_out);
    if (left_out > most) most = left_out;
  }
  note_left_out(probe, "CPU", most);
  return status;
}

/* A failure on the GPU is a note: the rest of the profile is worth having. Returns how many GPUs there are.
 */
static int measure_gpus(const budget_t *budget, cli_probe_t *probe) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL); /* keeps the reason, prints nothing */
  const ls_backend_t *cuda;
  if (!own) return 0;
  if (ls_backend_find(own, "cuda", &cuda) != LS_OK) {
    cli_probe_note(probe, "GPUs: %.200s", ls_ctx_error(own));
    ls_ctx_destroy(own);
    return 0;
  }
  int count = cuda->device->count(own), staged = 0, left_out;
  const ls_machine_t *m = &probe->machine;
  if (ls_probe_device(own, cuda, 0, 1, (int64_t)(budget->gpu * 1e9), probe->profile, &left_out) != LS_OK)
    cli_probe_note(probe, "GPU 0: %.200s", ls_ctx_error(own));
  note_left_out(probe, "GPU 0", left_out);
  for (int i = 1; i < m->gpu_count; i++)
    if (strcmp(m->gpu[i].name, m->gpu[0].name) != 0)
      cli_probe_note(probe, "GPU %d (%.60s) is of another kind than GPU 0: a profile holds one kind", i,
                     m->gpu[i].name);
  ls_ctx_clear(own);
  if (count < 2)
    cli_probe_note(probe, "copies between GPUs: there is one");
  else if (ls_probe_peers(own, cuda, count < LS_GPU_MAX ? count : LS_GPU_MAX, (int64_t)(budget->peers * 1e9),
                          probe->profile, &probe->wrong_copies, &staged) != LS_OK)
    cli_probe_note(probe, "copies between GPUs: %.200s", ls_ctx_error(own));
  else if (staged > 0)
    cli_probe_note(probe,
                   "copies between GPUs: %d of %d pairs have no peer access and go through the host's memory",
                   staged, count * (count - 1));
  ls_ctx_destroy(own);
  return count;
}

/* Opens nothing. */
static int count_gpus(void) {
  const ls_backend_t *cuda;
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  int count = own && ls_backend_find(own, "cuda", &cuda) == LS_OK ? cuda->device->count(own) : 0;
  ls_ctx_destroy(own);
  return count;
}

/* Runs a part that starts processes. If it is asked to stop, it ends them and removes their files. Parts that this
 * process does alone need no such care. */
static ls_status_t measure_part(ls_ctx_t *ctx, void (*part)(bool quick, int gpus, cli_probe_t *probe),
                                bool fast, int gpus, cli_probe_t *probe) {
  cli_stop_t mode = cli_stop_mode(CLI_STOP_ASK);
  ls_status_t status = ls_dir_temporary(ctx, "lockstep-probe", &probe->dir);
  if (status == LS_OK) {
    part(fast, gpus, probe);
    ls_dir_remove(NULL, probe->dir);
    ls_free(probe->dir);
  }
  cli_stop_mode(mode);
  if (!cli_stop_requested()) return status;
  return ls_fail(ctx, LS_ERR_INTERRUPTED, "interrupted by %s while measuring; nothing was kept",
                 cli_stop_name(cli_stop_requested()));
}

static const char *environment(void *user, const char *name) {
  (void)user;
  return getenv(name);
}

static int entries(const ls_profile_t *profile) {
  return ls_profile_time_count(profile) + ls_profile_curve_count(profile);
}

/* Keeps measurements of a transport under the other setting of its environment. */
static ls_status_t keep_variants(ls_profile_t *into, const ls_profile_t *old) {
  ls_status_t status = LS_OK;
  for (int i = 0; ls_transports[i] && status == LS_OK; i++) {
    const ls_transport_t *t = ls_transports[i];
    char prefix[LS_BARRIER + 1][64];
    const char *kept[LS_BARRIER + 2] = {NULL};
    if (!t->variant) continue;
    for (int k = 0; k < LS_BARRIER; k++)
      snprintf(prefix[k], sizeof prefix[k], "%s %s", ls_collective_name((ls_collective_kind_t)k), t->name);
    snprintf(prefix[LS_BARRIER], sizeof *prefix, "libraries %s", t->backend ? t->backend : "");
    for (int k = 0; k <= LS_BARRIER; k++)
      kept[k] = prefix[k];
    status = ls_profile_fill(into, old, kept);
  }
  return status;
}

/* Keeps entries of an earlier profile of this very machine: times of steps and ops that plan has added stay,
 * and a quick measurement replaces nothing of a full one. A profile of another machine, of an older format,
 * or a torn one is replaced as if it were not there. */
static ls_status_t keep_old(const char *path, bool fast, cli_probe_t *probe) {
  static const char *const added[] = {"step ", "op ", NULL};
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  ls_profile_t *old;
  if (!own) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  if (ls_path_exists(path) && ls_profile_load(own, path, &probe->machine, &old) == LS_OK) {
    bool whole = ls_profile_value(old, thorough_key, 0) > 0 && ls_profile_busy(old) == 0;
    int before = entries(probe->profile);
    if (fast && whole) {
      status = ls_profile_merge(probe->profile, old);
      probe->kept = "all of the full profile that was there (--fresh replaces it)";
    } else {
      status = ls_profile_fill(probe->profile, old, added);
      if (status == LS_OK) status = keep_variants(probe->profile, old);
      if (entries(probe->profile) > before)
        probe->kept = "what it held beyond these measurements (--fresh forgets it)";
    }
    ls_profile_destroy(old);
  }
  ls_ctx_destroy(own);
  return status;
}

static ls_status_t measure(ls_ctx_t *ctx, const cli_args_t *args, cli_probe_t *probe) {
  bool fast = args->extra[CLI_PROBE_QUICK] != NULL;
  const budget_t *budget = fast ? &quick : &full;
  int rank, size;
  if (ls_comm_launched(&rank, &size) && size > 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep probe starts its own ranks: run it without mpirun or srun");
  ls_status_t status = ls_machine_read(ctx, &probe->machine);
  if (status == LS_OK) status = ls_profile_create(ctx, &probe->machine, &probe->profile);
  if (status != LS_OK) return status;
  const char *output = args->extra[CLI_PROBE_OUTPUT];
  if (output) status = ls_config_writable(ctx, "--output", output); /* a mistake costs no measurement */
  if (status == LS_OK) status = ls_config_spares(ctx, output, NULL, NULL);
  if (status != LS_OK) return status;
  bool gpus = probe->machine.gpu_count > 0; /* one took 22 s, four 37 */
  if (!args->json)
    ls_log(ctx, LS_LOG_INFO, "measuring this machine, about %s s", fast ? "3" : gpus ? "20 to 40" : "10");
  ls_load_t begin, end;
  ls_load_read(NULL, &begin);
  status = measure_cpu(ctx, budget->cpu, probe);
  if (status != LS_OK) return status;
  /* this process must not have taken memory of the GPUs yet */
  status = measure_part(ctx, cli_probe_memory, fast, count_gpus(), probe);
  if (status == LS_OK) status = measure_part(ctx, cli_probe_worlds, fast, measure_gpus(budget, probe), probe);
  if (status != LS_OK) return status;
  ls_machine_read_openblas(&probe->machine); /* now that nothing is measured any more */
  ls_load_read(NULL, &end);
  double others = ls_load_others(&begin, &end), busy = others > LS_LOAD_DISTURBING ? others : 0;
  char *path = output ? ls_strdup(ctx, output) : ls_profile_default_path(ctx, &probe->machine);
  if (!path) return LS_ERR_MEMORY;
  status = ls_profile_put_value(probe->profile, thorough_key, fast ? 0 : 1);
  if (status == LS_OK) status = ls_profile_put_value(probe->profile, LS_PROFILE_BUSY_KEY, busy);
  if (status == LS_OK && !args->extra[CLI_PROBE_FRESH]) status = keep_old(path, fast, probe);
  if (status == LS_OK) status = ls_profile_save(ctx, probe->profile, path);
  if (status == LS_OK)
    probe->path = path;
  else
    ls_free(path);
  return status;
}

/* Reads a recorded machine, or a profile with its measurements; the file tells which. */
static ls_status_t recorded(ls_ctx_t *ctx, const char *path, cli_probe_t *probe) {
  ls_status_t status = ls_machine_load(ctx, path, &probe->machine);
  if (status != LS_OK) return status;
  json_t *json = json_load_file(path, 0, NULL);
  bool profile = json_object_get(json, "format") != NULL;
  json_decref(json);
  return profile ? ls_profile_load(ctx, path, NULL, &probe->profile) : LS_OK;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  if (args->extra[CLI_PROBE_RANKS]) return cli_probe_rank(ctx, args);
  int64_t begin = ls_clock_ns();
  cli_probe_t *probe = ls_alloc(ctx, sizeof *probe);
  if (!probe) return LS_ERR_MEMORY;
  probe->ctx = ctx;
  const char *file = args->extra[CLI_PROBE_MACHINE];
  ls_status_t status = file ? recorded(ctx, file, probe) : measure(ctx, args, probe);
  if (status == LS_OK) {
    const ls_doctor_subject_t subject = {.machine = &probe->machine,
                                         .profile = probe->profile,
                                         .variable = file ? NULL : environment,
                                         .wrong_copies = probe->wrong_copies};
    probe->finding_count = ls_doctor_examine(&subject, probe->finding);
    probe->wall_s = (double)(ls_clock_ns() - begin) / 1e9;
    if (args->json)
      cli_probe_json(probe);
    else
      cli_probe_show(probe);
  }
  ls_profile_destroy(probe->profile);
  ls_free(probe->path);
  ls_free(probe);
  return status;
}

static const cli_command_t command = {
    .name = "probe",
    .place = 73,
    .summary = "Describes, measures and diagnoses this machine, and saves its profile for plan.",
    .flags = CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
