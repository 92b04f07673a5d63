/* Compares configurations: walks over the option rows of every section that matters to a run; each row says
 * what a change of it means. */
#include "config/compare.h"
#include "config/parts.h"

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

/* An option's default describes checkpoints that are older than the option. NULL on a side: nothing is compared. */
static void compare_value(differences_t *d, const char *section, const ls_option_t *row, const json_t *was,
                          const json_t *is) {
  json_t *initial = was ? NULL : ls_option_default_json(row);
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
    compare_value(d, name, row, json_object_get(saved, row->name), json_object_get(now, row->name));
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
json_t *ls_config_saved_columns(const json_t *meta) {
  json_t *names = json_object_get(meta, "columns");
  return json_is_array(names) ? names : ls_json_at(meta, "config.data.columns");
}

/* The checkpoint's columns are those that were read. A configuration that names none follows them. Other kinds of data have
 * neither columns nor targets. */
static void compare_data(differences_t *d, const ls_data_config_t *data, const json_t *saved,
                         const json_t *meta) {
  const char *kind = json_string_value(json_object_get(saved, "kind"));
  const bool csv = data->kind == LS_DATA_CSV && kind && strcmp(kind, "csv") == 0;
  const ls_option_t *row;
  for (int i = 0; (row = ls_section_row(&ls_data_section, i)); i++) {
    const bool columns = strcmp(row->name, "columns") == 0;
    if ((columns && !(csv && data->columns.count > 0)) || (!csv && strcmp(row->name, "target") == 0))
      continue;
    json_t *is = ls_option_value_json(row, data);
    compare_value(d, ls_data_section.name, row,
                  columns ? ls_config_saved_columns(meta) : json_object_get(saved, row->name), is);
    d->short_of_memory |= !is;
    json_decref(is);
  }
}

/* A section's rows, and the lists in it. */
static void compare_part(differences_t *d, const ls_config_part_t *part, const json_t *saved) {
  json_t *now = part->write ? part->write(part->of) : ls_option_json(part->section, part->of);
  const json_t *was = json_object_get(saved, "groups"), *is = json_object_get(now, "groups");
  d->short_of_memory |= !now;
  compare_rows(d, part->section->name, part->section, saved, now);
  if (part->section == &ls_optim_section && was != is && !json_equal(was, is))
    add(d, LS_CHANGE_LISTED, "train.optimizer.groups", value_text(&d->arena, was), value_text(&d->arena, is));
  if (part->section == &ls_model_section)
    compare_layers(d, json_object_get(saved, "layers"), json_object_get(now, "layers"));
  json_decref(now);
}

/* ---- the verdict ---- */

/* The file of a checkpoint's configuration: in the run's directory, or the manifest if the checkpoint was copied alone. */
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

ls_status_t ls_config_compare(ls_ctx_t *ctx, const char *name, const ls_config_t *config, const json_t *meta,
                              ls_use_t use, bool other_data, bool weights_fit, bool list) {
  const json_t *saved = json_object_get(meta, "config");
  differences_t d = {.use = use, .other_data = other_data, .weights_fit = weights_fit};
  ls_config_part_t part;
  ls_arena_init(&d.arena, ctx);
  for (int i = 0; i < ACTION_COUNT; i++)
    d.text[i] = "";
  for (int i = 0; ls_config_part(config, i, &part); i++) {
    const json_t *was = ls_json_at(saved, part.section->name);
    if (part.section == &ls_data_section)
      compare_data(&d, &config->data, was, meta);
    else if (part.compared)
      compare_part(&d, &part, was);
  }
  ls_status_t status = conclude(ctx, name, &d, list);
  ls_arena_release(&d.arena);
  return status;
}

/* ---- between ranks ---- */

static bool may_differ(const char *path) {
  static const char *const free_of[] = {".cost",
                                        ".monitor",
                                        ".supervise",
                                        ".parallel.threads",
                                        ".parallel.bind",
                                        ".parallel.deadline_s",
                                        ".parallel.predicted_us"};
  for (int i = 0; i < LS_COUNT(free_of); i++)
    if (strcmp(path, free_of[i]) == 0) return true;
  return false;
}

static bool is_path(const json_t *value) {
  const char *text = json_string_value(value);
  return text && text[0] == '/';
}

/* The place that all ranks write to. Others may have another name on another host. */
static const char shared_path[] = ".train.checkpoint.dir";

/* The path of the first value that differs, "" = none; both sides then have it, or one. */
static void find_difference(json_t *a, json_t *b, const char *path, char found[256], json_t *value[2]) {
  if (found[0] || may_differ(path) || (a && b && same_value(a, b))) return;
  if (is_path(a) && is_path(b) && strcmp(path, shared_path) != 0) return;
  json_t *both = json_is_object(a) && json_is_object(b) ? json_copy(a) : NULL;
  if (!both) {
    snprintf(found, 256, "%s", path + 1);
    value[0] = a;
    value[1] = b;
    return;
  }
  const char *key;
  json_t *unused;
  json_object_update_missing(both, b);
  json_object_foreach(both, key, unused) {
    char next[256];
    (void)unused;
    snprintf(next, sizeof next, "%.180s.%.70s", path, key);
    find_difference(json_object_get(a, key), json_object_get(b, key), next, found, value);
  }
  json_decref(both);
}

/* Rank 0's text on every rank (ls_free). */
static char *share_text(ls_ctx_t *ctx, ls_comm_t *comm, const char *own, ls_status_t *status) {
  int64_t size_bytes = own ? (int64_t)strlen(own) : 0;
  *status = ls_comm_broadcast(comm, "size of the configuration", &size_bytes, sizeof size_bytes, 0);
  char *text = *status == LS_OK ? ls_alloc(ctx, (size_t)size_bytes + 1) : NULL;
  if (text && comm->rank == 0 && own) memcpy(text, own, (size_t)size_bytes);
  if (*status == LS_OK)
    *status = text ? ls_comm_broadcast(comm, "configuration", text, size_bytes, 0) : LS_ERR_MEMORY;
  return text;
}

ls_status_t ls_config_compare_ranks(ls_ctx_t *ctx, ls_comm_t *comm, const ls_config_t *config,
                                    json_t *flags) {
  char found[256] = "";
  json_t *own = ls_config_json(config), *first = NULL, *value[2] = {NULL, NULL};
  json_object_update(own, flags);
  json_decref(flags);
  char *dumped = own && comm->rank == 0 ? json_dumps(own, JSON_COMPACT) : NULL;
  ls_status_t status;
  char *text = share_text(ctx, comm, dumped, &status);
  if (status == LS_OK && comm->rank > 0 && (first = json_loads(text, 0, NULL)))
    find_difference(own, first, "", found, value);
  if (found[0]) {
    ls_arena_t arena;
    ls_arena_init(&arena, ctx);
    status =
        ls_fail(ctx, LS_ERR_CONFIG,
                "rank %d was started with %s: %s, rank 0 with %s: start all ranks with the same program, "
                "configuration and flags",
                comm->rank, found, value_text(&arena, value[0]), value_text(&arena, value[1]));
    ls_arena_release(&arena);
  }
  ls_free(text);
  free(dumped);
  json_decref(first);
  json_decref(own);
  return ls_comm_agree(comm, "comparing the ranks' configurations", status);
}
