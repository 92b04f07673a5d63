/* The state of lowering one member. Inside the strategy module: declare.c declares rows, lower.c walks the graph,
 * place.c decides where tensors go, side.c on which lane nodes run, optimize.c appends the optimizer. */
#ifndef LS_STRATEGY_LOWERING_H
#define LS_STRATEGY_LOWERING_H

#include "strategy/lower.h"

/* The required destination of a value. */
typedef struct {
  int tensor;      /* schedule tensor, -1 = no destination */
  int begin;       /* where a member that adds nothing leaves the value: the same tensor, or the lowest
                    * level of the tree */
  int64_t element; /* training: in the layout */
  bool sum;        /* over the micro-batches of a step */
  bool direct;     /* the producing op may write there itself */
} ls_destination_t;

typedef struct {
  const ls_lower_t *in;
  const ls_layout_t *layout;
  ls_schedule_t *s;
  ls_arena_t work;                 /* freed at the end */
  const ls_placement_t *placement; /* NULL: none */
  int adds;                        /* number of sums to which this member adds, each into the next; 0: it
                                  * begins one */
  bool last;                       /* this member ends the step */
  int levels;                      /* reproducible: levels of the tree, 0 = no tree */
  int *tensor;                     /* per graph tensor: its schedule tensor, -1 = not yet */
  int *param;                      /* per graph tensor: the parameter's schedule tensor, -1 = no parameter */
  int *input;                      /* per graph tensor: the input's, -1 = no input */
  int table[2];                    /* data on the device: features, targets */
  int rows;                        /* .. and the row numbers */
  ls_destination_t *destination;   /* per graph tensor */
  ls_bucket_t *bucket;
  int bucket_count;
  int *bucket_order;   /* buckets by ready_node */
  int complete;        /* number of complete buckets */
  int *bucket_tensor;  /* per bucket: its range of GRAD */
  int *bucket_parts;   /* per bucket: the same, or every rank's where the exchange gathers */
  ls_region_t masters; /* of trainable parameters: params, or in an evaluation their mean */
  int parts, part; /* a bucket's sums of all ranks, of which this rank makes one; 1 and 0 without a gather */
  ls_region_t params, low, grads, sums, shards; /* rows of the state; sums: in which `parts` are */
  ls_bucket_t cast; /* the range of the layout that holds all parameters which the graph casts */
  ls_dtype_t cast_to;
  ls_lane_t *lane;  /* per graph node */
  ls_lane_t on;     /* .. of the one that is being emitted */
  int last_compute; /* with a side lane: the last backward node that needs the compute lane, else -1 */
  int stats;        /* schedule tensors in STAT */
  int ctrl, partials;
} ls_lowering_t;

/* Rows of a step (lower.h). */
#define LS_ROW_GRADIENTS "gradients"
#define LS_ROW_SHARDS    "sums of shards"
#define LS_ROW_GATHERED  "gathered gradients"
#define LS_ROW_LOW       "parameters.low"
/* The region of a declared row; 0 after a failure. */
ls_region_t ls_lowering_row(ls_lowering_t *l, const char *name);
/* The levels of a reproducible step's tree; else 0. */
int ls_lowering_levels(const ls_lower_t *in);
/* Whether a node casts a parameter. */
bool ls_lowering_casts(const ls_graph_t *graph, const ls_graph_node_t *node);
/* A tensor at *offset_bytes of the region, which moves behind it. */
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

/* Appends the sum of squares of one bucket's gradients to a lane; reproducible: of all gradients at once, with the last
 * bucket, so that no rounding depends on the buckets. */
void ls_lowering_sumsq(ls_lowering_t *l, ls_lane_t lane, int bucket);
/* Appends control, the copy of stats to the host, and the update. */
void ls_lowering_update(ls_lowering_t *l);
/* Appends the copy of stats to the host, on devices that have memory of their own. */
void ls_lowering_copy_out(ls_lowering_t *l);

#endif
