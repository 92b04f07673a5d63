/* Reads a configuration: one document, one parser per section, then the rules between sections
 * (config_check.c). Every error is reported before the call returns. Also the way back: JSON, text, and the
 * reference of all options. */
#include "train/config_parts.h"

#include "comm/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const top_keys[] = {"model",   "data",   "train",     "parallel", "cost",
                                       "monitor", "safety", "supervise", NULL};
static const char *const train_nested[] = {"optimizer", "schedule", "prune", "checkpoint", NULL};
static const char *const supervise_nested[] = {"ranks", "restarts", NULL};

/* The last part of a section's name. */
static const char *key_of(const ls_section_t *section) {
  return strrchr(section->name, '.') + 1;
}

/* Section parallel, and in it those of strategies. */
static ls_status_t parse_parallel(ls_ctx_t *ctx, const ls_doc_node_t *map, ls_config_t *config) {
  const char *nested[LS_STRATEGY_MAX + 2] = {key_of(&ls_hosts_section)};
  const ls_doc_node_t *hosts = map ? ls_doc_get(map, nested[0]) : NULL;
  ls_status_t status = LS_OK;
  int count = 1;
  for (int i = 0; ls_strategies[i]; i++) {
    const ls_section_t *section = ls_strategies[i]->section;
    if (!section) continue;
    void *own = ls_arena_alloc(&config->arena, ls_strategies[i]->own_bytes);
    config->parallel.own[i] = own;
    if (!own) return LS_ERR_MEMORY;
    nested[count++] = key_of(section);
    const ls_doc_node_t *node = map ? ls_doc_get(map, key_of(section)) : NULL;
    status = ls_config_first(status, ls_option_parse(ctx, &config->arena, section, node, NULL, own));
  }
  status = ls_config_first(
      status, ls_option_parse(ctx, &config->arena, &ls_parallel_section, map, nested, &config->parallel));
  status = ls_config_first(status, ls_hosts_parse(ctx, &config->arena, hosts, &config->parallel.hosts));
  if (config->parallel.hosts.count > 0 && !ls_doc_get(map, "ranks"))
    config->parallel.ranks = ls_hosts_slots(&config->parallel.hosts);
  if (status == LS_OK && config->parallel.hosts.count > 0 &&
      config->parallel.ranks > ls_hosts_slots(&config->parallel.hosts))
    return ls_fail_at(ctx, LS_ERR_CONFIG, &hosts->key_place,
                      "parallel.hosts have %lld slots, too few for %lld ranks (parallel.ranks, --ranks)",
                      (long long)ls_hosts_slots(&config->parallel.hosts), (long long)config->parallel.ranks);
  return status;
}

/* A section with options that must be given: one that is not there has the file as its place. */
static const ls_doc_node_t *needed(const ls_doc_t *doc, const char *name, ls_doc_node_t *nothing) {
  const ls_doc_node_t *node = ls_doc_get(doc->root, name);
  *nothing = (ls_doc_node_t){.kind = LS_DOC_NULL, .place.file = doc->file};
  return node ? node : nothing;
}

static ls_status_t parse_sections(ls_ctx_t *ctx, const ls_doc_t *doc, ls_config_t *config) {
  ls_arena_t *arena = &config->arena;
  static const ls_section_t top = {"", NULL, 0, ""};
  const ls_doc_node_t *root = doc->root, *train = ls_doc_get(root, "train");
  ls_doc_node_t nothing;
  char unused;
  ls_status_t status = ls_option_parse(ctx, arena, &top, root, top_keys, &unused);
  status =
      ls_config_first(status, ls_model_parse(ctx, arena, needed(doc, "model", &nothing), &config->model));
  const ls_status_t data =
      ls_option_parse(ctx, arena, &ls_data_section, needed(doc, "data", &nothing), NULL, &config->data);
  status = ls_config_first(status, data);
  status = ls_config_first(
      status, ls_option_parse(ctx, arena, &ls_train_section, train, train_nested, &config->train));
  status =
      ls_config_first(status, ls_optim_parse(ctx, arena, ls_doc_get(train, "optimizer"), &config->optimizer));
  status = ls_config_first(status, ls_option_parse(ctx, arena, &ls_rate_section,
                                                   ls_doc_get(train, "schedule"), NULL, &config->rate));
  status = ls_config_first(status, ls_option_parse(ctx, arena, &ls_prune_section, ls_doc_get(train, "prune"),
                                                   NULL, &config->prune));
  status =
      ls_config_first(status, ls_option_parse(ctx, arena, &ls_checkpoint_section,
                                              ls_doc_get(train, "checkpoint"), NULL, &config->checkpoint));
  status = ls_config_first(status, parse_parallel(ctx, ls_doc_get(root, "parallel"), config));
  status = ls_config_first(
      status, ls_option_parse(ctx, arena, &ls_cost_section, ls_doc_get(root, "cost"), NULL, &config->cost));
  status =
      ls_config_first(status, ls_monitor_parse(ctx, arena, ls_doc_get(root, "monitor"), &config->monitor));
  status = ls_config_first(status, ls_safety_parse(ctx, arena, ls_doc_get(root, "safety"), &config->safety));
  const ls_doc_node_t *supervise = ls_doc_get(root, "supervise");
  status = ls_config_first(status, ls_option_parse(ctx, arena, &ls_supervise_section, supervise,
                                                   supervise_nested, &config->supervise));
  status =
      ls_config_first(status, ls_option_parse(ctx, arena, &ls_restarts_section,
                                              ls_doc_get(supervise, "restarts"), NULL, &config->restarts));
  status =
      ls_config_first(status, ls_option_parse(ctx, arena, &ls_ranks_section, ls_doc_get(supervise, "ranks"),
                                              NULL, &config->supervise_ranks));
  const ls_doc_node_t *dir = ls_doc_get(ls_doc_get(train, "checkpoint"), "dir");
  if (dir) config->checkpoint.dir_place = dir->place;
  if (status == LS_OK) return ls_config_check(ctx, doc, config);
  if (data == LS_OK) ls_data_keys_check(ctx, &config->data); /* with the other errors, not after them */
  return status;
}

/* Whether the option that an assignment names is a text. */
static bool takes_text(const char *set) {
  size_t len = strcspn(set, "=");
  const ls_section_t *section;
  for (int i = 0; (section = ls_config_section(i)); i++) {
    size_t skip = strlen(section->name) + 1;
    if (skip > len || strncmp(set, section->name, skip - 1) != 0 || set[skip - 1] != '.') continue;
    for (int k = 0; k < section->count; k++) {
      const ls_option_t *row = &section->rows[k];
      if (strlen(row->name) == len - skip && strncmp(row->name, set + skip, len - skip) == 0)
        return row->type == LS_OPT_STRING || row->type == LS_OPT_PATH;
    }
  }
  return false;
}

static ls_status_t fill(ls_ctx_t *ctx, const ls_config_source_t *source, const char *const *sets,
                        int set_count, ls_config_t *config) {
  ls_doc_t *doc = &config->doc;
  ls_status_t status = source->text ? ls_doc_parse(ctx, source->name, source->text, source->size_bytes, doc)
                                    : ls_doc_load(ctx, source->name, doc);
  if (status != LS_OK) return status;
  status = ls_doc_layer(ctx, doc, source->env, source->env_needed);
  if (status == LS_OK && source->data_root)
    status = ls_doc_start_paths(doc, ls_doc_get(doc->root, "data"), source->data_root);
  if (status != LS_OK) return status;
  for (int i = 0; i < set_count; i++)
    status = ls_config_first(status, ls_doc_set(ctx, doc, sets[i], takes_text(sets[i])));
  return status == LS_OK ? parse_sections(ctx, doc, config) : status;
}

ls_status_t ls_config_read(ls_ctx_t *ctx, const ls_config_source_t *source, const char *const *sets,
                           int set_count, ls_config_t **out) {
  ls_config_t *config = ls_alloc(ctx, sizeof *config);
  if (!config) return LS_ERR_MEMORY;
  config->ctx = ctx;
  ls_arena_init(&config->arena, ctx);
  ls_status_t status = fill(ctx, source, sets, set_count, config);
  if (status == LS_OK)
    *out = config;
  else
    ls_config_destroy(config);
  return status;
}

ls_status_t ls_config_load(ls_ctx_t *ctx, const char *path, const char *const *sets, int set_count,
                           ls_config_t **config) {
  return ls_config_read(ctx, &(ls_config_source_t){.name = path}, sets, set_count, config);
}

ls_status_t ls_config_parse(ls_ctx_t *ctx, const char *name, const char *text, size_t size_bytes,
                            const char *const *sets, int set_count, ls_config_t **config) {
  const ls_config_source_t source = {.name = name, .text = text, .size_bytes = size_bytes};
  return ls_config_read(ctx, &source, sets, set_count, config);
}

void ls_config_destroy(ls_config_t *config) {
  if (!config) return;
  ls_arena_release(&config->arena);
  ls_doc_release(&config->doc);
  ls_free(config);
}

json_t *ls_config_json(const ls_config_t *config) {
  ls_train_config_t usual = config->train; /* a rung of safety is no other configuration */
  if (usual.smaller) usual.accumulate /= 2;
  json_t *train = ls_option_json(&ls_train_section, &usual);
  json_object_set_new(train, "optimizer", ls_optim_json(&config->optimizer));
  json_object_set_new(train, "schedule", ls_option_json(&ls_rate_section, &config->rate));
  json_object_set_new(train, "prune", ls_option_json(&ls_prune_section, &config->prune));
  json_object_set_new(train, "checkpoint", ls_option_json(&ls_checkpoint_section, &config->checkpoint));
  json_t *parallel = ls_option_json(&ls_parallel_section, &config->parallel);
  const ls_strategy_t *strategy = ls_strategy_find(config->parallel.strategy);
  if (strategy && strategy->section)
    json_object_set_new(parallel, key_of(strategy->section),
                        ls_option_json(strategy->section, ls_config_strategy(config, strategy).own));
  if (config->parallel.hosts.count > 0)
    json_object_set_new(parallel, key_of(&ls_hosts_section), ls_hosts_json(&config->parallel.hosts));
  json_t *supervise = ls_option_json(&ls_supervise_section, &config->supervise);
  json_object_set_new(supervise, "ranks", ls_option_json(&ls_ranks_section, &config->supervise_ranks));
  json_object_set_new(supervise, "restarts", ls_option_json(&ls_restarts_section, &config->restarts));
  return json_pack("{s:o?, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?, s:o?}", "model", ls_model_json(&config->model),
                   "data", ls_option_json(&ls_data_section, &config->data), "train", train, "parallel",
                   parallel, "cost", ls_option_json(&ls_cost_section, &config->cost), "monitor",
                   ls_monitor_json(&config->monitor), "safety", ls_safety_json(&config->safety), "supervise",
                   supervise);
}

char *ls_config_text(ls_ctx_t *ctx, const ls_config_t *config) {
  json_t *json = ls_config_json(config);
  char *dumped = json ? ls_json_dump(json, JSON_INDENT(2)) : NULL;
  json_decref(json);
  char *text = dumped ? ls_strdup(ctx, dumped) : NULL;
  free(dumped);
  if (!dumped) ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the text of the configuration");
  return text;
}

const ls_section_t *ls_config_section(int index) {
  static const ls_section_t *const fixed[] = {
      &ls_model_section,       &ls_data_section,   &ls_train_section,     &ls_optim_section,
      &ls_optim_group_section, &ls_rate_section,   &ls_prune_section,     &ls_checkpoint_section,
      &ls_parallel_section,    &ls_hosts_section,  &ls_cost_section,      &ls_monitor_section,
      &ls_alert_section,       &ls_safety_section, &ls_supervise_section, &ls_ranks_section,
      &ls_restarts_section};
  if (index < LS_COUNT(fixed)) return fixed[index];
  index -= LS_COUNT(fixed);
  for (int i = 0; ls_strategies[i]; i++)
    if (ls_strategies[i]->section && index-- == 0) return ls_strategies[i]->section;
  return NULL;
}

const char ls_config_file_help[] =
    "One YAML document in UTF-8 (JSON is YAML too), from a file, a pipe or stdin (`-`). JSON has to write "
    "characters beyond\nU+FFFF as themselves, not as two `\\u` escapes (in Python: `ensure_ascii=False`). "
    "`--set a.b=value` overrides one of its\noptions; the value is YAML, but a text is taken as it stands "
    "unless it begins with a quote.\n\n"
    "A relative path in the file starts at the file's folder. A path in `--set`, in a flag or in a "
    "configuration "
    "that does not\ncome from a file starts at the current folder. `--data-root DIR` makes the relative "
    "paths of "
    "section `data` start at DIR.\n\n"
    "`base: FILE` builds on another configuration, and `env: {laptop: {..}, ci: {..}}` has what differs by "
    "environment, "
    "chosen by\n`--env NAME` or the variable LOCKSTEP_ENV: see docs/environments.md. `lockstep inspect "
    "CONFIG --resolved` shows "
    "every value and\nwhere it comes from.\n\n"
    "Limits: 1 MiB, 10,000 values, nested 32 deep, 1024 layers with blocks repeated, 64 entries in a list of "
    "numbers, 64 "
    "`--set`.\nAnchors, aliases, tags and keys given twice are refused.\n\n";
static_assert(LS_DOC_BYTES_MAX == 1 << 20 && LS_DOC_NODES_MAX == 10000 && LS_DOC_DEPTH_MAX == 32 &&
                  LS_LAYER_MAX == 1024 && LS_OPT_LIST_MAX == 64 && LS_CONFIG_SETS_MAX == 64,
              "the limits above");

char *ls_config_reference(ls_ctx_t *ctx) {
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  const ls_section_t *section;
  char *text = ls_arena_printf(&arena, "## The file\n\n%s", ls_config_file_help);
  for (int i = 0; text && (section = ls_config_section(i)); i++)
    text = ls_arena_printf(&arena, "%s## %s\n\n%s\n\n```\n%s```\n\n", text, section->name, section->help,
                           ls_option_help(&arena, section));
  if (text) text = ls_arena_printf(&arena, "%s## parallel.strategy\n\n```\n", text);
  for (int i = 0; text && ls_strategies[i]; i++)
    text = ls_arena_printf(&arena, "%s  %-18s %s\n", text, ls_strategies[i]->name, ls_strategies[i]->help);
  if (text) text = ls_arena_printf(&arena, "%s```\n\n## parallel.transport\n\n```\n", text);
  for (int i = 0; text && ls_transports[i]; i++)
    text = ls_arena_printf(&arena, "%s  %-18s %s\n", text, ls_transports[i]->name, ls_transports[i]->help);
  if (text) text = ls_arena_printf(&arena, "%s```\n\n", text);
  for (int i = 0; text && (section = ls_layer_section_at(i)); i++)
    text = ls_arena_printf(&arena, "%s## model.layers: %s\n\n%s\n\n```\n%s```\n\n", text, section->name,
                           section->help, ls_option_help(&arena, section));
  char *copy = text ? ls_strdup(ctx, text) : NULL;
  ls_arena_release(&arena);
  return copy;
}

void ls_config_resize(ls_config_t *config, int64_t accumulate) {
  config->train.smaller = accumulate > config->train.accumulate;
  config->train.accumulate = accumulate;
}
