/* The configuration of optimizers: option rows, the learning rate over steps, and the ops that a strategy
 * appends. */
#include "graph/ops/ops.h"
#include "optim/optim.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const char *const optim_names[] = {"sgd", "adam", "adamw", NULL};
static const char *const rate_names[] = {"constant", "step", "cosine", NULL};

#define OPTIM(field) offsetof(ls_optim_config_t, field)
static const ls_option_t optim_rows[] = {
    {.name = "name",
     .type = LS_FIELD_CHOICE,
     .offset = OPTIM(name),
     .change = LS_CHANGE_RUN,
     .initial = "adam",
     .choices = optim_names,
     .help = "sgd, adam (decay as L2) or adamw (decoupled decay)."},
    {.name = "lr",
     .type = LS_FIELD_REAL,
     .offset = OPTIM(lr),
     .min = 1e-12,
     .max = 1e6,
     .initial = "1e-3",
     .help = "Learning rate before its schedule."},
    {.name = "momentum",
     .type = LS_FIELD_REAL,
     .offset = OPTIM(momentum),
     .min = 0,
     .max = 0.999999,
     .initial = "0",
     .help = "sgd: share of the previous update that is kept, without dampening; 0 = no "
             "momentum."},
    {.name = "nesterov",
     .type = LS_FIELD_BOOL,
     .offset = OPTIM(nesterov),
     .initial = "false",
     .help = "sgd: Nesterov momentum; the update is gradient + momentum * buffer."},
    {.name = "beta1",
     .type = LS_FIELD_REAL,
     .offset = OPTIM(beta1),
     .min = 0,
     .max = 0.999999,
     .initial = "0.9",
     .help = "adam, adamw: decay rate of the running mean of gradients."},
    {.name = "beta2",
     .type = LS_FIELD_REAL,
     .offset = OPTIM(beta2),
     .min = 0,
     .max = 0.99999999,
     .initial = "0.999",
     .help = "adam, adamw: decay rate of the running mean of squared gradients."},
    {.name = "eps",
     .type = LS_FIELD_REAL,
     .offset = OPTIM(eps),
     .min = 1e-30,
     .max = 1,
     .initial = "1e-8",
     .help = "adam, adamw: added outside the root: m / (sqrt(v) + eps), with m and v corrected "
             "for bias."},
    {.name = "weight_decay",
     .type = LS_FIELD_REAL,
     .offset = OPTIM(weight_decay),
     .min = 0,
     .max = 1e3,
     .initial = "0",
     .help = "Acts on every parameter, including biases and those of layer_norm. sgd and adam "
             "add weight_decay * parameter to the gradient (L2); adamw subtracts lr * "
             "weight_decay * parameter."},
    {.name = "ema",
     .type = LS_FIELD_REAL,
     .offset = OPTIM(ema),
     .change = LS_CHANGE_RUN,
     .min = 0,
     .max = 0.9999999,
     .initial = "0",
     .help =
         "Share that the moving mean of the parameters keeps in a step, such as 0.999; 0 = there is no mean. "
         "Evaluations, predictions and exports then use the mean. Step t, counted from 0, keeps at most "
         "(1 + t) / (10 + t)."},
};

#define GROUP(field) offsetof(ls_optim_group_t, field)
static const ls_option_t group_rows[] = {
    {.name = "match",
     .type = LS_FIELD_STRINGS,
     .offset = GROUP(match),
     .help =
         "Patterns of the parameters' names, such as `*.bias`: * is any text, ? one character. `!` before a "
         "pattern takes back what the ones before it chose, as in [\"*\", \"!fc.*\"]. A parameter belongs to "
         "the first group that chooses it."},
    {.name = "lr",
     .type = LS_FIELD_REAL,
     .offset = GROUP(lr),
     .min = -1,
     .max = 1e6,
     .apart = true,
     .initial = "-1",
     .help = "Learning rate before the schedule; -1: that of the optimizer."},
    {.name = "decay",
     .type = LS_FIELD_REAL,
     .offset = GROUP(decay),
     .min = -1,
     .max = 1e3,
     .apart = true,
     .initial = "-1",
     .help = "Weight decay; -1: that of the optimizer."},
};
const ls_section_t ls_optim_group_section = {
    .name = "train.optimizer.groups",
    .rows = group_rows,
    .count = LS_COUNT(group_rows),
    .help = "A list of at most 16 groups of parameters that are trained in their own way.",
};

const ls_section_t ls_optim_section = {
    .name = "train.optimizer",
    .rows = optim_rows,
    .count = LS_COUNT(optim_rows),
    .help = "The optimizer.",
};

#define RATE(field) offsetof(ls_rate_config_t, field)
static const ls_option_t rate_rows[] = {
    {.name = "name",
     .type = LS_FIELD_CHOICE,
     .offset = RATE(name),
     .initial = "constant",
     .choices = rate_names,
     .help = "constant: the rate stays the same. step: it falls by a factor at intervals. "
             "cosine: it falls along half a wave to floor."},
    {.name = "warmup_steps",
     .type = LS_FIELD_INT64,
     .offset = RATE(warmup_steps),
     .unit = "steps",
     .min = 0,
     .max = 1e15,
     .initial = "0",
     .help = "Number of steps in which the rate grows linearly: step t of w warm-up steps, "
             "counted from 0, uses (t + 1) / w of it."},
    {.name = "every_steps",
     .type = LS_FIELD_INT64,
     .offset = RATE(every_steps),
     .unit = "steps",
     .min = 1,
     .max = 1e15,
     .initial = "1000",
     .help = "step: number of steps, warm-up included, after which the rate is multiplied by "
             "factor."},
    {.name = "factor",
     .type = LS_FIELD_REAL,
     .offset = RATE(factor),
     .min = 1e-9,
     .max = 1,
     .initial = "0.1",
     .help = "step: the factor."},
    {.name = "floor",
     .type = LS_FIELD_REAL,
     .offset = RATE(floor),
     .min = 0,
     .max = 1,
     .initial = "0",
     .help = "cosine: the rate of the last step as a fraction of lr. The half wave begins "
             "after the warm-up and ends in the last step, so its length is total steps - "
             "warmup_steps - 1."},
};

const ls_section_t ls_rate_section = {
    .name = "train.schedule",
    .rows = rate_rows,
    .count = LS_COUNT(rate_rows),
    .help = "The learning rate over the steps.",
};

ls_status_t ls_optim_check(ls_ctx_t *ctx, const ls_place_t *place, const ls_optim_config_t *config) {
  const bool sgd = config->name == LS_OPTIM_SGD;
  ls_optim_config_t usual;
  ls_status_t status = ls_option_parse(ctx, NULL, &ls_optim_section, NULL, NULL, &usual);
  const struct {
    const char *key, *needs;
    bool useless;
  } rows[] = {
      {"nesterov", "name: sgd and momentum above 0", config->nesterov && (!sgd || config->momentum <= 0)},
      {"momentum", "name: sgd", !sgd && config->momentum != usual.momentum},
      {"beta1", "name: adam or adamw", sgd && config->beta1 != usual.beta1},
      {"beta2", "name: adam or adamw", sgd && config->beta2 != usual.beta2},
      {"eps", "name: adam or adamw", sgd && config->eps != usual.eps},
  };
  for (int i = 0; i < LS_COUNT(rows) && status == LS_OK; i++)
    if (rows[i].useless)
      status = ls_fail_at(ctx, LS_ERR_CONFIG, place, "train.optimizer: %s has no effect without %s",
                          rows[i].key, rows[i].needs);
  return status;
}

static ls_status_t parse_groups(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *list,
                                ls_optim_config_t *config) {
  if (list->kind != LS_DOC_LIST || list->count >= LS_LAYOUT_GROUPS_MAX)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &list->place,
                      "train.optimizer.groups: a list of at most %d groups was expected",
                      LS_LAYOUT_GROUPS_MAX - 1);
  ls_optim_group_t *group = ls_arena_array(arena, (size_t)list->count + 1, sizeof *group);
  if (!group) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  for (const ls_doc_node_t *row = list->child; row; row = row->next)
    status = ls_worse(status, ls_option_parse(ctx, arena, &ls_optim_group_section, row, NULL,
                                              &group[config->group_count++]));
  config->group = group;
  return status;
}

ls_status_t ls_optim_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                           ls_optim_config_t *config) {
  static const char *const nested[] = {"groups", NULL};
  ls_status_t status = ls_option_parse(ctx, arena, &ls_optim_section, map, nested, config);
  const ls_doc_node_t *groups = ls_doc_get(map, "groups");
  config->group_count = 0;
  if (groups && groups->kind != LS_DOC_NULL)
    status = ls_worse(status, parse_groups(ctx, arena, groups, config));
  return status;
}

json_t *ls_optim_json(const ls_optim_config_t *config) {
  json_t *json = ls_option_json(&ls_optim_section, config);
  json_t *groups = config->group_count > 0 ? json_array() : NULL;
  for (int i = 0; i < config->group_count; i++)
    json_array_append_new(groups, ls_option_json(&ls_optim_group_section, &config->group[i]));
  if (groups) json_object_set_new(json, "groups", groups);
  return json;
}

int ls_optim_group_of(const ls_optim_config_t *config, const char *name) {
  for (int i = 0; i < config->group_count; i++)
    if (ls_patterns_choose(&config->group[i].match, name)) return i + 1;
  return 0;
}

/* Part of the way from the end of the warm-up to the last step, in [0, 1]; one single step is still the
 * start. */
static double progress(const ls_rate_config_t *rate, int64_t step, int64_t total_steps) {
  int64_t way = total_steps - 1 - rate->warmup_steps, done = step - rate->warmup_steps;
  if (done <= 0 || way <= 0) return 0;
  return done < way ? (double)done / (double)way : 1;
}

/* Cosine: Loshchilov and Hutter 2017, without restarts. The `step` kind counts from the first step on. */
float ls_rate_at(const ls_rate_config_t *rate, double lr, int64_t step, int64_t total_steps) {
  if (rate->warmup_steps > 0 && step < rate->warmup_steps)
    lr *= (double)(step + 1) / (double)rate->warmup_steps;
  switch ((ls_rate_kind_t)rate->name) {
  case LS_RATE_CONSTANT:
    break;
  case LS_RATE_STEP:
    lr *= pow(rate->factor, (double)(step / rate->every_steps));
    break;
  case LS_RATE_COSINE: {
    double wave = 0.5 * (1 + cos(3.14159265358979323846 * progress(rate, step, total_steps)));
    lr *= rate->floor + (1 - rate->floor) * wave;
    break;
  }
  }
  return (float)lr;
}

/* The index of the weight decay among an update's attributes. */
static int decay_of(const ls_optim_config_t *config) {
  return config->name == LS_OPTIM_SGD ? 1 : 3;
}

static void add_groups(const ls_optim_config_t *config, ls_optim_rule_t *rule) {
  rule->ema = config->ema;
  rule->group_count = config->group_count + 1;
  for (int i = 0; i < rule->group_count; i++) {
    const ls_optim_group_t *g = i > 0 ? &config->group[i - 1] : NULL;
    rule->group[i].attrs = rule->group[0].attrs;
    rule->group[i].rate = g && g->lr >= 0 ? g->lr / config->lr : 1;
    if (g && g->decay >= 0) rule->group[i].attrs.f[decay_of(config)] = g->decay;
  }
}

static void fill_rule(const ls_optim_config_t *config, double clip_norm, ls_optim_rule_t *rule) {
  *rule = (ls_optim_rule_t){.control_attrs = {.f = {clip_norm}}};
  if (config->name == LS_OPTIM_SGD) {
    bool momentum = config->momentum > 0;
    rule->update = momentum ? &ls_op_sgd_momentum : &ls_op_sgd;
    rule->group[0].attrs =
        (ls_attrs_t){.i = {config->nesterov}, .f = {config->momentum, config->weight_decay}};
    rule->slot_count = momentum ? 1 : 0;
    if (momentum) rule->slot_name[0] = "momentum";
    return;
  }
  rule->update = config->name == LS_OPTIM_ADAM ? &ls_op_adam : &ls_op_adamw;
  rule->group[0].attrs = (ls_attrs_t){.f = {config->beta1, config->beta2, config->eps, config->weight_decay}};
  rule->slot_count = 2;
  rule->slot_name[0] = "m";
  rule->slot_name[1] = "v";
  rule->control_attrs.f[1] = config->beta1;
  rule->control_attrs.f[2] = config->beta2;
}

void ls_optim_rule(const ls_optim_config_t *config, double clip_norm, ls_optim_rule_t *rule) {
  fill_rule(config, clip_norm, rule);
  add_groups(config, rule);
}

ls_status_t ls_optim_declare(const ls_optim_rule_t *rule, ls_state_table_t *table, const ls_range_t *range,
                             int count) {
  const ls_state_row_t flat = {.part = "optimizer",
                               .of_layout = true,
                               .trained = true,
                               .shape = {.dtype = LS_F32},
                               .life = LS_STATE_CARRIED,
                               .file = LS_STATE_OPTIMIZER};
  ls_state_row_t row = flat;
  ls_status_t status = LS_OK;
  row.owner = count > 0 ? LS_STATE_SHARDED : LS_STATE_REPLICATED;
  row.range = range;
  row.range_count = count;
  for (int k = 0; k < rule->slot_count && !status; k++) {
    row.name = rule->slot_name[k];
    status = ls_state_declare(table, &row, NULL);
  }
  row = flat;
  row.name = LS_COUNTER_NAME;
  row.of_layout = row.trained = false;
  row.shape = LS_SHAPE(LS_F32, LS_COUNTER_COUNT);
  if (!status) status = ls_state_declare(table, &row, NULL);
  row = flat;
  row.name = LS_OPTIM_EMA;
  row.copies_parameters = true;
  if (!status && rule->ema != 0) status = ls_state_declare(table, &row, NULL);
  row = flat;
  row.name = LS_MASK_NAME;
  row.fill = ls_prune_fill;
  return !status && rule->masks ? ls_state_declare(table, &row, NULL) : status;
}
