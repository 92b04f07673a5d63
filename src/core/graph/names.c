/* Finds a tensor by its name: a hash table with open addressing. An entry belongs to a hash and names the first
 * tensor with that hash. If that tensor was renamed, or a second name has the same hash, which is rare, all tensors
 * are searched. */
#include "graph/inside.h"

#include <string.h>

enum { NAMES_FIRST = 64 };

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const char *name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *name; name++)
    hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  return hash;
}

/* The entry of that hash, or the free entry for it. */
static ls_graph_name_t *entry_of(const ls_graph_t *graph, uint64_t hash) {
  uint64_t mask = (uint64_t)graph->name_capacity - 1, at = hash >> 32 & mask;
  while (graph->names[at].used && graph->names[at].hash != hash)
    at = (at + 1) & mask;
  return &graph->names[at];
}

static bool grow(ls_graph_t *graph) {
  int before = graph->name_capacity, capacity = before ? 2 * before : NAMES_FIRST;
  const ls_graph_name_t *old = graph->names;
  ls_graph_name_t *wider = ls_arena_array(&graph->arena, (size_t)capacity, sizeof *wider);
  if (!wider) {
    graph->status = LS_ERR_MEMORY;
    return false;
  }
  graph->names = wider;
  graph->name_capacity = capacity;
  for (int i = 0; i < before; i++)
    if (old[i].used) *entry_of(graph, old[i].hash) = old[i];
  return true;
}

void ls_graph_name(ls_graph_t *graph, ls_tensor_id_t id, const char *name) {
  graph->tensors[id].name = name;
  if (2 * graph->name_count >= graph->name_capacity && !grow(graph)) return;
  uint64_t hash = hash_of(name);
  ls_graph_name_t *entry = entry_of(graph, hash);
  graph->name_count += !entry->used;
  if (!entry->used || id < entry->id) *entry = (ls_graph_name_t){.used = true, .id = id, .hash = hash};
}

ls_tensor_id_t ls_graph_find(const ls_graph_t *graph, const char *name) {
  const ls_graph_name_t *entry = graph->name_capacity ? entry_of(graph, hash_of(name)) : NULL;
  if (!entry || !entry->used) return -1;
  if (strcmp(graph->tensors[entry->id].name, name) == 0) return entry->id;
  for (int id = 0; id < graph->tensor_count; id++)
    if (strcmp(graph->tensors[id].name, name) == 0) return id;
  return -1;
}
