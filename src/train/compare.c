/* Comparing configurations: a walk over the option rows of every section that matters to a run, each row
 * saying itself what a change of it means. */
#include "train/compare.h"
#include "train/config_parts.h"

#include "model/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 8, NUMBER_BYTES = 32 };

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
  bool other_data, short_of_memory;
  const char *text[ACTION_COUNT]; /* a line per difference, each after a line end */
  int count[ACTION_COUNT];
} differences_t;

/* ---- texts ---- */

/* As few digits as give the same number again. */
static const char *real_text(ls_arena_t *arena, double value) {
  char text[NUMBER_BYTES];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  return ls_arena_strdup(arena, text);
}

static const char *value_text(ls_arena_t *arena, const json_t *value) {
  if (!value || json_is_null(value)) return "nothing";
  if (json_is_string(value)) return json_string_value(value);
  if (json_is_real(value)) return real_text(arena, json_real_value(value));
  char *dumped = ls_json_dump(value, 0);
  const char *text = dumped ? ls_arena_strdup(arena, dumped) : NULL;
  free(dumped);
  return text ? text : "?";
}

static void add(differences_t *d, ls_change_t change, const char *name, const char *saved, const char *now) {
  action_t action = actions[change][d->use];
  if (action == REFUSE_DATA && d->other_data) action = LIST;
  bool refused = action == REFUSE || action == REFUSE_DATA; /* a cause; what changes is all of interest */
  if (action == PASS || (d->count[action]++ >= SHOWN_MAX && refused)) return;
  static const char *const formats[] = {[LIST] = "%s\n  %s: %s -> %s",
                                        [KEEP] = "%s\n  %s: %s is kept from the checkpoint, %s is not used",
                                        [REFUSE] = "%s\n  %s: checkpoint has %s, configuration has %s",
                                        [REFUSE_DATA] = "%s\n  %s: checkpoint has %s, configuration has %s"};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const char *text = ls_arena_printf(&d->arena, formats[action], d->text[action], name, saved, now);
#pragma GCC diagnostic pop
  if (text) d->text[action] = text;
  d->short_of_memory = d->short_of_memory || !text;
}

/* ---- the walk ---- */

static bool same_value(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return json_equal(a, b);
}

/* A checkpoint of a time before an option existed did what its default does. */
static void compare_row(differences_t *d, const char *section, const ls_option_t *row, const json_t *saved,
                        const json_t *now) {
  json_t *initial = ls_option_default_json(row);
  const json_t *was = json_object_get(saved, row->name), *is = json_object_get(now, row->name);
  if (!was) was = initial;
  if (is && was && !same_value(was, is)) {
    const char *name = ls_arena_printf(&d->arena, "%s.%s", section, row->name);
    add(d, row->change, name ? name : row->name, value_text(&d->arena, was), value_text(&d->arena, is));
  }
  json_decref(initial);
}

static void compare_rows(differences_t *d, const char *name, const ls_section_t *section, const json_t *saved,
                         const json_t *now) {
  for (int i = 0; i < section->count; i++)
    compare_row(d, name, &section->rows[i], saved, now);
}

static const char *kind_of(json_t *layer) {
  const char *kind = json_object_iter_key(json_object_iter(layer));
  return kind ? kind : "nothing";
}

static void compare_layer(differences_t *d, size_t index, json_t *saved, json_t *now) {
  const char *was = kind_of(saved), *is = kind_of(now);
  bool same = strcmp(was, is) == 0;
  const char *name = ls_arena_printf(&d->arena, same ? "model.layers.%zu.%s" : "model.layers.%zu", index, is);
  if (!name) {
    d->short_of_memory = true;
  } else if (!same) {
    add(d, LS_CHANGE_MODEL, name, was, is);
  } else {
    for (int i = 0; ls_layer_kinds[i]; i++)
      if (strcmp(ls_layer_kinds[i]->name, is) == 0)
        compare_rows(d, name, ls_layer_kinds[i]->section, json_object_get(saved, is),
                     json_object_get(now, is));
  }
}

static void compare_layers(differences_t *d, const json_t *saved, const json_t *now) {
  size_t was = json_array_size(saved), is = json_array_size(now);
  if (was != is) {
    const char *a = ls_arena_printf(&d->arena, "%zu layer%s", was, was == 1 ? "" : "s"),
               *b = ls_arena_printf(&d->arena, "%zu", is);
    add(d, LS_CHANGE_MODEL, "model.layers", a ? a : "others", b ? b : "others");
  }
  for (size_t i = 0; i < was && i < is; i++)
    compare_layer(d, i, json_array_get(saved, i), json_array_get(now, i));
}

/* ---- columns, which only some kinds of data have ---- */

/* The checkpoint's feature columns: as they were read, else as they were given. */
static json_t *saved_columns(const json_t *meta) {
  json_t *names = json_object_get(meta, "columns");
  return json_is_array(names) ? names : ls_train_meta_at(meta, "config.data.columns");
}

static bool has_columns(const json_t *config) {
  const char *kind = json_string_value(ls_train_meta_at(config, "data.kind"));
  return kind && strcmp(kind, "csv") == 0;
}

/* Puts names where the walk looks for them; without names on both sides there is nothing to compare. */
static void settle_columns(const json_t *meta, json_t *saved, json_t *now) {
  json_t *was = json_object_get(saved, "data"), *is = json_object_get(now, "data");
  if (has_columns(saved) && has_columns(now)) {
    json_object_set(was, "columns", saved_columns(meta));
    if (json_array_size(json_object_get(is, "columns")) == 0)
      json_object_set(is, "columns", json_object_get(was, "columns"));
    return;
  }
  json_object_del(is, "columns");
  json_object_del(is, "target");
}

/* ---- the verdict ---- */

static ls_status_t refuse(ls_ctx_t *ctx, const char *name, const differences_t *d) {
  bool data = d->count[REFUSE] == 0;
  int count = d->count[data ? REFUSE_DATA : REFUSE];
  char more[48] = "";
  if (count > SHOWN_MAX) snprintf(more, sizeof more, "\n  and %d more", count - SHOWN_MAX);
  const char *remedy = d->use == LS_USE_MODEL ? "Use the configuration that was saved with it: config.json"
                       : data
                           ? "--allow-data-change goes on with other samples or another split all the same"
                           : "Use the configuration that was saved with it (config.json), or begin a new run "
                             "with its weights: --init";
  return ls_fail(ctx, LS_ERR_MISMATCH, "%s: does not go with this configuration:%s%s\n%s", name,
                 d->text[data ? REFUSE_DATA : REFUSE], more, remedy);
}

static ls_status_t conclude(ls_ctx_t *ctx, const char *name, const differences_t *d) {
  if (d->short_of_memory) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: comparing configurations");
  if (d->count[REFUSE] + d->count[REFUSE_DATA] > 0) return refuse(ctx, name, d);
  if (d->count[LIST] + d->count[KEEP] > 0)
    ls_log(ctx, LS_LOG_INFO, "%s: this configuration differs from the checkpoint's:%s%s", name, d->text[LIST],
           d->text[KEEP]);
  return LS_OK;
}

ls_status_t ls_train_compare(ls_ctx_t *ctx, const char *name, const ls_config_t *config, const json_t *meta,
                             ls_use_t use, bool other_data) {
  json_t *saved = json_deep_copy(json_object_get(meta, "config")), *now = ls_config_json(config);
  differences_t d = {.use = use, .other_data = other_data, .short_of_memory = !saved || !now};
  ls_arena_init(&d.arena, ctx);
  for (int i = 0; i < ACTION_COUNT; i++)
    d.text[i] = "";
  settle_columns(meta, saved, now);
  for (int i = 0; i < LS_COUNT(sections); i++)
    compare_rows(&d, sections[i]->name, sections[i], ls_train_meta_at(saved, sections[i]->name),
                 ls_train_meta_at(now, sections[i]->name));
  compare_layers(&d, ls_train_meta_at(saved, "model.layers"), ls_train_meta_at(now, "model.layers"));
  ls_status_t status = conclude(ctx, name, &d);
  ls_arena_release(&d.arena);
  json_decref(saved);
  json_decref(now);
  return status;
}

void ls_train_take_columns(const json_t *meta, ls_data_config_t *data) {
  const json_t *names = saved_columns(meta);
  size_t count = json_array_size(names);
  if (data->kind != LS_DATA_CSV || data->columns.count > 0 || count > LS_OPT_LIST_MAX) return;
  for (size_t i = 0; i < count; i++)
    data->columns.v[i] = json_string_value(json_array_get(names, i));
  data->columns.count = (int)count;
}

ls_status_t ls_train_compare_columns(ls_ctx_t *ctx, const json_t *meta, const ls_dataset_t *d) {
  const json_t *names = json_object_get(meta, "columns");
  if (!d->columns || !json_is_array(names)) return LS_OK;
  for (int64_t i = 0; i < d->inputs; i++) {
    const char *was = json_string_value(json_array_get(names, (size_t)i));
    if (was && strcmp(was, d->columns[i]) == 0) continue;
    return ls_fail(
        ctx, LS_ERR_MISMATCH,
        "%s: feature column %lld is '%.200s', but the checkpoint was trained with '%.200s' there; name "
        "the columns in its order: data.columns",
        d->source, (long long)i + 1, d->columns[i], was ? was : "nothing");
  }
  return LS_OK;
}
