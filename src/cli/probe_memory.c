/* The part of probe that measures the memory of libraries in a rank's process. It runs a small training as a user would,
 * once per backend and number of ranks. The memory of its processes, less what lockstep allocated in them, belongs to
 * libraries: program, threads and, on a CPU, the code that the library behind products makes; on a GPU the context,
 * modules, cuBLASLt with its workspaces, the captured step and NCCL. A plan measures what a larger step takes beyond that. */
#include "cli/probe.h"
#include "cli/stop.h"
#include "comm/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Dense layers that are wide enough for products of the library, in one precision. */
typedef struct {
  int units, layers, batch;
} network_t;
static const network_t host_network = {.units = 64, .layers = 3, .batch = 64},
                       gpu_network = {.units = 512, .layers = 2, .batch = 512};

/* Several GPU ranks are monitored: each then captures its steps a second time, to time its waits for the others. */
enum { TEXT_BYTES = 1024 };
static void describe(const network_t *n, const char *backend, int ranks, char text[TEXT_BYTES]) {
  int at = snprintf(text, TEXT_BYTES,
                    "data: {kind: synthetic, samples: 640, validation: 0.1}\n"
                    "train: {batch: %d, steps: 4, precision: fp32}\n"
                    "parallel: {backend: %s, ranks: %d}\n"
                    "%s"
                    "model: {input: [%d], loss: mse, layers: [",
                    n->batch, backend, ranks, n == &gpu_network && ranks > 1 ? "monitor: {dir: seen}\n" : "",
                    n->units);
  for (int i = 0; i < n->layers; i++)
    at += snprintf(text + at, TEXT_BYTES - (size_t)at, "{dense: {units: %d, activation: relu%s}}, ", n->units,
                   i == 0 ? ", dropout: 0.1" : "");
  snprintf(text + at, TEXT_BYTES - (size_t)at, "{dense: {units: 64}}]}\n");
}

static void put(cli_probe_t *probe, ls_profile_key_t key, double bytes) {
  char text[LS_PROFILE_KEY_BYTES];
  ls_profile_put_value(probe->profile, ls_profile_key(text, key), bytes);
}

/* Reads the training's report: the bytes that it took beside its own memory, 0 when the system does not say. */
static double library_bytes(const char *out, const char *backend, cli_probe_t *probe) {
  static const char *const own[] = {"device", "captured", "side"};
  json_t *report = json_load_file(out, 0, NULL), *memory = json_object_get(report, "bytes_per_device");
  double bytes = json_number_value(json_object_get(memory, "measured"));
  const double capacity = json_number_value(json_object_get(memory, "capacity"));
  for (int i = 0; i < LS_COUNT(own); i++)
    bytes -= json_number_value(json_object_get(memory, own[i]));
  json_decref(report);
  if (capacity > 0) put(probe, (ls_profile_key_t){LS_KEY_CAPACITY, backend}, capacity);
  return bytes > 0 && memory ? bytes : 0;
}

typedef struct {
  char *yaml, *out;
  cli_probe_t *probe;
} runs_t;

/* Runs the training. Returns 0 with a note when it fails. */
static double run(const runs_t *runs, const network_t *network, const char *backend, int ranks) {
  char number[16], what[96], text[TEXT_BYTES];
  snprintf(what, sizeof what, "memory of libraries, %s, %d ranks", backend, ranks);
  snprintf(number, sizeof number, "%d", ranks);
  describe(network, backend, ranks, text);
  if (ls_file_write(NULL, runs->yaml, text, strlen(text)) != LS_OK) {
    cli_probe_note(runs->probe, "memory of libraries: %s: %s", runs->yaml, strerror(errno));
    return 0;
  }
  const char *const argv[] = {"lockstep", "train", runs->yaml, "--json", "--quiet", "--ranks", number, NULL};
  if (!cli_probe_child(runs->probe, argv, runs->out, what)) return 0;
  const double bytes = library_bytes(runs->out, backend, runs->probe);
  if (bytes == 0) cli_probe_note(runs->probe, "%s: the system does not say what is used", what);
  return bytes;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A plan compares the processes of its steps with one rank on a host, so that one counts as the middle of three. */
static void one_world(const runs_t *runs, const char *backend, int ranks, const network_t *network) {
  double bytes[3];
  const int count = ranks == 1 && network == &host_network ? LS_COUNT(bytes) : 1;
  for (int i = 0; i < count; i++)
    if (!(bytes[i] = run(runs, network, backend, ranks))) return;
  qsort(bytes, (size_t)count, sizeof *bytes, ascending);
  const char *variant = ranks > 1 ? ls_transport_variant(backend) : "";
  put(runs->probe, (ls_profile_key_t){LS_KEY_LIBRARIES, backend, variant, ranks}, bytes[count / 2]);
}

void cli_probe_memory(bool quick, int gpus, cli_probe_t *probe) {
  int cpus = ls_cpu_count();
  if (quick && cpus > 2) cpus = 2;
  if (quick && gpus > 2) gpus = 2;
  const runs_t runs = {ls_path_join(NULL, probe->dir, "train.yaml"),
                       ls_path_join(NULL, probe->dir, "report.json"), probe};
  const bool ready = runs.yaml && runs.out;
  for (int ranks = ready; ranks > 0 && !cli_stop_requested(); ranks = cli_probe_next(ranks, cpus))
    one_world(&runs, "cpu", ranks, &host_network);
  for (int ranks = ready && gpus > 0; ranks > 0 && !cli_stop_requested(); ranks = cli_probe_next(ranks, gpus))
    one_world(&runs, "cuda", ranks, &gpu_network);
  ls_free(runs.out);
  ls_free(runs.yaml);
}
