/* The variants: all sensible combinations of the lists. */
#include "cli/bench.h"
#include "model/layer.h"

#include <stdlib.h>
#include <string.h>

static ls_status_t list_or(bench_t *b, bench_flag_t flag, bool numbers, const char *fallback,
                           cli_list_t *list) {
  const char *text = b->args->extra[flag];
  return cli_list_read(b->ctx, bench_flags[flag].name, text ? text : fallback, numbers, list);
}

int bench_variant_sets(const bench_variant_t *v, char sets[BENCH_SETS][BENCH_SET_BYTES]) {
  int count = 0;
  if (v->model[0]) snprintf(sets[count++], BENCH_SET_BYTES, "model.preset=%s", v->model);
  snprintf(sets[count++], BENCH_SET_BYTES, "train.precision=%s", v->precision);
  snprintf(sets[count++], BENCH_SET_BYTES, "train.batch=%lld", (long long)v->batch);
  snprintf(sets[count++], BENCH_SET_BYTES, "parallel.ranks=%d", v->ranks);
  snprintf(sets[count++], BENCH_SET_BYTES, "parallel.strategy=%s", v->strategy);
  if (v->samples > 0) snprintf(sets[count++], BENCH_SET_BYTES, "data.samples=%lld", (long long)v->samples);
  if (v->bucket_bytes > 0)
    snprintf(sets[count++], BENCH_SET_BYTES, "parallel.bucket_bytes=%lld", (long long)v->bucket_bytes);
  return count;
}

/* Loads the configuration of the variant, or of its network alone, only for its errors. */
static ls_status_t load_variant(const bench_t *b, ls_ctx_t *ctx, const bench_variant_t *v,
                                bool network_alone) {
  const char *sets[CLI_SETS_MAX + BENCH_SETS];
  char own[BENCH_SETS][BENCH_SET_BYTES];
  int count = b->args->set_count, own_count = bench_variant_sets(v, own);
  memcpy(sets, b->args->sets, (size_t)count * sizeof *sets);
  if (network_alone) own_count = v->model[0] ? 1 : 0;
  for (int i = 0; i < own_count; i++)
    sets[count++] = own[i];
  ls_config_t *config;
  ls_status_t status = cli_config_load(ctx, b->args, sets, count, &config);
  if (status == LS_OK) ls_config_destroy(config);
  return status;
}

void bench_one_line(char *text) {
  text[strcspn(text, "\n")] = '\0';
  for (char *c = text; *c; c++)
    if (*c == '|') *c = '/';
}

/* Why a word of a list is none that a configuration knows, by the flag that it was given with; "" if it is one. */
static void check_word(bench_flag_t flag, const char *word, const char *const *names, char why[256]) {
  char list[LS_NAMES_TEXT_BYTES], nearest[LS_NAMES_TEXT_BYTES];
  why[0] = '\0';
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], word) == 0) return;
  snprintf(why, 256, "%s: `%s` is not one of %s%s", bench_flags[flag].name, LS_SHOWN(word),
           ls_names_text(names, list), ls_nearest_text("", word, names, nearest));
}

static void strategy_names(const char *names[LS_STRATEGY_MAX + 2]) {
  int count = 0;
  for (; ls_strategies[count]; count++)
    names[count] = ls_strategies[count]->name;
  names[count++] = "auto";
  names[count] = NULL;
}

/* Finds errors before anything runs. A strategy or a network that does not exist is an error in the lists. A
 * combination that the configuration refuses (a precision, fewer samples than ranks, ranks that do not divide
 * the shards), or more devices than there are, is the variant's own failure: the others are measured. */
static ls_status_t check_variant(bench_t *b, bench_variant_t *v) {
  const char *strategies[LS_STRATEGY_MAX + 2];
  char why[256];
  strategy_names(strategies);
  check_word(BENCH_STRATEGIES, v->strategy, strategies, why);
  if (!why[0] && v->model[0]) check_word(BENCH_MODELS, v->model, ls_preset_names, why);
  if (why[0]) return ls_fail(b->ctx, LS_ERR_CONFIG, "%s", why);
  if (b->devices > 0 && v->ranks > b->devices)
    snprintf(v->refused, sizeof v->refused, "needs %d device%s, this machine has %d", v->ranks,
             LS_PLURAL(v->ranks), b->devices);
  check_word(BENCH_PRECISIONS, v->precision, ls_math_names, why);
  if (why[0]) {
    snprintf(v->refused, sizeof v->refused, "%s", why);
    return LS_OK;
  }
  ls_ctx_t *silent = ls_ctx_create(NULL, NULL);
  if (!silent) return ls_fail(b->ctx, LS_ERR_MEMORY, "out of memory for a context");
  bool refused = load_variant(b, silent, v, false) != LS_OK;
  ls_status_t status = refused ? load_variant(b, b->ctx, v, true) : LS_OK;
  if (status == LS_OK && refused) {
    const char *said = ls_ctx_error(silent), *place = strstr(said, ": ");
    if (strncmp(said, "--set:", 6) == 0 && place) said = place + 2; /* no --set that the caller wrote */
    snprintf(v->refused, sizeof v->refused, "%.250s", said);
    bench_one_line(v->refused);
  }
  ls_ctx_destroy(silent);
  return status;
}

ls_status_t bench_variant_add(bench_t *b, const bench_variant_t *wanted) {
  if (b->variant_count == BENCH_VARIANT_MAX)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT, "more than %d variants; shorten the lists", BENCH_VARIANT_MAX);
  bench_variant_t *v = &b->variants[b->variant_count];
  *v = *wanted;
  v->batch = b->method.weak ? v->key * v->ranks : v->key;
  const char *peer = v->peer;
  snprintf(v->series, sizeof v->series, "%d x %s%s%s%s%s", v->ranks, v->strategy,
           b->shown.precision ? " " : "", b->shown.precision ? v->precision : "",
           peer ? ", peer access " : "", peer ? peer : "");
  snprintf(v->name, sizeof v->name, "%s%sbatch %lld%s, %s", b->shown.model ? v->model : "",
           b->shown.model ? ", " : "", (long long)v->key, b->method.weak ? " per rank" : "", v->series);
  ls_status_t status = check_variant(b, v);
  if (status == LS_OK) b->variant_count++;
  return status;
}

/* single runs on one rank; the others on several, and on one only where single is not asked for. */
static bool sensible(const cli_list_t *strategies, int at, int64_t ranks) {
  const ls_strategy_t *strategy = ls_strategy_find(strategies->word[at]);
  if (!strategy || ranks > 1) return !strategy || strategy->distributed;
  if (!strategy->distributed) return true;
  for (int i = 0; i < strategies->count; i++) {
    const ls_strategy_t *other = ls_strategy_find(strategies->word[i]);
    if (other && !other->distributed) return false;
  }
  return true;
}

typedef struct {
  cli_list_t ranks, strategies, precisions, peers;
} lists_t;

/* All of one network's batch. Peer access concerns several GPUs only. */
static ls_status_t combine(bench_t *b, const char *model, int64_t batch, const lists_t *l) {
  for (int p = 0; p < l->precisions.count; p++)
    for (int r = 0; r < l->ranks.count; r++)
      for (int s = 0; s < l->strategies.count; s++) {
        int64_t ranks = l->ranks.number[r];
        if (ranks > 65536)
          return ls_fail(b->ctx, LS_ERR_ARGUMENT, "--ranks-list: %s are too many ranks", l->ranks.word[r]);
        if (!sensible(&l->strategies, s, ranks)) continue;
        bench_variant_t v = {.key = batch, .ranks = (int)ranks};
        snprintf(v.model, sizeof v.model, "%s", model);
        snprintf(v.strategy, sizeof v.strategy, "%s", l->strategies.word[s]);
        snprintf(v.precision, sizeof v.precision, "%s", l->precisions.word[p]);
        bool choice = ranks > 1 && l->peers.count > 0 && !b->host;
        for (int k = 0; k < (choice ? l->peers.count : 1); k++) {
          if (choice) v.peer = strcmp(l->peers.word[k], "on") ? "off" : "on";
          ls_status_t status = bench_variant_add(b, &v);
          if (status != LS_OK) return status;
        }
      }
  return LS_OK;
}

/* "NAME" or "NAME=8/16/32": a network with the batches of the whole sweep, or with its own. */
static ls_status_t combine_model(bench_t *b, char *entry, const cli_list_t *batches, const lists_t *l) {
  cli_list_t own = *batches;
  char *equals = strchr(entry, '=');
  ls_status_t status = LS_OK;
  if (equals) {
    *equals = '\0';
    for (char *c = equals + 1; *c; c++)
      if (*c == '/') *c = ',';
    status = cli_list_read(b->ctx, bench_flags[BENCH_MODELS].name, equals + 1, true, &own);
  }
  if (status == LS_OK && (!*entry || strlen(entry) >= CLI_WORD_BYTES))
    status = ls_fail(b->ctx, LS_ERR_ARGUMENT, "--models: \"%s\" is no name of a preset", entry);
  for (int i = 0; i < own.count && status == LS_OK; i++)
    status = combine(b, entry, own.number[i], l);
  return status;
}

static ls_status_t combine_models(bench_t *b, const char *models, const cli_list_t *batches,
                                  const lists_t *l) {
  ls_status_t status = LS_OK;
  if (!models)
    for (int i = 0; i < batches->count && status == LS_OK; i++)
      status = combine(b, "", batches->number[i], l);
  char *copy = models ? ls_strdup(b->ctx, models) : NULL, *state = NULL;
  if (models && !copy) return LS_ERR_MEMORY;
  for (char *entry = copy ? strtok_r(copy, ",", &state) : NULL; entry && status == LS_OK;
       entry = strtok_r(NULL, ",", &state))
    status = combine_model(b, entry, batches, l);
  ls_free(copy);
  if (status == LS_OK && b->variant_count == 0)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT, "the lists give no variant that can run");
  bool runs = false;
  for (int i = 0; i < b->variant_count; i++)
    runs |= !b->variants[i].refused[0];
  if (status == LS_OK && !runs)
    return ls_fail(b->ctx, LS_ERR_CONFIG, "no variant can be measured: %s", b->variants[0].refused);
  return status;
}

/* --peer: entries on and off. The backend must be known, because only GPUs have the choice. */
static ls_status_t read_peers(bench_t *b, const char *text, const char *backend_name, cli_list_t *peers) {
  const ls_backend_t *backend;
  *peers = (cli_list_t){.count = 0};
  if (!text) return LS_OK;
  ls_status_t status = cli_list_read(b->ctx, bench_flags[BENCH_PEER].name, text, false, peers);
  for (int i = 0; i < peers->count && status == LS_OK; i++)
    if (strcmp(peers->word[i], "on") != 0 && strcmp(peers->word[i], "off") != 0)
      status = ls_fail(b->ctx, LS_ERR_ARGUMENT, "--peer takes on, off or both, not \"%s\"", peers->word[i]);
  if (status == LS_OK) status = ls_backend_find(b->ctx, backend_name, &backend);
  if (status != LS_OK) return status;
  b->host = backend->host_processors;
  if (!b->host) b->devices = backend->device->count(b->ctx);
  if (b->host && !b->args->quiet)
    fprintf(stderr, "backend %s: its ranks share memory, peer access is no choice: --peer is left out\n",
            backend->name);
  return LS_OK;
}

ls_status_t bench_sweep(bench_t *b) {
  ls_config_t *config;
  cli_list_t batches;
  lists_t l;
  char batch_text[32], ranks_text[32], strategies_text[64], backend[32];
  const char *models = b->args->extra[BENCH_MODELS], *peers = b->args->extra[BENCH_PEER];
  ls_status_t status = cli_config_load(b->ctx, b->args, b->args->sets, b->args->set_count, &config);
  if (status != LS_OK) return status;
  const ls_strategy_t *own = ls_strategy_find(config->parallel.strategy);
  snprintf(batch_text, sizeof batch_text, "%lld", (long long)config->train.batch);
  snprintf(ranks_text, sizeof ranks_text, config->parallel.ranks > 1 || b->study ? "1,%lld" : "%lld",
           config->parallel.ranks > 1 || !b->study ? (long long)config->parallel.ranks : 2LL);
  snprintf(strategies_text, sizeof strategies_text, "%s,%s", ls_strategy_default(1)->name,
           own && own->distributed ? own->name : ls_strategy_default(2)->name);
  snprintf(backend, sizeof backend, "%s", config->parallel.backend);
  snprintf(b->network, sizeof b->network, "%s", config->model.preset ? config->model.preset : "");
  b->seed = config->train.seed;
  b->side_lane = config->parallel.side_lane == LS_SIDE_ON;
  const char *precision = ls_math_names[config->train.precision];
  ls_config_destroy(config);
  if (b->study && !peers) peers = bench_study_word(b, "peer");
  status = read_peers(b, peers, backend, &l.peers);
  if (status != LS_OK) return status;
  if (b->study && !models && !b->args->extra[BENCH_BATCHES]) {
    models = bench_study_word(b, "models");
    if (b->host && bench_study_word(b, "host")) models = bench_study_word(b, "host");
  }
  if (b->study && !models) models = bench_study_word(b, "networks");
  status = list_or(b, BENCH_BATCHES, true, batch_text, &batches);
  if (status == LS_OK) status = list_or(b, BENCH_RANKS_LIST, true, ranks_text, &l.ranks);
  if (status == LS_OK) status = list_or(b, BENCH_STRATEGIES, false, strategies_text, &l.strategies);
  if (status == LS_OK) status = list_or(b, BENCH_PRECISIONS, false, precision, &l.precisions);
  if (status != LS_OK) return status;
  b->shown.model = models != NULL;
  b->shown.precision = l.precisions.count > 1;
  b->variants = ls_alloc_array(b->ctx, BENCH_VARIANT_MAX, sizeof *b->variants);
  return b->variants ? combine_models(b, models, &batches, &l) : LS_ERR_MEMORY;
}
