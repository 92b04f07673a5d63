/* Shadow memory as a sorted array of segments. */
#include "schedule/shadow.h"

#include <string.h>

static const ls_shadow_segment_t untouched = {.writer = -1, .root = -1, .reader = {-1, -1, -1, -1, -1}};
_Static_assert(LS_LANE_COUNT == 5, "an untouched segment names every lane");

ls_status_t ls_shadow_create(ls_ctx_t *ctx, size_t region_bytes, ls_shadow_t *shadow) {
  enum { INITIAL = 64 };
  ls_shadow_segment_t *segment = ls_alloc_array(ctx, INITIAL, sizeof(*segment));
  if (!segment) return LS_ERR_MEMORY;
  segment[0] = untouched;
  segment[0].end = region_bytes;
  *shadow = (ls_shadow_t){.ctx = ctx, .segment = segment, .count = 1, .capacity = INITIAL};
  return LS_OK;
}

void ls_shadow_release(ls_shadow_t *shadow) {
  ls_free(shadow->segment);
  *shadow = (ls_shadow_t){0};
}

static int find(const ls_shadow_t *shadow, size_t pos) {
  int low = 0, high = shadow->count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (shadow->segment[middle].begin <= pos)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Makes `pos` a border; returns the index of the segment that begins there. */
static ls_status_t split(ls_shadow_t *shadow, size_t pos, int *index) {
  int at = find(shadow, pos);
  if (shadow->segment[at].begin == pos || shadow->segment[at].end <= pos) {
    *index = shadow->segment[at].begin == pos ? at : at + 1;
    return LS_OK;
  }
  if (shadow->count == shadow->capacity) {
    size_t wanted = 2 * (size_t)shadow->capacity;
    void *room = ls_realloc_array(shadow->ctx, shadow->segment, wanted, sizeof(*shadow->segment));
    if (!room) return LS_ERR_MEMORY;
    shadow->segment = room;
    shadow->capacity = (int)wanted;
  }
  ls_shadow_segment_t *s = &shadow->segment[at];
  memmove(s + 1, s, (size_t)(shadow->count - at) * sizeof(*s));
  shadow->count++;
  s[0].end = pos;
  s[1].begin = pos;
  *index = at + 1;
  return LS_OK;
}

ls_status_t ls_shadow_range(ls_shadow_t *shadow, size_t begin, size_t end, int *first, int *last) {
  int from, until;
  ls_status_t status = split(shadow, begin, &from);
  if (!status) status = split(shadow, end, &until);
  if (status) return status;
  *first = from;
  *last = until;
  return LS_OK;
}

void ls_shadow_write(ls_shadow_t *shadow, int first, int last, int task, int root) {
  ls_shadow_segment_t *s = &shadow->segment[first];
  size_t begin = s->begin, end = shadow->segment[last - 1].end;
  memmove(s + 1, &shadow->segment[last], (size_t)(shadow->count - last) * sizeof(*s));
  shadow->count -= last - first - 1;
  *s = untouched;
  s->begin = begin;
  s->end = end;
  s->writer = task;
  s->root = root;
}
