/* The state of lowering one member. Inside the strategy module: declare.c declares rows, lower.c walks the graph,
 * place.c decides where tensors go, scatter.c keeps a part of the gradients, side.c chooses the lane of a node,
 * optimize.c appends the optimizer. */
#ifndef LS_STRATEGY_LOWERING_H
#define LS_STRATEGY_LOWERING_H

#include "strategy/lower.h"

/* The destination of a value: in training a sum over micro-batches, in an evaluation a place among the
 * stats. */
typedef struct {
  int tensor;      /* schedule tensor, -1: the value has no destination */
  int begin;       /* a sum that a member begins: the same tensor, or the lowest level of the tree */
  int64_t element; /* training: in the layout */
  int adds;        /* the sums to which this member adds it, each into the next; 0: it begins one */
} ls_destination_t;

typedef struct {
  const ls_lower_t *in;
  const ls_layout_t *layout;
  const ls_placement_t *placement;
  ls_schedule_t *s;
  ls_arena_t work;               /* freed at the end */
  int adds;                      /* the sums to which this member adds; 0: it begins one */
  int levels;                    /* of a reproducible step's tree: sums that wait in LS_ROW_SHARDS */
  bool last;                     /* this member ends the step */
  int parts, part;               /* a bucket has the sums of so many ranks, this rank's among them */
  int *tensor;                   /* per graph tensor: its schedule tensor, -1: none yet */
  ls_destination_t *destination; /* per graph tensor */
  ls_bucket_t *bucket;
  int bucket_count;
  int scattered;                                /* the bucket whose received part is not kept yet; -1: none */
  int table[2], rows;                           /* data on the device: features, targets, row numbers */
  ls_region_t params, low, grads, sums, shards; /* rows of the state; sums: where a bucket's parts are */
  ls_region_t masters; /* of trainable parameters: params, or in an evaluation their mean */
  ls_range_t cast;     /* of the layout: all parameters that the graph casts */
  ls_dtype_t cast_to;
  ls_lane_t *lane;  /* per graph node */
  ls_lane_t on;     /* the lane of the node that is emitted */
  int last_compute; /* with a side lane: the last backward node that needs the compute lane, else -1 */
  int stats, ctrl, partials; /* schedule tensors in STAT */
} ls_lowering_t;

/* Rows of a step (lower.h). */
#define LS_ROW_GRADIENTS "gradients"
#define LS_ROW_SHARDS    "sums of shards"
#define LS_ROW_GATHERED  "gathered gradients"
#define LS_ROW_LOW       "parameters.low"
/* The region of a declared row; 0 after a failure. */
ls_region_t ls_lowering_row(ls_lowering_t *l, const char *name);
/* The sums of shards that are not added up yet while the next ones are made; 0 unless the step is reproducible. */
int ls_lowering_levels(const ls_lower_t *in);
/* True if a node casts a parameter. */
bool ls_lowering_casts(const ls_graph_t *graph, const ls_graph_node_t *node);
/* Elements of the layout in a row that follows it, f32. */
int ls_lowering_flat(ls_lowering_t *l, const char *name, ls_region_t region, int64_t begin, int64_t end);
/* A tensor at *offset_bytes of the region, which then moves past it. */
int ls_lowering_put(ls_lowering_t *l, const char *name, ls_shape_t shape, ls_region_t region,
                    size_t *offset_bytes);

/* gather.c, with data on the device. Whether a graph input is taken from the tables. */
bool ls_lowering_gathered(const ls_lowering_t *l, const ls_graph_tensor_t *t);
/* Places the tables, and the row numbers at *offset_bytes of region INPUT. */
void ls_lowering_tables(ls_lowering_t *l, size_t *offset_bytes);
/* Appends the task that brings the micro-batch's samples. */
void ls_lowering_gather(ls_lowering_t *l);

/* Places inputs, parameters, destinations and stats; appends the copy of the next input. */
ls_status_t ls_lowering_places(ls_lowering_t *l);
/* side.c: the lane of every node, after the declarations. */
ls_status_t ls_lowering_lanes(ls_lowering_t *l);
/* Appends the task that casts the parameters, in a member that begins a sum of micro-batches. */
void ls_lowering_cast(ls_lowering_t *l);
/* The step's numbers (ls_step_params_t); -1: the graph has no such input. */
int ls_lowering_step(const ls_lowering_t *l);
/* The optimizer's counter as an input of the graph. */
int ls_lowering_counter(ls_lowering_t *l, const ls_shape_t *shape);
/* The schedule tensor of a graph tensor; made on first use. -1 after a failure. */
int ls_lowering_place(ls_lowering_t *l, ls_tensor_id_t id);
/* Called once the node that makes `id` is emitted, on its lane: adds the value to the sums of earlier micro-batches, or
 * copies it to its destination unless the op wrote it there. */
void ls_lowering_deliver(ls_lowering_t *l, ls_tensor_id_t id);

/* scatter.c, for a placement that scatters. Places a bucket's gradients, and what this rank receives of them. */
void ls_lowering_scatter_place(ls_lowering_t *l, ls_bucket_t *bucket);
/* The bucket is complete: keeps the one before it, and completes what this one sends. */
void ls_lowering_scatter(ls_lowering_t *l, int bucket);
/* Adds what was received last to row "gradients"; in a member that begins a sum, copies it. */
void ls_lowering_scatter_keep(ls_lowering_t *l);

/* Appends the sum of squares of one bucket's gradients to a lane; reproducible: of all gradients at once, with the last
 * bucket, so that no rounding depends on the buckets. */
void ls_lowering_sumsq(ls_lowering_t *l, ls_lane_t lane, int bucket);
/* Appends control, the copy of stats to the host, and the update. */
void ls_lowering_update(ls_lowering_t *l);
/* Appends the copy of stats to the host, on devices that have memory of their own. */
void ls_lowering_copy_out(ls_lowering_t *l);

#endif
