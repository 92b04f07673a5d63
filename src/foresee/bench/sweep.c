/* The variants: all sensible combinations of the lists. */
#include "bench/driver.h"
#include "model/layer.h"

#include <stdlib.h>
#include <string.h>

void ls_bench_study_count(const ls_bench_sweep_t *b, const char *key, int64_t *count) {
  const json_t *value = json_object_get(b->study, key);
  if (json_is_integer(value)) *count = json_integer_value(value);
}

static const char *study_word(const ls_bench_sweep_t *b, const char *key) {
  return json_string_value(json_object_get(b->study, key));
}

/* ---- one variant ---- */

static const char over_name[] = "variant"; /* the file of a variant's own values, in messages */

/* The values that make the configuration the variant's, or only its network. */
static json_t *values_of(const ls_bench_variant_t *v, bool network_alone) {
  json_t *values =
      network_alone ? json_object()
                    : json_pack("{s:{s:s, s:I}, s:{s:i, s:s}}", "train", "precision", v->precision, "batch",
                                (json_int_t)v->batch, "parallel", "ranks", v->ranks, "strategy", v->strategy);
  if (v->model[0]) json_object_set_new(values, "model", json_pack("{s:s}", "preset", v->model));
  if (network_alone) return values;
  if (v->samples > 0)
    json_object_set_new(values, "data", json_pack("{s:I}", "samples", (json_int_t)v->samples));
  if (v->bucket_bytes > 0)
    json_object_set_new(json_object_get(values, "parallel"), "bucket_bytes", json_integer(v->bucket_bytes));
  return values;
}

/* `v` NULL: as it was given. */
static ls_status_t load(const ls_bench_sweep_t *b, ls_ctx_t *ctx, const ls_bench_variant_t *v,
                        bool network_alone, ls_config_t **config) {
  ls_config_source_t source = b->source;
  json_t *values = v ? values_of(v, network_alone) : NULL;
  char *text = values ? json_dumps(values, 0) : NULL;
  json_decref(values);
  if (v && !text) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for a variant's configuration");
  source.over = text;
  source.over_name = over_name;
  ls_status_t status = ls_config_read(ctx, &source, b->sets, b->set_count, config);
  free(text);
  return status;
}

ls_status_t ls_bench_variant_load(const ls_bench_sweep_t *b, ls_ctx_t *ctx, const ls_bench_variant_t *v,
                                  ls_config_t **config) {
  return load(b, ctx, v, false, config);
}

/* Fails if no configuration knows the word; the message names the flag. */
static ls_status_t check_word(const ls_bench_sweep_t *b, ls_ctx_t *ctx, ls_bench_list_t list,
                              const char *word, const char *const *names) {
  char all[LS_NAMES_TEXT_BYTES], nearest[LS_NAMES_TEXT_BYTES];
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], word) == 0) return LS_OK;
  return ls_fail(ctx, LS_ERR_CONFIG, "%s: `%s` is not one of %s%s", b->list[list].flag, LS_SHOWN(word),
                 ls_names_text(names, all), ls_nearest_text("", word, names, nearest));
}

static ls_status_t check_strategy(const ls_bench_sweep_t *b, const char *word) {
  const char *names[LS_STRATEGY_MAX + 2] = {NULL};
  int count = 0;
  for (; ls_strategies[count]; count++)
    names[count] = ls_strategies[count]->name;
  names[count] = "auto";
  return check_word(b, b->ctx, LS_BENCH_STRATEGIES, word, names);
}

/* The refusal of a configuration, without the place of a value that the caller did not write. */
static void refuse(ls_bench_variant_t *v, const char *said) {
  const char *place = strstr(said, ": ");
  if (strncmp(said, over_name, sizeof over_name - 1) == 0 && place) said = place + 2;
  snprintf(v->refused, sizeof v->refused, "%.250s", said);
  ls_bench_one_line(v->refused);
}

/* Finds errors before anything runs. A strategy or a network that does not exist is an error in the lists. A combination
 * that the configuration refuses (a precision, fewer samples than ranks, ranks that do not divide the shards), or more
 * devices than there are, is the variant's own failure: the others are measured. */
static ls_status_t check_variant(ls_bench_sweep_t *b, ls_bench_variant_t *v) {
  ls_config_t *config;
  ls_status_t status = check_strategy(b, v->strategy);
  if (status == LS_OK && v->model[0])
    status = check_word(b, b->ctx, LS_BENCH_MODELS, v->model, ls_preset_names);
  if (status != LS_OK) return status;
  if (b->devices > 0 && v->ranks > b->devices)
    snprintf(v->refused, sizeof v->refused, "needs %d device%s, this machine has %d", v->ranks,
             LS_PLURAL(v->ranks), b->devices);
  ls_ctx_t *silent = ls_ctx_create(NULL, NULL);
  if (!silent) return ls_fail(b->ctx, LS_ERR_MEMORY, "out of memory for a context");
  status = check_word(b, silent, LS_BENCH_PRECISIONS, v->precision, ls_math_names);
  const bool named = status == LS_OK;
  if (named) status = load(b, silent, v, false, &config);
  if (status == LS_OK) {
    char name[32], *path = NULL;
    v->file = b->files++;
    snprintf(name, sizeof name, "variant-%d.json", v->file);
    status = ls_bench_config_write(b, config, name, &path);
    ls_free(path);
    ls_config_destroy(config);
  } else {
    refuse(v, ls_ctx_error(silent));
    status = named ? load(b, b->ctx, v, true, &config) : LS_OK;
    if (named && status == LS_OK) ls_config_destroy(config);
  }
  ls_ctx_destroy(silent);
  return status;
}

ls_status_t ls_bench_variant_add(ls_bench_sweep_t *b, const ls_bench_variant_t *wanted) {
  if (b->variant_count == LS_BENCH_VARIANT_MAX)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT, "more than %d variants; shorten the lists", LS_BENCH_VARIANT_MAX);
  ls_bench_variant_t *v = &b->variant[b->variant_count];
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

json_t *ls_bench_variant_json(const ls_bench_variant_t *v) {
  json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:i, s:s, s:s}", "name", v->name, "series", v->series, "key",
                           (json_int_t)v->key, "global_batch", (json_int_t)v->batch, "ranks", v->ranks,
                           "strategy", v->strategy, "precision", v->precision);
  if (v->model[0]) json_object_set_new(json, "model", json_string(v->model));
  if (v->peer) json_object_set_new(json, "peer_access", json_string(v->peer));
  if (v->refused[0]) {
    json_object_set_new(json, "failed", json_string(v->refused));
    json_object_set_new(json, "repetitions", json_array());
  }
  return json;
}

/* ---- combinations ---- */

/* single runs on one rank; the others on several, and on one only where single is not in the list. */
static bool sensible(const ls_list_t *strategies, int at, int64_t ranks) {
  const ls_strategy_t *strategy = ls_strategy_find(strategies->word[at]);
  if (!strategy || ranks > 1) return !strategy || strategy->distributed;
  if (!strategy->distributed) return true;
  for (int i = 0; i < strategies->count; i++) {
    const ls_strategy_t *other = ls_strategy_find(strategies->word[i]);
    if (other && !other->distributed) return false;
  }
  return true;
}

/* One network's batch. Peer access concerns several GPUs only. */
static ls_status_t combine(ls_bench_sweep_t *b, const char *model, int64_t batch, const ls_list_t *l) {
  const ls_list_t *precisions = &l[LS_BENCH_PRECISIONS], *ranks = &l[LS_BENCH_RANKS],
                  *strategies = &l[LS_BENCH_STRATEGIES], *peers = &l[LS_BENCH_PEER];
  for (int p = 0; p < precisions->count; p++)
    for (int r = 0; r < ranks->count; r++)
      for (int s = 0; s < strategies->count; s++) {
        if (ranks->number[r] > 65536)
          return ls_fail(b->ctx, LS_ERR_ARGUMENT, "%s: %s are too many ranks", b->list[LS_BENCH_RANKS].flag,
                         ranks->word[r]);
        if (!sensible(strategies, s, ranks->number[r])) continue;
        ls_bench_variant_t v = {.key = batch, .ranks = (int)ranks->number[r]};
        snprintf(v.model, sizeof v.model, "%s", model);
        snprintf(v.strategy, sizeof v.strategy, "%s", strategies->word[s]);
        snprintf(v.precision, sizeof v.precision, "%s", precisions->word[p]);
        const bool choice = v.ranks > 1 && peers->count > 0 && !b->host;
        for (int k = 0; k < (choice ? peers->count : 1); k++) {
          if (choice) v.peer = strcmp(peers->word[k], "on") ? "off" : "on";
          ls_status_t status = ls_bench_variant_add(b, &v);
          if (status != LS_OK) return status;
        }
      }
  return LS_OK;
}

/* "NAME" or "NAME=8/16/32": a network with the batches of the whole sweep, or with its own. */
static ls_status_t combine_model(ls_bench_sweep_t *b, char *entry, const ls_list_t *l) {
  const char *flag = b->list[LS_BENCH_MODELS].flag;
  ls_list_t batches = l[LS_BENCH_BATCHES];
  char *equals = strchr(entry, '=');
  ls_status_t status = LS_OK;
  if (equals) {
    *equals = '\0';
    for (char *c = equals + 1; *c; c++)
      if (*c == '/') *c = ',';
    status = ls_list_read(b->ctx, flag, equals + 1, true, &batches);
  }
  if (status == LS_OK && (!*entry || strlen(entry) >= LS_LIST_WORD_BYTES))
    status = ls_fail(b->ctx, LS_ERR_ARGUMENT, "%s: \"%s\" is no name of a preset", flag, entry);
  for (int i = 0; i < batches.count && status == LS_OK; i++)
    status = combine(b, entry, batches.number[i], l);
  return status;
}

static ls_status_t combine_models(ls_bench_sweep_t *b, const char *models, const ls_list_t *l) {
  ls_status_t status = LS_OK;
  for (int i = 0; !models && i < l[LS_BENCH_BATCHES].count && status == LS_OK; i++)
    status = combine(b, "", l[LS_BENCH_BATCHES].number[i], l);
  char *copy = models ? ls_strdup(b->ctx, models) : NULL, *state = NULL;
  if (models && !copy) return LS_ERR_MEMORY;
  for (char *entry = copy ? strtok_r(copy, ",", &state) : NULL; entry && status == LS_OK;
       entry = strtok_r(NULL, ",", &state))
    status = combine_model(b, entry, l);
  ls_free(copy);
  if (status == LS_OK && b->variant_count == 0)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT, "the lists give no variant that can run");
  bool runs = false;
  for (int i = 0; i < b->variant_count; i++)
    runs |= !b->variant[i].refused[0];
  if (status == LS_OK && !runs)
    return ls_fail(b->ctx, LS_ERR_CONFIG, "no variant can be measured: %s", b->variant[0].refused);
  return status;
}

/* ---- the lists ---- */

/* Entries on and off. The backend must be known, because only GPUs have the choice. */
static ls_status_t read_peers(ls_bench_sweep_t *b, const char *text, const char *backend_name,
                              ls_list_t *peers) {
  const ls_backend_t *backend;
  const char *flag = b->list[LS_BENCH_PEER].flag;
  *peers = (ls_list_t){.count = 0};
  if (!text) return LS_OK;
  ls_status_t status = ls_list_read(b->ctx, flag, text, false, peers);
  for (int i = 0; i < peers->count && status == LS_OK; i++)
    if (strcmp(peers->word[i], "on") != 0 && strcmp(peers->word[i], "off") != 0)
      status = ls_fail(b->ctx, LS_ERR_ARGUMENT, "%s takes on, off or both, not \"%s\"", flag, peers->word[i]);
  if (status == LS_OK) status = ls_backend_find(b->ctx, backend_name, &backend);
  if (status != LS_OK) return status;
  b->host = backend->host_processors;
  if (!b->host) b->devices = backend->device->count(b->ctx);
  if (b->host)
    ls_bench_say(b, "backend %s: its ranks share memory, peer access is no choice: %s is left out",
                 backend->name, flag);
  return LS_OK;
}

static const char *models_of(const ls_bench_sweep_t *b) {
  const char *models = b->list[LS_BENCH_MODELS].text;
  if (models || !b->study) return models;
  if (b->list[LS_BENCH_BATCHES].text) return study_word(b, "networks");
  const char *of_host = b->host ? study_word(b, "host") : NULL;
  return of_host ? of_host : study_word(b, "models");
}

/* Lists that were not given, from the configuration. */
static ls_status_t read_lists(ls_bench_sweep_t *b, const ls_config_t *config, ls_list_t l[LS_BENCH_LISTS]) {
  const int64_t own_ranks = config->parallel.ranks;
  const ls_strategy_t *own = ls_strategy_find(config->parallel.strategy);
  char usual[LS_BENCH_LISTS][64];
  snprintf(usual[LS_BENCH_BATCHES], 64, "%lld", (long long)config->train.batch);
  snprintf(usual[LS_BENCH_RANKS], 64, own_ranks > 1 || b->study ? "1,%lld" : "%lld",
           own_ranks > 1 || !b->study ? (long long)own_ranks : 2LL);
  snprintf(usual[LS_BENCH_STRATEGIES], 64, "%s,%s", ls_config_usual(config, 1)->name,
           own && own->distributed ? own->name : ls_config_usual(config, 2)->name);
  snprintf(usual[LS_BENCH_PRECISIONS], 64, "%s", ls_math_names[config->train.precision]);
  ls_status_t status = LS_OK;
  for (int i = LS_BENCH_BATCHES; i <= LS_BENCH_PRECISIONS && status == LS_OK; i++)
    status = ls_list_read(b->ctx, b->list[i].flag, b->list[i].text ? b->list[i].text : usual[i],
                          i <= LS_BENCH_RANKS, &l[i]);
  return status;
}

ls_status_t ls_bench_sweep(ls_bench_sweep_t *b) {
  ls_config_t *config;
  ls_list_t l[LS_BENCH_LISTS];
  const char *peers = b->list[LS_BENCH_PEER].text;
  ls_status_t status = load(b, b->ctx, NULL, false, &config);
  if (status != LS_OK) return status;
  snprintf(b->network, sizeof b->network, "%s", config->model.preset ? config->model.preset : "");
  b->seed = config->train.seed;
  if (b->study && !peers) peers = study_word(b, "peer");
  status = read_peers(b, peers, config->parallel.backend, &l[LS_BENCH_PEER]);
  if (status == LS_OK) status = read_lists(b, config, l);
  ls_config_destroy(config);
  if (status != LS_OK) return status;
  const char *models = models_of(b);
  b->shown.model = models != NULL;
  b->shown.precision = l[LS_BENCH_PRECISIONS].count > 1;
  b->variant = ls_alloc_array(b->ctx, LS_BENCH_VARIANT_MAX, sizeof *b->variant);
  return b->variant ? combine_models(b, models, l) : LS_ERR_MEMORY;
}
