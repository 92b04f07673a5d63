/* Networks by name or from a file: see presets.h. docs/layers.md says where the shipped ones come from;
 * tests/model/test_presets.c has their parameter counts. */
#include "model/presets.h"

#include "base/expand.h"
#include "base/file.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const ls_embedded_t ls_preset_files[];

static const char *const block_names[] = {"none", "residual", "inverted", NULL};
static const ls_option_t rows[] = {
    LS_OPTION(ls_preset_t, network, .optional = true, .help = "Preset whose network it has."),
    LS_OPTION(ls_preset_t, blocks, .initial = "none", .choices = block_names, .help = "What ${blocks} is."),
    LS_OPTION(ls_preset_t, blocks_max, .max = LS_LAYER_MAX, .initial = "0", .help = "Most blocks; 0: any."),
    LS_OPTION(ls_preset_t, expansion, .min = 1, .max = 64, .initial = "1", .help = "Of a bottleneck."),
};
static const ls_section_t section = {"", rows, LS_COUNT(rows), "", &ls_model_sizes};

/* The network of a preset's text; NULL: it has none. */
static const char *network_of(const char *text) {
  static const char mark[] = "---\n";
  while (text && strncmp(text, mark, sizeof mark - 1) != 0) {
    text = strchr(text, '\n');
    if (text) text++;
  }
  return text ? text + sizeof mark - 1 : NULL;
}

/* The network's text, or that of the preset that it names. Places are lines of the whole file. */
static ls_status_t find_network(ls_ctx_t *ctx, ls_arena_t *arena, const char *file, const char *text,
                                ls_preset_t *preset) {
  preset->file = file;
  preset->text = text;
  if (preset->network) {
    char *dir = ls_path_parent(ctx, file);
    ls_status_t status = dir ? ls_template_read(ctx, arena, ls_preset_files, dir, preset->network,
                                                &preset->file, &preset->text)
                             : LS_ERR_MEMORY;
    ls_free(dir);
    if (status == LS_ERR_NOT_FOUND && !strpbrk(preset->network, "/."))
      return ls_fail(ctx, LS_ERR_CONFIG, "%s: network: there is no preset `%s`", file,
                     LS_SHOWN(preset->network));
    if (status != LS_OK) return status;
  }
  if (network_of(preset->text)) return LS_OK;
  return ls_fail(ctx, LS_ERR_CONFIG,
                 "%s: a preset has a line `---` and its network below, or `network: NAME`", preset->file);
}

static ls_status_t check_depth(ls_ctx_t *ctx, const char *file, const ls_preset_t *preset) {
  const int stages = preset->blocks == LS_BLOCKS_RESIDUAL ? LS_STAGES : 1, given = preset->own.depth.count;
  if (given == stages || (given == 0 && preset->blocks == LS_BLOCKS_NONE)) return LS_OK;
  return ls_fail(ctx, LS_ERR_CONFIG, "%s: depth has %d of the %d numbers that its blocks need", file, given,
                 stages);
}

static ls_status_t read_text(ls_ctx_t *ctx, ls_arena_t *arena, const char *file, const char *text,
                             ls_preset_t *preset) {
  ls_doc_t doc;
  const char *network = network_of(text);
  const size_t len = network ? (size_t)(network - text) - strlen("---\n") : strlen(text);
  ls_status_t status = ls_doc_parse(ctx, file, text, len, &doc);
  if (status != LS_OK) return status;
  status = ls_option_parse(ctx, arena, &section, doc.root, NULL, preset);
  ls_doc_release(&doc);
  if (status == LS_OK) status = check_depth(ctx, file, preset);
  return status == LS_OK ? find_network(ctx, arena, file, text, preset) : status;
}

ls_status_t ls_preset_load(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *node,
                           const ls_preset_t **out) {
  const char *name = node->text, *file = NULL, *text = NULL;
  ls_preset_t *preset = ls_arena_alloc(arena, sizeof *preset);
  if (!preset) return LS_ERR_MEMORY;
  preset->shipped = !strpbrk(name, "/.");
  ls_status_t status = ls_template_read(ctx, arena, ls_preset_files, node->dir, name, &file, &text);
  if (status == LS_ERR_NOT_FOUND && preset->shipped) {
    char list[LS_NAMES_TEXT_BYTES], nearest[LS_NAMES_TEXT_BYTES];
    return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "model.preset: `%.80s` is not one of %s%s",
                      LS_SHOWN(name), ls_names_text(ls_preset_names, list),
                      ls_nearest_text("model.preset", name, ls_preset_names, nearest));
  }
  if (status == LS_OK) status = read_text(ctx, arena, file, text, preset);
  if (status == LS_OK) *out = preset;
  return status;
}

/* ---- sizes ---- */

double ls_preset_width(const ls_preset_t *preset, const ls_model_config_t *model) {
  return model->width > 0 ? model->width : preset->own.width;
}

double ls_preset_depth(const ls_preset_t *preset, const ls_model_config_t *model, int stage) {
  const ls_floats_t *given = &model->depth, *own = &preset->own.depth;
  const double depth = given->count > 0 ? given->v[given->count > 1 ? stage : 0] : 0;
  return depth > 0 ? depth : own->v[own->count > 1 ? stage : 0];
}

double ls_preset_dropout(const ls_preset_t *preset, const ls_model_config_t *model) {
  return fmax(0, model->dropout >= 0 ? model->dropout : preset->own.dropout);
}

static int64_t whole_of(const ls_model_config_t *sizes, int i) {
  return *(const int64_t *)(const void *)((const char *)sizes + ls_model_sizes.rows[i].offset);
}

/* Places of `name` among the sizes that are whole numbers, and 0 where they are not given; -1: none of them. */
static int whole_size(const char *name) {
  for (int i = 0; i < ls_model_sizes.count; i++) {
    const ls_option_t *row = &ls_model_sizes.rows[i];
    if (row->type == LS_FIELD_INT64 && !row->apart && strcmp(row->name, name) == 0 &&
        strcmp(name, "separator"))
      return i;
  }
  return -1;
}

/* Whether the network depends on this size: by its text, or because its blocks are made from it. */
static bool reads(const ls_preset_t *preset, const char *size) {
  const int whole = whole_size(size);
  const size_t len = strlen(size);
  for (const char *at = network_of(preset->text); (at = strstr(at, "${")); at += 2) {
    const char *name = at + 2 + (at[2] == '?' || at[2] == '!');
    if (strncmp(name, size, len) == 0 && strchr("}*", name[len])) return true;
  }
  return preset->blocks != LS_BLOCKS_NONE && (strcmp(size, "width") == 0 || strcmp(size, "depth") == 0 ||
                                              (whole >= 0 && whole_of(&preset->own, whole) > 0));
}

static const char *refuses_depth(const ls_preset_t *preset, const ls_model_config_t *model,
                                 char why[LS_LAYER_WHY_BYTES]) {
  const int own = preset->own.depth.count > 1 ? LS_STAGES : 1, given = model->depth.count;
  if (given > 1 && given != own)
    return own > 1 ? "takes one number, or one for each of its 4 stages" : "takes one number";
  for (int i = 0; i < given; i++) {
    if (given > 1 && model->depth.v[i] == 0) return "needs a block in each of its 4 stages";
    if (preset->blocks != LS_BLOCKS_INVERTED && model->depth.v[i] != floor(model->depth.v[i]))
      return "takes whole numbers";
  }
  if (preset->blocks_max == 0 || ls_blocks_count(preset, model) <= (double)preset->blocks_max) return NULL;
  snprintf(why, LS_LAYER_WHY_BYTES, "takes at most %d blocks: a network has at most %d layers",
           (int)preset->blocks_max, LS_LAYER_MAX);
  return why;
}

const char *ls_preset_refuses(const ls_preset_t *preset, const ls_model_config_t *model, const char *size,
                              char why[LS_LAYER_WHY_BYTES]) {
  const int64_t tokens = model->vocabulary > 0 ? model->vocabulary : preset->own.vocabulary;
  if (!reads(preset, size)) return "has no such size";
  if (strcmp(size, "depth") == 0) return refuses_depth(preset, model, why);
  if (strcmp(size, "width") == 0 && preset->blocks != LS_BLOCKS_INVERTED &&
      model->width != floor(model->width))
    return "takes whole numbers";
  if (strcmp(size, "group_width") == 0 &&
      ls_blocks_group(preset, model, (int64_t)ls_preset_width(preset, model)) == 0)
    return "has no channel left: the first stage has width * group_width / 64 for each group";
  if (strcmp(size, "separator") != 0 || model->separator < tokens) return NULL;
  snprintf(why, LS_LAYER_WHY_BYTES,
           "has the tokens 0 to %lld: give one of them, or a larger model.vocabulary", (long long)tokens - 1);
  return why;
}

/* ---- the network's text ---- */

typedef struct {
  const ls_preset_t *preset;
  const ls_model_config_t *model;
} sizes_t;

static bool size_value(const sizes_t *sizes, const char *name, double *value) {
  const ls_preset_t *preset = sizes->preset;
  const ls_model_config_t *model = sizes->model;
  const int whole = whole_size(name);
  const double depth = ls_preset_depth(preset, model, 0);
  const struct {
    const char *name;
    double value;
  } others[] = {{"separator", (double)model->separator},
                {"width", ls_preset_width(preset, model)},
                {"depth", depth},
                {"dropout", ls_preset_dropout(preset, model)},
                {"residual", 0.02 / sqrt(2.0 * depth)} /* of GPT-2 */};
  if (whole >= 0) {
    const int64_t given = whole_of(model, whole);
    *value = (double)(given > 0 ? given : whole_of(&preset->own, whole));
    return true;
  }
  for (int i = 0; i < LS_COUNT(others); i++)
    if (strcmp(others[i].name, name) == 0) {
      *value = others[i].value;
      return true;
    }
  return false;
}

/* `width`, `width*4` or `blocks`. */
static bool put_value(void *data, const char *name, FILE *to) {
  const sizes_t *sizes = data;
  char size[32];
  double value;
  const size_t len = strcspn(name, "*");
  if (strcmp(name, "blocks") == 0 && sizes->preset->blocks != LS_BLOCKS_NONE) {
    ls_blocks_write(to, sizes->preset, sizes->model);
    return true;
  }
  snprintf(size, sizeof size, "%.*s", (int)len, name);
  if (!size_value(sizes, size, &value)) return false;
  fprintf(to, "%.15g", name[len] ? value * (double)strtol(name + len + 1, NULL, 10) : value);
  return true;
}

ls_status_t ls_preset_text(ls_ctx_t *ctx, const ls_preset_t *preset, const ls_model_config_t *model,
                           char **out) {
  sizes_t sizes = {preset, model};
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  if (!to) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for preset %s", preset->file);
  const char *network = network_of(preset->text);
  int line = 1;
  for (const char *at = preset->text; at < network; at++) { /* lines of errors are those of the file */
    if (*at != '\n') continue;
    fputc('\n', to);
    line++;
  }
  ls_status_t status = ls_expand(ctx, preset->file, line, network, put_value, &sizes, to);
  if (fclose(to) != 0 && status == LS_OK)
    status = ls_fail(ctx, LS_ERR_MEMORY, "out of memory for preset %s", preset->file);
  *out = status == LS_OK ? ls_strdup(ctx, text) : NULL;
  free(text);
  return status == LS_OK && !*out ? LS_ERR_MEMORY : status;
}
