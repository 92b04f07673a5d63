/* The part of probe that finds out what libraries take in a rank's process: a small training is run as a user
 * would run it, once per backend and number of ranks. What its processes used, less what the training
 * allocated, is the libraries': program, MPI, BLAS and threads; on a GPU the context, modules, cuBLASLt with
 * its workspaces, the captured step and NCCL. */
#include "cli/probe.h"
#include "cli/stop.h"
#include "comm/transport.h"

#include <errno.h>
#include <string.h>

/* A processor's libraries make code when they are first used, and hold blocks of matrices that grow with the
 * network: no library at all, a small product, a medium one, and a wide one. On a GPU, and in a hurry, the
 * third alone. */
enum { NETWORKS = 4, SMALL = 1, TYPICAL = 2 };
static const struct {
  int inputs, units, batch, steps;
} networks[NETWORKS] = {{64, 64, 8, 4}, {64, 64, 32, 4}, {512, 512, 512, 4}, {4608, 1024, 512, 2}};

/* What a library takes when it first multiplies: found with one rank, and the same in each of several. */
typedef struct {
  double scratch, bytes; /* 0: not known */
} first_use_t;

static void describe(int which, char text[512]) {
  snprintf(text, 512,
           "model: {input: [%d], loss: mse, layers: [{dense: {units: %d, activation: relu, dropout: 0.1}}, "
           "{dense: {units: %d, activation: relu}}, {dense: {units: 64}}]}\n"
           "data: {kind: synthetic, samples: 640, validation: 0.1}\n"
           "train: {batch: %d, steps: %d}\n",
           networks[which].inputs, networks[which].units, networks[which].units, networks[which].batch,
           networks[which].steps);
}

/* Runs the training with its report in `out`; false with a note when it fails. */
static bool train(const char *yaml, const char *out, const char *backend, int ranks, cli_probe_t *probe) {
  char with[64], number[16], what[96];
  snprintf(what, sizeof what, "memory of libraries, %s, %d ranks", backend, ranks);
  snprintf(with, sizeof with, "parallel.backend=%s", backend);
  snprintf(number, sizeof number, "%d", ranks);
  const char *const argv[] = {"lockstep", "train", yaml,      "--json", "--quiet",
                              "--set",    with,    "--ranks", number,   NULL};
  return cli_probe_child(probe, argv, out, what);
}

static ls_status_t put(ls_profile_t *profile, const char *key, double bytes) {
  return ls_profile_put(profile, key, &(ls_time_t){bytes, bytes, bytes});
}

/* The training's report; *scratch and *bytes of the libraries. */
static bool read_report(const char *out, const char *backend, cli_probe_t *probe, double *scratch,
                        double *bytes) {
  char key[LS_PROFILE_KEY_BYTES];
  json_t *report = json_load_file(out, 0, NULL), *memory = json_object_get(report, "bytes_per_device");
  double used = json_number_value(json_object_get(memory, "measured"));
  double own = json_number_value(json_object_get(memory, "device"));
  double capacity = json_number_value(json_object_get(memory, "capacity"));
  *scratch = json_number_value(json_object_get(memory, "scratch"));
  *bytes = used - own;
  json_decref(report);
  if (capacity > 0) put(probe->profile, ls_profile_capacity_key(key, backend), capacity);
  return used > own && own > 0;
}

/* One world: a curve over scratch where several networks are run, and always the typical value. With several
 * ranks, whose start takes the longest, `first` stands for the small network; with one it is written. */
enum { MORE_SCRATCH_BYTES = 16 << 20 };
static void one_world(const char *yaml, const char *out, const char *backend, int ranks, bool all,
                      first_use_t *first, cli_probe_t *probe) {
  char key[LS_PROFILE_KEY_BYTES], text[512];
  ls_curve_point_t points[NETWORKS + 1];
  int count = 0;
  ls_profile_libraries_key(key, backend, ranks, ls_transport_variant(backend));
  for (int i = all ? 0 : TYPICAL; i < (all ? NETWORKS : TYPICAL + 1); i++) {
    double scratch, bytes;
    if (i == SMALL && ranks > 1 && first->bytes > 0) {
      scratch = first->scratch;
      bytes = points[0].time.ns + first->bytes;
    } else {
      describe(i, text);
      if (ls_file_write(NULL, yaml, text, strlen(text)) != LS_OK) {
        cli_probe_note(probe, "memory of libraries: %s: %s", yaml, strerror(errno));
        return;
      }
      if (!train(yaml, out, backend, ranks, probe)) return;
      if (!read_report(out, backend, probe, &scratch, &bytes)) {
        cli_probe_note(probe, "memory of libraries, %s, %d ranks: the system does not say what is used",
                       backend, ranks);
        return;
      }
    }
    if (i == SMALL && ranks == 1) *first = (first_use_t){scratch, bytes - points[0].time.ns};
    if (i == TYPICAL) put(probe->profile, key, bytes);
    if (count == 0 || scratch > points[count - 1].bytes)
      points[count++] = (ls_curve_point_t){scratch, {bytes, bytes, bytes}};
  }
  if (strcmp(backend, "cpu") != 0) return;
  if (count == 1 && points[0].bytes < points[0].time.ns) { /* what is held comes on top of the rest */
    double rest = points[0].time.ns - points[0].bytes, most = MORE_SCRATCH_BYTES;
    points[0] = (ls_curve_point_t){0, {rest, rest, rest}};
    points[count++] = (ls_curve_point_t){most, {rest + most, rest + most, rest + most}};
  }
  ls_profile_put_curve(probe->profile, key, points, count);
}

void cli_probe_memory(bool quick, int gpus, cli_probe_t *probe) {
  first_use_t first = {0, 0};
  int cpus = ls_cpu_count();
  if (quick && cpus > 2) cpus = 2;
  if (quick && gpus > 2) gpus = 2;
  char *yaml = ls_path_join(NULL, probe->dir, "train.yaml"),
       *out = ls_path_join(NULL, probe->dir, "report.json");
  for (int ranks = yaml && out; ranks > 0 && !cli_stop_requested(); ranks = cli_probe_next(ranks, cpus))
    one_world(yaml, out, "cpu", ranks, !quick, &first, probe);
  for (int ranks = yaml && out && gpus > 0; ranks > 0 && !cli_stop_requested();
       ranks = cli_probe_next(ranks, gpus))
    one_world(yaml, out, "cuda", ranks, false, &first, probe);
  ls_free(out);
  ls_free(yaml);
}
