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

void ls_train_hints(ls_ctx_t *ctx, const ls_config_t *config, int64_t steps) {
  look_at_pruning(ctx, &config->prune, steps);
  look_at_padding(ctx, &config->model);
}
