/* Reads a configuration: one document, one parser per section, then the rules between sections
 * (check.c). Every error is reported before the call returns. */
#include "config/parts.h"

#include <string.h>

enum { KEYS_MAX = 64 };

/* The keys of the sections within the one whose name begins `name`, and has so many characters. */
static void nested_in(const char *name, size_t bytes, const char *keys[KEYS_MAX]) {
  ls_config_part_t part;
  int count = 0;
  for (int i = 0; ls_config_part(NULL, i, &part) && count < KEYS_MAX - 1; i++) {
    size_t parent;
    const char *key = ls_config_key(part.section, &parent);
    if (!part.element && parent == bytes && strncmp(part.section->name, name, bytes) == 0)
      keys[count++] = key;
  }
  keys[count] = NULL;
}

/* A section with options that must be given has the file as its place where it is not there. */
static ls_status_t read_part(ls_ctx_t *ctx, ls_config_t *config, const ls_config_part_t *part) {
  const char *name = part->section->name, *dot = strchr(name, '.'), *keys[KEYS_MAX];
  const ls_doc_node_t nothing = {.kind = LS_DOC_NULL, .place.file = config->doc.file},
                      *node = config->doc.root;
  char top[64];
  snprintf(top, sizeof top, "%.*s", (int)(dot ? dot - name : (ptrdiff_t)strlen(name)), name);
  node = ls_doc_get(node, top);
  if (dot) node = ls_doc_get(node, dot + 1);
  if (part->needed && !node) node = &nothing;
  if (part->read) return part->read(ctx, &config->arena, node, part->of);
  nested_in(name, strlen(name), keys);
  return ls_option_parse(ctx, &config->arena, part->section, node, keys, part->of);
}

/* Hosts that are named have places for all ranks. */
static ls_status_t place_ranks(ls_ctx_t *ctx, const ls_doc_node_t *map, ls_parallel_config_t *parallel) {
  if (parallel->hosts.count == 0) return LS_OK;
  const long long slots = ls_hosts_slots(&parallel->hosts);
  if (!ls_doc_get(map, "ranks")) parallel->ranks = slots;
  if (parallel->ranks <= slots) return LS_OK;
  return ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(map, "hosts")->key_place,
                    "parallel.hosts have %lld slots, too few for %lld ranks (parallel.ranks, --ranks)", slots,
                    (long long)parallel->ranks);
}

static ls_status_t parse_sections(ls_ctx_t *ctx, const ls_doc_t *doc, ls_config_t *config) {
  static const ls_section_t top = {"", NULL, 0, ""};
  const char *keys[KEYS_MAX];
  ls_config_part_t part;
  char unused;
  ls_status_t status = ls_config_make_own(config), data = LS_OK;
  if (status != LS_OK) return status;
  nested_in("", 0, keys);
  status = ls_option_parse(ctx, &config->arena, &top, doc->root, keys, &unused);
  for (int i = 0; ls_config_part(config, i, &part); i++) {
    if (part.element) continue;
    const ls_status_t read = read_part(ctx, config, &part);
    if (part.of == &config->data) data = read;
    status = ls_config_first(status, read);
  }
  if (status == LS_OK) status = place_ranks(ctx, ls_doc_get(doc->root, "parallel"), &config->parallel);
  const ls_doc_node_t *dir = ls_doc_get(ls_doc_get(ls_doc_get(doc->root, "train"), "checkpoint"), "dir");
  if (dir) config->checkpoint.dir_place = dir->place;
  if (status == LS_OK) return ls_config_check(ctx, config);
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
        return row->type == LS_FIELD_STRING || row->type == LS_FIELD_PATH;
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

bool ls_config_classes(const ls_config_t *config) {
  return ls_model_loss(&config->model)->classes;
}

void ls_config_resize(ls_config_t *config, int64_t accumulate) {
  config->train.smaller = accumulate > config->train.accumulate;
  config->train.accumulate = accumulate;
}
