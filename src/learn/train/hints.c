/* Warnings of `check` and of a training that begins: settings and data that are allowed but hardly meant. */
#include "train/train.h"

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
  if (prune->sparsity > 0 && prune->end > l->steps)
    ls_log(l->ctx, LS_LOG_WARN,
           "train.prune.end (%lld) is after the last step (%lld): the run ends with less than "
           "train.prune.sparsity",
           (long long)prune->end, (long long)l->steps);
}

typedef struct {
  const ls_optim_config_t *optimizer;
  int group; /* from 1 */
} group_t;

static bool is_in(const void *user, const char *name, bool trained) {
  const group_t *g = user;
  return trained && ls_optim_group_of(g->optimizer, name) == g->group;
}

static void look_at_groups(const look_t *l) {
  const ls_optim_config_t *optimizer = &l->config->optimizer;
  for (group_t g = {optimizer, 1}; g.group <= optimizer->group_count; g.group++)
    if (!ls_model_any_param(&l->config->model, is_in, &g))
      ls_log(l->ctx, LS_LOG_WARN,
             "train.optimizer.groups: group %d of %d has no effect: no trained parameter is in it, as its "
             "patterns "
             "choose none, or those are frozen or in earlier groups",
             g.group, optimizer->group_count);
}

/* The probability of a single class is 1 whatever the network says. */
static void look_at_classes(const look_t *l) {
  const ls_model_config_t *model = &l->config->model;
  if (model->loss != LS_LOSS_CROSS_ENTROPY || ls_model_classes(model) > 1) return;
  ls_log(l->ctx, LS_LOG_WARN,
         "model.loss: cross-entropy of one class is always 0, so nothing is learned: give the last layer an "
         "output for each class, or take loss: binary-cross-entropy for one output that says yes or no");
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

/* Pictures have such pixels at their edges, so only columns of a table count. */
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

/* A network begins with outputs of about 1, and a step moves them by little. */
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
  static void (*const looks[])(const look_t *l) = {look_at_pruning, look_at_groups,  look_at_classes,
                                                   look_at_labels,  look_at_columns, look_at_targets};
  const look_t l = {ctx, config, data, steps};
  for (int i = 0; i < LS_COUNT(looks); i++)
    looks[i](&l);
}
