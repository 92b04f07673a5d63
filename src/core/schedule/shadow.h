/* Shadow memory: for every byte range of a region, its last writer and the readers since then. Inside the
 * schedule module; used by the proof. */
#ifndef LS_SCHEDULE_SHADOW_H
#define LS_SCHEDULE_SHADOW_H

#include "schedule/access.h"

typedef struct {
  size_t begin, end;
  int writer;                /* task, -1 = not written in this step yet */
  int root;                  /* the tensor it wrote, without views */
  int reader[LS_LANE_COUNT]; /* newest reader of each lane since then, -1 = none */
} ls_shadow_segment_t;

typedef struct {
  ls_ctx_t *ctx;
  ls_shadow_segment_t *segment; /* sorted; covers the region without holes */
  int count, capacity;
} ls_shadow_t;

ls_status_t ls_shadow_create(ls_ctx_t *ctx, size_t region_bytes, ls_shadow_t *shadow);
void ls_shadow_release(ls_shadow_t *shadow);
/* Segments [*first, *last) that are exactly [begin, end); splits those at the borders. */
ls_status_t ls_shadow_range(ls_shadow_t *shadow, size_t begin, size_t end, int *first, int *last);
/* The range now holds what `task` wrote; its segments become one. */
void ls_shadow_write(ls_shadow_t *shadow, int first, int last, int task, int root);

#endif
