/* The flat layout of the parameters: one buffer with a fixed place for every parameter, the same for values,
 * gradients and optimizer state. Parameters are in the reverse of their order in the graph, so gradients
 * become ready from front to back during the backward pass, and a bucket is one contiguous range. Ranges:
 * head | trainable parameters, group after group | frozen parameters | states of the graph. Gradients, moments and buckets cover
 * only the first two. The first LS_LAYOUT_HEAD elements are the head. In the gradient buffer it holds loss
 * and correct count (summed by the first bucket's all-reduce); elsewhere it is unused zeros. */
#ifndef LS_STATE_LAYOUT_H
#define LS_STATE_LAYOUT_H

#include "graph/graph.h"

enum { LS_LAYOUT_GROUPS_MAX = 17 }; /* the optimizer's, the one without a pattern included */

/* Elements of the head, as the optimizers' LS_HEAD_COUNT; the first ones are loss and correct count. */
enum { LS_LAYOUT_HEAD = 16, LS_LAYOUT_HEAD_USED = 2, LS_LAYOUT_ALIGN = 16 };

typedef struct {
  const char *name;
  ls_shape_t shape;
  ls_tensor_id_t id; /* in the graph */
  int64_t offset;    /* elements; a multiple of 16 (64 bytes) */
  int64_t count;
  ls_init_t init;
  uint32_t ordinal; /* the initialiser's stream: order in the graph, of parameters, then of states */
} ls_layout_entry_t;

typedef struct {
  ls_arena_t arena;
  ls_layout_entry_t *entry;                /* in layout order */
  int count, trained_count;                /* of all parameters; of the trainable ones, which come first */
  int *by_name;                            /* indices sorted by name */
  int64_t total;                           /* elements of the flat buffer, including head and padding */
  int64_t trained;                         /* elements of head and trainable parameters, including padding */
  int64_t group_end[LS_LAYOUT_GROUPS_MAX]; /* elements; the first group begins after the head */
} ls_layout_t;

/* parts: the trainable range behind the head ends on a multiple of so many places of 16 elements, so that as many ranks
 * can share it evenly. Its rest is padding. */
ls_status_t ls_layout_create(ls_ctx_t *ctx, const ls_graph_t *graph, int parts, ls_layout_t **layout);
void ls_layout_destroy(ls_layout_t *layout);
const ls_layout_entry_t *ls_layout_find(const ls_layout_t *layout, const char *name);

/* True if elements [begin, end) belong to no parameter, and are not loss or correct count. They are zero
 * from the beginning, and sums and copies of them are zero. */
bool ls_layout_is_padding(const ls_layout_t *layout, int64_t begin, int64_t end);

/* Fills a flat host buffer (total) with initial values. Padding and head are zero. */
void ls_layout_init(const ls_layout_t *layout, uint64_t seed, float *flat);

#endif
