/* What a configuration may say, but hardly means: warnings of `check` and of a training that begins. */
#include "train/train.h"

#include "graph/ops/ops.h"
#include "model/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  ls_ctx_t *ctx;
  const ls_config_t *config;
  const ls_dataset_t *data;
  int64_t steps;
} look_t;

static void look_at_pruning(const look_t *l) {
  const ls_prune_config_t *prune = &l->config->prune;
  ls_ctx_t *ctx = l->ctx;
  if (prune->sparsity == 0) return;
  if (prune->end > l->steps)
    ls_log(ctx, LS_LOG_WARN,
           "train.prune.end (%lld) is behind the last step (%lld): the run ends with less than "
           "train.prune.sparsity",
           (long long)prune->end, (long long)l->steps);
  if (prune->every > prune->end - prune->begin)
    ls_log(ctx, LS_LOG_WARN,
           "train.prune.every (%lld) is longer than from begin (%lld) to end (%lld): all weights go at once, "
           "after step %lld",
           (long long)prune->every, (long long)prune->begin, (long long)prune->end, (long long)prune->end);
}

static void look_at_padding(const look_t *l) {
  const ls_model_config_t *model = &l->config->model;
  const int lost = ls_model_pad_lost(model);
  if (lost < 0) return;
  const ls_layer_t *layer = &model->layer[lost];
  const ls_shape_t sample = ls_model_sample(model, layer->from[0]);
  char text[LS_SHAPE_TEXT_BYTES];
  ls_log(
      l->ctx, LS_LOG_WARN,
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
static void look_at_groups(const look_t *l) {
  const ls_config_t *config = l->config;
  static const struct {
    bool (*is)(const void *user, const char *name, bool trained);
    const char *else_;
  } rows[] = {{chosen, "its patterns choose no parameter: `!` takes back all of them"},
              {first_chosen, "earlier groups have every parameter that it chooses"},
              {has_trained, "every parameter in it is frozen"}};
  for (group_t g = {&config->optimizer, 1}; g.group <= config->optimizer.group_count; g.group++)
    for (int i = 0; i < LS_COUNT(rows); i++) {
      if (ls_model_any_param(&config->model, rows[i].is, &g)) continue;
      ls_log(l->ctx, LS_LOG_WARN, "train.optimizer.groups: group %d of %d has no effect: %s", g.group,
             config->optimizer.group_count, rows[i].else_);
      break;
    }
}

/* The probability of a single class is 1 whatever the network says. */
static void look_at_classes(const look_t *l) {
  const ls_model_config_t *model = &l->config->model;
  if (model->loss != LS_LOSS_CROSS_ENTROPY || ls_model_classes(model) > 1) return;
  ls_log(l->ctx, LS_LOG_WARN,
         "model.loss: cross-entropy of one class is always 0, so nothing is learned: give the last layer an "
         "output for each class, or take loss: binary-cross-entropy for one output that says yes or no");
}

/* The right class is always among the k most probable of k classes. */
static void look_at_top(const look_t *l) {
  const ls_train_config_t *train = &l->config->train;
  const int64_t classes = ls_model_classes(&l->config->model);
  for (int i = 0; i < train->metrics.count; i++) {
    const ls_score_t *row = &ls_scores[train->metric[i]];
    if (row->op == &ls_op_top_hits && classes <= row->attrs.i[0])
      ls_log(l->ctx, LS_LOG_WARN, "train.metrics: %s of %lld classes is always 100 %%", row->name,
             (long long)classes);
  }
}

static void look_at_labels(const look_t *l) {
  const ls_dataset_t *d = l->data;
  char number[24];
  if (ls_model_classes(&l->config->model) < 2 || !d->classes || d->sample.target.rank > 0 || !d->targets ||
      d->train_count == 0)
    return;
  const int32_t *class = d->targets, first = class[ls_dataset_row(d, LS_PART_TRAIN, 0)];
  for (int64_t i = 1; i < d->train_count; i++)
    if (class[ls_dataset_row(d, LS_PART_TRAIN, i)] != first) return;
  snprintf(number, sizeof number, "%d", first);
  ls_log(l->ctx, LS_LOG_WARN, "%s: all %lld training samples have class %s: there is nothing to tell apart",
         d->source, (long long)d->train_count,
         first < d->labels.count ? LS_SHOWN(d->labels.v[first]) : number);
}

static bool is_constant(const ls_dataset_t *d, int64_t column) {
  const float *x = (const float *)d->features + column;
  for (int64_t r = 1; r < d->rows; r++)
    if (x[r * d->inputs] != x[0]) return false;
  return d->rows > 1;
}

/* Of a table: pictures have such pixels at their edges. */
static void look_at_columns(const look_t *l) {
  enum { SHOWN_MAX = 5, NAMES_BYTES = 512 };
  const ls_dataset_t *d = l->data;
  char names[NAMES_BYTES] = "";
  int64_t count = 0;
  if (!d->columns || d->column_count != d->inputs || !d->features || d->sample.x.dtype != LS_F32) return;
  for (int64_t c = 0; c < d->inputs; c++) {
    if (!is_constant(d, c) || count++ >= SHOWN_MAX) continue;
    const size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s`%s`", used ? ", " : "", LS_SHOWN(d->columns[c]));
  }
  if (count == 0) return;
  if (count > SHOWN_MAX) snprintf(names + strlen(names), sizeof names - strlen(names), ", ..");
  ls_log(l->ctx, LS_LOG_WARN, "%s: %lld column%s the same value in every sample, and teach%s nothing: %s",
         d->source, (long long)count, count == 1 ? " has" : "s have", count == 1 ? "es" : "", names);
}

/* A network begins with outputs of about 1 and comes nearer by little in each step. */
static void look_at_targets(const look_t *l) {
  const float large = 1e4f;
  const ls_dataset_t *d = l->data;
  float most = 0;
  if (d->classes || !d->targets || l->config->data.normalize) return;
  for (int64_t i = 0; i < d->rows * d->outputs; i++)
    most = fmaxf(most, fabsf(((const float *)d->targets)[i]));
  if (most < large) return;
  ls_log(
      l->ctx, LS_LOG_WARN,
      "%s: targets are as large as %.3g, and outputs begin near 0: set data.normalize: true, or divide the "
      "targets by a number of that size",
      d->source, (double)most);
}

void ls_train_hints(ls_ctx_t *ctx, const ls_config_t *config, const ls_dataset_t *data, int64_t steps) {
  static void (*const looks[])(const look_t *l) = {look_at_pruning, look_at_padding, look_at_groups,
                                                   look_at_classes, look_at_top,     look_at_labels,
                                                   look_at_columns, look_at_targets};
  const look_t l = {ctx, config, data, steps};
  for (int i = 0; i < LS_COUNT(looks); i++)
    looks[i](&l);
}
