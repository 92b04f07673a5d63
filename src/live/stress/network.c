/* A network as load: the trainer itself, on all ranks together. Losses have to be finite, and parameters and losses the same
 * on all ranks. */
#include "model/layer.h"
#include "model/model.h"
#include "stress/parts.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { TEXT_BYTES = 512, ROWS_MOST = 4096, MANY_STEPS = 1000000000, COMPARE_STEPS = 1000 };
/* A step of a preset takes about so long, by the FLOPs of its graph. */
static const double host_step_s = 0.5, device_step_s = 0.1, host_flops_per_s = 50e9,
                    device_flops_per_s = 20e12;

struct ls_network {
  ls_ctx_t *ctx;
  ls_world_t world;
  const ls_stress_options_t *o;
  ls_config_t *config;
  ls_trainer_t *trainer;
  int64_t until_ns;
  ls_stress_network_t seen;
};

/* ---- sizes ---- */

/* Rows that this device computes in that time and that fit into half of its free memory. */
static ls_status_t rows_of(ls_network_t *n, ls_device_t *device, int64_t *rows) {
  const ls_backend_t *b = n->o->backend;
  ls_graph_t *g;
  double bytes = 0, row_s;
  int64_t used = 0, total = 0;
  ls_status_t status = ls_model_build(n->ctx, &n->config->model, 1, true, &g);
  if (status != LS_OK) return status;
  for (int i = 0; i < g->tensor_count; i++)
    if (g->tensors[i].role == LS_ROLE_VALUE || g->tensors[i].role == LS_ROLE_GRAD)
      bytes += (double)ls_shape_bytes(&g->tensors[i].shape);
  const double flops = (double)(ls_graph_flops(g, LS_PHASE_FORWARD) + ls_graph_flops(g, LS_PHASE_BACKWARD));
  ls_graph_destroy(g);
  if (b->device->memory)
    status = b->device->memory(device, &used, &total);
  else
    total = ls_machine_memory_free("") / n->world.comm->local_size;
  row_s = flops / (b->host_processors ? host_flops_per_s / n->world.comm->local_size : device_flops_per_s);
  double most = fmin((b->host_processors ? host_step_s : device_step_s) / row_s,
                     0.5 * (double)(total - used) / fmax(bytes, 1));
  *rows = most < 1 ? 1 : most > ROWS_MOST ? ROWS_MOST : (int64_t)most;
  return status;
}

/* Ranks divide a batch evenly, so the least of them decides. */
static ls_status_t agree_rows(ls_network_t *n, int64_t *rows) {
  ls_comm_t *comm = n->world.comm;
  int64_t *all = ls_alloc_array(n->ctx, (size_t)comm->size, sizeof *all);
  ls_status_t status = ls_comm_agree(comm, "stress: sizes", all ? LS_OK : LS_ERR_MEMORY);
  if (status == LS_OK) status = ls_comm_gather(comm, "stress: sizes", rows, sizeof *rows, all);
  for (int r = 0; r < comm->size && status == LS_OK; r++)
    if (all[r] < *rows) *rows = all[r];
  ls_free(all);
  return status;
}

/* ---- configuration ---- */

static bool preset_of(const char *name, char preset[64]) {
  for (int short_name = 0; short_name < 2; short_name++) {
    snprintf(preset, 64, "%s%s", short_name ? "mlp-" : "", name);
    for (int i = 0; ls_preset_names[i]; i++)
      if (!strcmp(preset, ls_preset_names[i])) return true;
  }
  return false;
}

/* An encoder of text gets the head for classes. */
static ls_status_t read_preset(ls_network_t *n, const char *preset, int64_t batch) {
  char text[TEXT_BYTES];
  snprintf(text, sizeof text,
           "model: {preset: %s%s}\ndata: {kind: synthetic, samples: %lld, validation: 0}\n"
           "train: {batch: %lld, precision: %s, steps: 1, evaluate_every: 0, optimizer: {lr: 1e-5}}\n",
           preset, strncmp(preset, "bert", 4) ? "" : ", classes: 2", (long long)(2 * batch), (long long)batch,
           n->o->backend->tf32 ? "tf32" : "fp32");
  ls_config_destroy(n->config);
  n->config = NULL;
  return ls_config_parse(n->ctx, "stress", text, strlen(text), NULL, 0, &n->config);
}

/* Nothing is saved, watched or evaluated, and the run has no end of its own. */
static void as_load(ls_network_t *n) {
  ls_config_t *c = n->config;
  const int size = n->world.comm->size;
  c->train.steps = MANY_STEPS;
  c->train.epochs = c->train.evaluate_every = c->train.patience = 0;
  c->train.replica_steps = COMPARE_STEPS;
  c->data.validation = 0;
  c->checkpoint.dir = c->monitor.dir = NULL;
  c->safety.count = 0;
  c->parallel.ranks = size;
  c->parallel.backend = n->o->backend->name;
  c->parallel.threads = n->o->backend->host_processors ? n->o->threads : 0;
  c->parallel.bind = false; /* this process is bound already */
  c->parallel.usual = true;
  snprintf(n->seen.name, sizeof n->seen.name, "%s", n->o->network);
  n->seen.batch = c->train.batch;
}

static ls_status_t configure(ls_network_t *n, ls_device_t *device) {
  char preset[64];
  if (!preset_of(n->o->network, preset)) {
    struct stat file;
    if (stat(n->o->network, &file) != 0)
      return ls_fail(
          n->ctx, LS_ERR_ARGUMENT,
          "--network takes the name of a preset (extreme, gpt2, ..) or a configuration, not \"%s\"",
          n->o->network);
    return ls_config_load(n->ctx, n->o->network, NULL, 0, &n->config);
  }
  int64_t rows = 1;
  ls_status_t status = read_preset(n, preset, n->world.comm->size);
  if (status == LS_OK) status = rows_of(n, device, &rows);
  if (ls_comm_agree(n->world.comm, "stress: sizes", status) != LS_OK) return LS_ERR_COMM;
  if (status == LS_OK) status = agree_rows(n, &rows);
  return status == LS_OK ? read_preset(n, preset, rows * n->world.comm->size) : status;
}

ls_status_t ls_network_open(ls_ctx_t *ctx, ls_comm_t *control, ls_device_t *device,
                            const ls_stress_options_t *o, ls_network_t **out) {
  ls_network_t *n = ls_alloc(ctx, sizeof *n);
  ls_status_t status = ls_comm_agree(control, "stress: network", n ? LS_OK : LS_ERR_MEMORY);
  if (status == LS_OK) {
    n->ctx = ctx;
    n->o = o;
    n->world = (ls_world_t){.comm = control};
    status = ls_comm_agree(control, "stress: network", configure(n, device));
  }
  if (status == LS_OK) {
    as_load(n);
    status = ls_trainer_create(ctx, &n->world, n->config, NULL, &n->trainer);
  }
  if (status == LS_OK) {
    n->seen.params = ls_graph_param_count(ls_trainer_engine(n->trainer)->step[LS_STEP_EVALUATE].graph);
    *out = n;
  } else {
    ls_network_close(n);
  }
  return status;
}

void ls_network_close(ls_network_t *n) {
  if (!n) return;
  ls_trainer_destroy(n->trainer);
  ls_config_destroy(n->config);
  ls_free(n);
}

/* ---- the run ---- */

static bool over(void *user) {
  const ls_network_t *n = user;
  return ls_clock_ns() >= n->until_ns || (n->o->stop && n->o->stop());
}

typedef struct {
  double loss;
  char hash[33];
  bool judged, wrong; /* a comparison has ended the training; this rank is one that it names */
} result_t;

/* Losses are means over the global batch: every rank knows the same ones. */
static ls_status_t compare(ls_network_t *n, const result_t *own) {
  ls_comm_t *comm = n->world.comm;
  result_t *all = ls_alloc_array(n->ctx, (size_t)comm->size, sizeof *all);
  ls_status_t status = ls_comm_agree(comm, "stress: losses", all ? LS_OK : LS_ERR_MEMORY);
  if (status == LS_OK) status = ls_comm_gather(comm, "stress: losses", own, sizeof *own, all);
  n->seen.same = !own->wrong;
  for (int r = 0; r < comm->size && status == LS_OK && !own->judged; r++)
    n->seen.same &= !memcmp(&all[r].loss, &own->loss, sizeof own->loss) && !strcmp(all[r].hash, own->hash);
  ls_free(all);
  return status;
}

ls_status_t ls_network_run(ls_network_t *n, double seconds) {
  ls_train_report_t r;
  const ls_train_hooks_t hooks = {.stop = over, .user = n};
  n->until_ns = ls_clock_ns() + (int64_t)(seconds * 1e9);
  ls_status_t status = ls_trainer_run(n->trainer, &hooks, &r);
  n->seen.steps = r.steps;
  n->seen.steps_per_s = r.samples_per_s / (double)r.global_batch;
  n->seen.loss_first = r.train_loss_first;
  n->seen.loss = r.train_loss;
  n->seen.finite = status != LS_ERR_NONFINITE && r.skipped_steps == 0;
  const bool named = status == LS_ERR_DEVICE || status == LS_ERR_DIFFER,
             other = status == LS_ERR_COMM && !ls_ctx_error(n->ctx)[0];
  if (!named && !other && status != LS_OK && status != LS_ERR_INTERRUPTED && status != LS_ERR_NONFINITE)
    return status;
  result_t own = {.loss = r.train_loss, .judged = named || other, .wrong = named};
  memcpy(own.hash, r.params_xxh3, sizeof own.hash);
  return compare(n, &own);
}

void ls_network_report(const ls_network_t *n, ls_stress_network_t *network) {
  *network = n->seen;
}
