/* The state of a lowering while it goes on. Inside of the strategy module: lower.c walks the graph, place.c
 * knows where tensors go, optimize.c appends the optimizer. */
#ifndef LS_STRATEGY_LOWERING_H
#define LS_STRATEGY_LOWERING_H

#include "strategy/lower.h"

/* Where a value has to end up, rather than anywhere. */
typedef struct {
  int tensor;  /* schedule tensor of the first micro-batch (sum) or of the whole (each), -1 = no home */
  bool sum;    /* micro-batches are added up; else each has its part */
  bool direct; /* the producing op may write there itself */
} ls_home_t;

struct ls_lowering {
  const ls_lower_t *in;
  ls_schedule_t *s;
  ls_arena_t work; /* freed at the end */
  ls_bucket_hook_t hook;
  void *user;
  int micro;       /* the micro-batch being emitted */
  int *tensor;     /* per graph tensor: its schedule tensor for this micro-batch, -1 = not yet */
  int *param;      /* per graph tensor: the parameter's schedule tensor, -1 = no parameter */
  int *input;      /* per graph tensor: the input's first micro-batch; the others follow, -1 = no input */
  ls_home_t *home; /* per graph tensor */
  ls_bucket_t *bucket;
  int bucket_count;
  int *bucket_tensor; /* per bucket: its range of GRAD */
  int stats;          /* schedule tensors in STAT */
  int ctrl, partials;
};

/* Declares inputs, parameters, homes and stats; appends the copy of the next input. */
ls_status_t ls_lowering_declare(ls_lowering_t *l);
/* The schedule tensor of a graph tensor for the current micro-batch; made on first use. -1
 * after a failure. */
int ls_lowering_place(ls_lowering_t *l, ls_tensor_id_t id);
/* Once the node that makes `id` is emitted: adds or copies it to its home, when it did not go
 * there directly. */
void ls_lowering_settle(ls_lowering_t *l, ls_tensor_id_t id);

/* Sum of squares of one bucket's gradients. */
void ls_lowering_sumsq(ls_lowering_t *l, int bucket);
/* Control, stats to the host, update. */
void ls_lowering_update(ls_lowering_t *l);
/* Stats to the host, on devices that have memory of their own. */
void ls_lowering_copy_out(ls_lowering_t *l);

#endif
