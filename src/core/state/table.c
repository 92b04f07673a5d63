/* The table of a run's state: its rows, and their bytes. */
#include "state/state.h"

#include <string.h>

static void fill_parameters(const ls_state_row_t *row, const ls_layout_t *layout, uint64_t seed,
                            void *whole) {
  (void)row;
  ls_layout_init(layout, seed, whole);
}

static ls_status_t declare_graph(ls_state_table_t *t, const ls_graph_t *graph, int parts) {
  const ls_state_row_t parameters = {.name = "parameters",
                                     .part = "parameters",
                                     .of_layout = true,
                                     .shape = {.dtype = LS_F32},
                                     .life = LS_STATE_CARRIED,
                                     .file = LS_STATE_MODEL,
                                     .fill = fill_parameters};
  if (!graph) return LS_OK;
  ls_status_t status = ls_layout_create(t->ctx, graph, parts, &t->layout);
  return status ? status : ls_state_declare(t, &parameters, NULL);
}

ls_status_t ls_state_table_create(ls_ctx_t *ctx, const ls_graph_t *graph, int parts,
                                  ls_state_table_t **table) {
  ls_state_table_t *t = ls_alloc(ctx, sizeof *t);
  if (!t) return LS_ERR_MEMORY;
  t->holders = 1;
  t->ctx = ctx;
  ls_arena_init(&t->arena, ctx);
  ls_status_t status = declare_graph(t, graph, parts);
  if (status) {
    ls_state_table_release(t);
    return status;
  }
  *table = t;
  return LS_OK;
}

ls_state_table_t *ls_state_table_hold(ls_state_table_t *table) {
  if (table) atomic_fetch_add(&table->holders, 1);
  return table;
}

void ls_state_table_release(ls_state_table_t *table) {
  if (!table || atomic_fetch_sub(&table->holders, 1) > 1) return;
  ls_layout_destroy(table->layout);
  ls_arena_release(&table->arena);
  ls_free(table);
}

int ls_state_find(const ls_state_table_t *table, const char *name) {
  int i = 0;
  while (i < table->count && strcmp(table->row[i].name, name) != 0)
    i++;
  return i < table->count ? i : -1;
}

static bool same_row(const ls_state_row_t *a, const ls_state_row_t *b) {
  return strcmp(a->part, b->part) == 0 && a->of_layout == b->of_layout && a->trained == b->trained &&
         ls_shape_equal(&a->shape, &b->shape) && a->life == b->life && a->owner == b->owner &&
         a->range_count == b->range_count && a->file == b->file &&
         a->copies_parameters == b->copies_parameters &&
         (a->range_count == 0 || memcmp(a->range, b->range, (size_t)a->range_count * sizeof *a->range) == 0);
}

static bool ranges_hold(const ls_state_row_t *row) {
  int64_t end = 0;
  for (int i = 0; i < row->range_count; i++) {
    if (row->range[i].begin < end || row->range[i].end < row->range[i].begin) return false;
    end = row->range[i].end;
  }
  return end <= ls_shape_count(&row->shape) && (row->owner == LS_STATE_SHARDED || row->range_count == 0);
}

static ls_status_t append(ls_state_table_t *t, const ls_state_row_t *row) {
  if (t->count == t->capacity) {
    int wanted = t->capacity ? 2 * t->capacity : 8;
    ls_state_row_t *room = ls_arena_array(&t->arena, (size_t)wanted, sizeof *room);
    if (!room) return LS_ERR_MEMORY;
    if (t->count) memcpy(room, t->row, (size_t)t->count * sizeof *room);
    t->row = room;
    t->capacity = wanted;
  }
  ls_state_row_t copy = *row;
  size_t ranges_bytes = (size_t)row->range_count * sizeof *row->range;
  ls_range_t *range = row->range_count ? ls_arena_alloc(&t->arena, ranges_bytes) : NULL;
  copy.name = ls_arena_strdup(&t->arena, row->name);
  copy.part = ls_arena_strdup(&t->arena, row->part);
  if (!copy.name || !copy.part || (row->range_count && !range)) return LS_ERR_MEMORY;
  if (range) memcpy(range, row->range, ranges_bytes);
  copy.range = range;
  t->row[t->count++] = copy;
  return LS_OK;
}

ls_status_t ls_state_declare(ls_state_table_t *table, const ls_state_row_t *row, int *index) {
  ls_state_row_t whole = *row;
  if (row->of_layout) {
    if (!table->layout)
      return ls_fail(table->ctx, LS_ERR_INTERNAL, "state: '%s' follows a layout, but there is none",
                     row->name);
    whole.shape = LS_SHAPE(row->shape.dtype, row->trained ? table->layout->trained : table->layout->total);
  }
  if (!ranges_hold(&whole))
    return ls_fail(table->ctx, LS_ERR_INTERNAL, "state: the ranges of '%s' are not in order, or not in it",
                   row->name);
  int found = ls_state_find(table, row->name);
  if (found < 0) {
    ls_status_t status = append(table, &whole);
    if (status) return status;
    found = table->count - 1;
  } else if (!same_row(&table->row[found], &whole)) {
    return ls_fail(table->ctx, LS_ERR_INTERNAL, "state: '%s' is declared twice, differently", row->name);
  }
  if (index) *index = found;
  return LS_OK;
}

int64_t ls_state_row_count(const ls_state_row_t *row) {
  if (row->owner != LS_STATE_SHARDED) return ls_shape_count(&row->shape);
  int64_t sum = 0;
  for (int i = 0; i < row->range_count; i++)
    sum += row->range[i].end - row->range[i].begin;
  return sum;
}

size_t ls_state_row_bytes(const ls_state_row_t *row) {
  return (size_t)ls_state_row_count(row) * ls_dtype_bytes(row->shape.dtype);
}

size_t ls_state_bytes(const ls_state_table_t *table) {
  size_t sum = 0;
  for (int i = 0; i < table->count; i++)
    sum += ls_state_row_bytes(&table->row[i]);
  return sum;
}
