/* The part of probe that measures the memory of libraries in a rank's process. It runs a small training as a
 * user would, once per backend and number of ranks. The memory of its processes, less what the training
 * allocated, belongs to libraries: program, MPI and threads; on a GPU the context, modules, cuBLASLt
 * with its workspaces, the captured step and NCCL. On a CPU further trainings measure the code that the
 * library behind products and convolutions makes, part by part. */
#include "cli/probe.h"
#include "cli/stop.h"
#include "comm/transport.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Dense layers: the first of `units`, each of the others `step` wider. Or convolutions of channels so chosen. */
typedef struct {
  int units, step, layers, batch, threads; /* threads 0: all */
  bool convolutions;
  const char *precision;
} network_t;
/* On a host without products of a library, which are counted for each network (ls_train_memory_t.scratch_bytes, code). */
static const network_t host_network = {.units = 64, .layers = 2, .batch = 8, .precision = "fp32"},
                       gpu_network = {.units = 512, .layers = 2, .batch = 512, .precision = "fp32"};

static void describe(const network_t *n, const char *backend, int ranks, char text[2048]) {
  int at =
      snprintf(text, 2048,
               "data: {kind: synthetic, samples: 640, validation: 0.1}\n"
               "train: {batch: %d, steps: 4, precision: %s}\n"
               "parallel: {backend: %s, ranks: %d, threads: %d}\n"
               "model: {input: [%s%d], loss: mse, layers: [",
               n->batch, n->precision, backend, ranks, n->threads, n->convolutions ? "8, 8, " : "", n->units);
  for (int i = 0; i < n->layers; i++)
    at += n->convolutions
              ? snprintf(text + at, 2048 - (size_t)at, "{conv2d: {filters: %d, kernel: 3}}, ",
                         n->units + i * n->step)
              : snprintf(text + at, 2048 - (size_t)at, "{dense: {units: %d, activation: relu%s}}, ",
                         n->units + i * n->step, i == 0 ? ", dropout: 0.1" : "");
  snprintf(text + at, 2048 - (size_t)at, "%s{dense: {units: 64}}]}\n",
           n->convolutions ? "{global_pool: {}}, " : "");
}

/* What a training took beside its own memory, and how often it needs each part of the libraries' code. */
typedef struct {
  double bytes, code[LS_CODE_COUNT];
} use_t;

/* From the training's report; false when the system does not say. */
static bool read_use(const char *out, const char *backend, cli_probe_t *probe, use_t *use) {
  char key[LS_PROFILE_KEY_BYTES];
  json_t *report = json_load_file(out, 0, NULL), *memory = json_object_get(report, "bytes_per_device");
  double used = json_number_value(json_object_get(memory, "measured"));
  double own = json_number_value(json_object_get(memory, "device"));
  double capacity = json_number_value(json_object_get(memory, "capacity"));
  use->bytes = used - own - json_number_value(json_object_get(memory, "scratch"));
  for (int c = 0; c < LS_CODE_COUNT; c++)
    use->code[c] = json_number_value(json_object_get(json_object_get(memory, "code"), ls_code_names[c]));
  json_decref(report);
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_CAPACITY, backend});
  if (capacity > 0) ls_profile_put_value(probe->profile, key, capacity);
  return own > 0 && use->bytes > 0;
}

typedef struct {
  char *yaml, *out;
  cli_probe_t *probe;
} runs_t;

/* Runs the training; false with a note when it fails. */
static bool run(const runs_t *runs, const network_t *network, const char *backend, int ranks, use_t *use) {
  char number[16], what[96], text[2048];
  snprintf(what, sizeof what, "memory of libraries, %s, %d ranks", backend, ranks);
  snprintf(number, sizeof number, "%d", ranks);
  describe(network, backend, ranks, text);
  if (ls_file_write(NULL, runs->yaml, text, strlen(text)) != LS_OK) {
    cli_probe_note(runs->probe, "memory of libraries: %s: %s", runs->yaml, strerror(errno));
    return false;
  }
  const char *const argv[] = {"lockstep", "train", runs->yaml, "--json", "--quiet", "--ranks", number, NULL};
  if (!cli_probe_child(runs->probe, argv, runs->out, what)) return false;
  if (read_use(runs->out, backend, runs->probe, use)) return true;
  cli_probe_note(runs->probe, "%s: the system does not say what is used", what);
  return false;
}

static void put(const runs_t *runs, ls_profile_key_t key, double bytes) {
  char text[LS_PROFILE_KEY_BYTES];
  ls_profile_put_value(runs->probe->profile, ls_profile_key(text, key), bytes > 0 ? bytes : 0);
}

/* The middle one of three runs. */
static bool run_middle(const runs_t *runs, const network_t *network, const char *backend, use_t *use) {
  use_t one[3];
  for (int i = 0; i < LS_COUNT(one); i++)
    if (!run(runs, network, backend, 1, &one[i])) return false;
  double low = fmin(one[0].bytes, one[1].bytes), high = fmax(one[0].bytes, one[1].bytes);
  *use = one[0];
  use->bytes = fmax(low, fmin(high, one[2].bytes));
  return true;
}

static void one_world(const runs_t *runs, const char *backend, int ranks, const network_t *network) {
  use_t use;
  const char *variant = ranks > 1 ? ls_transport_variant(backend) : "";
  const bool middle = ranks == 1 && network == &host_network;
  if (middle ? run_middle(runs, network, backend, &use) : run(runs, network, backend, ranks, &use))
    put(runs, (ls_profile_key_t){LS_KEY_LIBRARIES, backend, variant, ranks}, use.bytes);
}

/* Trainings of one rank and, unless two share a product, one thread, each of which adds one part of code to those that are known. Of a part that each shape needs, many
 * shapes come first: there it outweighs what is needed once. */
static const struct {
  ls_code_t code;
  network_t few, many; /* many: of a part that each shape needs; else without layers */
} parts[] = {
    {LS_CODE_PRODUCTS, {.units = 64, .layers = 3, .batch = 64, .threads = 1, .precision = "fp32"}, {0}},
    {LS_CODE_LOW_EACH,
     {.units = 64, .layers = 2, .batch = 64, .threads = 1, .precision = "bf16"},
     {.units = 40, .step = 4, .layers = 16, .batch = 64, .threads = 1, .precision = "bf16"}},
    {LS_CODE_LOW_ODD,
     {.units = 301, .step = 16, .layers = 2, .batch = 64, .threads = 1, .precision = "bf16"},
     {.units = 301, .step = 16, .layers = 12, .batch = 64, .threads = 1, .precision = "bf16"}},
    {LS_CODE_LOW, {.units = 64, .layers = 2, .batch = 64, .threads = 1, .precision = "bf16"}, {0}},
    {LS_CODE_LOW_PACKED, {.units = 256, .layers = 2, .batch = 64, .threads = 2, .precision = "bf16"}, {0}},
    {LS_CODE_CONVOLUTION_EACH,
     {.units = 16, .layers = 1, .batch = 8, .threads = 1, .precision = "fp32", .convolutions = true},
     {.units = 16,
      .step = 8,
      .layers = 8,
      .batch = 8,
      .threads = 1,
      .precision = "fp32",
      .convolutions = true}},
    {LS_CODE_CONVOLUTIONS,
     {.units = 16, .layers = 1, .batch = 8, .threads = 1, .precision = "fp32", .convolutions = true},
     {0}},
};

static void host_code(const runs_t *runs) {
  double known[LS_CODE_COUNT] = {0};
  use_t base, few, many;
  network_t without = host_network;
  without.threads = 1;
  if (!run_middle(runs, &without, "cpu", &base)) return;
  for (int i = 0; i < LS_COUNT(parts); i++) {
    const ls_code_t c = parts[i].code;
    if (!run(runs, &parts[i].few, "cpu", 1, &few) || few.code[c] == 0)
      continue; /* not on this processor, or not by this library */
    if (parts[i].many.layers > 0) {
      if (!run(runs, &parts[i].many, "cpu", 1, &many)) continue;
    } else
      many = few, few = base;
    known[c] = many.bytes - few.bytes;
    for (int other = 0; other < LS_CODE_COUNT; other++)
      if (other != (int)c) known[c] -= (many.code[other] - few.code[other]) * known[other];
    known[c] /= many.code[c] - few.code[c];
    if (known[c] < 0) known[c] = 0;
    put(runs, (ls_profile_key_t){LS_KEY_CODE, "cpu", ls_code_names[c]}, known[c]);
  }
}

void cli_probe_memory(bool quick, int gpus, cli_probe_t *probe) {
  int cpus = ls_cpu_count();
  if (quick && cpus > 2) cpus = 2;
  if (quick && gpus > 2) gpus = 2;
  const runs_t runs = {ls_path_join(NULL, probe->dir, "train.yaml"),
                       ls_path_join(NULL, probe->dir, "report.json"), probe};
  const bool ready = runs.yaml && runs.out;
  if (ready) host_code(&runs);
  for (int ranks = ready; ranks > 0 && !cli_stop_requested(); ranks = cli_probe_next(ranks, cpus))
    one_world(&runs, "cpu", ranks, &host_network);
  for (int ranks = ready && gpus > 0; ranks > 0 && !cli_stop_requested(); ranks = cli_probe_next(ranks, gpus))
    one_world(&runs, "cuda", ranks, &gpu_network);
  ls_free(runs.out);
  ls_free(runs.yaml);
}
