/* The common pieces of strategies: placing a graph's tensors, emitting its nodes as tasks, the optimizer
 * tail. Regions and their contents:
 *
 *   INPUT  one micro-batch: "x", "target", "weight", "step" u8 (64).
 *          With data on the device "rows" i32 replaces x and target, which are then transient.
 *   state  "parameters"; training: "gradients", of the layout's trainable range: head, then gradients.
 *          Micro-batches are added there, one after the other. Reproducible: in a tree, whose unfinished sums
 *          wait in "sums of shards" (levels, trainable range). If the placement scatters, the row holds the head and
 *          this rank's part alone. If the exchange gathers, "gathered gradients": bucket after bucket (world_size, n)
 *          elements. The optimizer's rows (optim.h). With data on the device
 *          "features" and "targets" (rows, ..), of the dtypes of x and target.
 *
 * Evaluation: the head, probabilities or predictions and the loss are read by name ("loss", "correct",
 * "output") and kept in region STAT; the loss is the weighted sum of this rank alone. */
#ifndef LS_STRATEGY_LOWER_H
#define LS_STRATEGY_LOWER_H

#include "strategy/strategy.h"

/* A contiguous range of the flat gradient buffer. */
typedef struct {
  int64_t begin, end; /* elements of the layout */
  int64_t span;       /* the end of the last parameter that begins in it, at least `end` */
  int ready_node;     /* the graph node after which it is complete; -1: from the start */
  ls_range_t own;     /* the elements that this rank updates; the head is not among them */
  int64_t own_at;     /* the place of `own` in a row of own parts alone */
  int64_t sums_at;    /* the place of `own` in row "gradients" */
  /* While a member is lowered. gradients: f32 (n), from `begin` to `end`; if the placement scatters, from the first trained
   * element to `span`. parts: the same tensor, or if the placement gathers f32 (world_size, n), of which this rank fills
   * its part. */
  const char *name; /* "gradients 0" */
  int gradients, parts;
  int parameters; /* f32: all of the bucket that are trained */
  int head;       /* f32: loss and correct count, where this member ends their sums; -1: not here */
  int trained; /* f32 (end - first trained element): the gradients without the head, nor what lies in the next bucket */
  int received; /* f32: the place for this rank's part of the sums over all ranks */
} ls_bucket_t;

/* Greedy from the front of the layout, at least the placement's or the options' bytes each but the last. The first bucket
 * includes the head. Buckets hold whole parameters, or, if the placement shards, as many places of 16 elements for each rank.
 * placement NULL: one without hooks. Owned by the arena. */
ls_status_t ls_buckets_make(ls_arena_t *arena, const ls_lower_t *in, const ls_placement_t *placement,
                            ls_bucket_t **buckets, int *count);

/* The first element of the bucket that is trained. */
int64_t ls_bucket_first(const ls_bucket_t *bucket);

/* Proposes the configured options with other bucket sizes, everything at once first. For strategies that
 * exchange bucket by bucket. */
ls_status_t ls_buckets_propose(const ls_proposal_t *proposal);

typedef ls_status_t (*ls_bucket_hook_t)(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket);
/* Hooks `ready` and `collect` of a reproducible step (tree.c): every rank gathers the sums of all ranks and adds them up
 * itself, in a tree whose lower levels are the shards of each rank. An all-reduce would not do: its order depends on the
 * transport and the number of ranks. */
ls_status_t ls_tree_gather(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket);
ls_status_t ls_tree_add(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket);
/* Sums loss and correct count, the head of the gradients, over the ranks in f32, if the bucket has them. */
void ls_sum_head(ls_schedule_t *s, const ls_bucket_t *bucket);

/* A placement is what a strategy adds to the step that all strategies share. The walk over the graph calls
 * its hooks. A hook that is NULL adds nothing. */
struct ls_placement {
  int64_t bucket_bytes; /* in place of the options'; 0: theirs */
  bool gathers;         /* every rank's gradients have a place of their own */
  /* Each rank updates one of equal parts of every bucket, for which `ready` or `collect` sums the gradients and `updated`
   * gathers the parameters. The optimizer's slots are of this part alone. The strategy's row says `shards`, too. */
  bool shards;
  /* Each rank keeps its part of the gradients alone: `ready`, here a hook of every member, scatters the bucket to
   * `received`. */
  bool scatters;
  /* Declares rows of its own. */
  ls_status_t (*declare)(const ls_lower_t *in);
  /* A bucket is complete, in the member that ends the step: emits e.g. its all-reduce. Without this hook its squares are
   * summed at once. */
  ls_bucket_hook_t ready;
  /* The backward pass is over, and the bucket is read next: emits what compute need not wait for earlier. If the placement
   * gathers, it makes `gradients` of `parts`. */
  ls_bucket_hook_t collect;
  /* The bucket's parameters are updated: emits e.g. their average. */
  ls_bucket_hook_t updated;
};

/* Declares the rows of the shared step, then the placement's, then the optimizer's. Refuses a request that cannot be
 * lowered. placement NULL: one without hooks. */
ls_status_t ls_lower_declare(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t *placement);
/* The whole step, training or evaluation, when its rows are declared: a member begins the sum of micro-batches, others
 * add to it (program.h's rules); the one that ends the step has buckets, sums of squares per bucket, control, update,
 * copies. *program is written after LS_OK. */
ls_status_t ls_lower_step(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t *placement,
                          ls_program_t *program);

#endif
