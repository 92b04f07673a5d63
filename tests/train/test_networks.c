/* test_train_networks [BACKEND [SEED [COUNT]]]: draws COUNT networks, from the seeds SEED, SEED + 1 .., trains each on backend
 * ref and on BACKEND (cpu), and compares what they have become. A parameter's difference counts against the larger of what
 * training changed in its tensor and of a thousandth of the tensor. Where rounding alone decides, as at the corner of a
 * relu, ref itself ends as far away if it begins with parameters that differ by a millionth: such a network is sensitive.
 * Prints the configuration of each network that differs, and of a single one. */
#include "draw_network.h"
#include "sim_world.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DRAWS = 200, SEEDS_EACH = 10000, TENSORS_MAX = 256, NAME_BYTES = 64, OTHERS = 32, SKIP = 77 };
static const double tolerance = 1e-3;

typedef struct {
  char name[NAME_BYTES];
  int64_t offset, count;
} tensor_t;

/* One training. */
typedef struct {
  uint64_t other; /* not 0: other first parameters, by a millionth */
  tensor_t tensor[TENSORS_MAX];
  int count;
  float *before; /* rank 0's */
  sim_result_t result;
} trained_t;

static void must(bool holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void change(uint64_t seed, float *param, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    param[i] *= 1 + 1e-6f * (2 * ls_rng_unit(ls_rng(seed, 1, (uint64_t)i).v[0]) - 1);
}

/* On every rank, before it trains. */
static void on_begin(void *user, ls_trainer_t *t) {
  trained_t *one = user;
  const ls_layout_t *layout = t->engine.table->layout;
  const int64_t deadline_ns = t->world->comm->deadline_ns;
  const size_t size_bytes = (size_t)layout->total * sizeof(float);
  must(!ls_state_pull(t->engine.state, t->engine.stream, deadline_ns), "pull");
  float *param = t->engine.state->host[ls_state_find(t->engine.table, "parameters")];
  if (one->other) {
    change(one->other, param, layout->total);
    must(!ls_state_push(t->engine.state, t->engine.stream, deadline_ns), "push");
  }
  if (t->world->comm->rank > 0) return;
  one->before = malloc(size_bytes);
  must(one->before && layout->count <= TENSORS_MAX, "memory, or too many tensors");
  memcpy(one->before, param, size_bytes);
  one->count = layout->count;
  for (int k = 0; k < layout->count; k++) {
    tensor_t *to = &one->tensor[k];
    *to = (tensor_t){.offset = layout->entry[k].offset, .count = layout->entry[k].count};
    snprintf(to->name, sizeof to->name, "%s", layout->entry[k].name);
  }
}

static void train(const network_t *network, const char *backend, uint64_t other, trained_t *one) {
  const bool ref = strcmp(backend, "ref") == 0;
  char text[NETWORK_TEXT_BYTES + 128];
  snprintf(text, sizeof text, "%sparallel: {strategy: ddp, backend: %s, threads: %d}\n", network->text,
           backend, ref ? 1 : network->threads);
  *one = (trained_t){.other = other};
  const sim_run_t run = {.text = text,
                         .ranks = ref ? 1 : network->ranks,
                         .memory = network->memory.rows ? &network->memory : NULL,
                         .begin = on_begin,
                         .user = one};
  sim_train(&run, &one->result);
}

static void release(trained_t *one) {
  free(one->before);
  ls_free(one->result.param);
}

static double largest(const float *a, const float *b, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    double d = fabs((double)a[i] - (b ? b[i] : 0));
    if (!(d <= most)) most = d; /* NaN, too */
  }
  return most;
}

/* The largest difference of two trainings, as a part of what counts; *at: the tensor. */
static double difference(const trained_t *a, const trained_t *b, const char **at) {
  double worst = 0, least = 1e-30;
  const float *from = a->before, *to = a->result.param, *other = b->result.param;
  *at = "";
  if (a->count != b->count) return INFINITY;
  for (int k = 0; k < a->count; k++) { /* a tensor that hardly changes, or is 0, counts by the others */
    const tensor_t *t = &a->tensor[k];
    least = fmax(least, 1e-2 * largest(to + t->offset, from + t->offset, t->count));
    least = fmax(least, 1e-5 * largest(to + t->offset, NULL, t->count));
  }
  for (int k = 0; k < a->count; k++) {
    const tensor_t *t = &a->tensor[k], *u = &b->tensor[k];
    if (strcmp(t->name, u->name) != 0 || t->count != u->count) return INFINITY;
    const double update = largest(to + t->offset, from + t->offset, t->count),
                 scale = fmax(fmax(update, least), 1e-3 * largest(to + t->offset, NULL, t->count)),
                 part = largest(to + t->offset, other + u->offset, t->count) / scale;
    if (part <= worst) continue;
    worst = part;
    *at = t->name;
  }
  return worst;
}

/* How far ref goes from itself. */
static double sensitivity(const network_t *network, const trained_t *ref) {
  double most = 0;
  for (uint64_t k = 1; k <= OTHERS; k++) {
    trained_t other;
    const char *at;
    train(network, "ref", k, &other);
    most = fmax(most, other.result.status ? INFINITY : difference(ref, &other, &at));
    release(&other);
  }
  return most;
}

typedef struct {
  int networks, failed, sensitive;
  double worst;
  uint64_t worst_seed;
} tally_t;

/* False: it differs. */
static bool check(const char *backend, uint64_t seed, const network_t *network, tally_t *tally) {
  trained_t ref, other;
  const char *at = "";
  train(network, "ref", 0, &ref);
  train(network, backend, 0, &other);
  const bool trained = !ref.result.status && !other.result.status;
  const double part = trained ? difference(&ref, &other, &at) : INFINITY,
               own = trained && !(part <= tolerance) ? sensitivity(network, &ref) : 0;
  const bool same = part <= tolerance, excused = !same && own > part / 4;
  if (!trained)
    printf("FAIL network %llu: %s: %s\n", (unsigned long long)seed, ref.result.status ? "ref" : backend,
           ref.result.status ? ref.result.error : other.result.error);
  else if (!same)
    printf("%s network %llu: %s is off by %.2g, ref from other parameters by %.2g\n",
           excused ? "sensitive" : "FAIL", (unsigned long long)seed, at, part, own);
  if (same && part > tally->worst) {
    tally->worst = part;
    tally->worst_seed = seed;
  }
  tally->networks++;
  tally->sensitive += excused;
  tally->failed += !same && !excused;
  release(&ref);
  release(&other);
  return same || excused;
}

int main(int argc, char **argv) {
  const char *backend = argc > 1 ? argv[1] : "cpu";
  const uint64_t from = argc > 2 ? strtoull(argv[2], NULL, 10) : draw_seed() * SEEDS_EACH;
  const int count = argc > 3 ? atoi(argv[3]) : argc > 2 ? 1 : draw_count(DRAWS);
  const ls_backend_t *found;
  tally_t tally = {0};
  static network_t network;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  setvbuf(stdout, NULL, _IOLBF, 0); /* a crash does not take the last lines along */
  const ls_status_t status = ls_backend_find(ctx, backend, &found);
  const int devices = status || found->host_processors ? INT_MAX : found->device->count(ctx);
  if (status) printf("skipped: no backend %s here: %s\n", backend, ls_ctx_error(ctx));
  ls_ctx_destroy(ctx);
  if (status) return status == LS_ERR_UNSUPPORTED ? SKIP : 1;
  for (int k = 0; k < count; k++) {
    network_draw(from + (uint64_t)k, &network);
    if (network.ranks > devices) network.ranks = devices; /* a rank has a GPU of its own */
    if (!check(backend, from + (uint64_t)k, &network, &tally) || count == 1)
      printf("# %d ranks, %d threads\n%s", network.ranks, network.threads, network.text);
    network_release(&network);
  }
  printf("%s: %d networks from seed %llu: %d failed, %d sensitive; worst of the others %.2g (seed %llu)\n",
         backend, tally.networks, (unsigned long long)from, tally.failed, tally.sensitive, tally.worst,
         (unsigned long long)tally.worst_seed);
  /* Most networks say something. */
  return tally.failed == 0 && tally.sensitive * 10 <= tally.networks ? 0 : 1;
}
