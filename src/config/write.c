/* Writes a configuration as JSON and as text, and the reference of all options. */
#include "config/parts.h"

#include "base/json.h"
#include "comm/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

json_t *ls_config_json(const ls_config_t *config) {
  json_t *whole = json_object();
  ls_config_part_t part;
  for (int i = 0; whole && ls_config_part(config, i, &part); i++) {
    size_t parent;
    char in[64];
    const char *key = ls_config_key(part.section, &parent);
    if (part.element || !part.written) continue;
    json_t *json = part.write ? part.write(part.of) : ls_option_json(part.section, part.of);
    snprintf(in, sizeof in, "%.*s", (int)parent, part.section->name);
    if (json) json_object_set_new(parent ? json_object_get(whole, in) : whole, key, json);
  }
  return whole;
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
  ls_config_part_t part;
  return ls_config_part(NULL, index, &part) ? part.section : NULL;
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
