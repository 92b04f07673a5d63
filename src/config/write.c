/* Writes a configuration as JSON and as text, and the reference of all options. */
#include "config/parts.h"

#include "base/json.h"
#include "comm/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The last part of a section's name. */
static const char *key_of(const ls_section_t *section) {
  return strrchr(section->name, '.') + 1;
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
