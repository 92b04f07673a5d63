/* Reads a configuration: one document, one parser per section, then the rules between sections
 * (check.c). Every error is reported before the call returns. */
#include "config/parts.h"

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
  if (status == LS_OK && source->over) status = ls_doc_lay(ctx, doc, source->over_name, source->over);
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

void ls_config_resize(ls_config_t *config, int64_t accumulate) {
  config->train.smaller = accumulate > config->train.accumulate;
  config->train.accumulate = accumulate;
}
