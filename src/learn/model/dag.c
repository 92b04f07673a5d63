/* Turns the written list of layers into a graph of layers: reads kinds and options, resolves names, repeats blocks,
 * and follows sizes from layer to layer. An entry with an error still counts as a layer, of unknown size, so that
 * later layers can be read and all errors are reported at once. */
#include "model/dag.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  const char *name, *from;
  int64_t times;
} repeat_t;

static const ls_option_t repeat_rows[] = {
    LS_OPTION(repeat_t, times, .min = 1, .max = LS_LAYER_MAX,
              .help = "Number of repetitions. Each has parameters of its own."),
    LS_OPTION(repeat_t, name, .initial = "block",
              .help = "Name of the block. Its layers are called NAME.0.fc, NAME.1.fc and so on; layers "
                      "without a name NAME.0.0, NAME.0.1."),
    LS_OPTION(repeat_t, from, .optional = true,
              .help = "Layer that the first repetition reads. Default: the layer before."),
};
const ls_section_t ls_repeat_section = {
    "model.layers.repeat", repeat_rows, LS_COUNT(repeat_rows),
    "A block repeats its `layers`, a list like the model's. Inside, `from` and "
    "`share` refer to layers of the same repetition first, then to those around the "
    "block. `input` is the layer before the block, later the output of the previous "
    "repetition."};

static const ls_layer_kind_t *find_kind(const char *name) {
  int i = 0;
  while (ls_layer_kinds[i] && strcmp(ls_layer_kinds[i]->name, name) != 0)
    i++;
  return ls_layer_kinds[i];
}

static ls_status_t fail_kind(const ls_layer_reader_t *r, const ls_doc_node_t *entry) {
  const char *names[32] = {0}, *kind = ls_entry_kind(entry);
  char text[LS_NAMES_TEXT_BYTES];
  int count = 0;
  for (; ls_layer_kinds[count] && count < LS_COUNT(names) - 2; count++)
    names[count] = ls_layer_kinds[count]->name;
  names[count] = ls_repeat_section.name + strlen("model.layers.");
  bool near = *ls_nearest_text("model.layers", kind, names, text);
  return ls_fail_at(r->ctx, LS_ERR_CONFIG, ls_entry_place(entry), "unknown layer `%.80s`%s%s", LS_SHOWN(kind),
                    near ? "" : "; possible: ", near ? text : ls_names_text(names, text));
}

/* ---- from ---- */

static const ls_place_t *from_place(const ls_doc_node_t *entry, int index) {
  const ls_doc_node_t *node = ls_entry_option(entry, "from");
  const ls_doc_node_t *item = node && node->kind == LS_DOC_LIST ? ls_doc_at(node, index) : node;
  return item ? &item->place : node ? &node->place : ls_entry_place(entry);
}

static ls_status_t check_from_count(const ls_layer_reader_t *r, const ls_layer_site_t *site,
                                    const ls_layer_t *layer) {
  const char *kind = layer->kind->name;
  if (layer->kind->joins && (layer->from_count < 2 || layer->from_count > LS_LAYER_FROM_MAX))
    return ls_fail_at(r->ctx, LS_ERR_CONFIG, from_place(site->entry, -1),
                      "model.layers.%s.from: %d given, 2 to %d layers are joined: `from: [a, b]`", kind,
                      ls_layer_common(layer)->from.count, LS_LAYER_FROM_MAX);
  if (layer->kind->joins || layer->from_count == 1) return LS_OK;
  return ls_fail_at(
      r->ctx, LS_ERR_CONFIG, from_place(site->entry, -1),
      "model.layers.%s.from: %d layers are named, %s reads one; join them with add, multiply or concat", kind,
      layer->from_count, kind);
}

/* Fills `from`, and replaces everything that is not the default by whole names. `before`: the default. */
static ls_status_t connect(ls_layer_reader_t *r, const ls_layer_scope_t *scope, int i, int before) {
  ls_layer_t *layer = &r->model->layer[i];
  ls_layer_common_t *common = ls_layer_options_of(r, i);
  const ls_strings_t given = common->from;
  layer->from[0] = before;
  layer->from_count = given.count ? given.count : 1;
  ls_status_t status = check_from_count(r, &r->site[i], layer);
  if (status) return status;
  for (int k = 0; k < given.count; k++) {
    layer->from[k] = ls_layer_resolve(r, scope, i, given.v[k], "from", from_place(scope->entry, k));
    if (layer->from[k] == LS_LAYER_UNKNOWN) status = LS_ERR_CONFIG;
  }
  if (status) return status;
  const char **names = ls_arena_array(r->arena, (size_t)layer->from_count, sizeof *names);
  if (!names) return LS_ERR_MEMORY;
  for (int k = 0; k < layer->from_count; k++) {
    names[k] = layer->from[k] < 0 ? "input" : r->site[layer->from[k]].name;
    if (layer->from[k] >= 0) r->site[layer->from[k]].read = true;
  }
  bool usual = layer->from_count == 1 && layer->from[0] == i - 1;
  common->from = (ls_strings_t){usual ? 0 : layer->from_count, names};
  return LS_OK;
}

/* ---- sizes ---- */

static const char *sample_text(const ls_shape_t *sample, char text[LS_SHAPE_TEXT_BYTES]) {
  return ls_shape_text(sample, text) + strlen("f32 ");
}

/* Two shapes are compatible if they are equal, or if one of them is a plain row of as many elements. */
static bool alike(const ls_shape_t *a, const ls_shape_t *b) {
  bool row = a->rank == 1 || b->rank == 1;
  return row ? ls_shape_count(a) == ls_shape_count(b) : ls_shape_equal(a, b);
}

static ls_status_t size_layer(ls_layer_reader_t *r, int i) {
  ls_layer_t *layer = &r->model->layer[i];
  const ls_doc_node_t *entry = r->site[i].entry;
  ls_shape_t sample[LS_LAYER_FROM_MAX];
  char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
  for (int k = 0; k < layer->from_count; k++) {
    int from = layer->from[k];
    if (from < 0 ? !r->sized : !r->site[from].sized) return LS_OK;
    sample[k] = ls_model_sample(r->model, from);
  }
  for (int k = 1; layer->kind->alike && k < layer->from_count; k++)
    if (!alike(&sample[0], &sample[k])) {
      const ls_strings_t *names = &ls_layer_common(layer)->from;
      return ls_fail_at(
          r->ctx, LS_ERR_CONFIG, from_place(entry, k),
          "model.layers.%s.from: `%s` gives %s, but `%s` %s; all that is joined here has one size",
          layer->kind->name, names->v[0], sample_text(&sample[0], a), names->v[k],
          sample_text(&sample[k], b));
    }
  if (layer->kind->ids && layer->from[0] >= 0)
    return ls_fail_at(
        r->ctx, LS_ERR_CONFIG, from_place(entry, 0),
        "model.layers.%s: it takes whole numbers, which only the model's input has: `from: input`",
        layer->kind->name);
  char why[LS_LAYER_WHY_BYTES], all[LS_LAYER_FROM_MAX * (LS_SHAPE_TEXT_BYTES + 2)] = "";
  if (layer->kind->takes && !layer->kind->takes(layer->options, sample, layer->from_count, why)) {
    for (int k = 0; k < layer->from_count; k++) {
      strcat(all, k > 0 ? ", " : "");
      strcat(all, sample_text(&sample[k], a));
    }
    return ls_fail_at(r->ctx, LS_ERR_CONFIG, ls_entry_place(entry), "model.layers.%s: %s; %s gives %s",
                      layer->kind->name, why,
                      ls_layer_common(layer)->from.count > 0 ? "`from`" : "the layer before", all);
  }
  layer->sample = layer->kind->shape(layer->options, sample, layer->from_count);
  r->site[i].sized = ls_shape_count(&layer->sample) <= LS_SAMPLE_MAX;
  if (r->site[i].sized) return LS_OK;
  return ls_fail_at(r->ctx, LS_ERR_CONFIG, ls_entry_place(entry),
                    "model.layers: a sample of more than %lld elements behind `%s`", (long long)LS_SAMPLE_MAX,
                    r->site[i].name);
}

/* ---- parameters ---- */

static int params_of(const ls_layer_reader_t *r, int i, ls_layer_param_t *param) {
  const ls_layer_t *layer = &r->model->layer[i];
  const ls_shape_t sample = ls_model_sample(r->model, layer->from[0]);
  return layer->kind->params(layer->options, &sample, param);
}

static ls_status_t check_shared(const ls_layer_reader_t *r, int i, int owner, const ls_place_t *place) {
  const ls_layer_kind_t *kind = r->model->layer[i].kind, *other = r->model->layer[owner].kind;
  const char *name = r->site[owner].name;
  bool like = kind == other || (other && kind->shares && strcmp(kind->shares, other->name) == 0);
  if (!like)
    return ls_fail_at(
        r->ctx, LS_ERR_CONFIG, place,
        "model.layers.%s.share: `%s` is of kind %s; parameters are shared by layers of one kind", kind->name,
        name, other ? other->name : "unknown");
  if (!r->site[i].sized || !r->site[owner].sized) return LS_OK;
  ls_layer_param_t want[LS_LAYER_PARAM_MAX], has[LS_LAYER_PARAM_MAX];
  int wanted = params_of(r, i, want), given = params_of(r, owner, has);
  char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
  for (int k = 0; k < wanted && k < given; k++)
    if (!ls_shape_equal(&want[k].shape, &has[k].shape))
      return ls_fail_at(r->ctx, LS_ERR_CONFIG, place,
                        "model.layers.%s.share: %s of `%s` is %s, but this layer needs %s", kind->name,
                        has[k].name, name, sample_text(&has[k].shape, a), sample_text(&want[k].shape, b));
  if (wanted == given || (kind != other && wanted > given)) return LS_OK; /* the others are its own */
  return ls_fail_at(r->ctx, LS_ERR_CONFIG, place,
                    "model.layers.%s.share: `%s` has %d parameters, but this layer needs %d", kind->name,
                    name, given, wanted);
}

/* Finds the owner of the layer's parameters. */
static ls_status_t own_params(ls_layer_reader_t *r, const ls_layer_scope_t *scope, int i) {
  ls_layer_t *layer = &r->model->layer[i];
  ls_layer_common_t *common = ls_layer_options_of(r, i);
  const ls_doc_node_t *share = ls_entry_option(scope->entry, "share"),
                      *freeze = ls_entry_option(scope->entry, "freeze");
  layer->owner = i;
  if (!layer->kind->params && (common->share || common->freeze))
    return ls_fail_at(r->ctx, LS_ERR_CONFIG, share ? &share->place : &freeze->place,
                      "model.layers.%s.%s: %s has no parameters", layer->kind->name,
                      share ? "share" : "freeze", layer->kind->name);
  if (!common->share) return LS_OK;
  int owner = ls_layer_resolve(r, scope, i, common->share, "share", &share->place);
  if (owner == LS_LAYER_UNKNOWN) return LS_ERR_CONFIG;
  if (owner < 0)
    return ls_fail_at(r->ctx, LS_ERR_CONFIG, &share->place,
                      "model.layers.%s.share: the input has no parameters; name a layer", layer->kind->name);
  owner = r->model->layer[owner].owner;
  if (common->freeze)
    return ls_fail_at(r->ctx, LS_ERR_CONFIG, &freeze->place,
                      "model.layers.%s.freeze: the parameters are those of `%s`; freeze that layer",
                      layer->kind->name, r->site[owner].name);
  layer->owner = owner;
  common->share = r->site[owner].name;
  return check_shared(r, i, owner, &share->place);
}

/* ---- the list ---- */

/* Adds an entry for one more layer; returns its index, -1 after a report. */
static int append(ls_layer_reader_t *r, const ls_doc_node_t *entry) {
  int i = r->model->layer_count;
  if (i == LS_LAYER_MAX) {
    if (!r->full)
      ls_fail_at(r->ctx, LS_ERR_CONFIG, ls_entry_place(entry),
                 "model.layers: with blocks repeated there are more than %d layers", LS_LAYER_MAX);
    r->full = true;
    return -1;
  }
  r->site[i] = (ls_layer_site_t){.entry = entry, .name = ""};
  r->model->layer[i].owner = i;
  r->model->layer_count++;
  return i;
}

static ls_status_t read_layer(ls_layer_reader_t *r, const ls_layer_scope_t *scope, int position, int before) {
  const ls_doc_node_t *entry = scope->entry;
  const char *kind = ls_entry_kind(entry);
  int i = append(r, entry);
  if (i < 0) return LS_ERR_CONFIG;
  r->broken = r->broken || !kind || !find_kind(kind);
  if (!kind)
    return ls_fail_at(r->ctx, LS_ERR_CONFIG, &entry->place,
                      "a layer was expected, one kind and its options: `dense: {units: 10}`");
  ls_layer_t *layer = &r->model->layer[i];
  const ls_doc_node_t none = {.kind = LS_DOC_NULL, .place = entry->place};
  layer->kind = find_kind(kind);
  if (!layer->kind) return fail_kind(r, entry);
  ls_status_t status = ls_option_parse(r->ctx, r->arena, layer->kind->section,
                                       ls_entry_is_alone(entry) ? &none : entry->child, NULL, layer->options);
  status = ls_worse(status, ls_layer_set_name(r, scope, i, position));
  if (status == LS_OK) status = connect(r, scope, i, before);
  if (status == LS_OK) status = size_layer(r, i);
  return status == LS_OK ? own_params(r, scope, i) : status;
}

/* Whether a layer from `first` on reads `from`. */
static bool is_read_from(const ls_layer_reader_t *r, int first, int from) {
  for (int i = first; i < r->model->layer_count; i++)
    for (int k = 0; k < r->model->layer[i].from_count; k++)
      if (r->model->layer[i].from[k] == from) return true;
  return false;
}

static ls_status_t read_list(ls_layer_reader_t *r, ls_layer_scope_t *scope, const ls_doc_node_t *list);

static ls_status_t read_block(ls_layer_reader_t *r, const ls_layer_scope_t *scope, int before) {
  static const char *const nested[] = {"layers", NULL};
  const ls_doc_node_t *entry = scope->entry, *list = ls_entry_option(entry, "layers");
  const ls_doc_node_t none = {.kind = LS_DOC_NULL, .place = entry->place};
  repeat_t repeat = {0};
  int count = r->model->layer_count;
  ls_status_t status = ls_option_parse(r->ctx, r->arena, &ls_repeat_section,
                                       ls_entry_is_alone(entry) ? &none : entry->child, nested, &repeat);
  if (!list || list->kind != LS_DOC_LIST || list->count < 1)
    status = ls_fail_at(r->ctx, LS_ERR_CONFIG, list ? &list->place : ls_entry_place(entry),
                        "model.layers.repeat.layers: a list of at least one layer was expected");
  if (status == LS_OK) status = ls_layer_check_name(r, entry, repeat.name);
  ls_layer_scope_t inner = {.outer = scope, .input = before};
  const ls_doc_node_t *from = ls_entry_option(entry, "from");
  if (status == LS_OK && from)
    inner.input = ls_layer_resolve(r, scope, count, repeat.from, "from", &from->place);
  if (inner.input == LS_LAYER_UNKNOWN) status = LS_ERR_CONFIG;
  for (int64_t time = 0; time < repeat.times && status == LS_OK; time++) {
    inner.prefix = ls_arena_printf(r->arena, "%s%s.%lld.", scope->prefix, repeat.name, (long long)time);
    status = inner.prefix ? read_list(r, &inner, list) : LS_ERR_MEMORY;
    if (status == LS_OK && from && time == 0 && !is_read_from(r, count, inner.input))
      status = ls_fail_at(r->ctx, LS_ERR_CONFIG, &from->place,
                          "model.layers.repeat.from: no layer of the block reads it; `from: input` does");
    inner.input = r->model->layer_count - 1;
  }
  r->broken = r->broken || status != LS_OK;
  if (r->model->layer_count == count) append(r, entry); /* what follows is not the first */
  return status;
}

static ls_status_t read_list(ls_layer_reader_t *r, ls_layer_scope_t *scope, const ls_doc_node_t *list) {
  ls_status_t status = LS_OK;
  int before = scope->input, position = 0;
  for (scope->entry = list->child; scope->entry && !r->full; scope->entry = scope->entry->next) {
    const char *kind = ls_entry_kind(scope->entry);
    bool block = kind && strcmp(kind, "repeat") == 0;
    ls_status_t this = block ? read_block(r, scope, before) : read_layer(r, scope, position, before);
    status = ls_worse(status, this);
    before = r->model->layer_count - 1;
    position++;
  }
  return r->full ? ls_worse(status, LS_ERR_CONFIG) : status;
}

/* ---- the whole ---- */

static ls_status_t check_all_read(const ls_layer_reader_t *r) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < r->model->layer_count - 1; i++) {
    const ls_layer_site_t *site = &r->site[i];
    bool known = false; /* from an earlier repetition of the block */
    for (int k = 0; k < i; k++)
      known = known || (r->site[k].entry == site->entry && !r->site[k].read);
    if (!site->read && !known)
      status = ls_fail_at(r->ctx, LS_ERR_CONFIG, ls_entry_place(site->entry),
                          "model.layers: no layer reads the output of `%s`; name it in the `from` of a later "
                          "one, or leave it out",
                          site->name);
  }
  return status;
}

/* The model's input is whole numbers for all that read it, or for none. */
static ls_status_t check_ids(const ls_layer_reader_t *r) {
  const int64_t ids = ls_model_ids(r->model);
  if (ids == 0) return LS_OK;
  for (int i = 0; i < r->model->layer_count; i++) {
    const ls_layer_t *layer = &r->model->layer[i];
    if (layer->kind->separator && layer->kind->separator(layer->options) >= ids)
      return ls_fail_at(r->ctx, LS_ERR_CONFIG, &ls_entry_option(r->site[i].entry, "separator")->place,
                        "model.layers.%s.separator: no sample holds it: the tokens of the embedding are 0 to "
                        "%lld",
                        layer->kind->name, (long long)ids - 1);
    for (int k = 0; k < r->model->layer[i].from_count; k++)
      if (r->model->layer[i].from[k] < 0 && !r->model->layer[i].kind->ids)
        return ls_fail_at(
            r->ctx, LS_ERR_CONFIG, from_place(r->site[i].entry, k),
            "model.layers.%s: it reads the model's input, which an embedding takes as whole numbers; "
            "let it read the embedding",
            r->model->layer[i].kind->name);
  }
  return LS_OK;
}

static ls_status_t check_learns(const ls_layer_reader_t *r, const ls_doc_node_t *list) {
  bool learns = false;
  for (int i = 0; i < r->model->layer_count; i++) {
    const ls_layer_t *layer = &r->model->layer[i];
    learns = learns || layer->kind->params;
    if (layer->kind->params && !ls_layer_common(layer)->freeze && layer->owner == i) return LS_OK;
  }
  return ls_fail_at(r->ctx, LS_ERR_CONFIG, &list->place,
                    learns ? "model.layers: every layer that learns is frozen; leave one without `freeze`"
                           : "model.layers: none of the layers learns anything; `dense` does");
}

ls_status_t ls_layers_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *list, bool sized,
                            ls_model_config_t *model) {
  if (list->kind != LS_DOC_LIST || list->count < 1 || list->count > LS_LAYER_MAX)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &list->place, "model.layers: a list of 1 to %d layers was expected",
                      LS_LAYER_MAX);
  ls_layer_reader_t r = {.ctx = ctx, .arena = arena, .model = model, .sized = sized};
  ls_layer_t *room = ls_arena_array(arena, LS_LAYER_MAX, sizeof *room);
  if (!room) return LS_ERR_MEMORY;
  model->layer = room;
  ls_layer_scope_t top = {.prefix = "", .input = -1};
  ls_status_t status = read_list(&r, &top, list);
  if (status == LS_OK) status = check_all_read(&r);
  if (status == LS_OK) status = check_ids(&r);
  return status == LS_OK ? check_learns(&r, list) : status;
}
