/* The flat layout of the parameters, and their initial values. */
#include "state/layout.h"

#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

/* Random numbers come in fours. A thread is started for milliseconds of work. */
enum { RNG_GRAIN = 4, THREAD_ELEMENTS = 1 << 17 };

static int64_t round_up(int64_t count, int64_t to) {
  return (count + to - 1) / to * to;
}

static int64_t align_up(int64_t count) {
  return round_up(count, LS_LAYOUT_ALIGN);
}

static int by_name(const void *a, const void *b, void *entries) {
  const ls_layout_entry_t *entry = entries;
  return strcmp(entry[*(const int *)a].name, entry[*(const int *)b].name);
}

enum { TRAINABLE, FROZEN, STATE, RANGES, NOWHERE = RANGES };

static int range_of(const ls_graph_tensor_t *t) {
  if (t->role == LS_ROLE_STATE) return STATE;
  return t->role != LS_ROLE_PARAM ? NOWHERE : t->trainable ? TRAINABLE : FROZEN;
}

static ls_status_t place_entry(ls_layout_t *layout, const ls_graph_tensor_t *t, int id, int ordinal, int i) {
  ls_layout_entry_t *e = &layout->entry[i];
  *e = (ls_layout_entry_t){.name = ls_arena_strdup(&layout->arena, t->name),
                           .shape = t->shape,
                           .id = id,
                           .offset = layout->total,
                           .count = ls_shape_count(&t->shape),
                           .init = t->init,
                           .ordinal = (uint32_t)ordinal};
  layout->by_name[i] = i;
  layout->total = e->offset + align_up(e->count);
  return e->name ? LS_OK : LS_ERR_MEMORY;
}

/* Appends the range's tensors, of one group or (-1) all, in reverse order of the graph. */
static ls_status_t fill_range(ls_layout_t *layout, const ls_graph_t *graph, ls_ctx_t *ctx, int params,
                              int range, int group, int *place) {
  int next[] = {params, layout->count}; /* ordinals, of parameters and of states */
  for (int id = graph->tensor_count - 1; id >= 0; id--) {
    const ls_graph_tensor_t *t = &graph->tensors[id];
    int of = range_of(t), ordinal = of == NOWHERE ? 0 : --next[of == STATE];
    if (of != range || (group >= 0 && t->group != group)) continue;
    if (t->shape.dtype != LS_F32)
      return ls_fail(ctx, LS_ERR_UNSUPPORTED, "layout: parameter '%s' is %s, not f32", t->name,
                     ls_dtype_name(t->shape.dtype));
    ls_status_t status = place_entry(layout, t, id, ordinal, (*place)++);
    if (status) return status;
  }
  return LS_OK;
}

static ls_status_t fill(ls_layout_t *layout, const ls_graph_t *graph, int parts, ls_ctx_t *ctx) {
  int place = 0, params = 0;
  ls_status_t status = LS_OK;
  for (int id = 0; id < graph->tensor_count; id++)
    params += graph->tensors[id].role == LS_ROLE_PARAM;
  layout->total = LS_LAYOUT_HEAD;
  for (int group = 0; group < LS_LAYOUT_GROUPS_MAX && !status; group++) {
    status = fill_range(layout, graph, ctx, params, TRAINABLE, group, &place);
    layout->group_end[group] = layout->total;
  }
  layout->trained_count = place;
  layout->total = LS_LAYOUT_HEAD + round_up(layout->total - LS_LAYOUT_HEAD, (int64_t)parts * LS_LAYOUT_ALIGN);
  layout->trained = layout->total;
  for (int range = FROZEN; range < RANGES && !status; range++)
    status = fill_range(layout, graph, ctx, params, range, -1, &place);
  if (status) return status;
  if (place) qsort_r(layout->by_name, (size_t)place, sizeof(int), by_name, layout->entry);
  for (int i = 1; i < place; i++) {
    const char *name = layout->entry[layout->by_name[i]].name;
    if (!strcmp(name, layout->entry[layout->by_name[i - 1]].name))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "layout: two parameters are called '%s'", name);
  }
  return LS_OK;
}

ls_status_t ls_layout_create(ls_ctx_t *ctx, const ls_graph_t *graph, int parts, ls_layout_t **layout) {
  ls_layout_t *l = ls_alloc(ctx, sizeof(*l));
  if (!l) return LS_ERR_MEMORY;
  ls_arena_init(&l->arena, ctx);
  for (int id = 0; id < graph->tensor_count; id++)
    l->count += range_of(&graph->tensors[id]) != NOWHERE;
  size_t room = l->count ? (size_t)l->count : 1;
  l->entry = ls_arena_array(&l->arena, room, sizeof(*l->entry));
  l->by_name = ls_arena_array(&l->arena, room, sizeof(*l->by_name));
  ls_status_t status = l->entry && l->by_name ? fill(l, graph, parts, ctx) : LS_ERR_MEMORY;
  if (status) {
    ls_layout_destroy(l);
    return status;
  }
  *layout = l;
  return LS_OK;
}

void ls_layout_destroy(ls_layout_t *layout) {
  if (!layout) return;
  ls_arena_release(&layout->arena);
  ls_free(layout);
}

const ls_layout_entry_t *ls_layout_find(const ls_layout_t *layout, const char *name) {
  for (int low = 0, high = layout->count; low < high;) {
    int middle = low + (high - low) / 2;
    const ls_layout_entry_t *e = &layout->entry[layout->by_name[middle]];
    int order = strcmp(name, e->name);
    if (!order) return e;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

bool ls_layout_is_padding(const ls_layout_t *layout, int64_t begin, int64_t end) {
  int low = 0, high = layout->count; /* entries that begin before `end` */
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (layout->entry[middle].offset < end)
      low = middle + 1;
    else
      high = middle;
  }
  const ls_layout_entry_t *e = low ? &layout->entry[low - 1] : NULL;
  return begin >= (e ? e->offset + e->count : LS_LAYOUT_HEAD_USED) && end <= layout->total;
}

/* A share of every parameter. */
typedef struct {
  const ls_layout_t *layout;
  uint64_t seed;
  float *flat;
} filling_t;

static void fill_share(void *arg, int thread, int threads) {
  const filling_t *f = arg;
  for (int i = 0; i < f->layout->count; i++) {
    const ls_layout_entry_t *e = &f->layout->entry[i];
    int64_t begin, end;
    ls_pool_share(e->count, RNG_GRAIN, thread, threads, &begin, &end);
    ls_init_fill(&e->init, &e->shape, f->seed, e->ordinal, begin, end, f->flat + e->offset);
  }
}

void ls_layout_init(const ls_layout_t *layout, uint64_t seed, float *flat) {
  filling_t f = {layout, seed, flat};
  ls_pool_t *pool = NULL;
  int64_t worth = layout->total / THREAD_ELEMENTS, most = ls_cpu_count();
  /* without threads this one fills alone */
  if (worth > 1) (void)ls_pool_create(layout->arena.ctx, (int)(worth < most ? worth : most), &pool);
  memset(flat, 0, (size_t)layout->total * sizeof(float));
  ls_pool_run(pool, fill_share, &f);
  ls_pool_destroy(pool);
}
