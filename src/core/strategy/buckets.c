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

/* Offsets in the layout are multiples of 16 elements, as check_shards (declare.c) needs for equal parts. */
static ls_range_t own_range(const ls_lower_t *in, const ls_bucket_t *b, bool shards) {
  const int64_t begin = b->begin < LS_LAYOUT_HEAD ? LS_LAYOUT_HEAD : b->begin;
  const int64_t part = (b->end - begin) / (shards ? in->world_size : 1),
                first = begin + (shards ? in->rank * part : 0);
  return (ls_range_t){first, first + part};
}

ls_status_t ls_buckets_make(ls_arena_t *arena, const ls_lower_t *in, const ls_placement_t *placement,
                            ls_bucket_t **buckets, int *count) {
  const ls_layout_t *layout = in->state->layout;
  const int64_t own = placement ? placement->bucket_bytes : 0,
                bytes = own > 0 ? own : in->options.bucket_bytes;
  ls_bucket_t *list = ls_arena_array(arena, (size_t)layout->count + 1, sizeof(*list));
  if (!list) return LS_ERR_MEMORY;
  int n = 0;
  ls_bucket_t now = {.begin = 0, .end = LS_LAYOUT_HEAD, .ready_node = -1};
  now.ready_node = later(producer_of(in->graph, ls_graph_find(in->graph, LS_NAME_LOSS)),
                         producer_of(in->graph, ls_graph_find(in->graph, LS_NAME_CORRECT)));
  for (int i = 0; i < layout->trained_count; i++) {
    bool last = i + 1 == layout->trained_count;
    now.end = last ? layout->trained : layout->entry[i + 1].offset;
    now.ready_node = later(now.ready_node, ready_of(in->graph, layout->entry[i].name));
    if (last || (now.end - now.begin) * (int64_t)sizeof(float) >= bytes) {
      list[n++] = now;
      now = (ls_bucket_t){.begin = now.end, .end = now.end, .ready_node = -1};
    }
  }
  if (!layout->trained_count) list[n++] = now;
  for (int i = 0; i < n; i++)
    list[i].own = own_range(in, &list[i], placement && placement->shards);
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
