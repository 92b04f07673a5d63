/* Strategies: each lowers a graph, for a given world of ranks, to a program. One row, one folder; a strategy
 * never includes another. */
#ifndef LS_STRATEGY_STRATEGY_H
#define LS_STRATEGY_STRATEGY_H

#include "optim/optim.h"
#include "schedule/program.h"

/* The names by which loop, loader and strategies agree on the step's tensors. A graph that is to be trained
 * has inputs "x", "target", "weight" and "step" and values "loss", "correct" and "output". */
#define LS_NAME_X       "x"
#define LS_NAME_TARGET  "target"
#define LS_NAME_WEIGHT  "weight"
#define LS_NAME_STEP    "step"
#define LS_NAME_LOSS    "loss"
#define LS_NAME_CORRECT "correct"
#define LS_NAME_OUTPUT  "output"
#define LS_NAME_RANGES  "ranges"
/* Data on the device are tables of all samples, and row numbers of a step. */
#define LS_NAME_FEATURES "features"
#define LS_NAME_TARGETS  "targets"
#define LS_NAME_ROWS     "rows"

/* AUTO is what lockstep plan chooses; without a plan it is OFF. */
typedef enum { LS_SIDE_OFF, LS_SIDE_ON, LS_SIDE_AUTO } ls_side_t;

/* The options with which a strategy lowers a step. Rows of a configuration's section parallel fill
 * bucket_bytes and side_lane. */
/* parallel.shard. Without a plan AUTO is NONE. */
typedef enum { LS_SHARD_NONE, LS_SHARD_OPTIMIZER, LS_SHARD_GRADIENTS, LS_SHARD_AUTO } ls_shard_t;

typedef struct {
  int64_t bucket_bytes; /* gradient bucket; >= 1 */
  /* Micro-batches are virtual shards: all of the same shape, a power of two on each of a power of two ranks.
   * Shards, and then ranks, are added in one fixed tree, so a gradient has the same bits for any number of
   * ranks. */
  bool reproducible;
  /* The backward pass computes gradients of parameters on LS_LANE_SIDE, while LS_LANE_COMPUTE computes
   * those of values. The bits are the same. */
  int side_lane;   /* ls_side_t */
  ls_dtype_t wire; /* in which gradients travel between ranks; `lower` refuses what it does not do */
  int shard;       /* ls_shard_t: which strategies are meant, and what they shard */
  const void *own; /* the struct that the strategy's own section fills; NULL: it has none */
} ls_strategy_options_t;

/* The input of lowering. Borrowed during the call; op rows, names and attributes are copied or static. */
typedef struct {
  const ls_graph_t *graph;      /* of ONE micro-batch, backward done; evaluation: forward only */
  ls_state_table_t *state;      /* of the graph */
  const ls_optim_rule_t *optim; /* NULL: evaluation, forward only */
  bool mean; /* evaluation: of the optimizer's mean of the parameters (LS_OPTIM_EMA), where there is one */
  int rank, world_size;
  int micro_batches; /* micro-batches per step, >= 1 */
  int input_slots;
  bool copies; /* the device has memory of its own: copy-in and copy-out lanes are used */
  bool widens; /* its kernels may have to widen 16-bit floats (ls_op_scratch) */
  /* Samples in tables of the state: every member begins by gathering "x" and "target" from them. 0: the host
   * fills "x" and "target". At most INT32_MAX. */
  int64_t data_rows;
  ls_strategy_options_t options;
} ls_lower_t;

/* The planner's question to a strategy: which of its options are worth pricing in this world, on this
 * machine? */
typedef struct {
  int ranks;
  bool timed;                              /* steps can be timed: what only timing can tell may be proposed */
  const ls_backend_t *backend;             /* of every rank */
  const ls_strategy_options_t *configured; /* are priced first, in any case */
  ls_arena_t *arena;                       /* memory for what `own` of an emitted proposal points to */
  /* Emits one proposal. Proposals that lower to the same schedule as another are dropped later. */
  ls_status_t (*emit)(void *user, const ls_strategy_options_t *options);
  void *user;
} ls_proposal_t;

typedef struct ls_placement ls_placement_t;

enum { LS_STRATEGY_MAX = 16 };
typedef struct {
  const char *name;
  const char *help;
  bool distributed; /* may be used with world_size > 1 */
  bool
      shards; /* each rank updates its part of the parameters: the layout is padded to equal parts (state/layout.h) */
  /* Options of its own: section "parallel.NAME" of a configuration, which fills a struct of own_bytes. NULL:
   * it has none. */
  const ls_section_t *section;
  size_t own_bytes;
  /* NULL: proposes only the configured options. */
  ls_status_t (*propose)(const ls_proposal_t *proposal);
  /* Training and evaluation (in->optim NULL: forward only). Refuses what the strategy cannot do. *placement (lower.h)
   * stays NULL where nothing is added to the shared step. NULL: it never is. */
  ls_status_t (*place)(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement);
  /* NULL: the shared step with that placement. The rows are declared. */
  ls_status_t (*lower)(ls_ctx_t *ctx, const ls_lower_t *in, ls_program_t *program);
} ls_strategy_t;

/* Declares in in->state all rows that the step needs, which are then those of its program: memory of the state is known
 * before lowering. LS_ERR_ARGUMENT and LS_ERR_UNSUPPORTED say what cannot be lowered. */
ls_status_t ls_strategy_declare(ls_ctx_t *ctx, const ls_strategy_t *strategy, const ls_lower_t *in);
/* Declares, and lowers. */
ls_status_t ls_strategy_lower(ls_ctx_t *ctx, const ls_strategy_t *strategy, const ls_lower_t *in,
                              ls_program_t *program);

extern const ls_strategy_t ls_strategy_single, ls_strategy_ddp,
    ls_strategy_fsdp;                                           /* for the list and for tests */
extern const ls_strategy_t *ls_strategies[LS_STRATEGY_MAX + 1]; /* NULL-terminated */
const ls_strategy_t *ls_strategy_find(const char *name);
int ls_strategy_index(const ls_strategy_t *strategy); /* in the list */
/* Appends a row, which is not copied. Call it before a configuration is read, from one thread. False: the
 * list is full, or has a row of that name. */
bool ls_strategy_register(const ls_strategy_t *strategy);
/* The default for so many ranks: the first strategy that is for one rank, or for several and shards or not. */
const ls_strategy_t *ls_strategy_default(int64_t ranks, bool shards);

/* Emits the configured options, then everything that the strategy, and what all strategies share, proposes. */
ls_status_t ls_strategy_propose(const ls_strategy_t *strategy, const ls_proposal_t *proposal);
/* Turns off what the backend (NULL: any) cannot do, and what is left to a plan. The name of an option that was on and is off now;
 * NULL: none. */
const char *ls_strategy_settle(ls_strategy_options_t *options, const ls_backend_t *backend);

/* The rows of a global batch that `rank` computes: contiguous, sizes differ by at most one, sum exact. */
void ls_share(int64_t global_batch, int rank, int world_size, int64_t *first, int64_t *count);

#endif
