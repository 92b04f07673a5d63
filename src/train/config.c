/* Reading a configuration: one document, one section parser each, then the rules between sections. Every
 * error is reported before the call returns. */
#include "train/config.h"

#include "graph/ops/ops.h"
#include "strategy/strategy.h"

#include <string.h>

#define ROW(type_, struct_, field_, ...)                                                                     \
  { .name = #field_, .type = (type_), .offset = offsetof(struct_, field_), __VA_ARGS__ }

static const ls_option_t train_rows[] = {
    ROW(LS_OPT_INT, ls_train_config_t, batch, .unit = "samples", .min = 1, .max = 1e9, .initial = "128",
        .help = "Global batch: samples of one step over all ranks."),
    ROW(LS_OPT_INT, ls_train_config_t, epochs, .min = 0, .max = 1e9, .initial = "0",
        .help = "Passes over the training part; or give steps."),
    ROW(LS_OPT_INT, ls_train_config_t, steps, .min = 0, .max = 1e12, .initial = "0",
        .help = "Steps of the whole run; or give epochs."),
    ROW(LS_OPT_INT, ls_train_config_t, seed, .min = 0, .max = 9e15, .initial = "42",
        .help = "Seed of initial values, split, order and dropout."),
    ROW(LS_OPT_ENUM, ls_train_config_t, precision, .choices = ls_math_names, .initial = "fp32",
        .help =
            "fp32; or tf32: products of matrices on tensor cores, whose factors are rounded to 10 bits of "
            "mantissa. Only backend cuda has it; all that is stored and summed stays fp32."),
    ROW(LS_OPT_INT, ls_train_config_t, accumulate, .min = 1, .max = 1024, .initial = "1",
        .help = "Micro-batches that each rank's share of a step is computed in."),
    ROW(LS_OPT_FLOAT, ls_train_config_t, clip_norm, .min = 0, .max = 1e30, .initial = "0",
        .help = "Gradients are scaled down to this global norm; 0 switches it off."),
    ROW(LS_OPT_INT, ls_train_config_t, max_skipped, .min = 1, .max = 1e9, .initial = "10",
        .help = "The run stops after so many skipped (non-finite) steps in a row."),
    ROW(LS_OPT_INT, ls_train_config_t, evaluate_every, .unit = "epochs", .min = 0, .max = 1e9, .initial = "1",
        .help = "Evaluation on the validation part; 0 = only before and after the run."),
};
static const ls_section_t train_section = {"train", train_rows, LS_COUNT(train_rows), "The training run."};

static const ls_option_t checkpoint_rows[] = {
    ROW(LS_OPT_STRING, ls_checkpoint_config_t, dir, .optional = true,
        .help =
            "Directory of this run's checkpoints and its resolved configuration; absent: nothing is saved."),
    ROW(LS_OPT_INT, ls_checkpoint_config_t, every_steps, .unit = "steps", .min = 0, .max = 1e12,
        .initial = "0", .help = "Save every so many steps; 0 = only at the end."),
    ROW(LS_OPT_INT, ls_checkpoint_config_t, keep, .min = 1, .max = 1e6, .initial = "3",
        .help = "Newest checkpoints to keep; the best one by validation loss is kept too."),
};
static const ls_section_t checkpoint_section = {
    "train.checkpoint", checkpoint_rows, LS_COUNT(checkpoint_rows), "What is saved, where and how often."};

static const ls_option_t parallel_rows[] = {
    ROW(LS_OPT_STRING, ls_parallel_config_t, strategy, .initial = "single",
        .help =
            "How the step is spread over ranks: one of the strategies listed below, or auto: what lockstep "
            "plan chooses."),
    ROW(LS_OPT_INT, ls_parallel_config_t, ranks, .min = 1, .max = 65536, .initial = "1",
        .help = "Processes, one per device; started through mpirun unless a launcher already did."),
    ROW(LS_OPT_STRING, ls_parallel_config_t, backend, .initial = "auto",
        .help = "auto (cuda when present, else cpu), cpu, cuda, ref (plain C) or \"null\" (in quotes; "
                "computes nothing)."),
    ROW(LS_OPT_INT, ls_parallel_config_t, threads, .min = 0, .max = 4096, .initial = "0",
        .help = "Compute threads of each rank; 0 = cores of the node shared evenly by its ranks."),
    ROW(LS_OPT_INT, ls_parallel_config_t, bucket_bytes, .unit = "bytes", .min = 1, .max = 1e12,
        .initial = "4194304", .help = "Gradients are summed over ranks in pieces of at least this size."),
    ROW(LS_OPT_BOOL, ls_parallel_config_t, reproducible, .initial = "false",
        .help = "Any number of ranks and threads trains to the same bits: the batch is cut into shards, "
                "which are "
                "added up in one fixed order. Slower, and takes more memory."),
    ROW(LS_OPT_INT, ls_parallel_config_t, shards, .min = 1, .max = LS_TREE_PARTS_MAX, .initial = "8",
        .help = "Of a reproducible step: equal pieces of the global batch, a power of two, spread evenly "
                "over the "
                "ranks. Another number gives other bits."),
    ROW(LS_OPT_FLOAT, ls_parallel_config_t, deadline_s, .unit = "s", .min = 0.01, .max = 1e6, .initial = "60",
        .help = "A wait between ranks or for a device that takes longer ends the run."),
    ROW(LS_OPT_FLOAT, ls_parallel_config_t, predicted_us, .unit = "us", .min = 0, .max = 1e15, .initial = "0",
        .help = "Step time that a plan predicted, reported beside the measured one; strategy: auto sets it."),
};
static const ls_section_t parallel_section = {"parallel", parallel_rows, LS_COUNT(parallel_rows),
                                              "Devices and strategy."};

#define PRICE(field_, help_)                                                                                 \
  ROW(LS_OPT_FLOAT, ls_cost_config_t, field_, .min = 0, .max = 1e12, .initial = "0", .help = help_)
static const ls_option_t cost_rows[] = {
    ROW(LS_OPT_STRING, ls_cost_config_t, currency, .initial = "USD",
        .help = "Name of the currency of all prices."),
    PRICE(device_price, "What one more device costs to buy."),
    PRICE(device_hour, "Rent of one device for an hour."),
    ROW(LS_OPT_FLOAT, ls_cost_config_t, power_w, .unit = "W", .min = 0, .max = 1e6, .initial = "0",
        .help = "Power that one device draws while it trains, its share of the machine included."),
    PRICE(price_kwh, "Price of a kilowatt hour."),
    PRICE(engineer_hour, "What an hour that somebody waits for a training is worth."),
    PRICE(overhead_month, "What running several devices costs every month beside energy."),
    ROW(LS_OPT_FLOAT, ls_cost_config_t, trainings_per_month, .min = 0, .max = 1e9, .initial = "0",
        .help = "Runs of this configuration in a month; 0 = cost of ownership is not computed."),
    ROW(LS_OPT_FLOAT, ls_cost_config_t, amortize_months, .unit = "months", .min = 1, .max = 1200,
        .initial = "24", .help = "Months over which a device is written off."),
    PRICE(link_price, "What a link between the devices twice as fast as today's costs."),
    PRICE(host_price, "What a host costs that brings inputs to the devices in no time."),
    PRICE(faster_device_price, "What replacing one device by a faster one costs."),
    ROW(LS_OPT_FLOAT, ls_cost_config_t, faster_device_speed, .min = 1, .max = 1000, .initial = "2",
        .help = "How many times as fast that device computes."),
};
static const ls_section_t cost_section = {"cost", cost_rows, LS_COUNT(cost_rows),
                                          "Prices, for what lockstep plan says about money and energy."};

static const char *const top_keys[] = {"model", "data", "train", "parallel", "cost", NULL};
static const char *const train_nested[] = {"optimizer", "schedule", "checkpoint", NULL};

/* A string option whose values are known only here: unknown ones are reported at the value. */
static ls_status_t check_name(ls_ctx_t *ctx, const ls_doc_node_t *section, const char *key, const char *value,
                              const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], value) == 0) return LS_OK;
  const ls_doc_node_t *node = ls_doc_get(section, key);
  const char *nearest = ls_nearest(value, names);
  static const ls_place_t nowhere = {0};
  return ls_fail_at(ctx, LS_ERR_CONFIG, node ? &node->place : &nowhere, "unknown %s \"%s\"%s%s%s", key, value,
                    nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

enum { STRATEGIES_MAX = 32 };
/* Every strategy, and the word that leaves the choice to the planner. */
static void strategy_names(const char *names[STRATEGIES_MAX + 2]) {
  int count = 0;
  for (; ls_strategies[count] && count < STRATEGIES_MAX; count++)
    names[count] = ls_strategies[count]->name;
  names[count++] = "auto";
  names[count] = NULL;
}

/* The first error of several; later ones were reported as well. */
static ls_status_t first(ls_status_t a, ls_status_t b) {
  return a != LS_OK ? a : b;
}

static const ls_place_t *place_of(const ls_doc_node_t *section, const char *key,
                                  const ls_place_t *otherwise) {
  const ls_doc_node_t *node = section ? ls_doc_get(section, key) : NULL;
  return node ? &node->place : otherwise;
}

/* The rules of parallel.reproducible. How many ranks there are is known only later where the planner or a
 * launcher decides. */
static ls_status_t check_reproducible(ls_ctx_t *ctx, const ls_doc_t *doc, const ls_config_t *config) {
  const ls_doc_node_t *train = ls_doc_get(doc->root, "train"), *parallel = ls_doc_get(doc->root, "parallel");
  const ls_place_t whole = {.file = doc->file};
  const ls_place_t *parallel_place = parallel ? &parallel->key_place : &whole;
  long long shards = config->parallel.shards, ranks = config->parallel.ranks;
  ls_status_t status = LS_OK;
  if (!config->parallel.reproducible) return LS_OK;
  if (shards & (shards - 1))
    status = ls_fail_at(ctx, LS_ERR_CONFIG, place_of(parallel, "shards", parallel_place),
                        "parallel.shards must be a power of two, such as 4, 8 or 16, not %lld", shards);
  else if (shards % ranks != 0 && !config->parallel.automatic)
    status = ls_fail_at(
        ctx, LS_ERR_CONFIG, place_of(parallel, "ranks", parallel_place),
        "parallel.reproducible: %lld shards cannot be spread evenly over %lld ranks; use a power of "
        "two up to %lld, or raise parallel.shards",
        shards, ranks, shards);
  if (config->train.accumulate > 1)
    status =
        first(status, ls_fail_at(ctx, LS_ERR_CONFIG, place_of(train, "accumulate", &whole),
                                 "parallel.reproducible computes the step in parallel.shards micro-batches "
                                 "already; leave train.accumulate out and raise parallel.shards (%lld) "
                                 "where memory is short",
                                 shards));
  return status;
}

/* What a named backend cannot do; which one "auto" is shows where a device is opened (ls_backend_check_math).
 */
static ls_status_t check_precision(ls_ctx_t *ctx, const ls_doc_node_t *train, const ls_config_t *config) {
  const char *backend = config->parallel.backend;
  if (strcmp(backend, "auto") == 0 || strcmp(backend, "cuda") == 0) return LS_OK;
  const ls_doc_node_t *node = ls_doc_get(train, "precision");
  static const ls_place_t nowhere = {0};
  return ls_fail_at(ctx, LS_ERR_CONFIG, node ? &node->place : &nowhere,
                    "train.precision is %s, which backend %s does not have: use parallel.backend: cuda, or "
                    "train.precision: fp32",
                    ls_math_names[config->train.precision], backend);
}

static ls_status_t check_rules(ls_ctx_t *ctx, const ls_doc_t *doc, ls_config_t *config) {
  const ls_doc_node_t *train = ls_doc_get(doc->root, "train"), *parallel = ls_doc_get(doc->root, "parallel");
  const ls_place_t whole = {.file = doc->file};
  const ls_place_t *train_place = train ? &train->key_place : &whole;
  const ls_place_t *parallel_place = parallel ? &parallel->key_place : &whole;
  ls_status_t status = LS_OK;
  if (config->train.epochs > 0 && config->train.steps > 0)
    status = first(status,
                   ls_fail_at(ctx, LS_ERR_CONFIG, train_place, "give train.epochs or train.steps, not both"));
  if (config->train.epochs == 0 && config->train.steps == 0) config->train.epochs = 1;
  int64_t samples;
  if (__builtin_mul_overflow(config->train.steps, config->train.batch, &samples))
    status = first(status, ls_fail_at(ctx, LS_ERR_CONFIG, train_place,
                                      "%lld steps of %lld samples are more than can be counted",
                                      (long long)config->train.steps, (long long)config->train.batch));
  const char *strategies[STRATEGIES_MAX + 2];
  strategy_names(strategies);
  static const char *const backends[] = {"auto", "cpu", "cuda", "ref", "null", NULL};
  const char *strategy = config->parallel.strategy;
  status = first(status, check_name(ctx, parallel, "strategy", strategy, strategies));
  config->parallel.automatic = strcmp(strategy, "auto") == 0;
  if (config->parallel.automatic)
    config->parallel.strategy = strategy = config->parallel.ranks > 1 ? "ddp" : "single";
  status = first(status, check_name(ctx, parallel, "backend", config->parallel.backend, backends));
  if (config->train.precision != LS_MATH_FP32) status = first(status, check_precision(ctx, train, config));
  const ls_strategy_t *row = ls_strategy_find(strategy);
  if (row && !row->distributed && config->parallel.ranks > 1)
    status = first(status, ls_fail_at(ctx, LS_ERR_CONFIG, parallel_place,
                                      "strategy \"%s\" uses one rank, but parallel.ranks is %lld; use ddp or "
                                      "ranks: 1",
                                      strategy, (long long)config->parallel.ranks));
  const ls_doc_node_t *optimizer = ls_doc_get(train, "optimizer");
  status = first(status, ls_optim_check(ctx, optimizer ? &optimizer->key_place : &whole, &config->optimizer));
  if (config->train.batch < config->parallel.ranks)
    status = first(status, ls_fail_at(ctx, LS_ERR_CONFIG, train_place,
                                      "the global batch (%lld) is smaller than the number of ranks (%lld)",
                                      (long long)config->train.batch, (long long)config->parallel.ranks));
  return first(status, check_reproducible(ctx, doc, config));
}

static ls_status_t parse_sections(ls_ctx_t *ctx, const ls_doc_t *doc, ls_config_t *config) {
  ls_arena_t *arena = &config->arena;
  static const ls_section_t top = {"", NULL, 0, ""};
  const ls_doc_node_t *root = doc->root, *train = ls_doc_get(root, "train");
  char unused;
  ls_status_t status = ls_option_parse(ctx, arena, &top, root, top_keys, &unused);
  status = first(status, ls_model_parse(ctx, arena, ls_doc_get(root, "model"), &config->model));
  status = first(
      status, ls_option_parse(ctx, arena, &ls_data_section, ls_doc_get(root, "data"), NULL, &config->data));
  status = first(status, ls_option_parse(ctx, arena, &train_section, train, train_nested, &config->train));
  status = first(status, ls_option_parse(ctx, arena, &ls_optim_section, ls_doc_get(train, "optimizer"), NULL,
                                         &config->optimizer));
  status = first(status, ls_option_parse(ctx, arena, &ls_rate_section, ls_doc_get(train, "schedule"), NULL,
                                         &config->rate));
  status = first(status, ls_option_parse(ctx, arena, &checkpoint_section, ls_doc_get(train, "checkpoint"),
                                         NULL, &config->checkpoint));
  status = first(status, ls_option_parse(ctx, arena, &parallel_section, ls_doc_get(root, "parallel"), NULL,
                                         &config->parallel));
  status = first(status,
                 ls_option_parse(ctx, arena, &cost_section, ls_doc_get(root, "cost"), NULL, &config->cost));
  if (status == LS_OK) status = check_rules(ctx, doc, config);
  return status;
}

/* Takes over the document: applies the assignments, parses, releases it. */
static ls_status_t from_doc(ls_ctx_t *ctx, ls_doc_t *doc, const char *const *sets, int set_count,
                            ls_config_t **out) {
  ls_status_t status = LS_OK;
  ls_config_t *config = ls_alloc(ctx, sizeof *config);
  if (!config) {
    status = LS_ERR_MEMORY;
    goto doc;
  }
  config->ctx = ctx;
  ls_arena_init(&config->arena, ctx);
  for (int i = 0; i < set_count; i++)
    status = first(status, ls_doc_set(ctx, doc, sets[i]));
  if (status == LS_OK) status = parse_sections(ctx, doc, config);
  ls_doc_release(doc);
  if (status != LS_OK) {
    ls_config_destroy(config);
    return status;
  }
  *out = config;
  return LS_OK;
doc:
  ls_doc_release(doc);
  return status;
}

ls_status_t ls_config_load(ls_ctx_t *ctx, const char *path, const char *const *sets, int set_count,
                           ls_config_t **config) {
  ls_doc_t doc;
  ls_status_t status = ls_doc_load(ctx, path, &doc);
  return status == LS_OK ? from_doc(ctx, &doc, sets, set_count, config) : status;
}

ls_status_t ls_config_parse(ls_ctx_t *ctx, const char *name, const char *text, size_t size_bytes,
                            const char *const *sets, int set_count, ls_config_t **config) {
  ls_doc_t doc;
  ls_status_t status = ls_doc_parse(ctx, name, text, size_bytes, &doc);
  return status == LS_OK ? from_doc(ctx, &doc, sets, set_count, config) : status;
}

void ls_config_destroy(ls_config_t *config) {
  if (!config) return;
  ls_arena_release(&config->arena);
  ls_free(config);
}

json_t *ls_config_json(const ls_config_t *config) {
  json_t *train = ls_option_json(&train_section, &config->train);
  json_object_set_new(train, "optimizer", ls_option_json(&ls_optim_section, &config->optimizer));
  json_object_set_new(train, "schedule", ls_option_json(&ls_rate_section, &config->rate));
  json_object_set_new(train, "checkpoint", ls_option_json(&checkpoint_section, &config->checkpoint));
  return json_pack("{s:o?, s:o?, s:o?, s:o?, s:o?}", "model", ls_model_json(&config->model), "data",
                   ls_option_json(&ls_data_section, &config->data), "train", train, "parallel",
                   ls_option_json(&parallel_section, &config->parallel), "cost",
                   ls_option_json(&cost_section, &config->cost));
}

char *ls_config_text(ls_ctx_t *ctx, const ls_config_t *config) {
  json_t *json = ls_config_json(config);
  char *dumped = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
  json_decref(json);
  char *text = dumped ? ls_strdup(ctx, dumped) : NULL;
  free(dumped);
  if (!dumped) ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the text of the configuration");
  return text;
}

char *ls_config_reference(ls_ctx_t *ctx) {
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  const ls_section_t *fixed[] = {&ls_model_section, &ls_data_section,    &train_section,    &ls_optim_section,
                                 &ls_rate_section,  &checkpoint_section, &parallel_section, &cost_section};
  char *text = ls_arena_strdup(&arena, "");
  for (int i = 0; text && i < LS_COUNT(fixed); i++)
    text = ls_arena_printf(&arena, "%s## %s\n\n%s\n\n```\n%s```\n\n", text, fixed[i]->name, fixed[i]->help,
                           ls_option_help(&arena, fixed[i]));
  if (text) text = ls_arena_printf(&arena, "%s## parallel.strategy\n\n```\n", text);
  for (int i = 0; text && ls_strategies[i]; i++)
    text = ls_arena_printf(&arena, "%s  %-18s %s\n", text, ls_strategies[i]->name, ls_strategies[i]->help);
  if (text) text = ls_arena_printf(&arena, "%s```\n\n", text);
  for (int i = 0; text && ls_layer_sections[i]; i++)
    text = ls_arena_printf(&arena, "%s## model.layers: %s\n\n%s\n\n```\n%s```\n\n", text,
                           ls_layer_sections[i]->name, ls_layer_sections[i]->help,
                           ls_option_help(&arena, ls_layer_sections[i]));
  char *copy = text ? ls_strdup(ctx, text) : NULL;
  ls_arena_release(&arena);
  return copy;
}
