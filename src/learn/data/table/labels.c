/* Text labels as class numbers: a class is the place of its label in the order of bytes, whatever the order of rows. */
#include "data/read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The place of `name` among the labels so far, or where it would stand. */
static int place_of(const ls_labels_t *l, const char *name, bool *known) {
  int low = 0, high = l->count;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(l->label[middle].name, name);
    *known = order == 0;
    if (*known) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

ls_status_t ls_labels_add(ls_labels_t *l, const char *name, int64_t *number) {
  bool known = false;
  int at = place_of(l, name, &known);
  if (known) {
    *number = l->label[at].number;
    return LS_OK;
  }
  if (l->closed || l->count >= l->most) return LS_ERR_DATA;
  if (l->count == l->capacity) {
    int capacity = l->capacity ? 2 * l->capacity : 16;
    ls_label_t *more = ls_arena_array(l->arena, (size_t)capacity, sizeof *more);
    if (!more) return LS_ERR_MEMORY;
    if (l->count > 0) memcpy(more, l->label, (size_t)l->count * sizeof *more);
    l->label = more;
    l->capacity = capacity;
  }
  const char *copy = ls_arena_strdup(l->arena, name);
  if (!copy) return LS_ERR_MEMORY;
  memmove(l->label + at + 1, l->label + at, (size_t)(l->count - at) * sizeof *l->label);
  l->label[at] = (ls_label_t){copy, l->count};
  *number = l->count++;
  return LS_OK;
}

ls_status_t ls_labels_close(ls_labels_t *l, double *values, int64_t count) {
  int32_t *rank = ls_arena_array(l->arena, (size_t)l->count + 1, sizeof *rank);
  if (!rank) return LS_ERR_MEMORY;
  for (int i = 0; i < l->count; i++) {
    rank[l->label[i].number] = i;
    l->label[i].number = i;
  }
  for (int64_t i = 0; i < count; i++)
    values[i] = rank[(int64_t)values[i]];
  l->closed = true;
  return LS_OK;
}

ls_status_t ls_labels_give(ls_labels_t *l, const ls_strings_t *given) {
  int64_t number;
  ls_status_t status = LS_OK;
  for (int i = 0; i < given->count && status == LS_OK; i++)
    status = ls_labels_add(l, given->v[i], &number);
  l->closed = l->given = given->count > 0;
  return status == LS_OK ? ls_labels_close(l, NULL, 0) : status;
}

void ls_labels_warn(ls_ctx_t *ctx, const char *source, const ls_labels_t *l) {
  if (!l->text || l->given || l->count >= l->most) return;
  ls_log(ctx, LS_LOG_WARN,
         "%s: %d label%s, but the model's last layer has %" PRId64
         " units: classes from %d on have no label and are shown as numbers; give the layer %d unit%s",
         source, l->count, LS_PLURAL(l->count), l->most, l->count, l->count, LS_PLURAL(l->count));
}

ls_status_t ls_class_names(ls_arena_t *arena, const ls_strings_t *labels, int64_t count, ls_strings_t *out) {
  const char **list = ls_arena_array(arena, (size_t)count + 1, sizeof *list);
  if (!list) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < count; i++)
    if (!(list[i] = i < labels->count ? labels->v[i] : ls_arena_printf(arena, "%" PRId64, i)))
      return LS_ERR_MEMORY;
  *out = (ls_strings_t){(int)count, list};
  return LS_OK;
}

ls_status_t ls_labels_list(const ls_labels_t *l, ls_strings_t *out) {
  const char **list = ls_arena_array(l->arena, (size_t)l->count + 1, sizeof *list);
  if (!list) return LS_ERR_MEMORY;
  for (int i = 0; i < l->count; i++)
    list[i] = l->label[i].name;
  *out = (ls_strings_t){l->count, list};
  return LS_OK;
}
