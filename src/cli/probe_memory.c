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

/* Dense layers: the first of `units`, each of the others `step` wider. Or convolutions of channels so chosen: windows of
 * one element, behind each of them one filter for each channel, or windows of 3 x 3. */
typedef enum { DENSE, ONE, ONE_DEPTHWISE, WHOLE } layers_t;
typedef struct {
  int units, step, layers, batch, threads; /* threads 0: all */
  layers_t kind;
  const char *precision;
} network_t;
/* On a host without products of a library, which are counted for each network (ls_train_memory_t.scratch_bytes
 * and code). */
static const network_t host_network = {.units = 64, .layers = 2, .batch = 8, .precision = "fp32"},
                       gpu_network = {.units = 512, .layers = 2, .batch = 512, .precision = "fp32"};

/* On GPUs several ranks are monitored: each then captures its steps a second time, to time its waits for the others. */
typedef char text_t[2048];
static void describe(const network_t *n, const char *backend, int ranks, text_t text) {
  int at = snprintf(text, sizeof(text_t),
                    "data: {kind: synthetic, samples: 640, validation: 0.1}\n"
                    "train: {batch: %d, steps: 4, precision: %s}\n"
                    "parallel: {backend: %s, ranks: %d, threads: %d}\n"
                    "%s"
                    "model: {input: [%s%d], loss: mse, layers: [",
                    n->batch, n->precision, backend, ranks, n->threads,
                    n == &gpu_network && ranks > 1 ? "monitor: {dir: seen}\n" : "",
                    n->kind == DENSE ? "" : "8, 8, ", n->units);
  for (int i = 0; i < n->layers; i++) {
    const int units = n->units + i * n->step;
    const size_t left = sizeof(text_t) - (size_t)at;
    if (n->kind == DENSE)
      at += snprintf(text + at, left, "{dense: {units: %d, activation: relu%s}}, ", units,
                     i == 0 ? ", dropout: 0.1" : "");
    else
      at +=
          snprintf(text + at, left, "{conv2d: {filters: %d, kernel: %d}}, ", units, n->kind == WHOLE ? 3 : 1);
    if (n->kind == ONE_DEPTHWISE)
      at += snprintf(text + at, sizeof(text_t) - (size_t)at,
                     "{conv2d: {filters: %d, kernel: 3, groups: %d}}, ", units, units);
  }
  snprintf(text + at, sizeof(text_t) - (size_t)at, "%s{dense: {units: 64}}]}\n",
           n->kind == DENSE ? "" : "{global_pool: {}}, ");
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
  use->bytes = used - own - json_number_value(json_object_get(memory, "scratch")) -
               json_number_value(json_object_get(memory, "side"));
  for (int c = 0; c < LS_CODE_COUNT; c++)
    use->code[c] =
        json_number_value(json_object_get(json_object_get(memory, "code"), ls_code_name((ls_code_t)c)));
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
  char number[16], what[96];
  text_t text;
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

/* The middle one of three runs of one rank. False too if the first needs no code `of` (LS_CODE_COUNT: any will do). */
static bool run_middle(const runs_t *runs, const network_t *network, ls_code_t of, use_t *use) {
  use_t one[3];
  for (int i = 0; i < LS_COUNT(one); i++) {
    if (!run(runs, network, "cpu", 1, &one[i])) return false;
    if (of < LS_CODE_COUNT && one[i].code[of] == 0) return false;
  }
  double low = fmin(one[0].bytes, one[1].bytes), high = fmax(one[0].bytes, one[1].bytes);
  *use = one[0];
  use->bytes = fmax(low, fmin(high, one[2].bytes));
  return true;
}

static void one_world(const runs_t *runs, const char *backend, int ranks, const network_t *network) {
  use_t use;
  const char *variant = ranks > 1 ? ls_transport_variant(backend) : "";
  const bool middle = ranks == 1 && network == &host_network;
  if (middle ? run_middle(runs, network, LS_CODE_COUNT, &use) : run(runs, network, backend, ranks, &use))
    put(runs, (ls_profile_key_t){LS_KEY_LIBRARIES, backend, variant, ranks}, use.bytes);
}

/* Networks that differ by one part of code, in one thread, unless two have to share a product. */
enum {
  PLAIN,
  PRODUCTS,
  LOW,
  LOW_MANY,
  REST_MANY,
  ODD,
  ODD_MANY,
  PACKED,
  PACKED_MANY,
  CONVOLUTION,
  LOW_CONVOLUTION,
  CONVOLUTION_MANY,
  ONE_MANY,
  DEPTHWISE_MANY
};
static const network_t networks[] = {
    [PLAIN] = {.units = 64, .layers = 2, .batch = 8, .threads = 1, .precision = "fp32"},
    [PRODUCTS] = {.units = 64, .layers = 3, .batch = 64, .threads = 1, .precision = "fp32"},
    [LOW] = {.units = 64, .layers = 2, .batch = 64, .threads = 1, .precision = "bf16"},
    [LOW_MANY] = {.units = 8, .step = 4, .layers = 15, .batch = 64, .threads = 1, .precision = "bf16"},
    [REST_MANY] = {.units = 68, .step = 4, .layers = 14, .batch = 64, .threads = 1, .precision = "bf16"},
    [ODD] = {.units = 301, .step = 16, .layers = 2, .batch = 64, .threads = 1, .precision = "bf16"},
    [ODD_MANY] = {.units = 301, .step = 16, .layers = 12, .batch = 64, .threads = 1, .precision = "bf16"},
    [PACKED] = {.units = 128, .layers = 2, .batch = 256, .threads = 2, .precision = "bf16"},
    [PACKED_MANY] = {.units = 96, .step = 16, .layers = 10, .batch = 128, .threads = 2, .precision = "bf16"},
    [CONVOLUTION] = {.units = 16, .layers = 1, .batch = 8, .threads = 1, .kind = WHOLE, .precision = "fp32"},
    [ONE_MANY] =
        {.units = 16, .step = 8, .layers = 8, .batch = 8, .threads = 1, .kind = ONE, .precision = "fp32"},
    [DEPTHWISE_MANY] = {.units = 16,
                        .step = 8,
                        .layers = 8,
                        .batch = 8,
                        .threads = 1,
                        .kind = ONE_DEPTHWISE,
                        .precision = "fp32"},
    [LOW_CONVOLUTION] =
        {.units = 16, .layers = 1, .batch = 8, .threads = 1, .kind = WHOLE, .precision = "bf16"},
    [CONVOLUTION_MANY] = {
        .units = 16, .step = 8, .layers = 8, .batch = 8, .threads = 1, .kind = WHOLE, .precision = "fp32"}};

/* A part is the difference of two networks, less the parts above it in which they differ too. Of a part that each
 * shape needs, many shapes come first: there it outweighs what is needed once. */
static const struct {
  ls_code_t code;
  int with, without;
} parts[] = {
    {LS_CODE_PRODUCTS, PRODUCTS, PLAIN},
    {LS_CODE_LOW_EACH, LOW_MANY, LOW},
    {LS_CODE_LOW_REST, REST_MANY, LOW},
    {LS_CODE_LOW_ODD, ODD_MANY, ODD},
    {LS_CODE_LOW, LOW, PLAIN},
    {LS_CODE_LOW_PACKED_EACH, PACKED_MANY, PACKED},
    {LS_CODE_LOW_PACKED, PACKED, PLAIN},
    {LS_CODE_CONVOLUTION_EACH, CONVOLUTION_MANY, CONVOLUTION},
    {LS_CODE_CONVOLUTIONS, CONVOLUTION, PLAIN},
    {LS_CODE_LOW_CONVOLUTIONS, LOW_CONVOLUTION, LOW},
    {LS_CODE_CONVOLUTION_ONE, ONE_MANY, PLAIN},
    {LS_CODE_CONVOLUTION_DEPTHWISE, DEPTHWISE_MANY, ONE_MANY},
};

static void host_code(const runs_t *runs) {
  double known[LS_CODE_COUNT] = {0};
  use_t use[LS_COUNT(networks)];
  bool measured[LS_COUNT(networks)] = {0};
  for (int i = 0; i < LS_COUNT(parts) && !cli_stop_requested(); i++) {
    const ls_code_t c = parts[i].code;
    const int with = parts[i].with, without = parts[i].without;
    if (!measured[with]) measured[with] = run_middle(runs, &networks[with], c, &use[with]);
    if (!measured[with]) continue; /* not on this processor, or not by this library */
    if (!measured[without])
      measured[without] = run_middle(runs, &networks[without], LS_CODE_COUNT, &use[without]);
    if (!measured[without]) continue;
    const double times = use[with].code[c] - use[without].code[c];
    if (times <= 0) continue;
    known[c] = use[with].bytes - use[without].bytes;
    for (int other = 0; other < LS_CODE_COUNT; other++)
      if (other != (int)c) known[c] -= (use[with].code[other] - use[without].code[other]) * known[other];
    known[c] = fmax(known[c] / times, 0);
    put(runs, (ls_profile_key_t){LS_KEY_CODE, "cpu", ls_code_name(c)}, known[c]);
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
