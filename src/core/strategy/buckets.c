/* Gradient buckets: contiguous ranges of the flat gradient buffer, and the moment at which each is complete.
 * The layout is the reverse of the graph's order, so buckets complete from front to back during the backward
 * pass. */
#include "strategy/lower.h"

#include <string.h>

/* The node that makes a tensor; for a view, the node that made the bytes. */
static int producer_of(const ls_graph_t *graph, ls_tensor_id_t id) {
  while (id >= 0 && graph->tensors[id].alias_of >= 0) {
    int view = graph->tensors[id].producer;
    if (view >= 0) return view;
    id = graph->tensors[id].alias_of;
  }
  return id < 0 ? -1 : graph->tensors[id].producer;
}

static int later(int a, int b) {
  return a > b ? a : b;
}

/* The node after which a parameter's gradient is complete; -1 if the loss does not depend on it. */
static int ready_of(const ls_graph_t *graph, const char *param) {
  ls_tensor_id_t id = ls_graph_find(graph, param);
  return id < 0 ? -1 : producer_of(graph, graph->tensors[id].grad);
}

int64_t ls_bucket_first(const ls_bucket_t *bucket) {
  return bucket->begin < LS_LAYOUT_HEAD ? LS_LAYOUT_HEAD : bucket->begin;
}

/* The last of the parameters that lie in the bucket says when it is complete. */
static void set_ready(const ls_lower_t *in, ls_bucket_t *bucket) {
  const ls_layout_t *layout = in->state->layout;
  bucket->ready_node = -1;
  bucket->span = bucket->end;
  if (bucket->begin == 0)
    bucket->ready_node = later(producer_of(in->graph, ls_graph_find(in->graph, LS_NAME_LOSS)),
                               producer_of(in->graph, ls_graph_find(in->graph, LS_NAME_CORRECT)));
  for (int i = 0; i < layout->trained_count; i++) {
    const ls_layout_entry_t *e = &layout->entry[i];
    const int64_t end = e->offset + e->count;
    if (e->offset >= bucket->end || end <= bucket->begin) continue;
    bucket->ready_node = later(bucket->ready_node, ready_of(in->graph, e->name));
    if (end > bucket->end) bucket->span = end;
  }
}

ls_status_t ls_buckets_make(ls_arena_t *arena, const ls_lower_t *in, const ls_placement_t *placement,
                            ls_bucket_t **buckets, int *count) {
  const ls_layout_t *layout = in->state->layout;
  const int64_t placed = placement ? placement->bucket_bytes : 0,
                bytes = placed > 0 ? placed : in->options.bucket_bytes;
  const bool shards = placement && placement->shards;
  const int parts = shards ? in->world_size : 1, part = shards ? in->rank : 0;
  ls_bucket_t *list = ls_arena_array(arena, (size_t)layout->count + 1, sizeof(*list));
  if (!list) return LS_ERR_MEMORY;
  int n = 0;
  int64_t begin = 0;
  for (int i = 1; i <= layout->trained_count || n == 0; i++) {
    const bool last = i >= layout->trained_count;
    int64_t end = last ? layout->trained : layout->entry[i].offset;
    if (!last) end -= (end - LS_LAYOUT_HEAD) % (parts * LS_LAYOUT_ALIGN); /* down to equal parts */
    ls_bucket_t *b = &list[n];
    *b = (ls_bucket_t){.begin = begin, .end = end};
    const int64_t first = ls_bucket_first(b), each = (end - first) / parts;
    if (!last && (end <= first || (end - begin) * (int64_t)sizeof(float) < bytes)) continue;
    n++;
    b->own = (ls_range_t){first + part * each, first + (part + 1) * each};
    b->own_at = (first - LS_LAYOUT_HEAD) / parts;
    b->sums_at = placement && placement->scatters ? LS_LAYOUT_HEAD + b->own_at : b->own.begin;
    set_ready(in, b);
    begin = end;
  }
  *buckets = list;
  *count = n;
  return LS_OK;
}

ls_status_t ls_buckets_propose(const ls_proposal_t *proposal) {
  static const int64_t sizes[] = {INT64_C(1000000000000), 16 << 20, 4 << 20, 1 << 20, 256 << 10};
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_COUNT(sizes) && status == LS_OK; i++) {
    ls_strategy_options_t options = *proposal->configured;
    options.bucket_bytes = sizes[i];
    status = proposal->emit(proposal->user, &options);
  }
  return status;
}
