/* Optimizers as op rows on flat views: SGD (momentum, Nesterov), Adam, AdamW; the step's control values;
 * learning rate schedules. A strategy appends these ops to the schedule after the gradients are complete.
 *
 * The guard: step_control sees the sum of squares of all gradients, and the loss. If either is not finite it
 * writes apply = 0, and the update ops leave parameters and state untouched. A bad step is thus skipped on
 * the device, without the host having to look. */
#ifndef LS_OPTIM_OPTIM_H
#define LS_OPTIM_OPTIM_H

#include "graph/op.h"
#include "state/state.h"

typedef enum { LS_OPTIM_SGD, LS_OPTIM_ADAM, LS_OPTIM_ADAMW } ls_optim_kind_t;
typedef enum { LS_RATE_CONSTANT, LS_RATE_STEP, LS_RATE_COSINE } ls_rate_kind_t;

/* Parameters with a rate or a decay of their own; < 0: the optimizer's. */
typedef struct {
  ls_strings_t match; /* patterns of names: ls_patterns_choose */
  double lr, decay;
} ls_optim_group_t;

/* Section train.optimizer. */
typedef struct {
  int name; /* ls_optim_kind_t */
  double lr, momentum, beta1, beta2, eps, weight_decay;
  bool nesterov;
  double ema; /* share that the mean of the parameters keeps in a step; 0 = there is no mean */
  const ls_optim_group_t *group; /* in the arena */
  int group_count;
} ls_optim_config_t;
extern const ls_section_t ls_optim_section, ls_optim_group_section; /* "groups" is nested */
/* Reads the section from its map. Reports all errors. */
ls_status_t ls_optim_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                           ls_optim_config_t *config);
json_t *ls_optim_json(const ls_optim_config_t *config);
/* The group of a parameter: the first that chooses it, counted from 1; 0: none. */
int ls_optim_group_of(const ls_optim_config_t *config, const char *name);

/* Section train.schedule: the learning rate over steps. constant; step: times `factor` every `every_steps`;
 * cosine: linear warm-up over warmup_steps, then half a cosine down to lr * floor at the last step. Warm-up
 * applies to all three. */
typedef struct {
  int name; /* ls_rate_kind_t */
  int64_t warmup_steps, every_steps;
  double factor, floor;
} ls_rate_config_t;
extern const ls_section_t ls_rate_section;

/* Section train.prune: the smallest weights become 0 and stay so. */
typedef struct {
  double sparsity; /* 0 = off */
  int64_t begin, end, every;
} ls_prune_config_t;
extern const ls_section_t ls_prune_section;
/* LS_ERR_CONFIG, reported at `place`. */
ls_status_t ls_prune_check(ls_ctx_t *ctx, const ls_place_t *place, const ls_prune_config_t *config);
/* True if weights are pruned after so many steps; the part of them that is then pruned. Pure. */
bool ls_prune_due(const ls_prune_config_t *config, int64_t step);
double ls_prune_at(const ls_prune_config_t *config, int64_t step);
/* mask (count): 0 for the smallest `sparsity` of w, 1 for the others. Returns how many are 0. counts: scratch. Pure. */
enum { LS_PRUNE_COUNTS = 1 << 16 };
int64_t ls_prune_mask(int64_t count, double sparsity, const float *w, float *mask, int64_t *counts);
/* The initial value of the row of masks: 1 for every parameter. */
void ls_prune_fill(const ls_state_row_t *row, const ls_layout_t *layout, uint64_t seed, void *whole);

/* Learning rate of step `step` (0-based) of `total_steps`. */
float ls_rate_at(const ls_rate_config_t *rate, double lr, int64_t step, int64_t total_steps);

/* Refuses an option that differs from its default and has no effect with this optimizer: LS_ERR_CONFIG,
 * reported at `place`. */
ls_status_t ls_optim_check(ls_ctx_t *ctx, const ls_place_t *place, const ls_optim_config_t *config);

/* Optimizer state: `slot_count` flat buffers shaped like the parameters ("momentum"; "m", "v"). */
enum { LS_OPTIM_SLOT_MAX = 2, LS_SCALE_STEPS = 2000 };
typedef struct {
  const ls_op_t *update; /* (grad (p), ctrl (16)) -> param (p) inout, slot 0 (p) inout, slot 1 (p) inout */
  bool masks; /* after the update parameters, and their moving mean, are multiplied with their masks */
  int slot_count;
  const char *slot_name[LS_OPTIM_SLOT_MAX];
  int group_count; /* with group 0, of parameters that no pattern matches */
  struct {
    ls_attrs_t attrs; /* of update */
    double rate;      /* of the step's rate */
  } group[LS_LAYOUT_GROUPS_MAX];
  double ema; /* 0 = none */
  /* Attributes of step_control: f[0] clip_norm (0 = off), f[1] beta1, f[2] beta2, i[0] good steps after
   * which the loss scale is doubled (LS_SCALE_STEPS; 0 = the graph has no loss scale). */
  ls_attrs_t control_attrs;
} ls_optim_rule_t;

/* The ops to append for this configuration. clip_norm 0 = no clipping. */
void ls_optim_rule(const ls_optim_config_t *config, double clip_norm, ls_optim_rule_t *rule);

/* Declares the optimizer's rows: one per slot, of which this rank holds the ranges (count 0: all); the counter, f32 (16),
 * which step_control carries from step to step; with ema the mean of the parameters; with masks the row of masks. */
#define LS_OPTIM_EMA "ema"
#define LS_MASK_NAME "mask"
ls_status_t ls_optim_declare(const ls_optim_rule_t *rule, ls_state_table_t *table, const ls_range_t *range,
                             int count);

/* sumsq: (x f32 (k)) -> partial f32 (1): the sum of squares, accumulated in f64 (wide enough on CUDA). */
extern const ls_op_t ls_op_sumsq;
/* step_control: (head f32 (16), partials f32 (b), step u8 (64)) -> ctrl f32 (16), stats f32 (16),
 * counter f32 (16) inout. head[0] is the loss and head[1] the correct count of the global batch. */
extern const ls_op_t ls_op_step_control; /* slots of ctrl, stats and head: device/kernel.h */
/* Update ops; see ls_optim_rule_t. They return at once when ctrl[LS_CTRL_APPLY] is 0.
 *   sgd          f[0] momentum, f[1] weight decay (added to the gradient), i[0] nesterov
 *   adam, adamw  f[0] beta1, f[1] beta2, f[2] eps, f[3] weight decay (adam: added to the gradient; adamw:
 *                p -= lr * wd * p first). Bias correction as in Kingma and Ba, algorithm 1; eps is added to
 *                sqrt(v_hat). */
extern const ls_op_t ls_op_sgd, ls_op_sgd_momentum, ls_op_adam, ls_op_adamw;
/* rate_scale: (ctrl (16)) -> ctrl (16) with f[0] times the rate.
 * ema: (param (p), ctrl (16), counter (16)) -> mean (p) inout: mean + (1 - d) (param - mean), where d is f[0], in the first
 *   steps less: (1 + t) / (10 + t), t steps having been applied before. */
extern const ls_op_t ls_op_rate_scale, ls_op_ema;
extern const ls_op_t *const ls_optim_ops[]; /* all of them, NULL-terminated */

#endif
