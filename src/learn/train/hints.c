/* What a configuration may say, but hardly means: warnings of `check` and of a training that begins. */
#include "train/train.h"

#include "model/layer.h"

static void look_at_pruning(ls_ctx_t *ctx, const ls_prune_config_t *prune, int64_t steps) {
  if (prune->sparsity == 0) return;
  if (prune->end > steps)
    ls_log(ctx, LS_LOG_WARN,
           "train.prune.end (%lld) is behind the last step (%lld): the run ends with less than "
           "train.prune.sparsity",
           (long long)prune->end, (long long)steps);
  if (prune->every > prune->end - prune->begin)
    ls_log(ctx, LS_LOG_WARN,
           "train.prune.every (%lld) is longer than from begin (%lld) to end (%lld): all weights go at once, "
           "after step %lld",
           (long long)prune->every, (long long)prune->begin, (long long)prune->end, (long long)prune->end);
}

static void look_at_padding(ls_ctx_t *ctx, const ls_model_config_t *model) {
  const int lost = ls_model_pad_lost(model);
  if (lost < 0) return;
  const ls_layer_t *layer = &model->layer[lost];
  const ls_shape_t sample = ls_model_sample(model, layer->from[0]);
  char text[LS_SHAPE_TEXT_BYTES];
  ls_log(
      ctx, LS_LOG_WARN,
      "model.pad: %s (layer %d, from 0) reads %s, no longer a sequence of the %lld tokens: behind conv2d and "
      "pool padding takes part like any other token",
      layer->kind->name, lost, ls_shape_text(&sample, text), (long long)model->input.v[0]);
}

typedef struct {
  const ls_optim_config_t *optimizer;
  int group; /* from 1 */
} group_t;

static bool chosen(const void *user, const char *name, bool trained) {
  (void)trained;
  const group_t *g = user;
  return ls_patterns_choose(&g->optimizer->group[g->group - 1].match, name);
}

static bool first_chosen(const void *user, const char *name, bool trained) {
  (void)trained;
  const group_t *g = user;
  return ls_optim_group_of(g->optimizer, name) == g->group;
}

static bool has_trained(const void *user, const char *name, bool trained) {
  return trained && first_chosen(user, name, trained);
}

/* Why a group changes nothing: the first condition that no parameter meets. */
static void look_at_groups(ls_ctx_t *ctx, const ls_config_t *config) {
  static const struct {
    bool (*is)(const void *user, const char *name, bool trained);
    const char *else_;
  } rows[] = {{chosen, "its patterns choose no parameter: `!` takes back all of them"},
              {first_chosen, "earlier groups have every parameter that it chooses"},
              {has_trained, "every parameter in it is frozen"}};
  for (group_t g = {&config->optimizer, 1}; g.group <= config->optimizer.group_count; g.group++)
    for (int i = 0; i < LS_COUNT(rows); i++) {
      if (ls_model_any_param(&config->model, rows[i].is, &g)) continue;
      ls_log(ctx, LS_LOG_WARN, "train.optimizer.groups: group %d of %d has no effect: %s", g.group,
             config->optimizer.group_count, rows[i].else_);
      break;
    }
}

/* The probability of a single class is 1 whatever the network says. */
static void look_at_classes(ls_ctx_t *ctx, const ls_model_config_t *model) {
  if (model->loss != LS_LOSS_CROSS_ENTROPY || ls_model_classes(model) > 1) return;
  ls_log(ctx, LS_LOG_WARN,
         "model.loss: cross-entropy of one class is always 0, so nothing is learned: give the last layer an "
         "output for each class, or take loss: binary-cross-entropy for one output that says yes or no");
}

void ls_train_hints(ls_ctx_t *ctx, const ls_config_t *config, int64_t steps) {
  look_at_pruning(ctx, &config->prune, steps);
  look_at_padding(ctx, &config->model);
  look_at_groups(ctx, config);
  look_at_classes(ctx, &config->model);
}
