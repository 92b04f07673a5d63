/* The part of probe that measures the memory of libraries in a rank's process. It runs a small training as a
 * user would, once per backend and number of ranks. The memory of its processes, less what the training
 * allocated, belongs to libraries: program, MPI, BLAS and threads; on a GPU the context, modules, cuBLASLt
 * with its workspaces, the captured step and NCCL. */
#include "cli/probe.h"
#include "cli/stop.h"
#include "comm/transport.h"

#include <errno.h>
#include <string.h>

/* One whose products are a library's, so that it has made its code. On a host small: what libraries hold while they
 * multiply is counted for each network (ls_train_memory_t.scratch_bytes). */
typedef struct {
  int units, batch;
} network_t;
static const network_t host_network = {64, 128}, gpu_network = {512, 512};

static void describe(const network_t *network, char text[512]) {
  snprintf(text, 512,
           "model: {input: [%d], loss: mse, layers: [{dense: {units: %d, activation: relu, dropout: 0.1}}, "
           "{dense: {units: %d, activation: relu}}, {dense: {units: 64}}]}\n"
           "data: {kind: synthetic, samples: 640, validation: 0.1}\n"
           "train: {batch: %d, steps: 4}\n",
           network->units, network->units, network->units, network->batch);
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

/* From the training's report; false when the system does not say. */
static bool read_libraries(const char *out, const char *backend, cli_probe_t *probe, double *bytes) {
  char key[LS_PROFILE_KEY_BYTES];
  json_t *report = json_load_file(out, 0, NULL), *memory = json_object_get(report, "bytes_per_device");
  double used = json_number_value(json_object_get(memory, "measured"));
  double own = json_number_value(json_object_get(memory, "device"));
  double capacity = json_number_value(json_object_get(memory, "capacity"));
  *bytes = used - own - json_number_value(json_object_get(memory, "scratch"));
  json_decref(report);
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_CAPACITY, backend});
  if (capacity > 0) ls_profile_put_value(probe->profile, key, capacity);
  return own > 0 && *bytes > 0;
}

static void one_world(const char *yaml, const char *out, const char *backend, int ranks,
                      const network_t *network, cli_probe_t *probe) {
  char key[LS_PROFILE_KEY_BYTES], text[512];
  double bytes;
  describe(network, text);
  if (ls_file_write(NULL, yaml, text, strlen(text)) != LS_OK) {
    cli_probe_note(probe, "memory of libraries: %s: %s", yaml, strerror(errno));
    return;
  }
  const char *variant = ranks > 1 ? ls_transport_variant(backend) : "";
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_LIBRARIES, backend, variant, ranks});
  if (!train(yaml, out, backend, ranks, probe)) return;
  if (read_libraries(out, backend, probe, &bytes))
    ls_profile_put_value(probe->profile, key, bytes);
  else
    cli_probe_note(probe, "memory of libraries, %s, %d ranks: the system does not say what is used", backend,
                   ranks);
}

void cli_probe_memory(bool quick, int gpus, cli_probe_t *probe) {
  int cpus = ls_cpu_count();
  if (quick && cpus > 2) cpus = 2;
  if (quick && gpus > 2) gpus = 2;
  char *yaml = ls_path_join(NULL, probe->dir, "train.yaml"),
       *out = ls_path_join(NULL, probe->dir, "report.json");
  for (int ranks = yaml && out; ranks > 0 && !cli_stop_requested(); ranks = cli_probe_next(ranks, cpus))
    one_world(yaml, out, "cpu", ranks, &host_network, probe);
  for (int ranks = yaml && out && gpus > 0; ranks > 0 && !cli_stop_requested();
       ranks = cli_probe_next(ranks, gpus))
    one_world(yaml, out, "cuda", ranks, &gpu_network, probe);
  ls_free(out);
  ls_free(yaml);
}
