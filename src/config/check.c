/* The rules between sections, which no single row can express. */
#include "config/parts.h"

#include "comm/transport.h"

#include <assert.h>
#include <string.h>

static const ls_place_t nowhere = {0};

/* Of an option, or, where it is not written, another place. */
static const ls_place_t *place_of(const ls_doc_node_t *section, const char *key,
                                  const ls_place_t *otherwise) {
  const ls_doc_node_t *node = ls_doc_get(section, key);
  return node ? &node->place : otherwise;
}

/* A string option whose values are known only here: unknown ones are reported at the value. */
static ls_status_t check_name(ls_ctx_t *ctx, const ls_doc_node_t *section, const char *key, const char *value,
                              const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], value) == 0) return LS_OK;
  char list[LS_NAMES_TEXT_BYTES], nearest[LS_NAMES_TEXT_BYTES], where[64];
  snprintf(where, sizeof where, "parallel.%s", key);
  return ls_fail_at(ctx, LS_ERR_CONFIG, place_of(section, key, &nowhere),
                    "parallel.%s: `%s` is not one of %s%s", key, LS_SHOWN(value), ls_names_text(names, list),
                    ls_nearest_text(where, value, names, nearest));
}

/* The names of rows, which begin with their name, and the word that leaves the choice open. */
enum { NAMES_MAX = 32 };
static_assert(LS_STRATEGY_MAX + 2 <= NAMES_MAX && LS_TRANSPORT_MAX + 2 <= NAMES_MAX, "room for all names");
static void names_of(const void *rows, const char *names[NAMES_MAX]) {
  const char *const *const *row = rows;
  int count = 0;
  for (; row[count]; count++)
    names[count] = *row[count];
  names[count++] = "auto";
  names[count] = NULL;
}

/* The rules of parallel.reproducible. If the planner or a launcher decides the number of ranks, it is known
 * only later. */
static ls_status_t check_reproducible(ls_ctx_t *ctx, const ls_doc_t *doc, const ls_config_t *config,
                                      bool ranks_refused) {
  const ls_doc_node_t *train = ls_doc_get(doc->root, "train"), *parallel = ls_doc_get(doc->root, "parallel");
  const ls_place_t whole = {.file = doc->file};
  const ls_place_t *parallel_place = parallel ? &parallel->key_place : &whole;
  long long shards = config->parallel.shards, ranks = config->parallel.ranks;
  ls_status_t status = LS_OK;
  if (!config->parallel.reproducible) return LS_OK;
  if (shards & (shards - 1))
    status = ls_fail_at(ctx, LS_ERR_CONFIG, place_of(parallel, "shards", parallel_place),
                        "parallel.shards must be a power of two, such as 4, 8 or 16, not %lld", shards);
  else if (shards % ranks != 0 && !config->parallel.automatic && !ranks_refused)
    status = ls_fail_at(
        ctx, LS_ERR_CONFIG, place_of(parallel, "ranks", parallel_place),
        "parallel.reproducible: %lld shards cannot be spread evenly over %lld ranks; use a power of "
        "two up to %lld, or raise parallel.shards",
        shards, ranks, shards);
  if (config->parallel.wire)
    status = ls_config_first(
        status, ls_fail_at(ctx, LS_ERR_CONFIG, place_of(parallel, "wire", parallel_place),
                           "parallel.reproducible: one rank alone rounds nothing on the wire, so several "
                           "have its bits with parallel.wire: f32 only"));
  if (config->train.accumulate > 1)
    status = ls_config_first(
        status, ls_fail_at(ctx, LS_ERR_CONFIG, place_of(train, "accumulate", &whole),
                           "parallel.reproducible computes the step in parallel.shards micro-batches "
                           "already; leave train.accumulate out and raise parallel.shards (%lld) "
                           "where memory is short",
                           shards));
  return status;
}

/* Another micro-batch begins from a checkpoint, and a reproducible step has none of its own. */
static ls_status_t check_safety(ls_ctx_t *ctx, const ls_doc_t *doc, const ls_config_t *config) {
  const ls_doc_node_t *row = ls_doc_get(doc->root, "safety");
  row = row ? row->child : NULL;
  for (int i = 0; i < config->safety.count && row; i++, row = row->next) {
    if (config->safety.rung[i].act != LS_SAFETY_SMALLER) continue;
    if (!config->checkpoint.dir)
      return ls_fail_at(
          ctx, LS_ERR_CONFIG, &row->place,
          "safety: act: micro_batch saves and goes on from there: it needs train.checkpoint.dir");
    if (config->parallel.reproducible)
      return ls_fail_at(
          ctx, LS_ERR_CONFIG, &row->place,
          "safety: act: micro_batch changes how a step's sums are cut; with parallel.reproducible "
          "that would be other bits: raise parallel.shards instead, for the whole run");
  }
  return LS_OK;
}

ls_status_t ls_config_safety_check(ls_ctx_t *ctx, const ls_config_t *config) {
  if (config->monitor.dir || config->safety.count == 0) return LS_OK;
  return ls_fail_at(
      ctx, LS_ERR_CONFIG, place_of(config->doc.root, "safety", &nowhere),
      "safety judges the run's records: it needs monitor.dir (--set monitor.dir=DIR), or lockstep "
      "train --supervise, which has one");
}

ls_status_t ls_config_least_check(ls_ctx_t *ctx, const ls_config_t *config) {
  const long long least = config->supervise_ranks.least, ranks = config->parallel.ranks;
  if (config->parallel.automatic || least <= ranks) return LS_OK;
  const ls_doc_node_t *section = ls_doc_get(ls_doc_get(config->doc.root, "supervise"), "ranks");
  return ls_fail_at(
      ctx, LS_ERR_CONFIG, place_of(section, "least", &nowhere),
      "supervise.ranks.least: the run has %lld rank%s (parallel.ranks, --ranks); %lld cannot be left: "
      "write at most %lld, or start more ranks",
      ranks, LS_PLURAL(ranks), least, ranks);
}

/* The figures of evaluations, and with them the sums that the model's graph of an evaluation makes. */
static ls_status_t check_metrics(ls_ctx_t *ctx, const ls_doc_t *doc, const ls_doc_node_t *train,
                                 ls_config_t *config) {
  const ls_place_t whole = {.file = doc->file};
  ls_train_config_t *t = &config->train;
  const char *names[LS_SCORES_MAX + 1];
  char list[LS_NAMES_TEXT_BYTES], nearest[LS_NAMES_TEXT_BYTES];
  ls_score_names(&config->model, names);
  config->model.scores = 0;
  if (t->metrics.count > LS_SCORES_MAX)
    return ls_fail_at(ctx, LS_ERR_CONFIG, place_of(train, "metrics", &whole),
                      "train.metrics: %d names, at most %d are possible", t->metrics.count, LS_SCORES_MAX);
  for (int i = 0; i <= t->metrics.count; i++) {
    bool best = i == t->metrics.count;
    const char *name = best ? t->best : t->metrics.v[i], *key = best ? "best" : "metrics";
    int found = ls_score_find(&config->model, name);
    if (found < 0)
      return ls_fail_at(ctx, LS_ERR_CONFIG, place_of(train, key, &whole),
                        "train.%s: `%s` is none of the figures that loss: %s has: %s%s", key, LS_SHOWN(name),
                        ls_loss_names[config->model.loss], ls_names_text(names, list),
                        ls_nearest_text("train.metrics", name, names, nearest));
    *(best ? &t->figure : &t->metric[i]) = found;
    config->model.scores |= 1u << found;
  }
  return LS_OK;
}

/* A pattern that no parameter's name matches is a mistake. */
static ls_status_t check_patterns(ls_ctx_t *ctx, const ls_place_t *place, const char *option,
                                  const ls_model_config_t *model, const ls_strings_t *patterns) {
  for (int i = 0; i < patterns->count; i++) {
    const char *pattern = patterns->v[i];
    if (!ls_model_has_param(model, pattern + (pattern[0] == '!')))
      return ls_fail_at(ctx, LS_ERR_CONFIG, place,
                        "%s: no parameter has a name like `%s`; lockstep inspect lists the parameters",
                        option, LS_SHOWN(pattern));
  }
  return LS_OK;
}

static ls_status_t check_parts(ls_ctx_t *ctx, const ls_doc_t *doc, const ls_doc_node_t *train,
                               const ls_config_t *config) {
  const ls_place_t whole = {.file = doc->file};
  const ls_doc_node_t *optimizer = ls_doc_get(train, "optimizer");
  ls_status_t status = check_patterns(ctx, place_of(ls_doc_get(doc->root, "model"), "freeze", &whole),
                                      "model.freeze", &config->model, &config->model.freeze);
  if (status == LS_OK && config->model.freeze.count > 0 && !ls_model_trains(&config->model))
    status =
        ls_fail_at(ctx, LS_ERR_CONFIG, place_of(ls_doc_get(doc->root, "model"), "freeze", &whole),
                   "model.freeze: every parameter is frozen, so there is nothing to train; leave one out of "
                   "the patterns, or add one with `!` in front (\"!layers.2.*\")");
  for (int i = 0; i < config->optimizer.group_count; i++)
    status = ls_config_first(status, check_patterns(ctx, place_of(optimizer, "groups", &whole),
                                                    "train.optimizer.groups.match", &config->model,
                                                    &config->optimizer.group[i].match));
  return status;
}

/* What a backend that is always here cannot do; which one "auto" is, and what a module has, shows where a device
 * is opened (ls_backend_check_math). */
static ls_status_t check_precision(ls_ctx_t *ctx, const ls_doc_node_t *train, const ls_config_t *config) {
  const ls_backend_t *backend = ls_backend_host(config->parallel.backend);
  if (!backend || ls_backend_check_math(NULL, backend, (ls_math_t)config->train.precision) == LS_OK)
    return LS_OK;
  return ls_fail_at(ctx, LS_ERR_CONFIG, place_of(train, "precision", &nowhere),
                    "train.precision is %s, which backend %s does not have: use parallel.backend: cuda, or "
                    "train.precision: fp32",
                    ls_math_names[config->train.precision], backend->name);
}

static bool is_assigned(const ls_doc_node_t *node) {
  return node && node->place.file && strcmp(node->place.file, LS_DOC_SET_FILE) == 0;
}

/* epochs and steps are two ways to give the run's length: a value in --set replaces the other one in the
 * file. */
static ls_status_t choose_length(ls_ctx_t *ctx, const ls_doc_node_t *train, ls_train_config_t *config) {
  const ls_doc_node_t *epochs = ls_doc_get(train, "epochs"), *steps = ls_doc_get(train, "steps");
  if (config->epochs == 0 || config->steps == 0) return LS_OK;
  if (is_assigned(epochs) == is_assigned(steps))
    return ls_fail_at(ctx, LS_ERR_CONFIG, &steps->place,
                      "give train.epochs or train.steps, not both: train.epochs is at %s:%d:%d",
                      LS_SHOWN(epochs->place.file), epochs->place.line, epochs->place.column);
  if (is_assigned(steps))
    config->epochs = 0;
  else
    config->steps = 0;
  config->replaced = is_assigned(steps) ? &epochs->place : &steps->place;
  return LS_OK;
}

ls_status_t ls_config_check(ls_ctx_t *ctx, const ls_doc_t *doc, ls_config_t *config) {
  const ls_doc_node_t *train = ls_doc_get(doc->root, "train"), *parallel = ls_doc_get(doc->root, "parallel");
  const ls_place_t whole = {.file = doc->file};
  const ls_place_t *train_place = train ? &train->key_place : &whole;
  ls_status_t status = choose_length(ctx, train, &config->train);
  if (config->train.epochs == 0 && config->train.steps == 0) config->train.epochs = 1;
  int64_t samples;
  if (__builtin_mul_overflow(config->train.steps, config->train.batch, &samples))
    status =
        ls_config_first(status, ls_fail_at(ctx, LS_ERR_CONFIG, train_place,
                                           "%lld steps of %lld samples are more than can be counted",
                                           (long long)config->train.steps, (long long)config->train.batch));
  const char *strategies[NAMES_MAX], *transports[NAMES_MAX];
  names_of(ls_strategies, strategies);
  names_of(ls_transports, transports);
  const char *strategy = config->parallel.strategy,
             *usual = ls_strategy_default(config->parallel.ranks)->name;
  const bool written = strategy != NULL;
  if (!written) strategy = usual;
  status = ls_config_first(status, check_name(ctx, parallel, "strategy", strategy, strategies));
  config->parallel.automatic = strcmp(strategy, "auto") == 0;
  if (config->parallel.automatic) strategy = usual;
  config->parallel.strategy = strategy;
  config->parallel.usual = config->parallel.automatic || !written;
  status = ls_config_first(status,
                           check_name(ctx, parallel, "backend", config->parallel.backend, ls_backend_names));
  status =
      ls_config_first(status, check_name(ctx, parallel, "transport", config->parallel.transport, transports));
  status = ls_config_first(status, check_precision(ctx, train, config));
  if (config->model.layer_count > 0) status = ls_config_first(status, check_metrics(ctx, doc, train, config));
  if (config->model.layer_count > 0) status = ls_config_first(status, check_parts(ctx, doc, train, config));
  status = ls_config_first(status, check_safety(ctx, doc, config));
  const ls_strategy_t *row = ls_strategy_find(strategy);
  /* Names one of the rules that this number of ranks breaks. */
  bool alone = row && !row->distributed && config->parallel.ranks > 1;
  bool too_many = !alone && config->train.batch < config->parallel.ranks;
  if (alone)
    status = ls_config_first(
        status,
        ls_fail_at(ctx, LS_ERR_CONFIG, place_of(parallel, "strategy", &whole),
                   "parallel.strategy is %s, which uses one rank, but %lld are asked for (parallel.ranks, "
                   "--ranks or the launcher): leave the strategy out, write %s, or use one rank",
                   strategy, (long long)config->parallel.ranks, usual));
  const ls_doc_node_t *optimizer = ls_doc_get(train, "optimizer");
  status = ls_config_first(
      status, ls_optim_check(ctx, optimizer ? &optimizer->key_place : &whole, &config->optimizer));
  const ls_doc_node_t *prune = ls_doc_get(train, "prune");
  status = ls_config_first(status, ls_prune_check(ctx, prune ? &prune->key_place : &whole, &config->prune));
  if (too_many)
    status = ls_config_first(status,
                             ls_fail_at(ctx, LS_ERR_CONFIG, train_place,
                                        "the global batch (%lld) is smaller than the number of ranks (%lld)",
                                        (long long)config->train.batch, (long long)config->parallel.ranks));
  return ls_config_first(status, check_reproducible(ctx, doc, config, alone || too_many));
}
