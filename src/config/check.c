/* The rules between sections, which no single row can express. */
#include "config/parts.h"

#include "comm/transport.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A check of one configuration. Every broken rule is reported; status is the first one's. */
typedef struct {
  ls_ctx_t *ctx;
  ls_config_t *config;
  ls_status_t status;
} check_t;

/* The place of an option, or of the section nearest to it that is written; else the file. */
static ls_place_t place_of(const ls_config_t *config, const char *option) {
  const ls_doc_node_t *node = config->doc.root;
  ls_place_t place = {.file = config->doc.file};
  char names[96], *rest = names;
  snprintf(names, sizeof names, "%s", option);
  for (char *name; (name = strtok_r(rest, ".", &rest)) && (node = ls_doc_get(node, name));)
    place = node->kind == LS_DOC_MAP ? node->key_place : node->place;
  return place;
}

/* A broken rule, at an option ("train.batch") or a section. */
static void __attribute__((format(printf, 3, 4)))
refuse(check_t *c, const char *at, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const ls_place_t place = place_of(c->config, at);
  c->status = ls_config_first(c->status, ls_fail_at(c->ctx, LS_ERR_CONFIG, &place, "%s", text));
}

/* A string option whose values are known only here: unknown ones are reported at the value. */
static void check_name(check_t *c, const char *option, const char *value, const char *const *names) {
  char list[LS_NAMES_TEXT_BYTES], nearest[LS_NAMES_TEXT_BYTES];
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], value) == 0) return;
  refuse(c, option, "%s: `%s` is not one of %s%s", option, LS_SHOWN(value), ls_names_text(names, list),
         ls_nearest_text(option, value, names, nearest));
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
static void check_reproducible(check_t *c, bool ranks_refused) {
  const ls_parallel_config_t *parallel = &c->config->parallel;
  const long long shards = parallel->shards, ranks = parallel->ranks;
  if (!parallel->reproducible) return;
  if (shards & (shards - 1))
    refuse(c, "parallel.shards", "parallel.shards must be a power of two, such as 4, 8 or 16, not %lld",
           shards);
  else if (shards % ranks != 0 && !parallel->automatic && !ranks_refused)
    refuse(c, "parallel.ranks",
           "parallel.reproducible: %lld shards cannot be spread evenly over %lld ranks; use a power of two "
           "up to %lld, "
           "or raise parallel.shards",
           shards, ranks, shards);
  if (parallel->wire)
    refuse(c, "parallel.wire",
           "parallel.reproducible: one rank alone rounds nothing on the wire, so several have its bits with "
           "parallel.wire: f32 only");
  if (c->config->train.accumulate > 1)
    refuse(c, "train.accumulate",
           "parallel.reproducible computes the step in parallel.shards micro-batches already; leave "
           "train.accumulate "
           "out and raise parallel.shards (%lld) where memory is short",
           shards);
}

/* Another micro-batch begins from a checkpoint, and a reproducible step has none of its own. */
static void check_safety(check_t *c) {
  const ls_safety_config_t *safety = &c->config->safety;
  const ls_doc_node_t *row = ls_doc_get(c->config->doc.root, "safety");
  row = row ? row->child : NULL;
  for (int i = 0; i < safety->count && row; i++, row = row->next) {
    const char *why =
        safety->rung[i].act != LS_SAFETY_SMALLER ? NULL
        : !c->config->checkpoint.dir ? "saves and goes on from there: it needs train.checkpoint.dir"
        : c->config->parallel.reproducible
            ? "changes how a step's sums are cut; with parallel.reproducible that would be other bits: raise "
              "parallel.shards instead, for the whole run"
            : NULL;
    if (!why) continue;
    c->status = ls_config_first(
        c->status, ls_fail_at(c->ctx, LS_ERR_CONFIG, &row->place, "safety: act: micro_batch %s", why));
    return;
  }
}

ls_status_t ls_config_safety_check(ls_ctx_t *ctx, const ls_config_t *config) {
  if (config->monitor.dir || config->safety.count == 0) return LS_OK;
  const ls_place_t place = place_of(config, "safety");
  return ls_fail_at(
      ctx, LS_ERR_CONFIG, &place,
      "safety judges the run's records: it needs monitor.dir (--set monitor.dir=DIR), or lockstep "
      "train --supervise, which has one");
}

ls_status_t ls_config_least_check(ls_ctx_t *ctx, const ls_config_t *config) {
  const long long least = config->supervise_ranks.least, ranks = config->parallel.ranks;
  if (config->parallel.automatic || least <= ranks) return LS_OK;
  const ls_place_t place = place_of(config, "supervise.ranks.least");
  return ls_fail_at(
      ctx, LS_ERR_CONFIG, &place,
      "supervise.ranks.least: the run has %lld rank%s (parallel.ranks, --ranks); %lld cannot be left: "
      "write at most %lld, or start more ranks",
      ranks, LS_PLURAL(ranks), least, ranks);
}

/* The figures of evaluations, and with them the sums that the model's graph of an evaluation makes. */
static void check_metrics(check_t *c) {
  ls_train_config_t *t = &c->config->train;
  ls_model_config_t *model = &c->config->model;
  const char *names[LS_SCORES_MAX + 1];
  char list[LS_NAMES_TEXT_BYTES], nearest[LS_NAMES_TEXT_BYTES];
  ls_score_names(model, names);
  model->scores = 0;
  if (t->metrics.count > LS_SCORES_MAX) {
    refuse(c, "train.metrics", "train.metrics: %d names, at most %d are possible", t->metrics.count,
           LS_SCORES_MAX);
    return;
  }
  for (int i = 0; i <= t->metrics.count; i++) {
    const bool best = i == t->metrics.count;
    const char *name = best ? t->best : t->metrics.v[i], *option = best ? "train.best" : "train.metrics";
    const int found = ls_score_find(model, name);
    if (found < 0) {
      refuse(c, option, "%s: `%s` is none of the figures that loss: %s has: %s%s", option, LS_SHOWN(name),
             ls_loss_names[model->loss], ls_names_text(names, list),
             ls_nearest_text("train.metrics", name, names, nearest));
      return;
    }
    *(best ? &t->figure : &t->metric[i]) = found;
    model->scores |= 1u << found;
  }
}

/* A pattern that no parameter's name matches is a mistake. */
static bool check_patterns(check_t *c, const char *at, const char *option, const ls_strings_t *patterns) {
  for (int i = 0; i < patterns->count; i++) {
    const char *pattern = patterns->v[i];
    if (ls_model_has_param(&c->config->model, pattern + (pattern[0] == '!'))) continue;
    refuse(c, at, "%s: no parameter has a name like `%s`; lockstep inspect lists the parameters", option,
           LS_SHOWN(pattern));
    return false;
  }
  return true;
}

static void check_parts(check_t *c) {
  const ls_model_config_t *model = &c->config->model;
  const ls_optim_config_t *optimizer = &c->config->optimizer;
  if (check_patterns(c, "model.freeze", "model.freeze", &model->freeze) && model->freeze.count > 0 &&
      !ls_model_trains(model))
    refuse(c, "model.freeze",
           "model.freeze: every parameter is frozen, so there is nothing to train; leave one out of the "
           "patterns, or "
           "add one with `!` in front (\"!layers.2.*\")");
  for (int i = 0; i < optimizer->group_count; i++)
    check_patterns(c, "train.optimizer.groups", "train.optimizer.groups.match", &optimizer->group[i].match);
}

/* Only host backends are always there to be asked. Opening a device checks the others, and the one that "auto" means
 * (ls_backend_check_math). */
static void check_precision(check_t *c) {
  const ls_math_t math = (ls_math_t)c->config->train.precision;
  const ls_backend_t *backend = ls_backend_host(c->config->parallel.backend);
  if (backend && ls_backend_check_math(NULL, backend, math) != LS_OK)
    refuse(c, "train.precision",
           "train.precision is %s, which backend %s does not have: use parallel.backend: cuda, or "
           "train.precision: fp32",
           ls_math_names[math], backend->name);
}

static bool is_assigned(const ls_doc_node_t *node) {
  return node && node->place.file && strcmp(node->place.file, LS_DOC_SET_FILE) == 0;
}

/* epochs and steps are two ways to give the run's length: a value in --set replaces the other one in the
 * file. */
static void choose_length(check_t *c) {
  ls_train_config_t *t = &c->config->train;
  const ls_doc_node_t *train = ls_doc_get(c->config->doc.root, "train"),
                      *epochs = ls_doc_get(train, "epochs"), *steps = ls_doc_get(train, "steps");
  if (t->epochs == 0 && t->steps == 0) t->epochs = 1;
  if (t->epochs == 0 || t->steps == 0) return;
  if (is_assigned(epochs) == is_assigned(steps)) {
    refuse(c, "train.steps", "give train.epochs or train.steps, not both: train.epochs is at %s:%d:%d",
           LS_SHOWN(epochs->place.file), epochs->place.line, epochs->place.column);
    return;
  }
  *(is_assigned(steps) ? &t->epochs : &t->steps) = 0;
  t->replaced = is_assigned(steps) ? &epochs->place : &steps->place;
}

/* The strategy that a name, none or "auto" stands for, and the other names of section parallel. */
static void check_names(check_t *c, const char *usual) {
  ls_parallel_config_t *parallel = &c->config->parallel;
  const char *strategies[NAMES_MAX], *transports[NAMES_MAX];
  const bool written = parallel->strategy != NULL;
  names_of(ls_strategies, strategies);
  names_of(ls_transports, transports);
  if (written) check_name(c, "parallel.strategy", parallel->strategy, strategies);
  parallel->automatic = written && strcmp(parallel->strategy, "auto") == 0;
  parallel->usual = parallel->automatic || !written;
  if (parallel->usual) parallel->strategy = usual;
  check_name(c, "parallel.backend", parallel->backend, ls_backend_names);
  check_name(c, "parallel.transport", parallel->transport, transports);
}

ls_status_t ls_config_check(ls_ctx_t *ctx, ls_config_t *config) {
  check_t c = {.ctx = ctx, .config = config};
  const long long ranks = config->parallel.ranks, batch = config->train.batch, steps = config->train.steps;
  const char *usual = ls_config_usual(config, ranks)->name;
  int64_t samples;
  choose_length(&c);
  if (__builtin_mul_overflow(config->train.steps, config->train.batch, &samples))
    refuse(&c, "train", "%lld steps of %lld samples are more than can be counted", steps, batch);
  check_names(&c, usual);
  check_precision(&c);
  if (config->model.layer_count > 0) check_metrics(&c);
  if (config->model.layer_count > 0) check_parts(&c);
  check_safety(&c);
  const ls_strategy_t *row = ls_strategy_find(config->parallel.strategy);
  /* Names one of the rules that this number of ranks breaks. */
  const bool alone = row && !row->distributed && ranks > 1, too_many = !alone && batch < ranks;
  if (alone)
    refuse(&c, "parallel.strategy",
           "parallel.strategy is %s, which uses one rank, but %lld are asked for (parallel.ranks, --ranks or "
           "the "
           "launcher): leave the strategy out, write %s, or use one rank",
           row->name, ranks, usual);
  const int shard = config->parallel.options.shard;
  if (row && row->distributed && shard != LS_SHARD_AUTO && row->shards != (shard != LS_SHARD_NONE))
    refuse(&c, "parallel.shard", "strategy %s %s: leave parallel.strategy out, or parallel.shard", row->name,
           row->shards ? "shards the optimizer's state" : "gives every rank a copy of it");
  const ls_place_t optimizer = place_of(config, "train.optimizer"), prune = place_of(config, "train.prune");
  c.status = ls_config_first(c.status, ls_optim_check(ctx, &optimizer, &config->optimizer));
  c.status = ls_config_first(c.status, ls_prune_check(ctx, &prune, &config->prune));
  if (too_many)
    refuse(&c, "train", "the global batch (%lld) is smaller than the number of ranks (%lld)", batch, ranks);
  check_reproducible(&c, alone || too_many);
  return c.status;
}
