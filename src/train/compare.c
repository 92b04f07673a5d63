/* Compares configurations: walks over the option rows of every section that matters to a run; each row says
 * what a change of it means. */
#include "train/compare.h"
#include "train/config_parts.h"

#include "base/file.h"
#include "base/json.h"
#include "model/layer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 8 };

typedef enum { PASS, LIST, KEEP, REFUSE, REFUSE_DATA, ACTION_COUNT } action_t;

static const action_t actions[][2] = {
    [LS_CHANGE_LISTED] = {[LS_USE_RESUME] = LIST, [LS_USE_MODEL] = PASS},
    [LS_CHANGE_IGNORED] = {[LS_USE_RESUME] = PASS, [LS_USE_MODEL] = PASS},
    [LS_CHANGE_MODEL] = {[LS_USE_RESUME] = REFUSE, [LS_USE_MODEL] = REFUSE},
    [LS_CHANGE_RUN] = {[LS_USE_RESUME] = REFUSE, [LS_USE_MODEL] = PASS},
    [LS_CHANGE_DATA] = {[LS_USE_RESUME] = REFUSE_DATA, [LS_USE_MODEL] = PASS},
    [LS_CHANGE_KEPT] = {[LS_USE_RESUME] = KEEP, [LS_USE_MODEL] = KEEP},
};

/* Sections whose rows are compared: where they stand in the JSON is their name. Money and the checkpoint's
 * own directory change nothing that is computed. */
static const ls_section_t *const sections[] = {&ls_model_section, &ls_data_section, &ls_train_section,
                                               &ls_optim_section, &ls_rate_section, &ls_parallel_section};

typedef struct {
  ls_arena_t arena;
  ls_use_t use;
  bool other_data, weights_fit, short_of_memory;
  const char *text[ACTION_COUNT]; /* a line per difference, each after a line end */
  int count[ACTION_COUNT];
} differences_t;

/* ---- texts ---- */

static const char *value_text(ls_arena_t *arena, const json_t *value) {
  if (!value || json_is_null(value)) return "nothing";
  if (json_is_string(value)) return ls_arena_shown(arena, json_string_value(value));
  if (json_is_real(value)) {
    char text[LS_JSON_REAL_BYTES];
    return ls_arena_strdup(arena, ls_json_real(json_real_value(value), text));
  }
  char *dumped = ls_json_dump(value, 0);
  const char *text = dumped ? ls_arena_strdup(arena, dumped) : NULL;
  free(dumped);
  return text;
}

static void add(differences_t *d, ls_change_t change, const char *name, const char *saved, const char *now) {
  static const struct {
    const char *before, *between, *after;
  } words[] = {[LIST] = {"", " -> ", ""},
               [KEEP] = {"", " is kept from the checkpoint, ", " is not used"},
               [REFUSE] = {"checkpoint has ", ", configuration has ", ""},
               [REFUSE_DATA] = {"checkpoint has ", ", configuration has ", ""}};
  action_t action = actions[change][d->use];
  if (action == REFUSE_DATA && d->other_data) action = LIST;
  bool refused = action == REFUSE || action == REFUSE_DATA; /* a cause; what changes is all of interest */
  if (action == PASS || (d->count[action]++ >= SHOWN_MAX && refused)) return;
  const char *text =
      name && saved && now
          ? ls_arena_printf(&d->arena, "%s\n  %s: %s%s%s%s%s", d->text[action], name, words[action].before,
                            saved, words[action].between, now, words[action].after)
          : NULL;
  if (text) d->text[action] = text;
  d->short_of_memory = d->short_of_memory || !text;
}

/* ---- the walk ---- */

static bool same_value(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return json_equal(a, b);
}

/* If a checkpoint is older than an option, the option's default describes it. */
static void compare_row(differences_t *d, const char *section, const ls_option_t *row, const json_t *saved,
                        const json_t *now) {
  json_t *initial = ls_option_default_json(row);
  const json_t *was = json_object_get(saved, row->name), *is = json_object_get(now, row->name);
  if (!was) was = initial;
  if (is && was && !same_value(was, is)) {
    const char *name = ls_arena_printf(&d->arena, "%s.%s", section, row->name);
    add(d, row->change, name, value_text(&d->arena, was), value_text(&d->arena, is));
  }
  json_decref(initial);
}

static void compare_rows(differences_t *d, const char *name, const ls_section_t *section, const json_t *saved,
                         const json_t *now) {
  const ls_option_t *row;
  for (int i = 0; (row = ls_section_row(section, i)); i++)
    compare_row(d, name, row, saved, now);
}

static const char *kind_of(json_t *layer) {
  const char *kind = json_object_iter_key(json_object_iter(layer));
  return kind ? kind : "nothing";
}

static void compare_layer(differences_t *d, size_t index, json_t *saved, json_t *now) {
  const char *was = kind_of(saved), *is = kind_of(now);
  bool same = strcmp(was, is) == 0;
  const char *name = ls_arena_printf(&d->arena, same ? "model.layers.%zu.%s" : "model.layers.%zu", index, is);
  if (!name || !same) {
    add(d, LS_CHANGE_MODEL, name, ls_arena_shown(&d->arena, was), is);
    return;
  }
  for (int i = 0; ls_layer_kinds[i]; i++)
    if (strcmp(ls_layer_kinds[i]->name, is) == 0)
      compare_rows(d, name, ls_layer_kinds[i]->section, json_object_get(saved, is), json_object_get(now, is));
}

static void compare_layers(differences_t *d, const json_t *saved, const json_t *now) {
  size_t was = json_array_size(saved), is = json_array_size(now);
  if (was != is) {
    add(d, LS_CHANGE_MODEL, "model.layers", ls_arena_printf(&d->arena, "%zu layer%s", was, LS_PLURAL(was)),
        ls_arena_printf(&d->arena, "%zu", is));
  }
  for (size_t i = 0; i < was && i < is; i++)
    compare_layer(d, i, json_array_get(saved, i), json_array_get(now, i));
}

/* ---- columns, which only some kinds of data have ---- */

/* The checkpoint's feature columns: as they were read, else as they were configured. */
static json_t *saved_columns(const json_t *meta) {
  json_t *names = json_object_get(meta, "columns");
  return json_is_array(names) ? names : ls_train_meta_at(meta, "config.data.columns");
}

static bool is_csv(const json_t *config) {
  const char *kind = json_string_value(ls_train_meta_at(config, "data.kind"));
  return kind && strcmp(kind, "csv") == 0;
}

/* The walk compares what both sides have. The checkpoint's columns are those that were read; what this
 * configuration does not name follows them, and other kinds of data have neither columns nor targets. */
static void name_columns(const json_t *meta, json_t *saved, json_t *now) {
  json_t *was = json_object_get(saved, "data"), *is = json_object_get(now, "data");
  bool csv = is_csv(saved) && is_csv(now);
  if (csv && json_array_size(json_object_get(is, "columns")) > 0)
    json_object_set(was, "columns", saved_columns(meta));
  else
    json_object_del(is, "columns");
  if (!csv) json_object_del(is, "target");
}

/* ---- the verdict ---- */

/* Where a checkpoint's configuration is: beside it, or in it when it was copied alone. */
static const char *saved_config(ls_arena_t *arena, const char *name) {
  char *dir = ls_path_parent(NULL, name), *beside = dir ? ls_path_join(NULL, dir, LS_CONFIG_NAME) : NULL;
  bool there = beside && ls_path_exists(beside);
  const char *text = there ? ls_arena_strdup(arena, beside)
                           : ls_arena_printf(arena, "meta.config in %s/manifest.json", name);
  ls_free(beside);
  ls_free(dir);
  return text;
}

static ls_status_t refuse(ls_ctx_t *ctx, const char *name, differences_t *d) {
  bool data = d->count[REFUSE] == 0;
  int count = d->count[data ? REFUSE_DATA : REFUSE];
  char more[48] = "";
  if (count > SHOWN_MAX) snprintf(more, sizeof more, "\n  and %d more", count - SHOWN_MAX);
  const char *text = d->text[data ? REFUSE_DATA : REFUSE];
  if (data)
    return ls_fail(
        ctx, LS_ERR_MISMATCH,
        "%s: does not go with this configuration:%s%s\n--allow-data-change goes on with other samples "
        "or another split all the same",
        name, text, more);
  const char *saved = saved_config(&d->arena, name);
  return ls_fail(
      ctx, LS_ERR_MISMATCH,
      "%s: does not go with this configuration:%s%s\nUse the configuration that was saved with it, "
      "%s%s",
      name, text, more, saved ? saved : LS_CONFIG_NAME,
      d->use == LS_USE_RESUME && d->weights_fit ? ", or begin a new run with its weights: --init" : "");
}

static ls_status_t conclude(ls_ctx_t *ctx, const char *name, differences_t *d, bool list) {
  if (d->short_of_memory) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: comparing configurations");
  if (d->count[REFUSE] + d->count[REFUSE_DATA] > 0) return refuse(ctx, name, d);
  if (list && d->count[LIST] + d->count[KEEP] > 0)
    ls_log(ctx, LS_LOG_INFO, "%s: this configuration differs from the checkpoint's:%s%s", name, d->text[LIST],
           d->text[KEEP]);
  return LS_OK;
}

ls_status_t ls_train_compare(ls_ctx_t *ctx, const char *name, const ls_config_t *config, const json_t *meta,
                             ls_use_t use, bool other_data, bool weights_fit, bool list) {
  json_t *saved = json_deep_copy(json_object_get(meta, "config")), *now = ls_config_json(config);
  differences_t d = {
      .use = use, .other_data = other_data, .weights_fit = weights_fit, .short_of_memory = !saved || !now};
  ls_arena_init(&d.arena, ctx);
  for (int i = 0; i < ACTION_COUNT; i++)
    d.text[i] = "";
  name_columns(meta, saved, now);
  for (int i = 0; i < LS_COUNT(sections); i++)
    compare_rows(&d, sections[i]->name, sections[i], ls_train_meta_at(saved, sections[i]->name),
                 ls_train_meta_at(now, sections[i]->name));
  const ls_strategy_t *strategy = ls_strategy_find(config->parallel.strategy);
  if (strategy->section)
    compare_rows(&d, strategy->section->name, strategy->section,
                 ls_train_meta_at(saved, strategy->section->name),
                 ls_train_meta_at(now, strategy->section->name));
  const json_t *was = ls_train_meta_at(saved, "train.optimizer.groups"),
               *is = ls_train_meta_at(now, "train.optimizer.groups");
  if (was != is && !json_equal(was, is))
    add(&d, LS_CHANGE_LISTED, "train.optimizer.groups", value_text(&d.arena, was), value_text(&d.arena, is));
  compare_layers(&d, ls_train_meta_at(saved, "model.layers"), ls_train_meta_at(now, "model.layers"));
  ls_status_t status = conclude(ctx, name, &d, list);
  ls_arena_release(&d.arena);
  json_decref(saved);
  json_decref(now);
  return status;
}

/* A list of strings as an option has it, borrowed from `names`. */
static ls_status_t take_names(ls_arena_t *arena, const json_t *names, ls_strings_t *out) {
  size_t count = json_array_size(names);
  if (count == 0 || count > INT_MAX) return LS_OK;
  const char **list = ls_arena_array(arena, count, sizeof *list);
  if (!list) return LS_ERR_MEMORY;
  for (size_t i = 0; i < count; i++)
    list[i] = json_string_value(json_array_get(names, i));
  *out = (ls_strings_t){(int)count, list};
  return LS_OK;
}

ls_status_t ls_train_take_names(ls_arena_t *arena, const json_t *meta, ls_data_config_t *data) {
  if (data->kind == LS_DATA_TEXT)
    return take_names(arena, json_object_get(meta, "vocabulary"), &data->vocabulary);
  if (data->kind != LS_DATA_CSV && data->kind != LS_DATA_IMAGES) return LS_OK;
  ls_status_t status = take_names(arena, json_object_get(meta, "labels"), &data->labels);
  data->classes_trained = meta;
  if (status != LS_OK || data->columns.count > 0 || data->kind == LS_DATA_IMAGES) return status;
  status = take_names(arena, saved_columns(meta), &data->columns);
  data->columns_trained = data->columns.count > 0;
  return status;
}

ls_status_t ls_train_compare_columns(ls_ctx_t *ctx, const json_t *meta, const ls_dataset_t *d) {
  const json_t *names = json_object_get(meta, "columns");
  if (!d->columns || !json_is_array(names)) return LS_OK;
  for (int64_t i = 0; i < d->column_count; i++) {
    const char *was = json_string_value(json_array_get(names, (size_t)i));
    if (was && strcmp(was, d->columns[i]) == 0) continue;
    return ls_fail(ctx, LS_ERR_MISMATCH,
                   "%s: feature column %lld is '%s', but the checkpoint was trained with '%s' there; name "
                   "the columns in "
                   "its order: data.columns",
                   d->source, (long long)i + 1, LS_SHOWN(d->columns[i]), LS_SHOWN(was ? was : "nothing"));
  }
  return LS_OK;
}
