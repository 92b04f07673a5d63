/* The rungs: their rows, and which of them hold. */
#include "supervise/safety.h"

#include "base/json.h"

#include <math.h>

const char *const ls_safety_acts[] = {"none", "duty", "micro_batch", "pause", "end", NULL};

static const ls_option_t rows[] = {
    LS_OPTION(ls_safety_rung_t, name, .help = "Name of the rung, for the log."),
    LS_OPTION(
        ls_safety_rung_t, act, .choices = ls_safety_acts, .initial = "none",
        .help =
            "What the run does: duty (waits between steps, same bits), micro_batch (saves, and goes on with "
            "half "
            "the micro-batch and twice as many of them, until the rung is left), pause (saves, and stands "
            "still until "
            "the condition "
            "clears), end (saves and ends with exit code 75; --resume goes on). none: it is only logged."),
    LS_OPTION(ls_safety_rung_t, when,
              .help = "Condition on a record of the monitor, as of an alert: \"gpu_margin_c < 5\", "
                      "\"disk_ratio > 0.98\"."),
    LS_OPTION(ls_safety_rung_t, for_s, .unit = "s", .min = 0, .max = 1e6, .initial = "0",
              .help = "How long it has to hold."),
    LS_OPTION(ls_safety_rung_t, clear, .optional = true,
              .help = "Condition that leaves the rung. Default: `when` does not hold."),
    LS_OPTION(ls_safety_rung_t, clear_for_s, .unit = "s", .min = 0, .max = 1e6, .initial = "0",
              .help = "How long that has to hold."),
    LS_OPTION(ls_safety_rung_t, share, .min = 0.05, .max = 1, .initial = "0.5",
              .help = "Of act duty: the share of the time in which it computes."),
};
const ls_section_t ls_safety_section = {
    "safety", rows, LS_COUNT(rows),
    "A list of rungs: what a run does by itself near a limit (docs/safety.md). Needs monitor.dir "
    "or --supervise. Without it nothing is done."};

static ls_status_t check(ls_ctx_t *ctx, const ls_doc_node_t *row, const char *key, const char *text) {
  ls_condition_t unused;
  char why[LS_CONDITION_WHY_BYTES];
  const ls_doc_node_t *node = ls_doc_get(row, key);
  if (!node || !text || ls_condition_read(text, &unused, why)) return LS_OK;
  return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "safety.%s: %s", key, why);
}

ls_status_t ls_safety_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *node,
                            ls_safety_config_t *config) {
  *config = (ls_safety_config_t){.count = 0};
  if (!node || node->kind == LS_DOC_NULL) return LS_OK;
  if (node->kind != LS_DOC_LIST || node->count > LS_SAFETY_RUNGS_MAX)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "safety: a list of at most %d rungs was expected",
                      LS_SAFETY_RUNGS_MAX);
  ls_safety_rung_t *rung = ls_arena_alloc(arena, ((size_t)node->count + 1) * sizeof *rung);
  ls_status_t status = rung ? LS_OK : LS_ERR_MEMORY;
  for (const ls_doc_node_t *row = node->child; row && rung; row = row->next) {
    ls_safety_rung_t *r = &rung[config->count++];
    status = ls_worse(status, ls_option_parse(ctx, arena, &ls_safety_section, row, NULL, r));
    status = ls_worse(status, check(ctx, row, "when", r->when));
    status = ls_worse(status, check(ctx, row, "clear", r->clear));
    if (r->act == LS_SAFETY_SMALLER && !r->clear)
      status =
          ls_worse(status, ls_fail_at(ctx, LS_ERR_CONFIG, &row->place,
                                      "safety: act: micro_batch needs clear, so that the run does not go to "
                                      "and fro between two sizes"));
  }
  config->rung = rung;
  return status;
}

json_t *ls_safety_json(const ls_safety_config_t *config) {
  json_t *list = json_array();
  for (int i = 0; i < config->count; i++)
    json_array_append_new(list, ls_option_json(&ls_safety_section, &config->rung[i]));
  return list;
}

void ls_safety_begin(const ls_safety_config_t *config, bool smaller, ls_safety_t *s) {
  s->config = *config;
  for (int i = 0; i < config->count; i++) {
    const ls_safety_rung_t *r = &config->rung[i];
    s->rule[i] = (ls_alert_rule_t){.name = r->name,
                                   .when = r->when,
                                   .clear = r->clear,
                                   .for_s = r->for_s,
                                   .clear_for_s = r->clear_for_s};
    s->alert[i] = ls_alert_of(&s->rule[i]);
    s->alert[i].raised = smaller && r->act == LS_SAFETY_SMALLER;
  }
}

unsigned ls_safety_judge(ls_safety_t *s, const ls_monitor_sample_t *sample, ls_safety_now_t *now) {
  unsigned changed = 0;
  *now = (ls_safety_now_t){LS_SAFETY_NONE, 1, false};
  for (int i = 0; i < s->config.count; i++) {
    const ls_safety_rung_t *r = &s->config.rung[i];
    if (ls_alert_judge(&s->alert[i], sample) != LS_ALERT_SAME) changed |= 1u << i;
    if (!s->alert[i].raised) continue;
    if (r->act > (int)now->act) now->act = (ls_safety_act_t)r->act;
    if (r->act == LS_SAFETY_DUTY) now->share = fmin(now->share, r->share);
    now->smaller |= r->act == LS_SAFETY_SMALLER;
  }
  return changed;
}
